"""What an archive holds, for operators."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palio.archive.disk import Disk
from palio.archive.errors import ArchiveError, DamagedArchiveError
from palio.archive.inventory import Facts, Inventory
from palio.archive.progress import FILE, Progress, Span, read_progress
from palio.archive.rolls import sort_out
from palio.archive.tables import About

_SHOWN = 10
"""Gaps that are told one by one."""


class Day(msgspec.Struct, frozen=True):
    """What was archived on one day."""

    day: str
    files: int
    rows: int
    bytes: int


class Summary(msgspec.Struct, frozen=True):
    """What there is, and what is not."""

    server: str
    incarnation: int
    next: int
    """The first position of the log that is not archived."""
    files: int
    rows: int
    bytes: int
    replaced_files: int
    """Files that lie in larger ones by now, and will be removed."""
    days: tuple[Day, ...]
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.problems


def summary(folder: Path) -> Summary:
    """Look at all files of an archive."""
    disk = Disk(folder)
    inventory = Inventory(disk)
    listing = sort_out(disk.files())
    days: dict[str, list[Facts]] = {}
    problems = [f"files are missing of positions {roll.first:,} to {roll.last:,}" for roll in listing.incomplete]
    latest: About | None = None
    for name in [name for names in listing.current.values() for name in names]:
        try:
            facts = inventory.facts(name)
        except DamagedArchiveError as error:
            problems.append(str(error))
            continue
        days.setdefault(name.rpartition("/")[0], []).append(facts)
        latest = max(latest or facts.about, facts.about, key=lambda about: about.mark)
    content = disk.read(FILE)
    if content is None and latest is None:
        raise ArchiveError(f"{folder}: no archive, or one into which nothing was written yet")
    progress = _progress(disk, content, latest, problems)
    problems += _told(progress.gaps, "were trimmed from the log before they were archived: lost")
    problems += _told(progress.damaged, "could not be read as a whole")
    every = [each for facts in days.values() for each in facts]
    return Summary(
        server=progress.server,
        incarnation=progress.incarnation,
        next=progress.next,
        files=len(every),
        rows=sum(each.rows for each in every),
        bytes=sum(each.bytes for each in every),
        replaced_files=sum(map(len, listing.replaced.values())),
        days=tuple(
            Day(day, len(facts), sum(each.rows for each in facts), sum(each.bytes for each in facts))
            for day, facts in sorted(days.items())
        ),
        problems=tuple(problems),
    )


def _progress(disk: Disk, content: bytes | None, latest: About | None, problems: list[str]) -> Progress:
    try:
        if content is not None:
            return read_progress(content, str(disk.folder / FILE))
        problems.append(f"{FILE} is missing; the archiver finds out anew how far it was")
    except DamagedArchiveError as error:
        problems.append(str(error))
    if latest is None:
        return Progress("", 0, 0)
    return Progress(latest.server, latest.mark[0], 0, gaps=latest.gaps, damaged=latest.damaged)


def _told(spans: tuple[Span, ...], what: str) -> list[str]:
    told = [f"positions {span.first:,} to {span.last:,} {what}" for span in spans[:_SHOWN]]
    return [*told, f"and {len(spans) - _SHOWN:,} more like that"] if len(spans) > _SHOWN else told
