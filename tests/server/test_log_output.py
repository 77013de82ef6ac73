"""A server whose log cannot be written goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

import palio
from palio.server.log_output import LogOutput
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
