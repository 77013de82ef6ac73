"""What type checkers know of the client, and that its options are documented."""

from __future__ import annotations

import inspect
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import palio
from palio.client import Client, ConnectOptions, DurableClient, Options
from palio.client.sync import SyncClient, SyncDurableClient
from palio.errors import CallerError

ROOT = Path(__file__).parents[2]

PROGRAM = """
from typing import reveal_type

import palio
from palio import Advertisement, Filter, Pattern


async def main(some_durable: bool) -> None:
    async with palio.connect("palio://127.0.0.1:7400", name="eva", retry=True) as client:
        async with client.subscribe(Filter.parse("x > 3")) as events:
            async for event in events:
                reveal_type(event)  # Notification
                print(event["x"])
        async with client.subscribe([Filter(), Filter()]) as several:
            reveal_type(await anext(several))  # Notification
        async with client.subscribe("x > 3") as from_text:
            async for each in from_text:
                reveal_type(each)  # Notification | Any
                reveal_type(each.envelope)  # Envelope | None | Any
        async with client.subscribe(Pattern.parse("x > 3 then x < 3")) as sequences:
            reveal_type(await sequences.take())  # list[tuple[Notification, ...]]
        async with client.watch(Advertisement.parse("x any")) as demand:
            async for is_wanted in demand:
                reveal_type(is_wanted)  # bool
        reveal_type(await client.publish(x=1))  # tuple[Mode, bool, fallback=Acceptance]
    async with palio.connect(name="eva", durable=True) as durable:
        async with durable.subscribe("x > 3", ack="auto") as deliveries:
            async for delivery in deliveries:
                reveal_type(delivery)  # Delivery
                reveal_type(delivery.notification)  # Notification
    async with palio.connect(name="eva", durable=palio.Durable(count=10)) as bounded:
        reveal_type(bounded)  # DurableClient
    reveal_type(palio.connect(name="eva", durable=some_durable))  # Client | DurableClient


def block() -> None:
    with palio.connect_sync(name="eva", token="secret") as client:
        for event in client.subscribe(Filter()):
            reveal_type(event)  # Notification
        for each in client.subscribe("x > 3"):
            reveal_type(each)  # Notification | Any
        reveal_type(client.subscribe(Pattern.parse("x > 3 then x < 3")).next(1.0))  # tuple[Notification, ...]
        for is_offered in client.watch(Filter()):
            reveal_type(is_offered)  # bool
    with palio.connect_sync(name="eva", durable=True) as durable:
        for delivery in durable.subscribe("x > 3"):
            reveal_type(delivery)  # SyncDelivery
            reveal_type(delivery.number)  # int
"""

MISTAKES = {
    'palio.connect(nmae="eva")': "call-overload",
    'palio.connect(connect_timeout="5")': "call-overload",
    'palio.connect_sync(retry="yes")': "call-overload",
    'palio.connect().subscribe(palio.Filter(), overflow="drop")': "call-overload",
    "palio.connect().watch(3)": "arg-type",
    "palio.connect().subscribe(palio.Filter()).is_ful": "attr-defined",
}


def check(program: str, folder: Path) -> tuple[int, list[str]]:
    """What mypy says of a user's program, line by line."""
    path = folder / "program.py"
    path.write_text(program)
    # A user's program has its own configuration, and Palio is an installed package to it.
    options = ["--strict", "--config-file=", "--no-pretty", "--no-error-summary", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_types_in_a_program_of_a_user(tmp_path: Path) -> None:
    mistakes = "".join(f"{text}\n" for text in MISTAKES)
    program = f"{PROGRAM}\n{mistakes}"
    code, said = check(program, tmp_path)
    assert code == 1  # because of the mistakes
    lines = program.splitlines()
    notes: dict[int, str] = {}
    errors: dict[str, str] = {}
    for line in said:
        found = re.fullmatch(r'.*?program\.py:(\d+): (?:note: Revealed type is "(.*)"|error: .*\[(.*)\])', line)
        if found and found[2]:
            notes[int(found[1])] = re.sub(r"(?:\w+\.)+", "", found[2])
        elif found:
            errors[lines[int(found[1]) - 1]] = found[3]
    wanted = {number: text.partition("  # ")[2] for number, text in enumerate(lines, 1) if "reveal_type(" in text}
    assert notes == wanted
    assert errors == MISTAKES


def test_typed_options_are_those_of_the_client() -> None:
    hints = get_type_hints(Options)
    assert get_type_hints(ConnectOptions) == {name: hint for name, hint in hints.items() if name != "durable"}
    assert tuple(Options.__struct_fields__) == tuple(hints)


def test_documented_options_are_those_of_the_client() -> None:
    text = (ROOT / "docs/client.md").read_text()
    section = text.partition("## Options of `connect`\n")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE))
    defaults = dict(zip(Options.__struct_fields__, Options.__struct_defaults__, strict=True))
    assert documented == {name: repr(default) for name, default in defaults.items()}


WRONG: dict[str, dict[str, Any]] = {
    "an unknown option": {"nmae": "eva"},
    "`name` that is empty or too long": {"name": ""},
    "`name` or `token` that is no string": {"token": None},
    "`ssl` with a `palio://` address": {"ssl": ssl.create_default_context()},
    "a time, or `max_outstanding`, of 0 or less": {"connect_timeout": 0},
    "a time that is no number": {"connect_timeout": "5"},
    "a negative or broken `max_attempts`": {"max_attempts": -1},
    "`durable` without `name`": {"durable": True},
    "`durable` of another type": {"name": "eva", "durable": 3},
    "an unknown `mode`": {"mode": "fast"},
    "`retry` or `observe` of another type": {"retry": "yes"},
    "`observe` with `durable`": {"name": "eva", "observe": True, "durable": True},
}


def test_documented_errors_of_options_are_those_of_the_client() -> None:
    text = (ROOT / "docs/client.md").read_text().partition("| wrong | error |\n|---|---|\n")[2].partition("\n\n")[0]
    documented = dict(re.findall(r"^\| (.+?) \| `(.+)` \|$", text, re.MULTILINE))
    assert documented.keys() == WRONG.keys()
    connect: Any = palio.connect
    for case, options in WRONG.items():
        with pytest.raises(CallerError) as raised:
            connect("palio://127.0.0.1:7400", **options)
        assert str(raised.value).startswith(documented[case].removesuffix("...")), case


@pytest.mark.parametrize(
    "options",
    [
        {"max_outstanding": 0},
        {"max_outstanding": 1.5},
        {"ping_interval": True},
        {"max_attempts": "60"},
        {"observe": 1},
        {"name": "x" * 1_025},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    connect: Any = palio.connect
    with pytest.raises(CallerError, match=next(iter(options))):
        connect("palio://127.0.0.1:7400", **options)


@pytest.mark.parametrize(("one", "other"), [(Client, SyncClient), (DurableClient, SyncDurableClient)])
def test_the_client_that_blocks_has_all_functions(one: type, other: type) -> None:
    names = {name for name, _ in inspect.getmembers(one) if not name.startswith("_")} | {"address", "name"}
    assert names - {"connect"} == {name for name, _ in inspect.getmembers(other) if not name.startswith("_")}
