"""Files wherever Spark can write, through Hadoop, because a place may be on any file system."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

DONE = "_SUCCESS"
"""Spark writes a file of this name when all others of a folder are there."""


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is such a file or folder."""
    system, place = _open(session, path)
    return bool(system.exists(place))


def delete(session: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all in it; if there is none, nothing happens."""
    system, place = _open(session, path)
    system.delete(place, True)


def _open(session: SparkSession, path: str) -> tuple[Any, Any]:
    context = session.sparkContext
    assert context._jvm is not None
    place = context._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(context._jsc.hadoopConfiguration()), place
