"""What goes wrong with archives."""

from __future__ import annotations

from palio.errors import CallerError, FileFormatError


class ArchiveError(CallerError):
    """An archive, or the log for it, that cannot be used as asked; the message says why and what to do."""


class ArchiveBusyError(ArchiveError):
    """Somebody else writes to the archive at the moment."""


class DamagedArchiveError(FileFormatError):
    """A file of an archive that is none, or lacks what belongs to it."""
