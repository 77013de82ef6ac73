"""Archives of servers (``docs/archive.md``) as tables of events."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from palio.archive.rolls import Part, sort_out
from palio.archive.tables import ENVELOPE
from palio.errors import CallerError, FileFormatError, brief
from palio.spark.advice import warn_of_missing
from palio.spark.damaged_files import FilePart, damaged_files, skipped_text, tell_skipped
from palio.spark.event_folder import EventFolder, SkippedFile, widened
from palio.spark.filters import FilterSet
from palio.spark.matching import Result, match_archived
from palio.spark.temporary import opened

_CASE = "spark.sql.caseSensitive"
_NO_STRUCTS = "it has no columns of envelope and payload"


class ArchiveTable(NamedTuple):
    """The notifications of files that have the same columns."""

    rows: DataFrame
    envelope: str
    """The column with position, origin, incarnation, sequence, published, publisher, expires, key and trace."""
    payload: str
    """The column with data and content_type."""


class _Part(NamedTuple):
    """Files that have the same columns."""

    files: list[str]
    schema: StructType
    envelope: str
    payload: str

    @property
    def attributes(self) -> list[StructField]:
        """The columns that are attributes."""
        return [field for field in widened(self.schema) if field.name not in {self.envelope, self.payload}]


class Archive:
    """The notifications of an archive, as it is now; attributes may have other types from file to file.

    What is archived later, or replaced by compaction within the time that the archive allows for it, makes no
    difference to it. Files that cannot be read are left out, listed in :attr:`skipped` and told to the logger
    ``palio.spark``.
    """

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._folder = EventFolder(session, path)
        self._skipped: list[SkippedFile] = []
        self._checked: set[str] = set()
        """Columns that were read already, of all files."""
        listing = sort_out(self._folder.files())
        files = [file for files in listing.current.values() for file in files]
        if not files:
            raise CallerError(f"{self._path}: no archive, or one with nothing in it")
        found, skipped = self._folder.schemas(files)
        _check_case(skipped)
        self._parts: list[_Part] = []
        for each, schema in found:
            structs = _structs_of(schema)
            if structs is None:
                skipped += [SkippedFile(file, f"no file of an archive: {_NO_STRUCTS}") for file in each]
            else:
                self._parts.append(_Part(each, schema, *structs))
        foreign = [SkippedFile(file, "no file of an archive: it has another name") for file in listing.others]
        self._skip([*skipped, *foreign])

    @property
    def skipped(self) -> tuple[SkippedFile, ...]:
        """The files that are left out because they cannot be read, as far as that is known.

        Files without a sound footer are known from the beginning. If it is the content that is damaged, :meth:`match`
        finds it out, for the columns that it reads.
        """
        return tuple(self._skipped)

    @cached_property
    def tables(self) -> list[ArchiveTable]:
        """All of it, in parts."""
        return [
            ArchiveTable(self._folder.table(part.files, part.schema).rows, part.envelope, part.payload)
            for part in self._parts
        ]

    @property
    def columns(self) -> dict[str, list[DataType]]:
        """The types of each attribute."""
        found: dict[str, dict[DataType, None]] = {}
        for part in self._parts:
            for field in part.attributes:
                found.setdefault(field.name, {}).setdefault(field.dataType)
        return {name: list(types) for name, types in found.items()}

    def count(self) -> int:
        """How many notifications there are."""
        return sum(table.rows.count() for table in self.tables)

    def match(
        self,
        filters: FilterSet | DataFrame,
        *,
        result: Result = "narrow",
        problems: bool = False,
        round_decimals: bool = False,
    ) -> DataFrame:
        """Match all of it against filters; see :func:`~palio.spark.match`.

        Narrow results name a notification by its envelope, the struct ``_palio``. Wide ones have all columns, each of
        which must have one type then.

        The columns that the filters mention, and those of the result, are read once at once, to leave out files whose
        content is damaged.
        """
        if result == "wide":
            self._check_types()
        with opened(filters) as (made, results):
            self._leave_out_damaged(made, result)
            warn_of_missing(made, self.columns)
            found = [_match(table, made, result, problems, round_decimals) for table in self.tables]
            results.extend(found)
        union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)
        if result != "counts" or len(found) == 1:
            return union
        by = [name for name in union.columns if name != "count"]
        return union.groupBy(*by).agg(sql.sum("count").alias("count")).select(*union.columns)

    def _leave_out_damaged(self, made: FilterSet, result: Result) -> None:
        """Read the columns that will be matched, but for those that were read before."""
        parts = [FilePart(part.files, part.schema, self._unchecked(part, made, result)) for part in self._parts]
        self._skip(damaged_files(self._folder.reader, parts))
        self._checked.update(name for part in parts for name in part.columns)

    def _unchecked(self, part: _Part, made: FilterSet, result: Result) -> list[str]:
        if result == "wide":
            names = part.schema.names
        else:
            names = [field.name for field in part.attributes if field.name in made.attributes]
            names += [part.envelope] if result == "narrow" else []
        return [name for name in names if name not in self._checked]

    def _skip(self, files: Sequence[SkippedFile]) -> None:
        """Leave files out from now on; it is an error if no other is left."""
        gone = {each.file for each in files}
        left = [part._replace(files=[file for file in part.files if file not in gone]) for part in self._parts]
        self._parts = [part for part in left if part.files]
        self._skipped += files
        vars(self).pop("tables", None)
        if not self._parts:
            raise FileFormatError(f"{self._path}: no file of the archive can be read; {skipped_text(self._skipped)}")
        tell_skipped(files, self._path)

    def _check_types(self) -> None:
        for name, types in self.columns.items():
            if len(types) > 1:
                shown = " and ".join(sorted(each.simpleString() for each in types))
                raise CallerError(
                    f"attribute {brief(name)} is {shown}: a wide result has one type a column; use narrow, or counts"
                )


def is_archive(files: Iterable[str]) -> bool:
    """Whether files in a folder are those of an archive.

    >>> is_archive(["file:/a/2026-11-16/palio-1-0000000000-0000000042-1of1.parquet"]), is_archive(["a/part-0.parquet"])
    (True, False)
    """
    return any(Part.parse(file) is not None for file in files)


def _check_case(skipped: Sequence[SkippedFile]) -> None:
    """Files that Spark refuses because of a setting are not damaged: nothing must be left out then."""
    refused = [each for each in skipped if "COLUMN_ALREADY_EXISTS" in each.problem]
    if refused:
        raise FileFormatError(f"set {_CASE} to true: {skipped_text(refused)}")


def _structs_of(schema: StructType) -> tuple[str, str] | None:
    """The columns of the envelope and the payload, if there are such."""
    structs = {field.name: type for field in schema.fields if isinstance(type := field.dataType, StructType)}
    names = {"origin" in type.names: name for name, type in structs.items()}  # attributes are no structs
    return (names[True], names[False]) if len(structs) == len(names) == 2 else None


def _match(table: ArchiveTable, made: FilterSet, result: Result, problems: bool, round_decimals: bool) -> DataFrame:
    key = table.envelope if result == "narrow" else None
    found = match_archived(
        table.rows,
        made,
        key=key,
        result=result,
        beside=(table.envelope, table.payload),
        problems=problems,
        round_decimals=round_decimals,
    )
    return found if key is None else found.withColumnRenamed(key, ENVELOPE)
