"""The first page of a database that lost it: what it says follows from how stores are made.

A store's tables are made once, in one order, so their places in the file are always the same. A damaged file is read as
if it had the first page of a new store; the file itself stays as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack_into

import apsw

from palio.store import schema
from palio.store.schema import Meta

_FORMATS, _CHANGES, _PAGES, _FREE, _VALID_FOR = 18, 24, 28, 32, 92  # offsets in a database's header
_WITH_WAL = 2


def first_page(path: Path) -> bytes:
    """What the first page of a store's file has to say, as far as a reader needs it."""
    connection = apsw.Connection(":memory:")
    schema.create(connection, Meta("", 0))
    page = bytearray(connection.serialize("main")[: schema.PAGE_BYTES])
    connection.close()
    page[_FORMATS : _FORMATS + 2] = bytes((_WITH_WAL, _WITH_WAL))
    pack_into(">I", page, _PAGES, max(1, path.stat().st_size // schema.PAGE_BYTES))
    pack_into(">II", page, _FREE, 0, 0)
    pack_into(">I", page, _CHANGES, 1)
    pack_into(">I", page, _VALID_FOR, 1)
    return bytes(page)


class _RebuiltFile(apsw.VFSFile):
    """A file whose first page is another one, if it is a database."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        is_database = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB) and isinstance(name, apsw.URIFilename)
        self._page = first_page(Path(name.filename())) if is_database else b""  # type: ignore[union-attr]

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 (SQLite's name)
        data = super().xRead(amount, offset)
        shown = self._page[offset : offset + amount]
        return shown + data[len(shown) :]


class _Rebuilt(apsw.VFS):
    def __init__(self, name: str) -> None:
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _RebuiltFile(name, flags)


@cache
def rebuilding() -> str:
    """The name under which SQLite reads files so."""
    name = "palio-rebuilt-header"
    _keep.append(_Rebuilt(name))
    return name


_keep: list[apsw.VFS] = []  # SQLite knows them by their address
