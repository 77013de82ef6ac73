"""Files wherever Spark can read and write, through Hadoop, because a place may be on any file system."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from palio.errors import CallerError, brief

DONE = "_SUCCESS"
"""Spark writes a file of this name when all others of a folder are there, unless it is configured not to."""
_BLOCK = 1 << 23
"""Bytes that are read at a time."""


class Entry(NamedTuple):
    """A file or folder."""

    name: str
    is_folder: bool
    modified: int
    """Milliseconds since 1970."""


def exists(session: SparkSession, path: str) -> bool:
    """Whether there is such a file or folder."""
    with _readable_errors(path):
        system, place = _open(session, path)
        return bool(system.exists(place))


def delete(session: SparkSession, path: str) -> None:
    """Delete a file, or a folder with all in it; if there is none, nothing happens."""
    with _readable_errors(path):
        system, place = _open(session, path)
        system.delete(place, True)


def find(session: SparkSession, path: str) -> Entry | None:
    """The file or folder of this name, if there is one."""
    with _readable_errors(path):
        system, place = _open(session, path)
        return _entry(system.getFileStatus(place)) if system.exists(place) else None


def entries(session: SparkSession, folder: str) -> list[Entry]:
    """The files and folders in a folder."""
    with _readable_errors(folder):
        system, place = _open(session, folder)
        return [_entry(status) for status in system.listStatus(place)]


def steps_below(session: SparkSession, path: str, folder: str) -> tuple[str, ...] | None:
    """The names on the way from a folder to a path, none if it is the folder itself; ``None`` if it is not below."""
    with _readable_errors(path):
        (system, place), (_, above) = _open(session, path), _open(session, folder)
        place, above = system.makeQualified(place), system.makeQualified(above)
        steps: list[str] = []
        while place is not None:
            if place.equals(above):
                return tuple(reversed(steps))
            steps.append(str(place.getName()))
            place = place.getParent()
        return None


def read(session: SparkSession, path: str) -> bytes:
    """The content of a file."""
    with _readable_errors(path):
        system, place = _open(session, path)
        stream = system.open(place)
        try:
            return b"".join(iter(lambda: bytes(stream.readNBytes(_BLOCK)), b""))
        finally:
            stream.close()


def write(session: SparkSession, path: str, content: bytes) -> None:
    """Write a file, or replace it: other readers see all of the new content, or nothing of it."""
    folder, _, name = path.rpartition("/")
    beside = f"{folder}/.{name}.{uuid.uuid4().hex}"
    with _readable_errors(path):
        system, place = _open(session, path)
        _, new = _open(session, beside)
        stream = system.create(new, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        if not system.rename(new, place):  # not all file systems replace a file
            system.delete(place, False)
            if not system.rename(new, place):
                system.delete(new, False)
                raise CallerError(f"{brief(path)} cannot be written: its file system does not rename {brief(beside)}")


@contextmanager
def _readable_errors(path: str) -> Iterator[None]:
    """Errors of the file system as errors of the caller, in a line."""
    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        reason = str(java.getMessage() or java.getClass().getSimpleName()).strip().partition("\n")[0]
        kind = java.getClass().getSimpleName()
        raise CallerError(f"{brief(path)} cannot be read or written: {kind}: {reason}") from error
    except (Py4JError, PySparkException) as error:
        raise CallerError(f"{brief(path)} cannot be read or written: {error}") from error


def _entry(status: Any) -> Entry:
    return Entry(str(status.getPath().getName()), bool(status.isDirectory()), int(status.getModificationTime()))


def _open(session: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = session.sparkContext._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    if is_instance_of(session.sparkContext._gateway, system, "org.apache.hadoop.fs.LocalFileSystem"):
        system = system.getRaw()  # which takes any name, and makes no files of checksums beside
    return system, place
