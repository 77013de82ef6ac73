"""A disk that fails, or dies, at a chosen step; and what a loss of power takes with it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random
from typing import BinaryIO, Literal

from palio.archive.disk import Disk

How = Literal["fail", "kill", "power"]
HOW: tuple[How, ...] = ("fail", "kill", "power")


class KilledError(BaseException):
    """The process is no more."""


class FaultyDisk(Disk):
    """Everything goes well until a step; that one is done in part or not at all.

    *fail* raises what a full disk does, *kill* ends the process, *power* ends it and undoes, at random, what was not
    synced. Names last when their folder is synced, contents when they are.
    """

    def __init__(self, folder: Path, step: int, how: How, before: FaultyDisk | None = None) -> None:
        """``before`` is the disk of a process that was killed: what that has not synced may still be lost."""
        super().__init__(folder)
        self.steps = 0
        self._at = step
        self._how = how
        self._random = Random(f"{step} {how}")
        self._unsynced: list[tuple[str, Callable[[], None]]] = [] if before is None else before._unsynced
        """For each name that does not last yet: its folder, and what undoes it."""

    def _step(self) -> bool:
        """Whether this is the step."""
        self.steps += 1
        return self.steps == self._at + 1

    def _end(self) -> None:
        if self._how == "fail":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        if self._how == "power":
            for _, undo in reversed(self._unsynced):
                if self._random.random() < 0.5:
                    with suppress(FileNotFoundError, OSError):
                        undo()
        raise KilledError

    def _note(self, name: str, undo: Callable[[], None]) -> None:
        self._unsynced.append((name.rpartition("/")[0], undo))

    def create(self, name: str, fill: Callable[[BinaryIO], None]) -> None:
        if self._step():
            whole = BytesIO()
            fill(whole)
            content = whole.getvalue()
            (self.folder / name).write_bytes(content[: self._random.randrange(len(content) + 1)])
            self._end()
        super().create(name, fill)
        self._note(name, (self.folder / name).unlink)

    def rename(self, old: str, new: str) -> None:
        if self._step():
            self._end()
        before = (self.folder / new).read_bytes() if self.exists(new) else None
        super().rename(old, new)

        def undo() -> None:
            (self.folder / new).replace(self.folder / old)
            if before is not None:
                (self.folder / new).write_bytes(before)

        self._note(new, undo)

    def remove(self, name: str) -> None:
        if self._step():
            self._end()
        content = self.read(name)
        super().remove(name)
        if content is None:
            return

        def undo() -> None:
            if not self.exists(name):
                (self.folder / name).write_bytes(content)

        self._note(name, undo)

    def make_folder(self, name: str) -> None:
        if self._step():
            self._end()
        super().make_folder(name)

    def sync(self, name: str) -> None:
        if self._step():
            self._end()
        super().sync(name)
        self._unsynced = [each for each in self._unsynced if each[0] != name]
