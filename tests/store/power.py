"""Power losses below SQLite: all that a store does to files is recorded, and may be lost, torn or reordered.

What was synced is safe. Of the rest any part may have reached the disk, in pieces of a sector, in any order; names of
files are safe when their folder was synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

import apsw

from palio.store import files

_SECTOR = 512
Operation = tuple[Any, ...]


class RecordedFile(apsw.VFSFile):
    def __init__(self, journal: list[Operation], name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._name = Path(path).name
        self._journal = journal
        kinds = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        self._syncs_folder = bool(flags[0] & kinds) and bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        journal.append(("create", self._name))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's name)
        super().xWrite(data, offset)
        self._journal.append(("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._journal.append(("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._journal.append(("sync", self._name))
        if self._syncs_folder:  # what SQLite does for a journal that it has made
            self._journal.append(("sync folder",))
            self._syncs_folder = False


class Recorder(apsw.VFS):
    """The file system of a store, with a journal of all that happens to it."""

    def __init__(self, journal: list[Operation]) -> None:
        self._journal = journal
        super().__init__("recorder", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return RecordedFile(self._journal, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._journal.append(("remove", Path(filename).name))
        if syncdir:
            self._journal.append(("sync folder",))


@contextmanager
def recording() -> Iterator[list[Operation]]:
    """What is done to files within, by SQLite and beside it."""
    journal: list[Operation] = []
    default = apsw.vfs_names()[0]
    recorder = Recorder(journal)

    def noted(function: Callable[..., None], *describe: Callable[..., Operation]) -> Callable[..., None]:
        def wrapped(*given: Any) -> None:
            function(*given)
            journal.extend(each(*given) for each in describe)

        return wrapped

    replaced = {
        "create": noted(files.create, lambda path: ("create", path.name)),
        "rename": noted(files.rename, lambda source, target: ("rename", source.name, target.name)),
        "link": noted(files.link, lambda source, target: ("link", source.name, target.name)),
        "remove": noted(files.remove, lambda path: ("remove", path.name)),
        "sync_file": noted(files.sync_file, lambda path: ("sync", path.name)),
        "sync_folder": noted(files.sync_folder, lambda _folder: ("sync folder",)),
        "write_new": noted(
            files.write_new,
            lambda path, _data: ("create", path.name),
            lambda path, _data: ("truncate", path.name, 0),
            lambda path, data: ("write", path.name, 0, data),
            lambda path, _data: ("sync", path.name),
        ),
        "write_at": noted(files.write_at, lambda file, data, offset: ("write", _name_of(file), offset, data)),
    }
    try:
        with patch.multiple(files, **cast("dict[str, Any]", replaced)):
            yield journal
    finally:
        recorder.unregister()
        apsw.set_default_vfs(default)


def _name_of(file: int) -> str:
    return Path(f"/proc/self/fd/{file}").readlink().name


@dataclass
class Inode:
    """A file: what is safe of it, and what was done to it since."""

    safe: bytes = b""
    pending: list[Operation] = field(default_factory=list)

    def sync(self) -> None:
        content = bytearray(self.safe)
        for operation in self.pending:
            _apply(content, operation)
        self.safe, self.pending = bytes(content), []

    def after_loss(self, random: Random) -> bytes:
        """Any part of what was not synced, in any order; more often all, nothing, or a beginning of it."""
        content = bytearray(self.safe)
        pieces = [piece for operation in self.pending for piece in _pieces(operation)]
        match random.randrange(5):
            case 0:
                pieces = []
            case 1:
                pieces = pieces[: random.randrange(len(pieces) + 1)]
            case 2:
                share = random.random()
                pieces = [each for each in pieces if random.random() < share]
            case 3:
                pieces = [each for each in pieces if random.random() < 0.5]
                random.shuffle(pieces)
        for piece in pieces:
            _apply(content, piece)
        return bytes(content)


def _pieces(operation: Operation) -> Iterator[Operation]:
    if operation[0] != "write":
        yield operation
        return
    _, name, offset, data = operation
    begin = 0
    while begin < len(data):
        end = min(len(data), begin + _SECTOR - (offset + begin) % _SECTOR)
        yield "write", name, offset + begin, data[begin:end]
        begin = end


def _apply(content: bytearray, operation: Operation) -> None:
    match operation:
        case ("write", _, offset, data):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case ("truncate", _, size):
            del content[size:]
            content.extend(bytes(size - len(content)))


class Disk:
    """A folder on a disk that may lose its power at any moment."""

    def __init__(self, folder: Path | None = None) -> None:
        found = [each for each in folder.iterdir() if each.is_file()] if folder else []
        self._names = {each.name: Inode(each.read_bytes()) for each in found}
        self._safe_names = dict(self._names)
        self._pending: list[Operation] = []
        """What was done to names since the folder was synced, with the file it was done to."""

    def do(self, operation: Operation) -> None:
        """Something happens to it."""
        match operation:
            case ("create", name) if name not in self._names:
                self._names[name] = Inode()
                self._pending.append(("set", name, self._names[name]))
            case ("write" | "truncate", name, *_):
                self._names[name].pending.append(operation)
            case ("sync", name):
                self._names[name].sync()
            case ("remove", name) if name in self._names:
                del self._names[name]
                self._pending.append(("remove", name))
            case ("rename", source, target):
                self._names[target] = self._names.pop(source)
                self._pending.append(("rename", source, target, self._names[target]))
            case ("link", source, target):
                self._names[target] = self._names[source]
                self._pending.append(("set", target, self._names[target]))
            case ("sync folder",):
                self._safe_names, self._pending = dict(self._names), []

    def lose_power(self, folder: Path, random: Random) -> None:
        """What may then be found, as files in a folder."""
        names = dict(self._safe_names)
        share = random.choice((0.0, 0.5, 1.0))
        for operation in self._pending:
            if random.random() < share:
                match operation:
                    case ("set", name, inode):
                        names[name] = inode
                    case ("remove", name):
                        names.pop(name, None)
                    case ("rename", source, target, inode):
                        names.pop(source, None)
                        names[target] = inode
        folder.mkdir()
        contents = {id(inode): inode.after_loss(random) for inode in names.values()}
        for name, inode in names.items():
            if not name.endswith(("-shm", ".lock")):
                (folder / name).write_bytes(contents[id(inode)])
