"""Parquet files whose footers are sound and whose contents are not: found before anything is matched.

A result is a plan that Spark runs later, where a damaged file ends the whole job. So the columns that the plan will
read are read once beforehand. That is one pass in the Java process, without Python; only if it fails, a second one
finds all damaged files together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from typing import NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from palio.errors import printable
from palio.spark.event_folder import SkippedFile, plain, unreadable_file
from palio.spark.types import quoted

_LOG = logging.getLogger("palio.spark")
_SHOWN = 5
_FILE = "_palio_file"


class FilePart(NamedTuple):
    """Files that have the same columns, and those of the columns that will be read."""

    files: Sequence[str]
    schema: StructType
    columns: Collection[str]


def damaged_files(reader: Callable[[], DataFrameReader], parts: Iterable[FilePart]) -> list[SkippedFile]:
    """The files of which some of these columns cannot be read."""
    wanted = [part for part in parts if part.columns]
    if not wanted:
        return []
    try:
        _rows_of(reader, wanted, ignoring_damage=False).write.format("noop").mode("overwrite").save()
    except (Py4JJavaError, PySparkException) as error:
        found = _short_files(reader, wanted)
        if not found:
            raise
        first = unreadable_file(error, found)
        problems = {} if first is None else {first.file: first.problem}
        return [SkippedFile(file, problems.get(file, "its content is damaged")) for file in found]
    return []


def tell_skipped(skipped: Sequence[SkippedFile], folder: str) -> None:
    """Warn of files that are not matched: the first ones by name, and how many there are."""
    if skipped:
        _LOG.warning("%s: %s", folder, skipped_text(skipped))


def skipped_text(skipped: Sequence[SkippedFile]) -> str:
    """How many files are skipped, and why the first ones are.

    >>> skipped_text([SkippedFile("a.parquet", "no footer")])
    '1 file is skipped: a.parquet: no footer'
    """
    count = "1 file is skipped" if len(skipped) == 1 else f"{len(skipped):,} files are skipped"
    shown = "; ".join(f"{printable(f'{each.file}: {each.problem}')}" for each in skipped[:_SHOWN])
    return f"{count}: {shown}" + (f"; and {len(skipped) - _SHOWN:,} more" if len(skipped) > _SHOWN else "")


def _short_files(reader: Callable[[], DataFrameReader], parts: Sequence[FilePart]) -> list[str]:
    """The files from which fewer rows can be read than their footers say they have.

    The hash is asked for, because Spark reads no column that is not needed in the end.
    """
    read = (
        _rows_of(reader, parts, ignoring_damage=True)
        .groupBy(_FILE)
        .agg(sql.count("*").alias("rows"), sql.bit_xor("hash").alias("hash"))
    )
    footers = _rows_of(reader, [part._replace(columns=()) for part in parts], ignoring_damage=True)
    counted = footers.groupBy(_FILE).agg(sql.count("*").alias("footer"))
    both = counted.join(read, _FILE, "left").where("footer > coalesce(rows, 0)").select(_FILE, "hash")
    short = {plain(unquote(row[_FILE])) for row in both.collect()}
    return [file for part in parts for file in part.files if plain(file) in short]


def _rows_of(reader: Callable[[], DataFrameReader], parts: Sequence[FilePart], *, ignoring_damage: bool) -> DataFrame:
    """A row for each row of the files: the file, and a hash of the columns, for which Spark has to read them."""
    tables = []
    for part in parts:
        rows = reader().option("ignoreCorruptFiles", ignoring_damage).schema(part.schema).load(list(part.files))
        file = rows.metadataColumn("_metadata")["file_path"].alias(_FILE)
        columns = [quoted(name) for name in part.columns] or [sql.lit(0)]
        tables.append(rows.select(file, sql.xxhash64(*columns).alias("hash")))
    return reduce(DataFrame.union, tables)
