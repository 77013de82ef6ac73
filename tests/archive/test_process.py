"""The archiver as a process beside a store that is written to: killed at any moment, and with a disk that fails."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from palio.archive.errors import ArchiveError
from palio.archive.process import Follower, Happening
from palio.archive.progress import archived_up_to
from palio.archive.settings import ArchiveSettings
from palio.cli.main import palio
from palio.store import Batch, NoStoreError, Store
from tests.archive.logs import SERVER, ids, in_entries, some

DEADLINE = 60.0


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.005)


class Written:
    """A store into which a thread writes, as a server does; it is trimmed as far as it is archived."""

    def __init__(self, path: Path, archive: Path, entries: list[bytes]) -> None:
        self.archive = archive
        self._entries = entries
        self._store = Store.open(path, name=SERVER, incarnation=1)
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        for begin in range(0, len(self._entries), 10):
            batch = list(enumerate(self._entries[begin : begin + 10], begin))
            trim = min(archived_up_to(self.archive, 1), begin)
            self._store.commit([Batch(entries=batch, trim=max(trim, self._store.first))])

    def finish(self) -> None:
        self._thread.join(DEADLINE)
        self._store.close()


@contextmanager
def process(store: Path, folder: Path, *, most_bytes: int | None = None, **settings: Any) -> Iterator[Any]:
    """``python -m palio.archive`` as a server starts it; nothing larger than so many bytes can be written."""
    command = [sys.executable, "-m", "palio.archive"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        if most_bytes is not None:  # it does nothing before it has read the line
            resource.prlimit(started.pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
        assert started.stdin is not None
        started.stdin.write(json.dumps({"store": str(store), "path": str(folder), **settings}).encode() + b"\n")
        started.stdin.flush()
        try:
            yield started
        finally:
            started.kill()


def archive_the_rest(store: Path, folder: Path) -> None:
    """A start after which nothing happens any more."""
    Follower(store, folder, ArchiveSettings(), lambda _: None).once()


def happening(started: Any) -> Happening:
    return msgspec.json.decode(started.stdout.readline(), type=Happening)


def test_killed_at_any_moment(tmp_path):
    random = Random(11)
    notifications = some(10_000)
    folder = tmp_path / "archive"
    written = Written(tmp_path / "milan.db", folder, in_entries(notifications))
    kills = 0
    while archived_up_to(folder, 1) < 2_000:
        with process(tmp_path / "milan.db", folder, rows=random.choice([50, 500, 5_000]), seconds=0.02) as started:
            began = happening(started).progress
            assert began is not None
            until = began.next + random.randrange(400)
            wait_for(lambda: archived_up_to(folder, 1) >= min(until, 2_000))  # noqa: B023
            started.send_signal(signal.SIGKILL)
            kills += 1
        assert kills < 200
    written.finish()
    assert kills >= 5
    archive_the_rest(tmp_path / "milan.db", folder)
    assert ids(folder) == list(range(10_000))


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_the_server(tmp_path, how):
    """What was taken is written when standard input ends, as it does when the server is killed; or all are told to."""
    store = Store.open(tmp_path / "milan.db", name=SERVER)
    store.commit([Batch(entries=list(enumerate(in_entries(some(20)))))])
    with process(store.path, tmp_path / "archive", seconds=1_000) as started:
        assert happening(started).kind == "began"
        if how is None:
            started.stdin.close()
        else:
            started.send_signal(how)
        told = [happening(started), happening(started)]
        assert [each.kind for each in told] == ["wrote", "stopped"]
        assert started.wait(DEADLINE) == 0
    store.close()
    assert ids(tmp_path / "archive") == list(range(20))


def test_a_disk_without_room_is_told_and_tried_again(tmp_path):
    """Nothing but small files can be written: the error is real, and what was not archived is archived later."""
    notifications = some(5_000)
    store = Store.open(tmp_path / "milan.db", name=SERVER)
    store.commit([Batch(entries=list(enumerate(in_entries(notifications))))])
    with process(store.path, tmp_path / "archive", most_bytes=4_096, seconds=0.01) as started:
        assert happening(started).kind == "began"
        failed = happening(started)
        assert (failed.kind, "File too large; nothing is lost" in failed.problem) == ("failed", True)
        assert happening(started).kind == "began"  # it tries again
    assert ids(tmp_path / "archive") == []
    store.close()
    archive_the_rest(store.path, tmp_path / "archive")
    assert ids(tmp_path / "archive") == list(range(5_000))


def test_bad_settings_end_it(tmp_path):
    with process(tmp_path / "no.db", tmp_path, rows=0) as started:
        assert "archive.rows: 0 is less than 1" in happening(started).problem
        assert started.wait(DEADLINE) == 2


def test_another_store_at_the_same_place(tmp_path):
    """A backup that was put back while the archiver ran: it takes up the new one."""
    path, folder = tmp_path / "milan.db", tmp_path / "archive"
    told: list[Happening] = []
    with Store.open(path, name=SERVER, incarnation=1) as store:
        store.commit([Batch(entries=list(enumerate(in_entries(some(20)))))])
    stop = threading.Event()
    follower = Follower(path, folder, ArchiveSettings(seconds=0.01), told.append)
    thread = threading.Thread(target=follower.follow, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: archived_up_to(folder, 1) == 4)
        with Store.open(tmp_path / "other.db", name=SERVER, incarnation=2) as other:
            other.commit([Batch(entries=list(enumerate(in_entries(some(10, incarnation=2)))))])
        for suffix in ("", "-wal", "-shm"):
            if Path(f"{tmp_path}/other.db{suffix}").exists():
                Path(f"{tmp_path}/other.db{suffix}").replace(f"{path}{suffix}")
        wait_for(lambda: archived_up_to(folder, 2) == 2)
    finally:
        stop.set()
        thread.join(DEADLINE)
    assert ids(folder) == [*range(20), *range(10)]
    assert told[-1].kind == "stopped"


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "milan.db", name=SERVER, incarnation=1) as opened:
        opened.commit([Batch(entries=list(enumerate(in_entries(some(100)))))])
    return tmp_path / "milan.db"


def invoke(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(palio, ["archive", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_commands(store, tmp_path):
    folder = tmp_path / "archive"
    shown = invoke("run", "--store", store, "--to", folder, "--once", "--rows", 30)
    assert "archived at position 20: 100 notifications so far" in shown
    assert "archive of milan, up to position 20 of incarnation 1" in invoke("show", folder)
    told = json.loads(invoke("show", folder, "--json"))
    assert (told["rows"], told["files"], told["problems"]) == (100, 8, [])
    assert json.loads(invoke("compact", folder, "--json"))["files_after"] == 2
    files = invoke("show", folder, "--files").split()
    assert len(files) == 2
    assert json.loads(invoke("show", folder, "--files", "--json")) == files
    assert "8 files that were replaced before are gone" in invoke("compact", folder, "--grace-seconds", 0)
    assert ids(folder) == list(range(100))
    removed = invoke("run", "--store", store, "--to", folder, "--once", "--keep-rows", 1)
    assert "removed 100 old notifications" in removed
    assert ids(folder) == []


def test_commands_say_what_is_wrong(store, tmp_path):
    assert "is no store of a server" in invoke("run", "--store", __file__, "--to", tmp_path / "a", "--once", code=2)
    assert "archive.rows: -1 is less than 1" in invoke("run", "--store", store, "--to", tmp_path, "--rows", -1, code=2)
    (tmp_path / "empty").mkdir()
    assert "no archive" in invoke("show", tmp_path / "empty", code=2)
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="nothing is lost as long as the log keeps it"):
        Follower(store, tmp_path / "file" / "a", ArchiveSettings(), lambda _: None).once()
    with pytest.raises(NoStoreError):
        Follower(Path(__file__), tmp_path / "b", ArchiveSettings(), lambda _: None).once()
    invoke("run", "--store", store, "--to", tmp_path / "a", "--once")
    next((tmp_path / "a").glob("*/*1of2.parquet")).unlink()
    assert "files are missing of positions 0 to 19" in invoke("show", tmp_path / "a", code=1)
