"""What opening refuses, each with the path and what to do; versions; identity."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from palio.errors import CallerError, InvalidValueError
from palio.store import (
    Batch,
    DamagedStoreError,
    NewerStoreError,
    NoStoreError,
    Store,
    StoreInUseError,
    StorePathError,
    StoreSettings,
    WrongStoreError,
    files,
    schema,
)
from tests.store.conftest import FILLED, Rome


def test_the_store_of_another_server_is_refused(rome: Rome) -> None:
    rome.fill()
    with pytest.raises(WrongStoreError, match=r"rome\.db is the store of rome, and not of milan; give milan anoth"):
        rome.open(name="milan")
    with rome.open() as store:
        assert rome.contents(store) == FILLED


def test_two_at_a_time_are_refused(rome: Rome) -> None:
    with rome.open(), pytest.raises(StoreInUseError, match=rf"in use by process {os.getpid()}; stop"):
        rome.open()
    rome.open().close()


def test_another_process_is_refused_and_its_end_is_enough(rome: Rome) -> None:
    code = (
        "import sys\nfrom palio.store import Store\n"
        "store = Store.open(sys.argv[1], name='rome')\nprint('open', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(rome.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(StoreInUseError, match=f"process {other.pid}"):
            rome.open()
        other.send_signal(signal.SIGKILL)
    with rome.open() as store:
        assert store.damage == []


def test_a_link_leads_to_the_same_lock(rome: Rome, tmp_path: Path) -> None:
    rome.fill()
    (tmp_path / "link.db").symlink_to(rome.path)
    with rome.open(), pytest.raises(StoreInUseError):
        Store.open(tmp_path / "link.db", name="rome")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorePathError, match=r"is a folder; name a file in it, for example .*store\.db"):
        Store.open(tmp_path, name="rome")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorePathError, match="its folder does not exist: make it first, or mount its disk"):
        Store.open(tmp_path / "not" / "there.db", name="rome")


@pytest.mark.parametrize("content", [b"just some notes\n" * 100, b"SQLite format 3\0" + bytes(50_000)])
def test_other_files_are_refused_and_untouched(rome: Rome, content: bytes) -> None:
    rome.path.write_bytes(content)
    with pytest.raises(NoStoreError, match="give another path"):
        rome.open()
    assert rome.path.read_bytes() == content


def test_databases_of_others_are_refused(rome: Rome) -> None:
    connection = apsw.Connection(str(rome.path))
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = rome.path.read_bytes()
    with pytest.raises(NoStoreError, match="a database of something else"):
        rome.open()
    assert rome.path.read_bytes() == before


@contextmanager
def as_somebody() -> Iterator[None]:
    """Root may do everything: be somebody else for a while."""
    if os.getuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def elsewhere() -> Iterator[Rome]:
    """A folder that everybody can get to."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Rome(Path(folder, "rome.db"))


@pytest.mark.parametrize("mode", [0o400, 0o000])
def test_files_without_permission(elsewhere: Rome, mode: int) -> None:
    elsewhere.fill()
    elsewhere.path.parent.chmod(0o777)
    files.beside(elsewhere.path, ".lock").chmod(0o666)
    elsewhere.path.chmod(mode)
    before = elsewhere.path.read_bytes() if os.getuid() == 0 else None
    with (
        as_somebody(),
        pytest.raises(StorePathError, match="let the server's user read and write the file"),
    ):
        elsewhere.open()
    if before is not None:
        assert elsewhere.path.read_bytes() == before


def test_folders_without_permission(elsewhere: Rome) -> None:
    elsewhere.path.parent.chmod(0o555)
    with (
        as_somebody(),
        pytest.raises(StorePathError, match=f"{elsewhere.path} cannot be used .*Permission denied"),
    ):
        elsewhere.open()


def test_a_read_only_disk() -> None:
    with pytest.raises(StorePathError, match="cannot be used as a store"):
        Store.open("/proc/rome.db", name="rome")
    error = files.path_error(Path("rome.db"), OSError(errno.EROFS, "Read-only file system"))
    assert "the disk is read-only: mount it for writing, or give another path" in str(error)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="most_bytes of a store: -1"):
        StoreSettings(most_bytes=-1)


# -- versions ----------------------------------------------------------------------------------------------------------


def later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version in which state records have one more column, as a version to come might have."""
    later = schema.TABLES | {"note": "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"}

    def migrate(connection: apsw.Connection) -> None:
        connection.execute(later["note"])
        connection.execute("INSERT INTO note VALUES (1, 'migrated')")
        schema.write_meta(connection, schema.read_meta(connection))

    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "TABLES", later)
    monkeypatch.setitem(schema.MIGRATIONS, 1, migrate)


def test_an_earlier_version_is_migrated(rome: Rome, monkeypatch: pytest.MonkeyPatch) -> None:
    rome.fill()
    with monkeypatch.context() as patch:
        later_version(patch)
        for _ in range(2):
            with rome.open(incarnation=8) as store:
                assert rome.contents(store) == FILLED
                assert (store.damage, store.incarnation, store.is_new_incarnation) == ([], 7, False)
                assert store.check().damage == []
    before = rome.path.read_bytes()
    with pytest.raises(NewerStoreError, match=r"a later version of Palio \(store version 2; this one knows up to 1\)"):
        rome.open()
    assert rome.path.read_bytes() == before
    assert rome.asides() == []


def test_a_migration_is_done_or_not_begun(rome: Rome, monkeypatch: pytest.MonkeyPatch) -> None:
    rome.fill()
    with monkeypatch.context() as patch:
        later_version(patch)

        def failing(connection: apsw.Connection) -> None:
            connection.execute("CREATE TABLE half (id)")
            connection.execute("no SQL at all")

        patch.setitem(schema.MIGRATIONS, 1, failing)
        with pytest.raises(DamagedStoreError, match="could not be brought from store version 1 to 2"):
            rome.open()
    with rome.open() as store:
        assert rome.contents(store) == FILLED
        assert store.damage == []


def test_what_does_not_fit_is_refused(rome: Rome) -> None:
    with rome.open() as store:
        for batch in (Batch(entries=[(1, b"gap")]), Batch(entries=[(0, b"")]), Batch(trim=1)):
            with pytest.raises(CallerError):
                store.commit([batch])
        assert (store.first, store.next) == (0, 0)
