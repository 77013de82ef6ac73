"""The events of ``palio match``: a table, or an archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from palio.archive.tables import ENVELOPE
from palio.errors import CallerError
from palio.spark import Archive, EventFolder, FilterSet, match
from palio.spark.archive import is_archive
from palio.spark.event_folder import skipped_table
from palio.spark.matching import Result
from palio.spark.table_files import TableFiles
from palio.spark.types import check_bodies, column

_KEY_NAMES = {"id", "event_id", "key"}


class Choice(NamedTuple):
    """What the options of the command say of events."""

    result: str
    keys: Sequence[str]
    bodies: str | None
    round_decimals: bool


class Events(Protocol):
    """What is matched."""

    @property
    def names(self) -> Sequence[str]:
        """Of the attributes."""

    @property
    def keys(self) -> Sequence[str]:
        """The columns by which narrow results name an event."""

    @property
    def skipped(self) -> DataFrame | None:
        """Files, and lines of files, that are left out: ``file``, ``record`` (of a line) and ``problem``."""

    def match(self, filters: FilterSet, result: Result) -> DataFrame:
        """Which filters match which of them, and what could not be read."""

    def count(self) -> int:
        """How many there are."""

    def leave_out(self, error: Exception, filters: FilterSet) -> bool:
        """Leave out the files whose damage is the cause of an error; whether there are any."""

    def release(self) -> None:
        """Give back what Spark keeps of them."""


class _TableEvents:
    def __init__(self, source: TableFiles, choice: Choice) -> None:
        rows = source.rows
        self.keys: Sequence[str] = choose_keys(rows, choice.keys) if choice.result == "narrow" else []
        if choice.bodies is not None:
            check_bodies(rows, choice.bodies)
        self.names = rows.columns
        self._source = source
        self._choice = choice

    @property
    def skipped(self) -> DataFrame | None:
        return self._source.skipped

    def match(self, filters: FilterSet, result: Result) -> DataFrame:
        return match(
            self._source.rows,
            filters,
            key=self.keys or None,
            result=result,
            bodies=self._choice.bodies,
            problems=True,
            round_decimals=self._choice.round_decimals,
        )

    def count(self) -> int:
        return self._source.rows.count()

    def leave_out(self, error: Exception, filters: FilterSet) -> bool:
        wanted = {*self.keys, *filters.attributes, self._choice.bodies}
        columns = [name for name in self.names if name in wanted or self._choice.result == "wide"]
        return self._source.leave_out(error, columns)

    def release(self) -> None:
        self._source.release()


class _ArchiveEvents:
    def __init__(self, session: SparkSession, archive: Archive, choice: Choice) -> None:
        if choice.keys or choice.bodies:
            raise CallerError("--events: this is an archive, which needs no --key and no --bodies; leave them out")
        self.keys: Sequence[str] = [ENVELOPE] if choice.result == "narrow" else []
        self.names = list(archive.columns)
        self._session = session
        self._archive = archive
        self._round_decimals = choice.round_decimals

    @property
    def skipped(self) -> DataFrame | None:
        return skipped_table(self._session, self._archive.skipped, [])

    def match(self, filters: FilterSet, result: Result) -> DataFrame:
        return self._archive.match(filters, result=result, problems=True, round_decimals=self._round_decimals)

    def count(self) -> int:
        return self._archive.count()

    def leave_out(self, error: Exception, filters: FilterSet) -> bool:  # noqa: ARG002 (the interface)
        """Archives have left them out before."""
        return False

    def release(self) -> None:
        """Nothing is kept."""


def open_events(session: SparkSession, path: str, format: str, choice: Choice) -> Events:
    """The events: the rows of a table, or an archive, in which columns change from file to file."""
    is_pattern = any(character in path for character in "*?[{")
    if format == "parquet" and not is_pattern and is_archive(EventFolder(session, path).files()):
        session.conf.set("spark.sql.caseSensitive", "true")  # one may have names that differ in case alone
        return _ArchiveEvents(session, Archive(session, path), choice)
    return _TableEvents(TableFiles(session, path, format), choice)


def choose_keys(events: DataFrame, given: Sequence[str]) -> Sequence[str]:
    """The columns by which narrow results name an event: those given, or one with a usual name."""
    for name in given:
        column(events, name, "--key")
    if given:
        return given
    usual = [name for name in events.columns if name.lower() in _KEY_NAMES]
    if len(usual) == 1:
        return usual
    raise CallerError(f"--key: say which column tells events apart; there are {', '.join(events.columns) or 'none'}")
