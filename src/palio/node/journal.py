"""What a node has to keep: records that are written before anything that depends on them goes out."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

Key = tuple[Hashable, ...]
"""What a record is about: a kind, and what tells apart those of one kind."""
Record = tuple[Key, Any]
"""A key and its value; ``None`` says that there is no such record any more."""


class Journal:
    """Collects what changes while inputs are handled.

    >>> journal = Journal()
    >>> journal.put(("party", "me"), "profile")
    >>> journal.delete(("party", "me"))
    >>> journal.take(), journal.take()
    (((('party', 'me'), None),), ())
    """

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[Key, Any] = {}

    def put(self, key: Key, value: Any) -> None:
        """The record of a key is this from now on."""
        self._records.pop(key, None)  # what was written last comes last
        self._records[key] = value

    def delete(self, key: Key) -> None:
        """There is no record of a key any more."""
        self.put(key, None)

    def take(self) -> tuple[Record, ...]:
        """All that has changed since the last call."""
        records, self._records = tuple(self._records.items()), {}
        return records
