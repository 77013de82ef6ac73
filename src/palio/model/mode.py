"""What the acknowledgement of a publication promises."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """What has become of a publication when its publisher is told that it was accepted."""

    MEMORY = "memory"
    """The server knows it; if the server dies, it may be lost."""
    LOCAL = "local"
    """The server has written it; it survives the death of the server, but perhaps not that of the machine."""
    SYNCED = "synced"
    """It is on the server's disk for certain."""

    @property
    def strength(self) -> int:
        """Higher promises include lower ones; also the mode's number in frames.

        >>> Mode.SYNCED.strength > Mode.MEMORY.strength
        True
        """
        return _ORDER[self]


_ORDER = {mode: number for number, mode in enumerate(Mode)}
