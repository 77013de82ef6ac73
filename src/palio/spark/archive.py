"""Archives of servers (``docs/archive.md``) as tables of events."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property, reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructType

from palio.archive.rolls import Part, current
from palio.archive.tables import ENVELOPE
from palio.errors import CallerError, FileFormatError, brief
from palio.spark.advice import warn_of_missing
from palio.spark.event_folder import EventFolder, widened
from palio.spark.filters import FilterSet
from palio.spark.matching import Result, match_archived
from palio.spark.temporary import opened

_CASE = "spark.sql.caseSensitive"


class ArchiveTable(NamedTuple):
    """The notifications of files that have the same columns."""

    rows: DataFrame
    envelope: str
    """The column with position, origin, incarnation, sequence, published, publisher, expires, key and trace."""
    payload: str
    """The column with data and content_type."""


class Archive:
    """The notifications of an archive, as it is now; attributes may have other types from file to file.

    What is archived later, or replaced by compaction within the time that the archive allows for it, makes no
    difference to it.
    """

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._folder = EventFolder(session, path)
        files = current(self._folder.files())
        if not files:
            raise CallerError(f"{os.fspath(path)}: no archive, or one with nothing in it")
        self._parts, skipped = self._folder.schemas(files)
        if skipped:
            advice = f"; set {_CASE} to true" if "COLUMN_ALREADY_EXISTS" in skipped[0].problem else ""
            others = f"; {len(skipped) - 1:,} more cannot be read" if len(skipped) > 1 else ""
            raise FileFormatError(f"{skipped[0].file}: {skipped[0].problem}{advice}{others}")
        self._structs = [_structs_of(schema, part[0]) for part, schema in self._parts]

    @cached_property
    def tables(self) -> list[ArchiveTable]:
        """All of it, in parts."""
        return [
            ArchiveTable(self._folder.table(files, schema).rows, *structs)
            for (files, schema), structs in zip(self._parts, self._structs, strict=True)
        ]

    @property
    def columns(self) -> dict[str, list[DataType]]:
        """The types of each attribute."""
        found: dict[str, dict[DataType, None]] = {}
        for (_, schema), structs in zip(self._parts, self._structs, strict=True):
            for field in widened(schema):
                if field.name not in structs:
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
        """
        if result == "wide":
            self._check_types()
        with opened(filters) as (made, results):
            warn_of_missing(made, self.columns)
            found = [_match(table, made, result, problems, round_decimals) for table in self.tables]
            results.extend(found)
        union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)
        if result != "counts" or len(found) == 1:
            return union
        by = [name for name in union.columns if name != "count"]
        return union.groupBy(*by).agg(sql.sum("count").alias("count")).select(*union.columns)

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


def _structs_of(schema: StructType, file: str) -> tuple[str, str]:
    """The columns of the envelope and the payload."""
    structs = {field.name: type for field in schema.fields if isinstance(type := field.dataType, StructType)}
    names = {"origin" in type.names: name for name, type in structs.items()}  # attributes are no structs
    if len(structs) != 2 or len(names) != 2:
        raise FileFormatError(f"{file}: no file of an archive; it has no columns of envelope and payload")
    return names[True], names[False]


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
