"""Files of events as one table: what cannot be read of them is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from palio.errors import FileFormatError
from palio.spark.damaged_files import FilePart, damaged_files, skipped_text
from palio.spark.event_folder import (
    EventFolder,
    SkippedFile,
    event_reader,
    skipped_table,
    unreadable_file,
    whole_lines,
    with_broken_lines,
)
from palio.spark.file_schemas import EMPTY
from palio.spark.places import find


class TableFiles:
    """The events of files that Spark reads as one table, without broken lines and without damaged files.

    Damaged files are looked for when Spark fails because of one; so sound ones are read once. They are left out of
    folders only: of a single file nothing would be left, and for a pattern Spark alone knows what it means.
    """

    def __init__(self, session: SparkSession, path: str, format: str) -> None:
        self._session = session
        self._path = path
        self._format = format
        self._folder = EventFolder(session, path, format)
        is_pattern = any(character in path for character in "*?[{")
        found = None if is_pattern else find(session, path)
        self._is_folder = found is not None and found.is_folder
        self._left_out: list[SkippedFile] = []
        self._schema: StructType | None = None
        if self._is_folder and format == "parquet":
            self._left_out += [SkippedFile(file, EMPTY) for file in self._folder.empty_files()]
        try:
            self._take(lambda: event_reader(session, format), [path])
        except (PySparkException, Py4JJavaError) as error:
            if not self.leave_out(error, ()):
                raise

    @property
    def skipped(self) -> DataFrame | None:
        """The skipped files and lines: ``file``, ``record`` (of a line) and ``problem``."""
        return skipped_table(self._session, self._left_out, [] if self._lines is None else [self._lines])

    def leave_out(self, error: Exception, columns: Collection[str]) -> bool:
        """Leave out the files whose damage was the cause of an error, if there are such, and others like them."""
        if not self._is_folder:
            return False
        gone = {each.file for each in self._left_out}
        files = [file for file in self._folder.files() if file not in gone]
        same, skipped = self._folder.schemas(files)
        if self._format == "parquet":
            parts = [
                FilePart(each, schema, [name for name in schema.names if name in columns]) for each, schema in same
            ]
            skipped += damaged_files(self._folder.reader, parts)
        elif not skipped and (one := unreadable_file(error, files)) is not None:
            skipped.append(one)
        if not skipped:
            return False
        self._left_out += skipped
        left = [file for file in files if file not in {each.file for each in skipped}]
        if not left:
            raise FileFormatError(f"{self._path}: no file can be read; {skipped_text(self._left_out)}")
        self._take(self._folder.reader, left)
        return True

    def release(self) -> None:
        """Give back what Spark keeps."""
        if self._held is not None:
            self._held.unpersist()

    def _take(self, reader: Callable[[], DataFrameReader], paths: list[str]) -> None:
        if self._schema is None:
            self._schema = reader().load(paths).schema
        schema = with_broken_lines(self._schema, self._format)
        self.rows, self._lines, self._held = whole_lines(reader().schema(schema).load(paths), self._format)
