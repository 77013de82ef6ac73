"""What can go wrong with a store; each message names the file and what to do."""

from __future__ import annotations

from palio.errors import CallerError, FileFormatError, PalioError


class StoreError(PalioError):
    """A store cannot be used, or not as it was asked for."""


class FullStoreError(StoreError):
    """There is no room. Nothing of what was to be written is in the store, and the same may be tried again."""


class FailedStoreError(StoreError):
    """The disk failed to write or to sync. What it holds now is unknown until the store is opened again: stop."""


class StoreInUseError(StoreError):
    """Another process has the store open."""


class StorePathError(StoreError, CallerError):
    """The path leads to no place where a store can be: a folder, no permission, a read-only disk."""


class WrongStoreError(StoreError, CallerError):
    """The store belongs to a server of another name."""


class NewerStoreError(StoreError, FileFormatError):
    """A later version of Palio has written the store."""


class NoStoreError(StoreError, FileFormatError):
    """The file is something else, and never was a store."""


class DamagedStoreError(StoreError, FileFormatError):
    """The file is a store, but not as it was written."""


class InvalidWriteError(StoreError, CallerError):
    """What was to be written does not fit behind what is there: a gap between entries, or a trim beyond their end."""
