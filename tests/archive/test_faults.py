"""Whatever the disk does, and whenever the process ends: afterwards everything is there, once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from palio.archive import reading
from palio.archive.archiver import Archiver
from palio.archive.compaction import compact
from palio.archive.disk import Disk
from palio.archive.retention import retain
from palio.archive.settings import ArchiveSettings
from palio.archive.show import summary
from palio.model import Notification
from tests.archive.faults import HOW, FaultyDisk, How, KilledError
from tests.archive.logs import ListedLog, ids, in_entries, published, some

LOG = in_entries(some(60))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lasts is a matter of :class:`FaultyDisk` here; to wait for the real disk a thousand times proves nothing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


every_fault = pytest.mark.parametrize("how", HOW)
SMALL = ArchiveSettings(rows=20, grace_seconds=0)


def archive(disk: Disk, log: ListedLog | None = None, settings: ArchiveSettings = SMALL) -> None:
    with Archiver(log or ListedLog(LOG), disk, settings) as archiver:
        while archiver.step():
            pass
        archiver.write()


def faulty(tmp_path: Path, how: How) -> Iterator[FaultyDisk]:
    """A disk that fails at the first step, one that fails at the second, and so on; each with a folder of its own."""
    for step in range(1_000):
        yield FaultyDisk(tmp_path / str(step), step, how)
    raise AssertionError("it never ends")


def left_over(folder: Path) -> list[str]:
    known = {"_progress.json", "_archiver.lock", "_maintenance.lock"}
    return [path.name for path in folder.iterdir() if path.is_file() and path.name not in known]


@every_fault
def test_archiving(tmp_path, how):
    steps = 0
    for disk in faulty(tmp_path, how):
        try:
            archive(disk)
        except (OSError, KilledError):
            steps += 1
        else:
            break
        seen = ids(disk.folder) if disk.folder.exists() else []
        assert len(set(seen)) == len(seen)  # who reads meanwhile sees nothing twice
        archive(Disk(disk.folder))
        assert ids(disk.folder) == list(range(60))
        assert summary(disk.folder).is_whole
        assert not left_over(disk.folder)
    assert steps > 30


@every_fault
def test_two_faults_in_a_row(tmp_path, how):
    """The second one while it recovers from the first."""
    for first in range(3, 30, 8):
        for second in range(0, 14, 2):
            folder = tmp_path / f"{first}-{second}"
            for step in (first, second):
                with pytest.raises((OSError, KilledError)):
                    archive(FaultyDisk(folder, step, how))
            archive(Disk(folder))
            assert ids(folder) == list(range(60))


@pytest.mark.parametrize("parity", range(2))
def test_power_is_lost_while_it_recovers_from_a_kill(tmp_path, parity):
    """What the process before has not synced is lost then, too."""
    losses = 0
    for first in range(1 + parity, 40, 2):
        for second in range(8):
            folder = tmp_path / f"{first}-{second}"
            killed = FaultyDisk(folder, first, "kill")
            with pytest.raises(KilledError):
                archive(killed)
            try:
                archive(FaultyDisk(folder, second, "power", killed))
            except KilledError:
                losses += 1
            archive(Disk(folder), settings=ArchiveSettings(rows=35))  # not the same files once more
            assert ids(folder) == list(range(60)), (first, second)
    assert losses > 100


@every_fault
def test_compaction(tmp_path, how):
    steps = 0
    for disk in faulty(tmp_path, how):
        archive(Disk(disk.folder))
        try:
            compact(disk, SMALL)
            compact(disk, SMALL)
        except (OSError, KilledError):
            steps += 1
        else:
            break
        assert ids(disk.folder) == list(range(60))
        compact(Disk(disk.folder), SMALL)
        assert ids(disk.folder) == list(range(60))
        compact(Disk(disk.folder), SMALL)
        assert ids(disk.folder) == list(range(60))
        assert len(reading.files(disk.folder)) == len(Disk(disk.folder).files()) == 2
        assert not left_over(disk.folder)
    assert steps > 15


@pytest.mark.parametrize("second", range(6))
def test_what_compaction_had_begun_is_completed_as_it_was_begun(tmp_path, second):
    """With other settings meanwhile it would have another number of files, and what there is of them would be left."""
    kinds = [Notification({"x": number if number % 2 else "text", f"a{number // 20}": 1}) for number in range(60)]
    log = ListedLog(in_entries([published(each, number) for number, each in enumerate(kinds)]))
    narrow = ArchiveSettings(rows=20, grace_seconds=0, columns=2)
    for killed in faulty(tmp_path, "kill"):
        folder = killed.folder
        archive(Disk(folder), log)
        try:
            compact(killed, SMALL)
        except KilledError:
            with suppress(KilledError):  # and whoever goes on loses power, with what was not synced before
                compact(FaultyDisk(folder, second, "power", killed), SMALL)
            for _ in range(2):
                compact(Disk(folder), narrow)
            assert ids(folder) == list(range(60))
            assert len(reading.files(folder)) == len(Disk(folder).files())
        else:
            assert len(reading.files(folder)) == 2
            return


@every_fault
def test_retention(tmp_path, how):
    steps = 0
    keeping = ArchiveSettings(keep_rows=25)
    for disk in faulty(tmp_path, how):
        archive(Disk(disk.folder))
        try:
            retain(disk, keeping)
        except (OSError, KilledError):
            steps += 1
        else:
            break
        assert ids(disk.folder)[-20:] == list(range(40, 60))
        retain(Disk(disk.folder), keeping)
        assert ids(disk.folder) == list(range(40, 60))
        archive(Disk(disk.folder), ListedLog([*LOG, *in_entries(some(20, 60))]))
        assert ids(disk.folder) == list(range(40, 80))
    assert steps >= 6


def test_retention_of_what_was_compacted(tmp_path):
    """What the larger roll has replaced must not come back when that goes."""
    for step in range(40):
        disk = FaultyDisk(tmp_path / str(step), step, "kill")
        archive(Disk(disk.folder))
        compact(Disk(disk.folder), ArchiveSettings())
        assert len(Disk(disk.folder).files()) == 2 + 6
        try:
            retain(disk, ArchiveSettings(keep_rows=1))
        except KilledError:
            seen = ids(disk.folder)
            assert len(set(seen)) == len(seen)
            assert len(seen) in {60, 40, 20, 0}  # all, the one or the other file, nothing
        else:
            assert step > 8
            assert ids(disk.folder) == []
            return
    raise AssertionError("it never ends")


def test_the_archiver_goes_on_beside_compaction(tmp_path):
    """Compaction between any two steps of an archiver that is at work."""

    class Interrupted(Disk):
        def sync(self, name: str) -> None:
            super().sync(name)
            compact(Disk(self.folder), SMALL)

    archive(Interrupted(tmp_path))
    assert ids(tmp_path) == list(range(60))
    compact(Disk(tmp_path), SMALL)
    assert ids(tmp_path) == list(range(60))


def test_compaction_after_the_archiver_died(tmp_path):
    """It leaves alone what the archiver has to complete first."""
    for disk in faulty(tmp_path, "kill"):
        try:
            archive(disk)
        except KilledError:
            for _ in range(2 if disk.folder.exists() else 0):
                compact(Disk(disk.folder), SMALL)
        else:
            return
        archive(Disk(disk.folder))
        assert ids(disk.folder) == list(range(60))


def test_a_read_only_disk_is_told_and_nothing_is_lost(tmp_path):
    class ReadOnly(Disk):
        def create(self, name, fill):
            raise OSError(errno.EROFS, "Read-only file system", str(self.folder / name))

    archive(Disk(tmp_path), ListedLog(LOG[:4]))
    with pytest.raises(OSError, match="Read-only"):
        archive(ReadOnly(tmp_path))
    assert ids(tmp_path) == list(range(20))
    archive(Disk(tmp_path))
    assert ids(tmp_path) == list(range(60))
