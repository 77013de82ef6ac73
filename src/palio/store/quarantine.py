"""The records in quarantine in a store: look at them, and delete them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from palio.node import quarantine, records
from palio.node.quarantine import Kept
from palio.store import files, reading, witness
from palio.store.errors import DamagedStoreError, StoreError
from palio.store.inspection import inspect, require_store
from palio.store.settings import Batch
from palio.store.store import Store


class Listed(NamedTuple):
    """What is in quarantine."""

    records: list[Kept]
    dropped: int
    """How many records there was no room for."""


def listed(path: Path) -> Listed:
    """What is in quarantine in a store, to which a server may be writing."""
    path = files.existing(path)
    require_store(path)
    rows = list(reading.records(path))
    return Listed(quarantine.kept(rows), quarantine.dropped(rows))


def shown(record: Kept) -> dict[str, Any]:
    """A record in quarantine, for people and programs; key and value are given in hexadecimal digits, too."""
    return {
        "number": record.number,
        "key": records.describe(record.key),
        "reason": record.reason,
        "bytes": record.size,
        "key_bytes": record.key.hex(),
        "value_bytes": record.value.hex(),
    }


def drop(path: Path, numbers: Collection[int] | None) -> list[int]:
    """Delete some records in quarantine, or all of them; their numbers.

    No server may run on the store. A store that a server has to salvage or renumber first is not touched: it must not
    find that already done.
    """
    path = files.existing(path)
    _expect_settled(path)
    with Store.open(path, name=require_store(path).name) as store:
        known = {each.number: each for each in quarantine.kept(store.records())}
        chosen = list(known) if numbers is None else list(dict.fromkeys(numbers))
        unknown = [number for number in chosen if number not in known]
        if unknown:
            raise StoreError(f"{path}: there is no record {unknown[0]} in quarantine; nothing was deleted")
        if chosen:
            store.commit([Batch([(known[number].row, None) for number in chosen], is_synced=True)])
    return chosen


def _expect_settled(path: Path) -> None:
    """Refuse a store that is in use, damaged, or a backup."""
    lock = files.Lock(path)
    try:
        meta = require_store(path)
        damage = inspect(path, witness.read(path), was_store=witness.is_there(path)).damage
    finally:
        lock.release()
    if damage or files.is_suspect(path) or files.finished(path).exists():
        raise DamagedStoreError(f"{path} is damaged; start its server first, which saves what can be saved")
    if meta.is_copy or not meta.is_settled:
        raise StoreError(f"{path} is a backup, or was salvaged; start its server first")
