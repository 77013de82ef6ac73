"""How an archive is kept; the fields are the keys of ``[archive]`` in the configuration of a server."""

from __future__ import annotations

from dataclasses import dataclass, fields

from palio.archive.errors import ArchiveError
from palio.errors import brief

_MOST_BYTES = 1 << 30
"""Of memory; beyond that a column of texts could not be addressed."""


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """When files are written, and for how long they stay.

    >>> ArchiveSettings(rows=0)
    Traceback (most recent call last):
    palio.archive.errors.ArchiveError: archive.rows: 0 is less than 1
    """

    rows: int = 1_000_000
    """Notifications after which files are written."""
    bytes: int = 67_108_864
    """The same by the memory that they take; bounds that of the archiver, too."""
    seconds: float = 60.0
    """The same by time, since the first of them came."""
    keep_seconds: float | None = None
    """Files with nothing younger are removed."""
    keep_bytes: int | None = None
    """With more than so many bytes of files, the oldest are removed."""
    keep_rows: int | None = None
    """The same with more than so many notifications."""
    tables: int = 32
    """Files that grow at the same time: kinds of columns that do not go together."""
    columns: int = 1_000
    """Attributes in one file; only a single notification with more of them has more."""
    grace_seconds: float = 3_600.0
    """For how long files stay that compaction has replaced: readers that have listed them have so long to read them."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name.startswith("keep_"):
                continue
            wanted = (int, float) if "seconds" in field.name else (int,)
            if isinstance(value, bool) or not isinstance(value, wanted):
                raise ArchiveError(f"archive.{field.name}: {brief(value)} is no number of the right kind")
            least = 0 if field.name == "grace_seconds" else 1e-3 if "seconds" in field.name else 1
            if not value >= least:
                raise ArchiveError(f"archive.{field.name}: {value} is less than {least}")
        if self.bytes > _MOST_BYTES:
            raise ArchiveError(f"archive.bytes: {self.bytes:,} is more than {_MOST_BYTES:,}")
