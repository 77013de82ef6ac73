"""``palio demo`` from its beginning to its end, however that comes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import pytest

from palio import codec
from palio.cli.demo_lines import painter, suggestions
from palio.client.subscriptions import read_wanted
from palio.demo import servers
from palio.demo.happenings import Back, Delivery, Died, Ended, Site, Started
from palio.demo.servers import TREE, free_ports
from palio.demo.show import READERS, WRITERS
from palio.model import Filter, Notification
from tests.demo.demos import demonstration, wait_for


@pytest.mark.parametrize("architecture", ["as", "hs"])
def test_readers_get_what_they_want_and_nothing_else(tmp_path: Path, architecture: str) -> None:
    with demonstration(tmp_path, "--rate", "40", "--architecture", architecture) as demo:
        started = demo.until("started")
        assert [each["name"] for each in started["servers"]] == list(TREE)
        assert sorted(each["pid"] for each in started["servers"]) == sorted(demo.servers())
        waiting = {reader.name for reader in READERS}
        while waiting:
            waiting.discard(demo.until("delivery")["name"])
        demo.process.send_signal(signal.SIGINT)
        ended = demo.until("ended")
        assert demo.finish() == (0, "")
        demo.check_nothing_is_left()
    deliveries = [each for each in demo.told if each["event"] == "delivery"]
    assert ended["published"] >= len(READERS)
    assert ended["deliveries"] == {
        reader.name: sum(each["name"] == reader.name for each in deliveries) for reader in READERS
    }
    for delivery in deliveries:
        filters = [getattr(each, "filters", [each]) for each in read_wanted(delivery["wanted"])]
        got = [codec.json.decode(Notification, _document(each)) for each in delivery.get("sequence", [delivery])]
        assert any(all(map(Filter.matches, each, got)) for each in filters)


def _document(delivery: dict[str, object]) -> bytes:
    return json.dumps({"palio": 1, "notification": delivery["notification"]}).encode()


def test_it_ends_by_itself(tmp_path: Path) -> None:
    with demonstration(tmp_path, "--for", "0.5") as demo:
        demo.until("started")
        assert demo.until("ended")["seconds"] >= 0.5
        assert demo.finish() == (0, "")
        demo.check_nothing_is_left()


def test_a_second_interruption_does_not_wait_for_servers_that_hang(tmp_path: Path) -> None:
    with demonstration(tmp_path) as demo:
        pids = {each["name"]: each["pid"] for each in demo.until("started")["servers"]}
        os.kill(pids["siena"], signal.SIGSTOP)
        demo.process.send_signal(signal.SIGINT)
        wait_for(lambda: demo.servers() == [pids["siena"]])
        demo.process.send_signal(signal.SIGINT)
        assert demo.finish() == (0, "")
        demo.check_nothing_is_left()


def test_the_end_of_the_terminal_ends_it_while_servers_start(tmp_path: Path) -> None:
    with demonstration(tmp_path) as demo:
        wait_for(demo.servers)
        demo.process.send_signal(signal.SIGHUP)
        assert demo.finish() == (0, "")
        demo.check_nothing_is_left()


def test_a_server_that_dies_is_started_again_and_the_network_heals(tmp_path: Path) -> None:
    with demonstration(tmp_path, "--rate", "40") as demo:
        pids = {each["name"]: each["pid"] for each in demo.until("started")["servers"]}
        demo.until("delivery", name="eva")
        os.kill(pids["siena"], signal.SIGKILL)  # all that eva gets passes through it
        assert demo.until("died", server="siena")["reason"] == "killed by SIGKILL"
        demo.until("back", server="siena")
        demo.until("delivery", name="eva")
        demo.until("delivery", name="otto")  # who is connected to it
        assert len(demo.servers()) == 5
        demo.process.send_signal(signal.SIGTERM)
        assert demo.finish() == (0, "")
        demo.check_nothing_is_left()


def test_a_server_that_cannot_come_back_is_the_end(tmp_path: Path) -> None:
    with demonstration(tmp_path) as demo:
        naples = demo.until("started")["servers"][-1]
        os.kill(naples["pid"], signal.SIGKILL)
        with holding(int(naples["url"].rpartition(":")[2])):
            assert demo.until("died")["server"] == "naples"
            code, errors = demo.finish()
        assert code == 1
        assert json.loads(errors)["error"].startswith("naples ended when it should start: cannot listen")
        demo.check_nothing_is_left()


@contextmanager
def holding(port: int) -> Iterator[None]:
    """Take a port, as soon as it is free."""
    taken: list[socket.socket] = []

    def take() -> bool:
        with suppress(OSError):
            taken.append(socket.create_server(("127.0.0.1", port)))
        return bool(taken)

    wait_for(take)
    with taken[0]:
        yield


def test_a_port_that_is_snatched_away_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may listen at a port after we have seen that nobody does."""
    told: list[object] = []
    choices: list[list[int]] = []
    with socket.create_server(("127.0.0.1", 0)) as snatched:

        def choose(wanted: list[int]) -> list[int]:
            chosen = free_ports([0] * len(wanted))
            choices.append(chosen if choices else [snatched.getsockname()[1], *chosen[1:]])
            return choices[-1]

        monkeypatch.setattr(servers, "free_ports", choose)
        network = servers.Servers(tmp_path, "as", told.append)

        async def play() -> None:
            try:
                await network.start()
            finally:
                await network.stop()

        asyncio.run(play())
    assert len(choices) == 2
    assert [site.port for site in network.sites.values()] == choices[1][:5]
    assert told == []


