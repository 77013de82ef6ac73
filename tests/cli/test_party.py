"""``palio pub``, ``sub`` and the like, with a server in a thread."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.client.sync import SyncClient, connect_sync
from palio.model import Filter, Notification
from palio.server.config import Config
from palio.server.server import Server
from palio.server.store_config import StoreTable

SECONDS = 30


class Served:
    """A server in a thread of its own."""

    def __init__(self, **config: object) -> None:
        self._started: Future[Server] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(config)))
        self._thread.start()
        self.server = self._started.result(SECONDS)
        self.url = f"palio://127.0.0.1:{self.server.port}"

    async def _main(self, config: dict[str, object]) -> None:
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        server = Server(Config(**{"server": "milan", "port": 0, **config}))  # type: ignore[arg-type]
        await server.start()
        self._started.set_result(server)
        await self._end.wait()
        await server.stop()

    def held(self, party: str) -> set[Filter]:
        """The filters that the server has for a party."""

        async def look() -> set[Filter]:
            return set(self.server.driver.node.router.profile(party).filters)

        return asyncio.run_coroutine_threadsafe(look(), self._loop).result(SECONDS)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(SECONDS)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.stop()


@pytest.fixture
def client(served: Served) -> Iterator[SyncClient]:
    with connect_sync(served.url) as made:
        yield made


def invoke(served: Served, *arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner(env={"PALIO_SERVER": served.url}).invoke(palio, arguments, input=given, catch_exceptions=False)


class Command:
    """A command in a process of its own."""

    def __init__(self, served: Served, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "palio", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PALIO_SERVER": served.url},
        )
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()

    def finish(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, output, errors


def test_what_is_published_is_printed(served: Served) -> None:
    command = Command(served, "sub", "--count", "2", "level > 3")
    assert command.told.startswith(f"subscribed at {served.url} as urn:uuid:")
    done = invoke(served, "pub", 'level = 5; event = "alarm"', "level = 1", "level = 9.5", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["published"] == 3
    assert command.finish() == (0, 'event = "alarm"; level = 5\nlevel = 9.5\n', "")


def test_json_goes_from_one_to_the_other(served: Served, client: SyncClient) -> None:
    command = Command(served, "sub", "-J", "--count", "2")
    client.publish(Notification(level=5, at=b"\x00").with_payload(b"!", "text/plain"))
    client.publish(level=1.0)
    _, output, _ = command.finish()
    first = json.loads(output.splitlines()[0])
    assert first["envelope"]["publisher"] == client.name
    assert first["notification"] == {"at": {"bytes": "AA=="}, "level": 5}
    with client.subscribe("level any") as events:
        assert invoke(served, "pub", "--json-input", given=output).exit_code == 0
        assert events.next(SECONDS) == Notification(level=5, at=b"\x00").with_payload(b"!", "text/plain")
        assert events.next(SECONDS) == Notification(level=1.0)


def test_traces_are_given_and_printed(served: Served) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=1"
    plain, as_json = Command(served, "sub", "--count", "2"), Command(served, "sub", "-J", "--count", "2")
    assert invoke(served, "pub", "--trace", trace, "x = 1").exit_code == 0
    assert invoke(served, "pub", "x = 2").exit_code == 0
    assert plain.finish() == (0, f"# trace {trace}\nx = 1\nx = 2\n", "")
    _, output, _ = as_json.finish()
    assert [json.loads(line)["envelope"].get("trace") for line in output.splitlines()] == [trace, None]
    refused = invoke(served, "pub", "--trace", "00-1", "x = 1")
    assert refused.exit_code == 2
    assert "'00-1' is no traceparent" in " ".join(refused.output.split())


def test_text_goes_from_one_to_the_other(served: Served, client: SyncClient) -> None:
    with client.subscribe("x any") as events:
        assert invoke(served, "pub", given="# two\nx = 1\n\nx = 2; y = true\n").exit_code == 0
        assert invoke(served, "pub", "--count", "2", "--rate", "1000", "x = 3", "x = 4").exit_code == 0
        got = [events.next(SECONDS) for _ in range(6)]
    assert [each["x"] for each in got] == [1, 2, 3, 4, 3, 4]


@pytest.mark.parametrize("arguments", [["--pattern", "x = 1", "x = 2"], ["x = 1 then x = 2"]])
def test_sequences_are_printed(served: Served, client: SyncClient, arguments: list[str]) -> None:
    plain, as_json = (Command(served, "sub", "--count", "1", *more, *arguments) for more in ([], ["--json"]))
    for x in (2, 1, 1, 2):
        client.publish(x=x)
    assert plain.finish()[1] == "x = 1  then  x = 2\n"
    sequence = json.loads(as_json.finish()[1])["sequence"]
    assert [each["notification"] for each in sequence] == [{"x": 1}, {"x": 2}]


def test_a_format_of_ones_own(served: Served) -> None:
    text = r"{level}\t{event}|{@publisher}|{@id}|{@time}|{@payload}|{@all}|{none}{{}}"
    command = Command(served, "sub", "--count", "2", "-F", text)
    with connect_sync(served.url, name="eva") as eva:
        eva.publish(Notification(event="al\narm", level=5).with_payload(b"p\xff"))
        eva.publish(level=1)
    first, second = command.finish()[1].splitlines()
    level, publisher, id, time, payload, everything, rest = first.split("|")
    assert level == r"5	al\narm"
    assert (publisher, payload, everything, rest) == ("eva", r"p\xff", r'event = "al\narm"; level = 5', "{}")
    assert id.startswith("milan/")
    assert datetime.fromisoformat(time).utcoffset() == timedelta(0)
    assert second.startswith("1	|eva|milan/")


def test_a_format_of_sequences(served: Served, client: SyncClient) -> None:
    command = Command(served, "sub", "--count", "1", "-F", "<{x}>", "x = 1 then x = 2")
    client.publish(x=1)
    client.publish(x=2)
    assert command.finish()[1] == "<1>  then  <2>\n"


def test_raw_payloads(served: Served, client: SyncClient) -> None:
    command = Command(served, "sub", "--count", "2", "--raw")
    client.publish(Notification(x=1).with_payload(b"first"))
    client.publish(x=2)
    assert command.finish()[1] == "first\n\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-F", "{x"], "format, column 1: a name begins and does not end"),
        (["-F", "x}"], "format, column 2: a name ends and did not begin"),
        (["-F", r"\q"], r"format, column 1: after \ comes n"),
        (["-F", "{}"], "format, column 2: a name is missing"),
        (["-F", "{@where}"], "format, column 2: there is no @where; there are @all"),
        (["-F", "{x}", "--json"], "exclude each other"),
        (["--raw", "--json"], "exclude each other"),
    ],
)
def test_formats_that_are_none_are_refused_before_anything_is_done(arguments: list[str], problem: str) -> None:
    done = CliRunner(env={"PALIO_SERVER": "palio://127.0.0.1:1"}).invoke(palio, ["sub", *arguments])
    assert done.exit_code == 2
    assert problem in done.stderr


def test_who_is_thrown_out_by_the_same_party_is_told_what_to_do(served: Served) -> None:
    command = Command(served, "sub", "--name", "eva", "x any")
    assert invoke(served, "pub", "--name", "eva", "x = 1").exit_code == 0
    code, _, errors = command.finish()
    assert code == 1
    assert "eva has connected again; a party has one connection at a time" in errors


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_the_end_and_takes_the_subscription_along(served: Served, with_signal: int) -> None:
    command = Command(served, "sub", "--name", "eva", "x any")
    assert served.held("eva")
    command.process.send_signal(with_signal)
    assert command.finish() == (0, "", "")
    assert not served.held("eva")


def test_an_interruption_does_not_wait_for_a_server_that_is_away(served: Served) -> None:
    command = Command(served, "sub", "x any")
    served.stop()
    assert command.process.stderr is not None
    assert "connecting again" in command.process.stderr.readline()
    command.process.send_signal(signal.SIGINT)
    assert command.finish()[0] == 0


def test_a_broken_pipe_is_the_end(served: Served, client: SyncClient) -> None:
    command = Command(served, "sub", "--name", "eva", "x any")
    assert command.process.stdout is not None
    command.process.stdout.close()
    client.publish(x=1)
    client.publish(x=2)
    assert command.process.wait(SECONDS) == 1
    assert command.process.stderr is not None
    assert command.process.stderr.read() == ""
    command.process.stderr.close()


def test_what_a_named_party_holds_is_changed(served: Served) -> None:
    with connect_sync(served.url, name="eva") as eva:
        eva.subscribe("x > 3")
        eva.subscribe("y any")
    told = invoke(served, "unsub", "--name", "eva", "x any", "--json")
    assert json.loads(told.stdout) == {"cancelled": ["x > 3"], "count": 1}
    assert served.held("eva") == {Filter.parse("y any")}
    for command in ("unsub", "unadvertise"):  # what covers nothing cancels nothing
        told = invoke(served, command, "--name", "eva", "z any", "--json")
        assert json.loads(told.stdout) == {"cancelled": [], "count": 0}
        assert "nothing was cancelled" in invoke(served, command, "--name", "eva", "z any").stderr
    told = invoke(served, "advertise", "--name", "eva", "x any", "y any", "--wait", "--json")
    assert json.loads(told.stdout) == {"advertised": ["x any", "y any"]}
    assert len(served.server.driver.node.router.profile("eva").advertisements) == 2
    told = invoke(served, "unadvertise", "--name", "eva", "x any", "--json")
    assert json.loads(told.stdout) == {"cancelled": ["x any"], "count": 1}
    assert len(served.server.driver.node.router.profile("eva").advertisements) == 1


@pytest.mark.parametrize(
    ("arguments", "given", "problem"),
    [
        (["pub", "x >"], None, "notification 1: line 1, column 3"),
        (["pub", ""], None, "notification 1 is empty"),
        (["pub", "x = 1", " "], None, "notification 2 is empty; attributes are written name = value; 1 published"),
        (["pub"], "x = 1\nx = = 2\n", "line 2 of the input: line 1, column 5"),
        (["pub"], b"x = '\xff'\n", "line 1 of the input is not UTF-8"),
        (["pub", "--json-input"], "[1]\n", "line 1 of the input: expected an object of attributes"),
        (["pub", "--json-input"], "{\n", "line 1 of the input: not JSON"),
        (["pub", "--json-input"], '{"x": NaN}\n', "line 1 of the input: NaN is not JSON"),
        (["sub", "x >"], None, "line 1, column 4"),
        (["sub", "x = 1 then y = 2", "x = 1"], None, "one pattern at a time"),
        (["sub", "x > 3 and x < 2"], None, "nothing can match"),
        (["sub", "--server", "http://x"], None, "is no address of a server"),
    ],
)
def test_mistakes_are_told_in_a_line(
    served: Served, arguments: list[str], given: str | bytes | None, problem: str
) -> None:
    done = invoke(served, *arguments, given=given)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert problem in done.stderr


def test_what_was_published_before_a_mistake_is_counted(served: Served, client: SyncClient) -> None:
    with client.subscribe("x any") as events:
        done = invoke(served, "pub", "--json", given="x = 1\nx = = 2\nx = 3\n")
        assert done.exit_code == 1
        assert json.loads(done.stdout)["published"] == 1
        told = json.loads(done.stderr)
        assert told["error"].startswith("line 2 of the input: line 1, column 5")
        assert told["error"].endswith("; 1 published")
        assert events.next(SECONDS) == Notification(x=1)


def test_what_was_accepted_beside_a_refused_one_is_counted() -> None:
    served = Served(guard=True)
    try:
        with connect_sync(served.url, name="eva") as eva:
            eva.advertise("x any")
        done = invoke(served, "pub", "--name", "eva", "--json", "x = 1", "y = 2", "x = 3")
    finally:
        served.stop()
    assert done.exit_code == 1
    assert json.loads(done.stdout)["published"] == 2
    told = json.loads(done.stderr)
    assert told["code"] == "not-advertised"
    assert told["error"].startswith("notification 2: ")


def test_a_durable_party_goes_on_where_it_was(tmp_path: Path) -> None:
    served = Served(store=StoreTable(path=str(tmp_path / "milan.db"), keep_seconds=600.0))
    command = ("sub", "--durable", "--name", "eva", "-F", "{n} {@number}{@repeated}", "n any")
    try:
        with connect_sync(served.url, name="eva", durable=True) as eva, eva.subscribe("n any"):
            pass
        for n in (1, 2, 2):
            told = invoke(served, "pub", "--name", "adam", "--key", f"k{n}", "--json", f"n = {n}")
            assert json.loads(told.stdout)["mode"] == "synced"
        assert invoke(served, *command, "--count", "1").stdout == "1 0\n"
        shown = invoke(served, *command, "--count", "1", "--no-ack").stdout  # perhaps it was under way when we left
        assert shown in ("2 1\n", "2 1repeated\n")
        assert invoke(served, *command, "--count", "1").stdout == "2 1repeated\n"
        assert invoke(served, *command, "--count", "2", "--from", "0").stdout == "1 0repeated\n2 1repeated\n"
        with connect_sync(served.url, name="eva", durable=True) as eva, eva.subscribe("n any") as events:
            eva.publish(n=3)
            events.next(SECONDS).reject("odd", wait=True)
        assert '"odd"  n = 3\n' in invoke(served, "letters", "list", "--name", "eva").stdout
        assert invoke(served, "letters", "requeue", "--name", "eva", "--all").exit_code == 0
        assert invoke(served, *command, "--count", "1").stdout == "3 3\n"
        assert "is not durable: it has no log" in invoke(served, "letters", "list", "--name", "adam").stderr
    finally:
        served.stop()


def test_a_refused_publication_is_named() -> None:
    served = Served(guard=True)
    try:
        done = invoke(served, "pub", "--name", "eva", "x = 1")
    finally:
        served.stop()
    assert done.exit_code == 1
    assert "notification 1: 'eva' has advertised nothing that announces" in done.stderr


def test_without_a_server_it_says_what_to_start(served: Served) -> None:
    served.stop()
    done = invoke(served, "pub", "x = 1")
    assert done.exit_code == 1
    assert "there is no server at" in done.stderr
    assert "palio serve" in done.stderr


@pytest.mark.parametrize("arguments", [["pub", "--count", "3"], ["unsub", "x any"], ["advertise", "x any"]])
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(palio, arguments).exit_code == 2


HEAVY = {"pyspark", "pyarrow", "pandas", "numpy", "rich", "starlette", "palio.server", "palio.node", "palio.matching"}


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import sys; from palio.cli.main import palio\n"
        f"try: palio({list(arguments)!r})\n"
        "except SystemExit: pass\n"
        "print('modules:', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("modules:")[2].split())


def test_publishing_loads_nothing_that_it_does_not_use(served: Served) -> None:
    loaded = loaded_by("pub", "--server", served.url, "x = 1")
    assert {"asyncio", "palio.client", "palio.model"} <= loaded
    assert not HEAVY & loaded
    assert len(loaded) < 300  # 233 when this was written


@pytest.mark.parametrize("command", ["pub", "sub", "unsub", "demo", "serve"])
def test_help_waits_for_nothing(command: str) -> None:
    loaded = loaded_by(command, "--help")
    assert not ({"asyncio", "msgspec", "palio.client", "palio.model"} | HEAVY) & loaded
    assert len(loaded) < 150  # about 110 when this was written
