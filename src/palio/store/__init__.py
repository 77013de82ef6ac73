"""Bytes that survive: state records and a log of entries, in one file. docs/store.md describes it."""

from palio.store.committer import Committer, Figures
from palio.store.damage import Damage, Kind
from palio.store.errors import (
    DamagedStoreError,
    FailedStoreError,
    FullStoreError,
    InvalidWriteError,
    NewerStoreError,
    NoStoreError,
    StoreError,
    StoreInUseError,
    StorePathError,
    WrongStoreError,
)
from palio.store.reader import Reader
from palio.store.settings import Batch, StoreSettings
from palio.store.store import Store

__all__ = [
    "Batch",
    "Committer",
    "Damage",
    "DamagedStoreError",
    "FailedStoreError",
    "Figures",
    "FullStoreError",
    "InvalidWriteError",
    "Kind",
    "NewerStoreError",
    "NoStoreError",
    "Reader",
    "Store",
    "StoreError",
    "StoreInUseError",
    "StorePathError",
    "StoreSettings",
    "WrongStoreError",
]
