"""The witness: a small file beside the database that knows how new the database has to be.

It holds which opening of the store was the last, and the number of a commit that is on disk. Two places in it are
written by turns, so that one is always whole. It is written after the commit it tells of is safe, so it is never ahead
of the database; it is not synced with every commit, so a power loss may leave it behind.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from palio.store import files
from palio.store.errors import FailedStoreError
from palio.store.schema import Meta
from palio.store.sums import plain_sum

_PLACE_BYTES = 512  # a sector: whatever happens to one place, the other is untouched
_CONTENT = Struct("<8sQQQQ")
_SUM = Struct("<q")
_MAGIC = b"palio-w1"


@dataclass(frozen=True, slots=True)
class Testimony:
    """What a witness tells."""

    incarnation: int
    opening: int
    nonce: int
    commit: int

    @classmethod
    def of(cls, meta: Meta) -> Testimony:
        """What is known to be on disk, when this is and is synced."""
        return cls(meta.incarnation, meta.opening, meta.nonce, meta.commit)

    def encode(self) -> bytes:
        """The bytes of one place."""
        content = _CONTENT.pack(_MAGIC, self.incarnation, self.opening, self.nonce, self.commit)
        return content + _SUM.pack(plain_sum(b"witness", content))


def _decode(data: bytes) -> Testimony | None:
    content, total = data[: _CONTENT.size], data[_CONTENT.size : _CONTENT.size + _SUM.size]
    if len(total) < _SUM.size or _SUM.unpack(total)[0] != plain_sum(b"witness", content):
        return None
    magic, *numbers = _CONTENT.unpack(content)
    return Testimony(*numbers) if magic == _MAGIC else None


def read(path: Path) -> Testimony | None:
    """What the witness of a store tells, if there is one and it can be read."""
    try:
        data = files.beside(path, ".witness").read_bytes()
    except FileNotFoundError:
        return None
    places = (_decode(data[:_PLACE_BYTES]), _decode(data[_PLACE_BYTES:]))
    return max((each for each in places if each), key=lambda each: (each.opening, each.commit), default=None)


def is_there(path: Path) -> bool:
    """Whether there is a witness, readable or not."""
    return files.beside(path, ".witness").exists()


def replace(path: Path, testimony: Testimony) -> None:
    """Begin anew, safely."""
    files.write_whole(files.beside(path, ".witness"), testimony.encode().ljust(_PLACE_BYTES, b"\0") * 2)


class Witness:
    """The witness of a store that is open."""

    def __init__(self, path: Path, testimony: Testimony) -> None:
        replace(path, testimony)
        self._file = os.open(files.beside(path, ".witness"), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._place = 0

    def tell(self, testimony: Testimony) -> None:
        """This is on disk; the other place keeps what was told before."""
        self._place = _PLACE_BYTES - self._place
        try:
            files.write_at(self._file, testimony.encode(), self._place)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                return  # some file systems need room even for that; it may lag behind
            raise FailedStoreError(
                f"the witness file of a store could not be written: {error.strerror}; see whether the disk is in order"
            ) from error

    def close(self) -> None:
        """Make it safe, and end."""
        os.fsync(self._file)
        os.close(self._file)
