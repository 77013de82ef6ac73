"""Files around the database: the lock, names, and steps that a power loss cannot tear.

Whatever the store does to files other than through SQLite, it does here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path

import apsw

from palio.store.errors import StoreError, StoreInUseError, StorePathError

_WAL, _SHARED = "-wal", "-shm"


def beside(path: Path, suffix: str) -> Path:
    """A file that belongs to a store.

    >>> beside(Path("/data/rome.db"), ".witness").name
    'rome.db.witness'
    """
    return path.with_name(path.name + suffix)


def building(path: Path) -> Path:
    """Where a new database is made; whatever lies there is not finished."""
    return beside(path, ".building")


def finished(path: Path) -> Path:
    """Where a new database waits that is complete and is to take the place of the old one."""
    return beside(path, ".new")


def wal(path: Path) -> Path:
    """Where SQLite keeps commits that are not in the database yet."""
    return beside(path, _WAL)


def size(path: Path) -> int:
    """Bytes of a store's files. They are not opened: closing them would end SQLite's own locks."""
    found = 0
    for each in (path, wal(path)):
        with contextlib.suppress(FileNotFoundError):
            found += each.stat().st_size
    return found


class Lock:
    """Nobody else opens the same store meanwhile; it ends with the process, whatever that dies of."""

    def __init__(self, path: Path) -> None:
        self._path = beside(path, ".lock")
        try:
            self._file = _open_own(self._path)
        except OSError as error:
            raise path_error(path, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
            os.close(self._file)
            if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise path_error(path, error) from error
            raise StoreInUseError(
                f"{path} is in use by process {holder or '(unknown)'}; stop that server first, or give another path"
            ) from error
        with contextlib.suppress(OSError):  # for messages alone, and the disk may be full
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others open it."""
        os.close(self._file)


def _open_own(path: Path) -> int:
    """A small file of ours, made if it is not there: never what a link of that name points to, nor a pipe."""
    # opening a pipe would block without O_NONBLOCK
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorePathError(f"{path} is a link; remove it, and see who has made it") from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise StorePathError(f"{path} is no plain file; remove it, and see who has made it")
    return file


def path_error(path: Path, error: OSError) -> StoreError:
    """An error of the system, with what to do about it."""
    match error.errno:
        case errno.EACCES | errno.EPERM:
            remedy = "let the server's user read and write the file and its folder"
        case errno.EROFS:
            remedy = "the disk is read-only: mount it for writing, or give another path"
        case errno.ENOENT | errno.ENOTDIR:
            remedy = "its folder does not exist: make it first, or mount its disk"
        case errno.ENOSPC | errno.EDQUOT:
            remedy = "the disk is full: make room"
        case _:
            remedy = "see whether the disk is in order"
    return StorePathError(f"{path} cannot be used as a store: {error.strerror}; {remedy}")


def check_usable(path: Path) -> None:
    """Refuse what cannot be a store's path, before anything is touched."""
    if path.is_dir():
        raise StorePathError(f"{path} is a folder; name a file in it, for example {path / 'store.db'}")
    for each in (path, wal(path), beside(path, ".witness")):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK, effective_ids=True):
            code = errno.EROFS if os.statvfs(path.parent).f_flag & os.ST_RDONLY else errno.EACCES
            raise path_error(each, OSError(code, os.strerror(code)))


def new_database(path: Path) -> apsw.Connection:
    """An empty database that only its owner may read, in place of what was there."""
    clean(path)
    create(path)
    return apsw.Connection(str(path))


def create(path: Path) -> None:
    """An empty file that only its owner may read."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def existing(path: Path) -> Path:
    """The real path of a store that is only to be read; it is an error if there is none."""
    if not path.is_file():
        raise StorePathError(f"{path}: there is no such file; name the database of a store")
    return path.resolve()


def sync_folder(folder: Path) -> None:
    """Names in the folder are safe."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_file(path: Path) -> None:
    """What a closed file holds is safe."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a small file: whatever happens, either the old or the new one is there, complete."""
    temporary = beside(path, ".building")
    write_new(temporary, data)
    rename(temporary, path)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a small file, safely; not under a name that counts."""
    remove(path)  # what lies there was not finished; or somebody has put a link there
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def write_at(file: int, data: bytes, offset: int) -> None:
    """Overwrite a part of an open file, without syncing it."""
    os.pwrite(file, data, offset)


def rename(source: Path, target: Path) -> None:
    """Give a file another name, in place of what had it before."""
    source.replace(target)


def link(source: Path, target: Path) -> None:
    """A second name of a file."""
    try:
        target.hardlink_to(source)
    except OSError as error:
        raise StorePathError(
            f"{source} cannot be kept as {target.name}: {error.strerror}; copy the store's files elsewhere first"
        ) from error


def remove(path: Path) -> None:
    """Take a name away, if it is there."""
    path.unlink(missing_ok=True)


def keep_aside(path: Path, why: str) -> Path | None:
    """Second names for the database and its WAL, so that nothing of it is ever overwritten; the first of them.

    The files themselves are neither moved nor changed: they keep their old names until something takes their place.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = beside(path, f".{why}-{moment}")
    count = 1
    while aside.exists() or wal(aside).exists():
        count += 1
        aside = beside(path, f".{why}-{moment}-{count}")
    if not path.exists() and not wal(path).exists():
        return None
    for source, target in ((path, aside), (wal(path), wal(aside))):
        if source.exists() and (source == path or source.stat().st_size):  # looking at a store makes an empty WAL
            link(source, target)
    sync_folder(path.parent)
    return aside


def install(path: Path) -> None:
    """Put the finished database in place of the old one. It may be done again when it was interrupted."""
    for each in (path, finished(path)):
        clean_beside(each)
    sync_folder(path.parent)  # the old WAL must never be found beside the new database
    rename(finished(path), path)
    sync_folder(path.parent)


def suspect(path: Path) -> None:
    """SQLite found that pages do not fit together, in a place that is not looked at when a store is opened.

    So it is remembered, in a file of its own: whoever opens the store next salvages it.
    """
    with contextlib.suppress(OSError):  # the disk may be full; then it is found again
        write_whole(beside(path, ".suspect"), b"")


def is_suspect(path: Path) -> bool:
    """Whether that was found."""
    return beside(path, ".suspect").exists()


def clear(path: Path) -> None:
    """What was found is mended."""
    remove(beside(path, ".suspect"))


def clean(path: Path) -> None:
    """Remove a database that was being made, or that nobody needs any more, with all that belongs to it."""
    remove(path)
    clean_beside(path)


def clean_beside(path: Path) -> None:
    """Remove what SQLite keeps beside a database that nobody has open, and in which all is."""
    for suffix in (_WAL, _SHARED, "-journal"):
        remove(beside(path, suffix))


def finish(path: Path) -> None:
    """What is being made is complete: from here on it counts."""
    sync_file(building(path))
    rename(building(path), finished(path))
    sync_folder(path.parent)
