"""What is too old goes: whole rolls, the oldest first."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from palio.archive.disk import Disk
from palio.archive.inventory import BUSY, LOCK, Inventory, remove_roll
from palio.archive.rolls import Roll
from palio.archive.settings import ArchiveSettings


class Removed(msgspec.Struct, frozen=True):
    """What retention has removed."""

    rolls: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    up_to: Roll | None = None
    """The last of these rolls."""


def retain(
    disk: Disk,
    settings: ArchiveSettings,
    *,
    inventory: Inventory | None = None,
    clock: Callable[[], float] = time.time,
) -> Removed:
    """Remove the oldest rolls as long as there is more than is to be kept, or they are too old."""
    if settings.keep_seconds is settings.keep_bytes is settings.keep_rows is None:
        return Removed()
    with disk.lock(LOCK, BUSY):
        return _retain(disk, settings, inventory or Inventory(disk), clock())


def _retain(disk: Disk, settings: ArchiveSettings, inventory: Inventory, now: float) -> Removed:
    listing = inventory.listing()
    rolls = {roll: [inventory.facts(name) for name in names] for roll, names in listing.current.items()}
    rows = sum(each.rows for facts in rolls.values() for each in facts)
    bytes = sum(each.bytes for facts in rolls.values() for each in facts)
    done = Removed()
    for roll, facts in rolls.items():
        age = now - max(each.about.until for each in facts) / 1e6
        if not (
            (settings.keep_seconds is not None and age > settings.keep_seconds)
            or (settings.keep_rows is not None and rows - done.rows > settings.keep_rows)
            or (settings.keep_bytes is not None and bytes - done.bytes > settings.keep_bytes)
        ):
            break
        remove_roll(disk, roll, listing)
        done = Removed(
            rolls=done.rolls + 1,
            files=done.files + len(facts),
            rows=done.rows + sum(each.rows for each in facts),
            bytes=done.bytes + sum(each.bytes for each in facts),
            up_to=roll,
        )
    return done
