"""An operator asks for a reload while the server still starts: it does not end, and reloads when it has started."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
import structlog

from palio.server import process as module
from palio.server.process import Process
from palio.server.server import Server
from tests.serving import run, until


def test_a_reload_during_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "palio.toml"
    path.write_text('server = "milan"\nport = 0')
    monkeypatch.setattr(module, "start_logs", lambda _: structlog.get_logger())
    monkeypatch.setattr(module, "_collect_rarely", lambda: None)
    start, missed = Server.start, []

    async def start_slowly(server: Server) -> None:
        """The operator changes the file in the meantime."""
        path.write_text('server = "milan"\nport = 0\n[[peers]]\nname = "rome"')
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not server.peers.known
        await start(server)

    monkeypatch.setattr(Server, "start", start_slowly)

    async def play() -> None:
        process = Process(path)
        running = asyncio.create_task(process.run())
        await until(lambda: missed or "rome" in process._server.peers.known or running.done())
        process._stopping.set()
        await running
        assert not missed

    before = signal.signal(signal.SIGHUP, lambda *_: missed.append(True))  # else a fault would end the test run
    try:
        run(play())
    finally:
        signal.signal(signal.SIGHUP, before)
