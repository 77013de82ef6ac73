"""A server whose log cannot be written goes on."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import palio
from palio.server import process
from palio.server.config import Config, Log
from palio.server.log_output import LibraryLogs, LogOutput
from palio.server.outgoing import Outgoing
from palio.server.process import start_logs
from tests.serving import DEADLINE, run


class Stream:
    """A stream that fails while it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.written = ""

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        self.written += text
        return len(text)

    def flush(self) -> None:
        self.write("")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("I/O operation on closed file")])
def test_lines_that_cannot_be_written_are_counted(error: Exception) -> None:
    stream = Stream()
    output = LogOutput(stream, "{} are missing".format)  # type: ignore[arg-type]
    output().info("one")
    stream.error = error
    output().error("two")
    output().debug("three")
    stream.error = None
    output().info("four")
    output().info("five")
    assert stream.written.splitlines() == ["one", "2 are missing", "four", "five"]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    """What a server logs as JSON."""
    stream = Stream()
    monkeypatch.setattr(process.sys, "stderr", stream)
    start_logs(Config(server="milan", log=Log(format="json")))
    start_logs(Config(server="milan", log=Log(format="json")))  # reloaded: no line comes twice
    yield stream
    structlog.reset_defaults()
    root = logging.getLogger()
    root.removeHandler(next(each for each in root.handlers if isinstance(each, LibraryLogs)))


def test_warnings_of_libraries_are_events_without_content(logged: Stream) -> None:
    logging.getLogger("asyncio").warning("socket.send() raised exception.")
    logging.getLogger("other").error("failed", exc_info=ValueError("secret"))
    logging.getLogger("other").info("not shown")
    first, second = (json.loads(line) for line in logged.written.splitlines())
    assert first["event"] == second["event"] == "library"
    assert (first["level"], first["library"], first["message"]) == (
        "warning",
        "asyncio",
        "socket.send() raised exception.",
    )
    assert (second["level"], second["library"], second["message"]) == ("error", "other", "failed")
    assert "ValueError" in second["stack"]
    assert "secret" not in logged.written


def test_nothing_is_written_to_a_lost_connection(logged: Stream) -> None:
    """asyncio would log each attempt."""

    class Lost(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            del error
            lost.set()

    lost = asyncio.Event()

    async def story() -> None:
        here, there = socket.socketpair()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(Lost, sock=here)
        outgoing = Outgoing(transport, loop)
        there.close()
        async with asyncio.timeout(DEADLINE):
            while not transport.is_closing():
                outgoing.write([b"x" * 65_536], [1])
                await asyncio.sleep(0)
            for _ in range(20):
                outgoing.write([b"x"], [1])
            await lost.wait()

    run(story())
    assert not logged.written


async def _listening(port: int) -> None:
    """Wait until the server listens."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


@pytest.mark.parametrize("is_full", [True, False])
def test_a_server_whose_log_cannot_be_written_serves(tmp_path: Path, is_full: bool) -> None:
    """The disk of the log is full, or the program that reads the log has ended: every line is an error."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        path = tmp_path / "palio.toml"
        path.write_text(f'server = "milan"\nport = {port}\n[log]\nlevel = "debug"\n')
        if is_full:
            log = os.open("/dev/full", os.O_WRONLY)
        else:
            read, log = os.pipe()
            os.close(read)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "palio", "serve", "--config", str(path), "--json", stderr=log
        )
        os.close(log)
        try:
            await _listening(port)
            for number in range(3):
                url = f"palio://127.0.0.1:{port}"
                async with asyncio.timeout(DEADLINE), palio.connect(url) as client, client.subscribe("x any") as events:
                    await client.publish(x=number)
                    assert (await anext(events))["x"] == number
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    run(scenario())
