"""Names, reasons and attributes from elsewhere cannot steer a terminal, nor make lines of their own in a log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result

import palio as package
from palio.cli.main import palio
from palio.client import CannotConnectError
from palio.client.sync import connect_sync
from palio.codec import control
from palio.errors import printable
from palio.model import Notification
from palio.server.config import Config
from palio.server.config_tables import Log
from palio.server.process import start_logs
from palio.server.store_config import StoreTable
from tests.cli.test_party import SECONDS, Command, Served, invoke
from tests.serving import Raw, run

HOSTILE = "eva\x1b]0;owned\x07\x1b[2J\nfake line\r\u202e\u2066\u2028\x9b1m\x7f\U000e0001"
"""Escape sequences, with and without ESC, line ends of all kinds, overrides of direction, and an invisible tag."""


def check(text: str) -> str:
    """Nothing but printable characters, and line ends of our own."""
    assert [each for each in text if not each.isprintable() and each != "\n"] == []
    assert "\nfake" not in text
    return text


def checked(result: Result) -> Result:
    check(result.stdout)
    check(result.stderr)
    return result


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Served]:
    """A server with a hostile name, for a party with one that has published, subscribed and rejected something."""
    store = StoreTable(path=str(tmp_path / "milan.db"), keep_seconds=600.0)
    made = Served(server=HOSTILE, store=store)
    with connect_sync(made.url, name=HOSTILE, durable=True) as party, party.subscribe("n any") as deliveries:
        party.publish({"n": 1, HOSTILE: HOSTILE})
        deliveries.next(SECONDS).reject(HOSTILE, wait=True)
    yield made
    made.stop()


def test_what_is_printed_of_a_server(hostile: Served) -> None:
    with connect_sync(hostile.url, name=HOSTILE):
        assert printable(HOSTILE)[:10] in checked(invoke(hostile, "net", "status")).stdout
        assert checked(invoke(hostile, "top", "--once", "--interval", "0.05")).exit_code == 0
        assert json.loads(checked(invoke(hostile, "net", "status", "--json")).stdout)["servers"][0]["server"] == HOSTILE
        told = checked(invoke(hostile, "net", "explain", "--last-of", HOSTILE, "--party", HOSTILE))
        assert "eva\\x1b]0;owned" in told.stdout
    told = checked(invoke(hostile, "net", "link", "add", f"{HOSTILE}2", "palio://127.0.0.1:1", "--wait", "0"))
    assert "the link to eva\\x1b" in told.stdout
    checked(invoke(hostile, "net", "status"))
    checked(invoke(hostile, "net", "link", "remove", f"{HOSTILE}2"))


def test_what_is_printed_of_a_party(hostile: Served) -> None:
    listed = checked(invoke(hostile, "letters", "list", "--name", HOSTILE))
    assert "eva\\u001b]0;owned" in listed.stdout
    as_json = checked(invoke(hostile, "letters", "list", "--name", HOSTILE, "--json"))
    assert json.loads(as_json.stdout)["letters"][0]["reason"] == HOSTILE
    refused = checked(invoke(hostile, "letters", "requeue", "--name", HOSTILE, "77"))
    assert refused.exit_code == 1
    checked(invoke(hostile, "net", "explain", f"{HOSTILE}/1/1", "--party", HOSTILE))
    checked(invoke(hostile, "letters", "list", "--link", HOSTILE))
    checked(invoke(hostile, HOSTILE))
    checked(invoke(hostile, "unsub", "--name", HOSTILE, f"x = {HOSTILE}"))
    told = checked(invoke(hostile, "unsub", "--name", HOSTILE, "n any", "--json"))
    assert json.loads(told.stdout)["cancelled"] == ["n any"]


@pytest.mark.parametrize("arguments", [(), ("--json",), ("-F", "{@publisher} {@all} {@id} {@payload}")])
def test_what_is_printed_of_a_notification(hostile: Served, arguments: tuple[str, ...]) -> None:
    command = Command(hostile, "sub", "--count", "1", *arguments)
    with connect_sync(hostile.url, name=HOSTILE) as party:
        party.publish(Notification({HOSTILE: HOSTILE}).with_payload(HOSTILE.encode(), "text/plain"))
    code, output, errors = command.finish()
    check(command.told + errors)
    assert check(output).count("\n") == 1
    assert code == 0
    if arguments == ("--json",):
        assert json.loads(output)["notification"] == {HOSTILE: HOSTILE}
    elif not arguments:
        assert Notification.parse(output.rstrip("\n")) == Notification({HOSTILE: HOSTILE})


def test_what_is_printed_of_a_store(hostile: Served, tmp_path: Path) -> None:
    hostile.stop()
    store = str(tmp_path / "milan.db")
    for words in (["store", "show", store], ["store", "check", store], ["store", "show", HOSTILE]):
        checked(CliRunner().invoke(palio, words))


def test_notifications_print_back() -> None:
    awkward = Notification({HOSTILE: HOSTILE})
    assert check(str(awkward))
    assert Notification.parse(str(awkward)) == awkward


def test_what_a_server_says_is_escaped_in_errors_and_logs_of_clients(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(control.encode(control.Goodbye("x", HOSTILE)))
        writer.close()

    async def play() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            url = f"palio://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(CannotConnectError) as caught:
                await package.connect(url).connect()
            assert "fake line" in check(str(caught.value))
            command = [sys.executable, "-m", "palio", "pub", "--server", url, "x = 1"]
            process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
            _, errors = await process.communicate()
            assert "fake line" in check(errors.decode())

    with caplog.at_level(logging.DEBUG):
        run(play())
    for record in caplog.records:
        check(record.getMessage())


@pytest.mark.parametrize("name", [HOSTILE, "\x1b[2J", "\u202e", "\x9b1m"])  # those without blanks are not quoted
@pytest.mark.parametrize("form", ["console", "json"])
def test_logs_have_one_line_for_each_event(form: str, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        log = start_logs(Config(server="milan", log=Log(format=form)))  # type: ignore[arg-type]
        log.warning("peer-lost", peer=name, reason=name, more={name: [name]})
    finally:
        structlog.reset_defaults()
    assert check(capfd.readouterr().err).count("\n") == 1


def test_the_log_of_a_server_that_hostile_peers_visit(tmp_path: Path) -> None:
    (tmp_path / "palio.toml").write_text(f'server = {json.dumps("milan")}\nport = 0\n[log]\nlevel = "debug"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "palio", "serve", "--config", str(tmp_path / "palio.toml")],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "listening" in line:
            break
    port = int(said[-1].partition(" port=")[2].split()[0])

    async def visit() -> None:
        for role in ("server", "party"):
            raw = await Raw.connect(port)
            await raw.hello("eva\x1b[2J\u202e", HOSTILE, role)  # without blanks, so that it is not quoted
            raw.send(control.encode(control.Goodbye(HOSTILE, HOSTILE)))
            await raw.reader.read()
            await raw.close()

    try:
        run(visit())
    finally:
        process.terminate()
        rest = process.communicate(timeout=SECONDS)[1]
    log = check("".join(said) + rest)
    assert "peer-lost" in log
    assert all(line.startswith("20") for line in log.splitlines())
