"""A file system that fails when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class Faults:
    """What does not work at the moment."""

    def __init__(self) -> None:
        self.is_full = False
        self.room = 0
        """Writes that still work when it is full."""
        self.has_bad_syncs = False
        self.has_bad_writes = False


class _FaultyFile(apsw.VFSFile):
    def __init__(self, faults: Faults, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._faults = faults

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's name)
        if self._faults.has_bad_writes:
            raise apsw.exception_for(apsw.SQLITE_IOERR_WRITE)
        if self._faults.is_full:
            if not self._faults.room:
                raise apsw.exception_for(apsw.SQLITE_FULL)
            self._faults.room -= 1
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._faults.has_bad_syncs:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


class _FaultySystem(apsw.VFS):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        super().__init__("faulty", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _FaultyFile(self._faults, name, flags)


@contextmanager
def faults() -> Iterator[Faults]:
    """Within, databases lie on a disk with faults."""
    default = apsw.vfs_names()[0]
    given = Faults()
    system = _FaultySystem(given)
    try:
        yield given
    finally:
        system.unregister()
        apsw.set_default_vfs(default)
