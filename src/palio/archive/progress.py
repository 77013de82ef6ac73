"""How far an archive is: a small file that is replaced as a whole, and read by whoever trims the log.

>>> read_progress(encode_progress(Progress("milan", 7, next=42))).next
42
"""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from palio.archive.errors import DamagedArchiveError
from palio.errors import brief

FILE = "_progress.json"
VERSION = 1
NOTED = 1_000
"""Gaps, and damaged entries, that are kept one by one; beyond that they are counted only."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Positions of the log, both ends included."""

    incarnation: int
    first: int
    last: int


class Figures(msgspec.Struct, frozen=True):
    """What was done since the archive began."""

    entries: int = 0
    """Of the log."""
    rows: int = 0
    """Notifications."""
    foreign: int = 0
    """Notifications that entered elsewhere."""
    repeated: int = 0
    """Notifications that came again, and are there once."""
    rolls: int = 0
    missing: int = 0
    """Positions that were trimmed from the log before they were archived."""
    damaged: int = 0
    """Entries of which something could not be read."""


class Progress(msgspec.Struct, frozen=True):
    """What is archived: everything below a position."""

    server: str
    incarnation: int
    next: int
    """The first position that is not archived; the log may be trimmed up to here."""
    mark: tuple[int, int] = (-1, -1)
    """Incarnation and sequence of the last notification in the archive."""
    moves: tuple[tuple[str, str], ...] = ()
    """Files that are complete and get their names now: all of them, also if it takes another start."""
    gaps: tuple[Span, ...] = ()
    """What is missing, the latest of them."""
    damaged: tuple[Span, ...] = ()
    """What could not be read, the latest of it; the bytes are in ``_damaged``."""
    figures: Figures = Figures()
    version: int = VERSION


class _Checked(msgspec.Struct, frozen=True):
    progress: msgspec.Raw
    crc32: int


def encode_progress(progress: Progress) -> bytes:
    """The content of the file."""
    raw = msgspec.json.encode(progress)
    return msgspec.json.encode(_Checked(msgspec.Raw(raw), zlib.crc32(raw)))


def read_progress(content: bytes, place: str = FILE) -> Progress:
    """What the file says; a damaged one is refused."""
    try:
        checked = msgspec.json.decode(content, type=_Checked)
        progress = msgspec.json.decode(checked.progress, type=Progress)
    except msgspec.MsgspecError as error:
        raise DamagedArchiveError(f"{place}: {brief(str(error))}; {_REMEDY}") from error
    if zlib.crc32(checked.progress) != checked.crc32:
        raise DamagedArchiveError(f"{place}: the checksum is wrong; {_REMEDY}")
    if progress.version != VERSION:
        raise DamagedArchiveError(f"{place}: version {progress.version} is not known here; known is {VERSION}")
    return progress


_REMEDY = "remove it, and what it said is found out anew from the files of the archive"


def archived_up_to(folder: Path, incarnation: int) -> int:
    """The first position of a log that the archive in a folder does not hold yet; zero if it holds nothing of it.

    This is what a server asks before it trims its log. It is one small file to read.
    """
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return 0
    progress = read_progress(content, str(folder / FILE))
    return progress.next if progress.incarnation == incarnation else 0
