"""What a server is told about its store: the tables of its configuration that have to do with disks."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from palio.model import Mode
from palio.node.keys import KeyLimits
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import Keep
from palio.store import StoreSettings

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Amount = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Path = Annotated[str, msgspec.Meta(min_length=1)]
_DAY = 86_400.0


class StoreTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a server keeps what must survive, and how much."""

    path: _Path
    """The file; it begins at the configuration file."""
    mode: Literal["memory", "local", "synced"] = "synced"
    """What acceptance of a publication promises, if its publisher does not say."""
    most_bytes: _Amount = 0
    """With more in it, publications are refused; 0: as much as the disk has."""
    reserve_bytes: _Amount = 64 << 20
    """With less free on the disk, too. Room within the store's file that is free again counts as free."""
    waiting_bytes: _Count = 64 << 20
    """Bytes that wait for the disk, with what waits for them, before nothing more is read from publishers."""
    keep_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """For how long deliveries can be replayed that everybody has acknowledged."""
    keep_deliveries: _Amount = 0
    """How many of them at most; 0: any number."""
    keep_bytes: _Amount = 0
    """And how many bytes; 0: any number."""
    letters: _Count = 1_000
    """Dead letters of one party; with more the oldest are forgotten, and counted."""
    letters_bytes: _Count = 16 << 20
    """The same by their bytes; the last one is kept in any case."""
    keys: _Count = 100_000
    """Keys of one party's publications that are known; with more its oldest are forgotten, and counted."""
    keys_bytes: _Count = 16 << 20
    """The same by their bytes, 128 more for each; the newest one is kept in any case."""
    all_keys_bytes: _Count = 256 << 20
    """Of all parties: with more, the oldest of the party whose keys have most bytes are forgotten, and counted."""
    key_seconds: _Seconds = 3_600.0
    """And for how long: within that time a publication with the same key counts once."""

    @property
    def settings(self) -> StoreSettings:
        """As the store takes them."""
        return StoreSettings(self.most_bytes, self.reserve_bytes)


class Durable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bounds of durable parties' logs: what a party gets that asks for nothing else; nobody gets more."""

    count: _Count = 1_000_000
    """Deliveries that may wait to be acknowledged; with more the oldest fall out, and are counted."""
    bytes: _Count = 1 << 30
    """The same, by their size."""
    age_seconds: _Seconds = 7 * _DAY
    """Deliveries that are older fall out."""
    lease_seconds: _Seconds = 7 * _DAY
    """A party that stays away for so long loses its log, and all that it holds."""
    window: _Count = 10_000
    """Deliveries that may be sent to a party and not acknowledged."""

    @property
    def keep(self) -> Keep:
        """As the node takes them."""
        age, lease = round(self.age_seconds * 1e6), round(self.lease_seconds * 1e6)
        return Keep(self.count, self.bytes, age, lease, 0, self.window)


class ArchiveTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where all publications go as Parquet; it needs the store. What is not said is as the archiver has it."""

    path: _Path
    """The folder; it begins at the configuration file."""
    rows: _Count | None = None
    """Notifications after which files are written."""
    bytes: _Count | None = None
    """The same by the memory that they take."""
    seconds: _Seconds | None = None
    """The same by time."""
    keep_seconds: _Seconds | None = None
    """Files with nothing younger are removed."""
    keep_bytes: _Count | None = None
    """With more bytes of files the oldest are removed."""
    keep_rows: _Count | None = None
    """The same with more notifications."""


def log_settings(store: StoreTable, durable: Durable, *, everything: bool) -> LogSettings:
    """How a node keeps what is for durable parties."""
    usual = Retention()
    retention = Retention(
        round(store.keep_seconds * 1e6), store.keep_deliveries or usual.count, store.keep_bytes or usual.bytes
    )
    return LogSettings(
        durable.keep,
        retention,
        letters=store.letters,
        letters_bytes=store.letters_bytes,
        keys=KeyLimits(store.keys, store.keys_bytes, store.all_keys_bytes, round(store.key_seconds * 1e6)),
        everything=everything,
    )


def mode_of(store: StoreTable) -> Mode:
    """What acceptance promises by default."""
    return Mode(store.mode)
