"""What ``palio match`` tells in the end, for people and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from palio.cli.output import json_text
from palio.errors import printable


@dataclass(frozen=True)
class ReasonCount:
    """Why values of events, or their bodies, cannot be read, and how many events have such."""

    reason: str
    count: int


@dataclass(frozen=True)
class SkippedRecord:
    """A file, or a line of one, that could not be read at all, and why."""

    file: str
    record: str | None
    """The line; not known of a file."""
    problem: str


@dataclass(frozen=True)
class EventFigures:
    """What became of the events."""

    read: int
    matching_nothing: int | None
    """Not known if only counts were wanted."""
    unreadable: int
    unreadable_reasons: list[ReasonCount]
    """The most frequent ones."""
    skipped: int
    """Files, or lines of files, that could not be read at all; they are not among those read."""
    first_skipped: list[SkippedRecord]


@dataclass(frozen=True)
class FilterCount:
    """A filter and how many events it matches."""

    id: int | str
    text: str
    count: int


@dataclass(frozen=True)
class Reject:
    """A filter that could not be read, and where in its text the fault is, if it is there."""

    id: int | str | None
    text: str | None
    reason: str
    line: int | None
    column: int | None


@dataclass(frozen=True)
class FilterFigures:
    """What became of the filters."""

    read: int
    """Those that can match; rejected ones are not among them."""
    matching_nothing: int
    matching_most: list[FilterCount]
    rejected: int
    first_rejected: list[Reject]


@dataclass(frozen=True)
class UnknownAttribute:
    """A name in a filter that is no column of the events, and the column that was perhaps meant."""

    name: str
    perhaps: str | None


@dataclass(frozen=True)
class Seconds:
    """How long it took to read the filters, to match and write, and to count what is told here."""

    filters: float
    match: float
    count: float


@dataclass(frozen=True)
class Places:
    """Where the results are; ``None`` if nothing was rejected or skipped."""

    deliveries: str
    rejected_filters: str | None
    unreadable_events: str | None
    skipped: str | None = None


@dataclass(frozen=True)
class Summary:
    """All that is told."""

    events: EventFigures
    filters: FilterFigures
    deliveries: int
    unknown_attributes: list[UnknownAttribute]
    seconds: Seconds
    places: Places

    def to_json(self) -> str:
        """One object, with the names of the fields as they are here."""
        return json_text(self, indent=2)


@dataclass(frozen=True)
class StreamSummary:
    """What is told of a stream: of the batches that were done now."""

    batches: int
    files: int
    skipped: int
    """Files, or lines of files, that could not be read at all."""
    events: int
    deliveries: int
    unreadable: int
    version: str
    """Of the filters that were used last."""
    rejected_filters: int
    """Of that version."""
    seconds: float
    places: Places

    def to_json(self) -> str:
        """One object, with the names of the fields as they are here."""
        return json_text(self, indent=2)


def show(summary: Summary | StreamSummary, console: Console | None = None) -> None:
    """Print it for people."""
    console = console or Console(highlight=False)
    if isinstance(summary, StreamSummary):
        console.print(_stream_figures(summary))
        console.print(_places(summary.places), soft_wrap=True)
        return
    for block in (
        _figures(summary),
        *_most(summary.filters),
        *_rejects(summary.filters),
        *_unreadable(summary.events),
        *_skipped(summary.events),
        *_unknown(summary.unknown_attributes),
    ):
        console.print(block)
    console.print(_places(summary.places), soft_wrap=True)  # paths are shown whole, to be copied


def _figures(summary: Summary) -> RenderableType:
    events, filters, seconds = summary.events, summary.filters, summary.seconds
    grid = _grid("left", "right", "left")
    silent = "" if events.matching_nothing is None else f"{events.matching_nothing:,} match no filter"
    skipped = _some(events.skipped, "files or lines skipped")
    grid.add_row("Events", f"{events.read:,}", _joined([silent, _some(events.unreadable, "unreadable"), skipped]))
    silent = f"{filters.matching_nothing:,} match no event"
    grid.add_row("Filters", f"{filters.read:,}", _joined([silent, _some(filters.rejected, "more rejected")]))
    grid.add_row("Deliveries", f"{summary.deliveries:,}")
    parts = f"reading filters {seconds.filters:.1f}, matching {seconds.match:.1f}, counting {seconds.count:.1f}"
    grid.add_row("Seconds", f"{seconds.filters + seconds.match + seconds.count:.1f}", parts)
    return grid


def _stream_figures(summary: StreamSummary) -> RenderableType:
    grid = _grid("left", "right", "left")
    grid.add_row("Batches", f"{summary.batches:,}", f"in {summary.seconds:.1f} seconds")
    grid.add_row("Files", f"{summary.files:,}", _some(summary.skipped, "files or lines skipped"))
    grid.add_row("Events", f"{summary.events:,}", _some(summary.unreadable, "unreadable"))
    rejected = _some(summary.rejected_filters, "rejected")
    grid.add_row("Deliveries", f"{summary.deliveries:,}", _joined([f"filters of {summary.version}", rejected]))
    return grid


def _grid(*columns: Literal["left", "right"]) -> Table:
    """Lines up columns without wrapping them; what is too long for the terminal is cut."""
    grid = Table.grid(padding=(0, 2))
    for justify in columns:
        grid.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    return grid


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count else ""


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)


def _plain(text: str) -> Text:
    """Text from files as it may be shown: nothing in it may steer the terminal."""
    return Text(printable(text))


def _source(text: str) -> Text:
    """The same below which a mark stands: each character keeps its place."""
    return Text("".join(each if each.isprintable() else " " for each in text))


def _block(title: str, style: str, lines: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style=style), Padding(lines, (0, 0, 0, 2), expand=False)]


def _most(filters: FilterFigures) -> list[RenderableType]:
    if not filters.matching_most:
        return []
    grid = _grid("right", "right", "left")
    grid.add_row("events", "id", "text", style="dim")
    for each in filters.matching_most:
        grid.add_row(f"{each.count:,}", _plain(str(each.id)), _plain(each.text))
    return _block("Filters that match most", "bold", grid)


def _rejects(filters: FilterFigures) -> list[RenderableType]:
    if not filters.rejected:
        return []
    shown = len(filters.first_rejected)
    title = "Rejected filters" if filters.rejected == shown else f"Rejected filters, {shown} of {filters.rejected:,}"
    return _block(title, "bold red", Text("\n").join(map(_reject, filters.first_rejected)))


_SOURCE_CHARACTERS = 72
"""Longer lines would be wrapped, and the mark below them would point at nothing."""


def _reject(reject: Reject) -> Text:
    """The id and the reason, and if the text is at fault, its line with a mark at the place."""
    reason = re.sub(r"^line 1, ", "", reject.reason)  # most texts have one line
    told = _plain(f"{reject.id}: {reason}")
    if reject.text is not None and reject.line is not None and reject.column is not None:
        source = reject.text.split("\n")[reject.line - 1]
        if len(source) <= _SOURCE_CHARACTERS:
            told.append("\n  ").append_text(_source(source)).append("\n  " + " " * (reject.column - 1) + "^")
    return told


def _unreadable(events: EventFigures) -> list[RenderableType]:
    if not events.unreadable:
        return []
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    grid.add_row("events", "reason", style="dim")
    for each in events.unreadable_reasons:
        grid.add_row(f"{each.count:,}", _plain(each.reason))
    return _block("Events with values that cannot be read", "bold red", grid)


def _skipped(events: EventFigures) -> list[RenderableType]:
    if not events.skipped:
        return []
    shown = len(events.first_skipped)
    title = "Skipped files or lines" if events.skipped == shown else f"Skipped, {shown} of {events.skipped:,}"
    lines = [_plain(": ".join(filter(None, (each.file, each.record, each.problem)))) for each in events.first_skipped]
    return _block(title, "bold red", Text("\n").join(lines))


def _unknown(attributes: list[UnknownAttribute]) -> list[RenderableType]:
    if not attributes:
        return []
    told = [f"{each.name} (perhaps {each.perhaps}?)" if each.perhaps else each.name for each in attributes]
    return _block("Attributes that filters mention and no event has", "bold yellow", _plain(", ".join(told)))


def _places(places: Places) -> Text:
    lines = [f"Deliveries are in {places.deliveries}"]
    if places.rejected_filters:
        lines.append(f"Rejected filters are in {places.rejected_filters}")
    if places.unreadable_events:
        lines.append(f"Events with values that cannot be read are in {places.unreadable_events}")
    if places.skipped:
        lines.append(f"Skipped files and lines are in {places.skipped}")
    return Text("\n" + "\n".join(map(printable, lines)))
