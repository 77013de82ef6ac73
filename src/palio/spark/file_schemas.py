"""Which columns each of many files has, found out for all of them together.

Spark can say this of one file at a time, and needs at least one job for it: with many small files that takes longer
than to match them. So files get a *signature* first: files of the same signature, below the same ``name=value``
folders, have the same columns. Spark is asked for one file of each kind, and for each file that has no signature
because something about it is unusual, for instance because it is damaged.
"""

from __future__ import annotations

import csv
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructType

EMPTY = "the file is empty"
"""The problem of a Parquet file without a byte. Files of text may be empty."""
_LOOKS = 8
"""Files that are looked at at the same time; that is mostly waiting."""
_FEW = 4
"""Files of JSON or CSV; fewer are not worth a job more, which reads them once."""
_TOGETHER = 500
"""Files of JSON whose columns are found out in one job."""
_REMEMBERED = 1000
"""Signatures whose columns are kept in mind from batch to batch."""
_MARKED = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata of a field whose type Spark replaces when it reads it."""


class _Kind(NamedTuple):
    """Files of one kind have the same columns."""

    signature: str
    partition: str
    """The folders that give columns."""


class FileSchemas:
    """Finds the columns of files, and remembers them for files of the same kind that come later."""

    def __init__(self, session: SparkSession, format: str, reader: Callable[[], DataFrameReader]) -> None:
        self._session = session
        self._format = format
        self._reader = reader
        self._known: dict[_Kind, StructType] = {}

    def read(self, files: Iterable[str]) -> Iterator[tuple[str, StructType | str]]:
        """For each file, in order, its columns, or the reason why it has none."""
        ordered = sorted(files)
        with ThreadPoolExecutor(_LOOKS) as pool:
            kinds = self._kinds(pool, ordered) if len(ordered) >= _FEW or self._format == "parquet" else {}
            firsts = {kind: file for file, kind in reversed(kinds.items()) if kind not in self._known}
            found = dict(pool.map(self._look, [*firsts.values(), *(file for file in ordered if file not in kinds)]))
            for kind, file in firsts.items():
                if isinstance(schema := found[file], StructType):
                    self._known[kind] = schema
            # a file that could not be read says nothing of others
            rest = [file for file, kind in kinds.items() if kind not in self._known and file not in found]
            found |= pool.map(self._look, rest)
        for file in ordered:
            yield file, found[file] if file in found else self._known[kinds[file]]
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _look(self, file: str) -> tuple[str, StructType | str]:
        """What Spark says of one file."""
        try:
            return file, self._reader().load([file]).schema
        except (PySparkException, Py4JJavaError) as error:
            told = reason(error)
            return file, EMPTY if self._format == "parquet" and "UNABLE_TO_INFER_SCHEMA" in told else told

    def _kinds(self, pool: ThreadPoolExecutor, files: Sequence[str]) -> dict[str, _Kind]:
        """The kinds of those files that have a signature."""
        try:
            signatures = self._signatures(pool, files)
        except (PySparkException, Py4JError):  # a file has gone, say; looking at each by itself tells which
            return {}
        kinds = {file: _Kind(signature, partition_of(file)) for file, signature in signatures.items()}
        if self._format == "parquet":
            self._understand(kinds.values())
        return kinds

    def _signatures(self, pool: ThreadPoolExecutor, files: Sequence[str]) -> dict[str, str]:
        match self._format:
            case "parquet":
                found = zip(files, pool.map(_Footers(self._session).schema, files), strict=True)
                return {file: signature for file, signature in found if signature is not None}
            case "json":
                parts = [files[begin : begin + _TOGETHER] for begin in range(0, len(files), _TOGETHER)]
                json_schemas = partial(_json_schemas, self._session, self._reader)
                return {file: schema for part in parts for file, schema in json_schemas(part).items()}
            case _:
                return _csv_shapes(self._session, files)

    def _understand(self, kinds: Iterable[_Kind]) -> None:
        """A footer says it all, unless Spark replaces types, adds columns or refuses names."""
        for kind in set(kinds):
            if kind in self._known or kind.partition or _MARKED in kind.signature:
                continue
            schema = StructType.fromJson(json.loads(kind.signature))
            if len({name.lower() for name in schema.names}) == len(schema.names):
                self._known[kind] = schema


def reason(error: Exception) -> str:
    """The message of an error of Spark, in one line."""
    text = str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)
    return text.strip().partition("\n")[0]


def partition_of(file: str) -> str:
    """The folders of the form ``name=value`` in which a file is.

    >>> partition_of("file:/data/a=1/events/b=2/x=5.parquet")
    'a=1/b=2'
    """
    return "/".join(part for part in file.split("/")[:-1] if "=" in part)


class _Footers:
    """The columns of Parquet files as their footers have them, read in the driver, without a job."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm
        state = session._jsparkSession.sessionState()
        parquet = jvm.org.apache.spark.sql.execution.datasources.parquet
        self._path = jvm.org.apache.hadoop.fs.Path
        self._configuration = state.newHadoopConf()
        self._filter = jvm.org.apache.parquet.format.converter.ParquetMetadataConverter.SKIP_ROW_GROUPS
        self._read_footer = jvm.org.apache.parquet.hadoop.ParquetFileReader.readFooter
        self._footer = jvm.org.apache.parquet.hadoop.Footer
        self._read_schema = parquet.ParquetFileFormat.readSchemaFromFooter
        self._converter = parquet.ParquetToSparkSchemaConverter(state.conf())

    def schema(self, file: str) -> str | None:
        """The columns of a file, as JSON; ``None`` if there is anything unusual about it."""
        path = self._path(file)
        try:
            footer = self._footer(path, self._read_footer(self._configuration, path, self._filter))
            return str(self._read_schema(footer, self._converter).asNullable().json())
        except Py4JJavaError:
            return None


