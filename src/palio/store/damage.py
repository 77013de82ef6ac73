"""What was lost, named; and which of SQLite's errors mean that a file is not as it was written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import apsw

from palio.store.errors import (
    FailedStoreError,
    FullStoreError,
    StoreError,
    StoreInUseError,
    StorePathError,
)

Describe = Callable[[bytes], str]
"""A state record's key, as people can read it."""


class Kind(Enum):
    """What is damaged."""

    FILE = "file"
    """The database as a whole: it is missing, older than it should be, or cannot be read in part."""
    STATE = "state"
    """State records."""
    ENTRIES = "entries"
    """Entries of the log."""


class Damage(NamedTuple):
    """Something that was written and cannot be read any more."""

    kind: Kind
    text: str
    key: bytes | None = None
    """Of a state record, if it is known."""
    first: int = 0
    end: int = 0
    """Of entries: the first position, and the one behind the last."""

    def __str__(self) -> str:
        return self.text


def entries_lost(first: int, end: int) -> Damage:
    """Some entries of the log.

    >>> print(entries_lost(5, 6)), print(entries_lost(5, 9))
    entry 5 of the log
    entries 5 to 8 of the log
    (None, None)
    """
    text = f"entry {first} of the log" if end == first + 1 else f"entries {first} to {end - 1} of the log"
    return Damage(Kind.ENTRIES, text, first=first, end=end)


def ranges(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Rising positions as ranges, each with the position behind its last.

    >>> ranges([1, 2, 3, 7])
    [(1, 4), (7, 8)]
    """
    found: list[tuple[int, int]] = []
    for position in positions:
        if found and found[-1][1] == position:
            found[-1] = found[-1][0], position + 1
        else:
            found.append((position, position + 1))
    return found


READING = (apsw.Error, ValueError, TypeError)
"""What reading may raise (values of other types than were written among it); see :func:`sign_of_damage`."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_CODES = {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMSIZE}
_DAMAGE_CODES = {apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS}
_NO_DAMAGE = (
    apsw.IOError, apsw.BusyError, apsw.LockedError, apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError,
    apsw.FullError, apsw.InterruptError, apsw.ThreadingViolationError, apsw.ConnectionClosedError,
)  # fmt: skip


def sign_of_damage(path: Path, error: Exception) -> str:
    """What a reader's error tells of damage; an error that is no damage is raised as what it is."""
    if isinstance(error, _NO_DAMAGE) and getattr(error, "extendedresult", 0) not in _DAMAGE_CODES:
        raise access_error(path, error) from error
    return str(error)


def access_error(path: Path, error: apsw.Error) -> StoreError:
    """An error of SQLite that says nothing of the file's content."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreInUseError(f"{path} is locked by another process; end that one first")
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            return StorePathError(
                f"{path} cannot be opened: {error}; let the user read and write the file and its folder"
            )
        case _:
            return FailedStoreError(f"{path} cannot be read: {error}; see whether the disk is in order")


def write_error(path: Path, error: apsw.Error, system_errno: int) -> StoreError:
    """An error of SQLite while it wrote."""
    code = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.FullError) or (code in _FULL_CODES and system_errno in _NO_ROOM):
        return FullStoreError(f"there is no room for {path}: {error}; make room on its disk")
    return FailedStoreError(
        f"{path} could not be written: {error}; see whether the disk is in order, then start the server again"
    )
