"""Files damaged in all the ways that a disk, a copy that was cut short, or a careless hand damages them."""

from __future__ import annotations

from pathlib import Path


def spoil(path: Path) -> None:
    """Spoil the content and leave the footer as it is."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[-8:-4], "little")
    for place in range(4, len(content) - 8 - size):
        content[place] ^= 0x55
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Cut it short: the footer is gone."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def replace(path: Path) -> None:
    """Put something else in its place."""
    path.write_text("nonsense", encoding="utf-8")
