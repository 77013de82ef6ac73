"""Copies of a store that is in use, and a store made of such a copy."""

from __future__ import annotations

from pathlib import Path

import apsw

from palio.store import files, reading, salvage, schema
from palio.store.check import Checked, Progress, check
from palio.store.damage import sign_of_damage, write_error
from palio.store.errors import DamagedStoreError, StorePathError
from palio.store.inspection import require_store

_STEP_PAGES = (4 << 20) // schema.PAGE_BYTES


def _silent(_done: int, _of: int) -> None:
    """Nobody wants to know."""


def backup(source: Path, target: Path, progress: Progress = _silent) -> Checked:
    """Copy a store, which a server may be writing to, into one file; it is checked before it gets its name.

    The copy is of one moment. Until it is made the server's WAL grows, because its pages are still needed. Opening the
    copy gives a new incarnation: a backup is old by definition.
    """
    source, target = files.existing(source), target.absolute()
    require_store(source)
    if target.exists():
        raise StorePathError(f"{target} exists already; give the backup another name")
    made = files.building(target)
    checked = _copy(source, made, progress)
    try:
        files.sync_file(made)
        files.rename(made, target)
        files.sync_folder(target.parent)
    except OSError as error:
        raise files.path_error(target, error) from error
    return checked


def restore(source: Path, path: Path, progress: Progress = _silent) -> Path | None:
    """Put a backup in place of a store that is not in use; the old one is kept, under the name that is returned."""
    source, path = files.existing(source), path.resolve()
    require_store(source)
    files.check_usable(path)
    lock = files.Lock(path)
    try:
        if files.finished(path).exists():
            salvage.install(path)  # that was interrupted, and is the store that is replaced now
        _copy(source, files.building(path), progress)
        aside = files.keep_aside(path, "replaced")
        files.finish(path)
        salvage.install(path)
    finally:
        lock.release()
    return aside


def _copy(source: Path, target: Path, progress: Progress) -> Checked:
    """A copy that is marked as one, and in order."""
    try:
        writer = files.new_database(target)
    except OSError as error:
        raise files.path_error(target, error) from error
    try:
        _copy_pages(source, writer, progress)

        with writer:
            schema.write_meta(writer, schema.read_meta(writer).changed(is_copy=True))
    except apsw.Error as error:
        system_errno = writer.system_errno
        writer.close()
        files.clean(target)
        raise write_error(target, error, system_errno) from error
    writer.close()
    checked = check(target)
    files.clean_beside(target)  # readers leave something there
    if checked.damage:
        files.clean(target)
        raise DamagedStoreError(
            f"{source} is damaged and was not copied: {'; '.join(str(each) for each in checked.damage[:5])}."
            " A server that opens it saves what can be saved"
        )
    return checked


def _copy_pages(source: Path, writer: apsw.Connection, progress: Progress) -> None:
    reader = reading.connect(source)
    try:
        with reading.snapshot(reader):  # one moment: what is written meanwhile does not count
            schema.read_meta(reader)
            with writer.backup("main", reader, "main") as copying:
                while not copying.done:
                    copying.step(_STEP_PAGES)
                    progress(copying.page_count - copying.remaining, copying.page_count)
    except (apsw.CorruptError, apsw.NotADBError, DamagedStoreError) as error:
        why = sign_of_damage(source, error)
        raise DamagedStoreError(f"{source}: {why}; a server that opens it saves what can be saved") from error
    finally:
        reader.close()
