"""Reports of damage, kept in the store that came out of it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import apsw

from palio.store.damage import Damage, Kind
from palio.store.errors import DamagedStoreError
from palio.store.sums import plain_sum

Report = tuple[int, Damage]
"""The incarnation that began with the damage, and the damage."""


def write(connection: apsw.Connection, reports: Iterable[Report]) -> None:
    """Add reports, within a transaction."""
    for incarnation, damage in reports:
        key = damage.key.hex() if damage.key is not None else None
        value = json.dumps([incarnation, damage.kind.value, damage.text, key, damage.first, damage.end]).encode()
        connection.execute("INSERT INTO report VALUES (NULL, ?, ?)", (plain_sum(b"report", value), value))


def read(connection: apsw.Connection) -> list[Report]:
    """All reports, the oldest first; one that is not as it was written is an error."""
    return [_sound(*row) for row in connection.execute("SELECT sum, value FROM report ORDER BY id")]


def read_sound(connection: apsw.Connection) -> list[Report]:
    """Those that are as they were written."""
    found = []
    for row in connection.execute("SELECT sum, value FROM report ORDER BY id"):
        try:
            found.append(_sound(*row))
        except DamagedStoreError:
            continue
    return found


def _sound(total: int, value: bytes) -> Report:
    if not isinstance(value, bytes) or plain_sum(b"report", value) != total:
        raise DamagedStoreError("a report of earlier damage is not as it was written")
    incarnation, kind, text, key, first, end = json.loads(value)
    return incarnation, Damage(Kind(kind), text, bytes.fromhex(key) if key is not None else None, first, end)


def lost_ranges(reports: Iterable[Report]) -> list[tuple[int, int]]:
    """Positions of the log whose entries are known to be lost."""
    return [(damage.first, damage.end) for _, damage in reports if damage.kind is Kind.ENTRIES]
