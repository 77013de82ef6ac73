"""The archiver beside a server: a process of its own that follows the log of the store, started again when it dies."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from palio.server.store_config import ArchiveTable

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Before it is started again; twice as long each time it fails."""
_STOP_SECONDS = 10.0
_LINE_BYTES = 1 << 20


class Archiving:
    """Keeps an archiver running. ``archived`` is told how far it is: the log may be trimmed up to there."""

    def __init__(
        self, table: ArchiveTable, store: str, archived: Callable[[int], None], log: structlog.stdlib.BoundLogger
    ) -> None:
        settings = {key: value for key, value in msgspec.structs.asdict(table).items() if value is not None}
        self._line = json.dumps({"store": store, **settings}).encode() + b"\n"
        self._archived = archived
        self._log = log
        self._task = asyncio.get_running_loop().create_task(self._keep())
        self.position = 0
        self.problem = ""
        """What keeps it from going on, if anything does."""

    async def _keep(self) -> None:
        pause = _PAUSE_SECONDS
        while True:
            before = self.position
            code = await self._run()
            self.problem = self.problem or f"the archiver has ended with the code {code}"
            self._log.error("archiver-ended", code=code, problem=self.problem, again_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = _PAUSE_SECONDS if self.position > before else min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run(self) -> int:
        """From the start of a process to its end."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "palio.archive"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._line)
            async for line in process.stdout:
                self._heard(line)
            return await process.wait()
        finally:
            await self._end(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """It writes what it has taken when its input ends."""
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError, ProcessLookupError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
            return
        process.kill()
        await process.wait()

    def _heard(self, line: bytes) -> None:
        try:
            told: dict[str, Any] = json.loads(line)
        except ValueError:
            self._log.warning("archiver-says", line=line[:200].decode(errors="replace"))
            return
        if told.get("kind") == "failed":
            self.problem = str(told.get("problem", ""))
            self._log.error("archiver-failed", problem=self.problem)
        elif told.get("progress") is not None:
            self.problem = ""
            self.position = int(told["progress"]["next"])
            self._archived(self.position)
        if told.get("kind") == "removed":
            self._log.info("archive-trimmed", removed=told.get("removed"))

    async def stop(self) -> None:
        """Let it write what it has, and end."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
