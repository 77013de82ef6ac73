"""Where an archive goes on: what its progress says, and if there is none, what the names of its files say."""

from __future__ import annotations

import logging

import pyarrow.parquet as pq

from palio.archive.disk import Disk
from palio.archive.errors import ArchiveError, DamagedArchiveError
from palio.archive.growing import complete
from palio.archive.progress import FILE, Figures, Progress, read_progress
from palio.archive.rolls import Listing, Roll, sort_out
from palio.archive.source import Extent
from palio.archive.tables import About

_LOG = logging.getLogger("palio.archive")


def recover(disk: Disk, extent: Extent) -> Progress:
    """The progress of the archive of a log, after what was begun has been completed."""
    content = disk.read(FILE)
    if content is not None:
        progress = complete(disk, read_progress(content, str(disk.folder / FILE)))
    else:
        progress = _from_names(disk, extent)
    if progress.server != extent.name:
        raise ArchiveError(
            f"{disk.folder}: the archive of the server {progress.server!r}, not of {extent.name!r}; use another folder"
        )
    if progress.incarnation > extent.incarnation:
        raise ArchiveError(
            f"{disk.folder}: archived was incarnation {progress.incarnation}, but the log has {extent.incarnation}: "
            "it is an old copy; archive it into another folder"
        )
    return progress


def _from_names(disk: Disk, extent: Extent) -> Progress:
    listing = sort_out(disk.files())
    if not listing.current:
        return Progress(extent.name, extent.incarnation, extent.first)
    if listing.incomplete:
        raise DamagedArchiveError(
            f"{disk.folder}: {FILE} is missing, and so are files of {_shown(listing)}; put them back, or move what "
            "there is of these elsewhere: they are archived again if the log still has them"
        )
    last = max(listing.current)
    abouts = [about_of(disk, name) for name in listing.current[last]]
    _LOG.warning("%s is missing: going on after position %s, as the files' names say", FILE, last.last)
    newest = max(abouts, key=lambda about: about.mark)
    rolls = len(listing.current)
    return Progress(
        newest.server,
        last.incarnation,
        last.last + 1,
        newest.mark,
        (),
        newest.gaps,
        newest.damaged,
        Figures(rolls=rolls),
    )


def about_of(disk: Disk, name: str) -> About:
    """What a file of the archive says of itself."""
    place = disk.folder / name
    try:
        metadata = pq.read_metadata(place).metadata
    except (OSError, ValueError) as error:
        raise DamagedArchiveError(f"{place}: {error}; move it elsewhere") from error
    return About.read(metadata, str(place))


def _shown(listing: Listing) -> str:
    rolls: list[Roll] = sorted(listing.incomplete)
    shown = ", ".join(f"positions {roll.first} to {roll.last}" for roll in rolls[:3])
    return f"{shown}{' and others' if len(rolls) > 3 else ''}"
