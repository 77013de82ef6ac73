"""The few things that are done to files, in the order in which they survive a crash.

Everything that an archive changes goes through :class:`Disk`, so that tests can let each step fail.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from palio.archive.errors import ArchiveBusyError, ArchiveError


class Disk:
    """A folder, below which files come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # -- changes -----------------------------------------------------------------------------------------------------

    def create(self, name: str, fill: Callable[[BinaryIO], None]) -> None:
        """A new file, whatever was there before, whose content is on disk; its name may not be yet."""
        self.remove(name)  # perhaps a link to elsewhere
        with _open_own(self.folder / name, os.O_WRONLY | os.O_EXCL, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: str, new: str) -> None:
        """Another name for a file; :meth:`sync` makes it last."""
        (self.folder / old).replace(self.folder / new)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            (self.folder / name).unlink()

    def make_folder(self, name: str) -> None:
        """A folder below, which lasts, and which only its owner may enter if it is new."""
        folder = self.folder / name
        for each in (*reversed(folder.parents), folder):
            each.mkdir(mode=0o700, exist_ok=True)
        self.sync("")

    def remove_folder(self, name: str) -> None:
        """Remove a folder below, if nothing is in it."""
        with suppress(OSError):
            (self.folder / name).rmdir()

    def sync(self, name: str) -> None:
        """From now on the names in a folder last."""
        descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, name: str, content: bytes) -> None:
        """The file has this content from now on, or its old one: nothing in between, whatever happens."""
        folder, slash, last = name.rpartition("/")
        temporary = f"{folder}{slash}.{last}"
        self.create(temporary, lambda file: _write(file, content))
        self.rename(temporary, name)
        self.sync(folder)

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        """Rename files; what was renamed before is left as it is, so this may be done again.

        With their folders, what is beside those lasts from then on: that may be what says which files to move.
        """
        folders = {""}
        for old, new in moves:
            folder = new.rpartition("/")[0]
            if folder not in folders:
                self.make_folder(folder)
                folders.add(folder)
            if self.exists(old):
                self.rename(old, new)
            elif not self.exists(new):
                raise ArchiveError(f"{self.folder / new}: was about to be written, and is gone; look for {old}")
        for folder in sorted(folders, reverse=True):
            self.sync(folder)

    # -- looks -------------------------------------------------------------------------------------------------------

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.folder / name).exists()

    def read(self, name: str) -> bytes | None:
        """The content of a file, if it is there."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def files(self) -> list[str]:
        """What readers see: all files below, but for names that begin with a dot or an underscore."""
        found = []
        for folder, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            inside = Path(folder).relative_to(self.folder)
            found += [(inside / name).as_posix() for name in names if not name.startswith((".", "_"))]
        return sorted(found)

    def temporary(self, prefix: str) -> list[str]:
        """Files directly in the folder that begin so."""
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith(prefix))

    def size(self, name: str) -> int:
        """Bytes of a file; none if it is gone."""
        with suppress(FileNotFoundError):
            return (self.folder / name).stat().st_size
        return 0

    def named_at(self, name: str) -> float:
        """When a file got its name, in seconds since 1970."""
        found = (self.folder / name).stat()
        return max(found.st_mtime, found.st_ctime)  # where names do not count as a change, when it was written

    @contextmanager
    def lock(self, name: str, what: str) -> Iterator[None]:
        """Only one process does this at a time; another one is refused at once."""
        with _open_own(self.folder / name, os.O_RDWR | os.O_NONBLOCK, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArchiveBusyError(f"{self.folder}: another process {what}; wait for it, or stop it") from None
            yield


def _open_own(path: Path, flags: int, mode: Literal["wb", "r+b"]) -> BinaryIO:
    """A file that is made if it is not there, and that only its owner may read; never what a link points to."""
    try:
        file = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ArchiveError(f"{path} is a link; remove it, and see who has made it") from error
        raise
    return os.fdopen(file, mode)


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)