def test_a_reader_of_its_lines_who_goes_is_its_end(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m palio demo --json --rate 20 | head -n 1"
    done = subprocess.run(
        command, shell=True, check=True, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert done.stdout.startswith('{"event":"started"')
    assert done.stderr == ""
    wait_for(lambda: not list(tmp_path.iterdir()))


def test_another_port_is_taken_if_somebody_is_there_already() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = free_ports([port, 0, 0])
        assert port not in chosen
        assert len(set(chosen)) == 3
    wait_for(lambda: free_ports([port]) == [port])


def test_without_the_servers_libraries_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['structlog'] = None\nfrom palio.cli.main import palio; palio(['demo'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "palio demo needs the server's libraries; install them with: pip install 'palio[server]'" in done.stderr


# -- how it looks ------------------------------------------------------------------------------------------------------

STARTED = Started(
    tuple(Site(name, above, 7400 + 10 * number) for number, (name, above) in enumerate(TREE.items())),
    {name: 1000 + number for number, name in enumerate(TREE)},
    WRITERS,
    READERS,
    "http://127.0.0.1:7401/metrics",
)
TICK = Notification(symbol="DIS", change=1.5, price=112.25, volume=1200, lit=True)


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    paint = painter()
    shown = click.unstyle(paint(STARTED))
    assert "siena :7400 ─┬─ milan :7410 ─── turin :7430" in shown
    for reader in READERS:
        line = click.unstyle(paint(Delivery(reader, (TICK, TICK) if "then" in reader.wanted else TICK)))
        assert len(line) == columns
        assert line.startswith(f"{reader.name:<8}{reader.server}")
        shown += f"\n{line}"
    for happening in (Died("rome", "killed by SIGKILL"), Back("rome")):
        shown += f"\n{click.unstyle(paint(happening))}"
    assert max(map(len, shown.splitlines())) <= max(columns, 90)  # commands are not cut
    assert 'change = 1.5; symbol = "DIS"' in shown
    assert '<- symbol = "DIS" and change > 0' in shown


def test_elsewhere_lines_are_whole() -> None:
    paint = painter()
    paint(STARTED)
    told = click.unstyle(paint(Delivery(READERS[0], TICK)))
    assert told == (
        'eva     rome   change = 1.5; symbol = "DIS"; lit = true; price = 112.25; volume = 1200'
        '  <- symbol = "DIS" and change > 0'
    )
    assert paint(Ended(12, {"eva": 3}, 4.2)) == "\n12 notifications published in 4 s. Delivered: eva 3."


def test_what_to_try_names_the_server_only_if_it_must() -> None:
    usual = dict.fromkeys(command.partition("palio ")[2] for command, _ in suggestions(STARTED))
    assert """sub 'symbol = "DIS"'""" in usual
    moved = STARTED._replace(sites=tuple(each._replace(port=each.port + 1) for each in STARTED.sites))
    elsewhere = dict.fromkeys(command.partition("palio ")[2] for command, _ in suggestions(moved))
    assert """sub --server palio://127.0.0.1:7401 'symbol = "DIS"'""" in elsewhere
