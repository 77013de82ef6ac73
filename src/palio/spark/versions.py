"""Where filters come from that change while a stream runs: sources that have versions."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from palio.errors import CallerError, brief
from palio.spark.filters import read_filters
from palio.spark.places import DONE, Entry, entries, exists, find

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class FilterSource(Protocol):
    """Where filters come from that change now and then."""

    def newest(self) -> str:
        """The version that is to be used now."""

    def read(self, version: str) -> DataFrame:
        """The filters of a version, as a table of ``id`` and ``text``."""


class FilterDirectory:
    """A directory of versions, of which the greatest name counts: numbers by their value, others by their letters.

    A version is a file of filters, which has to be moved into the directory when it is complete, or a folder that Spark
    has written. Names that begin with a dot or an underscore are passed over.
    """

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._session = session
        self._path = os.fspath(path).rstrip("/")
        found = find(session, self._path)
        if found is None or not found.is_folder:
            raise CallerError(f"filters: there is no directory {brief(self._path)}")

    def newest(self) -> str:
        """The name of the newest version that is complete."""
        names = [entry.name for entry in entries(self._session, self._path) if self._is_complete(entry)]
        if not names:
            raise CallerError(f"filters: no version in {brief(self._path)}: no file, and no folder with {DONE}")
        return max(names, key=_version_order)

    def read(self, version: str) -> DataFrame:
        """The filters of a version."""
        return read_filters(self._session, f"{self._path}/{version}")

    def _is_complete(self, entry: Entry) -> bool:
        if entry.name.startswith((".", "_")):
            return False
        return not entry.is_folder or exists(self._session, f"{self._path}/{entry.name}/{DONE}")


class FilterFile:
    """One file of filters, read again when it was replaced; move the new one into its place when it is complete."""

    def __init__(self, session: SparkSession, path: str | os.PathLike[str]) -> None:
        self._session = session
        self._path = os.fspath(path)
        self.newest()

    def newest(self) -> str:
        """When the file was changed."""
        found = find(self._session, self._path)
        if found is None:
            raise CallerError(f"filters: there is no file {brief(self._path)}")
        if found.is_folder:  # some file systems do not know when
            found = find(self._session, f"{self._path}/{DONE}") or found
        return (_BEGIN + timedelta(milliseconds=found.modified)).strftime("%Y-%m-%dT%H-%M-%S.%fZ")

    def read(self, version: str) -> DataFrame:  # noqa: ARG002 (there is no other)
        """The filters that are there now."""
        return read_filters(self._session, self._path)


class FilterTable:
    """A table with a column of versions, of which the greatest counts; its other columns are ``id`` and ``text``."""

    def __init__(self, session: SparkSession, table: str, version: str = "version") -> None:
        self._session = session
        self._table = table
        self._version = version

    def newest(self) -> str:
        """The greatest version in the table, as text."""
        self._session.catalog.refreshTable(self._table)
        greatest = self._session.table(self._table).agg(sql.max(self._version).cast("string").alias("newest")).collect()
        if greatest[0]["newest"] is None:
            raise CallerError(f"filters: table {brief(self._table)} has no rows with a version")
        return str(greatest[0]["newest"])

    def read(self, version: str) -> DataFrame:
        """The filters of a version."""
        rows = self._session.table(self._table)
        return rows.where(sql.col(self._version).cast("string") == version).select("id", "text")


def version_folder(version: str) -> str:
    """The folder for what belongs to a version, escaped as Spark escapes the values of partitions."""
    return "version=" + re.sub(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]", lambda found: f"%{ord(found[0]):02X}", version)


def _version_order(name: str) -> tuple[bool, int, str]:
    digits = name.partition(".")[0].lstrip("v")
    return (False, int(digits), name) if digits.isdecimal() else (True, 0, name)