def _json_schemas(session: SparkSession, reader: Callable[[], DataFrameReader], files: Sequence[str]) -> dict[str, str]:
    """The columns of files with an object a line, found out by Spark in one job, as if each file were an attribute.

    Each line is put into an object, under a name that stands for its file. So a file's columns are the fields of this
    attribute. A file with a line that is no JSON object is left out.
    """
    secret = uuid.uuid4().hex  # no line of a file can have it
    lines = _lines(session, files).where("trim(value) != ''")
    wrapped = lines.withColumn(
        "value", sql.concat(sql.lit(f'{{"{secret}'), "file", sql.lit('":'), "value", sql.lit("}"))
    )
    found = _fields(reader(), wrapped.select("value"))
    if not all(name.startswith(secret) for name in found):
        broken = wrapped.where("get_json_object(value, '$') is null").select("file").distinct().collect()
        wrapped = wrapped.where(~sql.col("file").isin([row["file"] for row in broken]))
        found = _fields(reader(), wrapped.select("value"))
    if not all(name.startswith(secret) for name in found):  # there is no telling which file it is
        return {}
    by_name = {unquote(name.removeprefix(secret)): type for name, type in found.items()}
    return {file: type.json() for file in files if isinstance(type := by_name.get(file), StructType)}


def _fields(reader: DataFrameReader, lines: DataFrame) -> dict[str, DataType]:
    """The attributes that lines of JSON have."""
    jvm: Any = lines.sparkSession.sparkContext._jvm
    texts = getattr(lines._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    schema = StructType.fromJson(json.loads(reader._jreader.json(texts).schema().json()))
    return {field.name: field.dataType for field in schema}


def _lines(session: SparkSession, files: Sequence[str]) -> DataFrame:
    """The lines of files, as ``value``, beside the ``file`` as a URI, in which nothing needs a quote."""
    rows = session.read.option("__globPaths__", "false").text(list(files))
    return rows.select(sql.col("_metadata.file_path").alias("file"), "value")


_SHAPES = "file string, shape string"
_SURE = {
    "integer": re.compile(r"-?\d{1,9}"),
    "long": re.compile(r"-?\d{11,18}"),
    "double": re.compile(r"-?\d{1,9}\.\d{1,9}"),
    "boolean": re.compile(r"true|false"),
    "text": re.compile(r"(?!(?i:nan|inf|infinity|true|false)$)[A-Za-z][^\"\\\s]*(?: [^\"\\\s]+)*"),
}
"""Values of CSV about whose type there is no doubt."""
_INSTANT = re.compile(r"[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
_SURE_TOGETHER = ({"integer", "long"}, {"integer", "double"})
_MOST_COLUMNS = 1000


def _csv_shapes(session: SparkSession, files: Sequence[str]) -> dict[str, str]:
    """For files of CSV the header with the kinds of values in each column; unusual files are left out."""
    found: dict[str, list[str | None]] = {}
    for row in _lines(session, files).mapInArrow(shapes, _SHAPES).collect():
        found.setdefault(unquote(row["file"]), []).append(row["shape"])
    return {file: shape for file in files for shape in found.get(file, [])[:1] if shape and len(found[file]) == 1}


def shapes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From lines of CSV files, one file after the other, the shape of each file, or null if it is unusual."""
    shape: CsvShape | None = None
    for batch in batches:
        lines = batch["value"].cast(pa.large_binary())  # they may be no UTF-8
        for file, line in zip(batch["file"].to_pylist(), lines.to_pylist(), strict=True):
            if shape is None or shape.file != file:
                if shape is not None:
                    yield shape.told()
                shape = CsvShape(file)
            shape.add_bytes(line)
    if shape is not None:
        yield shape.told()


class CsvShape:
    r"""What the lines of a file of CSV have in common.

    >>> shape = CsvShape("a.csv")
    >>> for line in ["k,x", "1,2.5", "2,"]:
    ...     shape.add(line)
    >>> shape.told().to_pylist()
    [{'file': 'a.csv', 'shape': 'k,x\ninteger\ndouble,empty'}]
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self._header: str | None = None
        self._columns: list[set[str]] = []
        self._is_usual = True

    def add_bytes(self, line: bytes) -> None:
        """Look at a line as it is in the file."""
        try:
            self.add(line.decode())
        except UnicodeDecodeError:
            self._is_usual = False

    def add(self, line: str) -> None:
        """Look at a line."""
        if not self._is_usual or not line.strip():
            return
        values = line.split(",")
        if self._header is None:
            values = next(csv.reader([line]))
            self._header = line
            self._columns = [set() for _ in values]
            self._is_usual = "\\" not in line and len(values) <= _MOST_COLUMNS
        elif len(values) != len(self._columns):
            self._is_usual = False
        else:
            for kinds, value in zip(self._columns, values, strict=True):
                kinds.add(_kind_of(value))

    def told(self) -> pa.RecordBatch:
        """The file and its shape as a row."""
        columns = [kinds - {"empty"} for kinds in self._columns]
        is_sure = all("unusual" not in kinds and (len(kinds) <= 1 or kinds in _SURE_TOGETHER) for kinds in columns)
        shape = "\n".join([self._header or "", *(",".join(sorted(kinds)) for kinds in self._columns)])
        told = shape if self._is_usual and is_sure else None
        return pa.RecordBatch.from_pydict(
            {"file": [self.file], "shape": pa.array([told], pa.string())},
            pa.schema({"file": pa.string(), "shape": pa.string()}),
        )


def _kind_of(value: str) -> str:
    """Which kind of value it is for sure, if one can tell."""
    if not value:
        return "empty"
    if len(value) > 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    for kind, pattern in _SURE.items():
        if pattern.fullmatch(value):
            return kind
    if _INSTANT.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return "unusual"
        return "time"
    return "unusual"
