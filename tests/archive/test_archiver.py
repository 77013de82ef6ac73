"""What went into a log is in the archive: each notification once, in order, with its envelope, unchanged."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.archive import reading
from palio.archive.archiver import Archiver
from palio.archive.disk import Disk
from palio.archive.errors import ArchiveBusyError, ArchiveError, DamagedArchiveError
from palio.archive.progress import FILE, archived_up_to
from palio.archive.settings import ArchiveSettings
from palio.archive.show import summary
from palio.archive.tables import fold
from palio.codec import frames
from palio.model import Notification
from tests.archive.logs import BEGIN, ListedLog, archived, entry, ids, in_entries, logs, published, some, whole


def archive(log: ListedLog, folder: Path, settings: ArchiveSettings | None = None) -> Archiver:
    with Archiver(log, Disk(folder), settings) as archiver:
        while archiver.step():
            pass
        archiver.write()
    return archiver


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder of its own for each example."""
    with TemporaryDirectory() as name:
        yield Path(name) / "archive"


def columns(path: Path) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in pq.read_schema(path)}


# -- everything comes back ---------------------------------------------------------------------------------------------


@given(logs(), st.integers(1, 8), st.integers(1, 4), st.integers(1, 6), st.sampled_from([1, 2_000, 1 << 20]))
def test_round_trip(log, rows, tables, width, bytes):
    """However little may be in a file: as many files as it takes."""
    entries, own = log
    settings = ArchiveSettings(rows=rows, tables=tables, columns=width, bytes=bytes)
    with temporary() as folder:
        archive(ListedLog(entries), folder, settings)
        assert archived(folder) == [whole(each) for each in own]


@given(logs())
def test_each_file_is_an_event_table(log):
    """One type a column, no names that differ in case alone unless in one notification, and no more than is allowed."""
    entries, own = log
    clashing = any(len({fold(name) for name in each}) < len(each) for each in own)
    with temporary() as folder:
        archive(ListedLog(entries), folder, ArchiveSettings(columns=7))
        for path in reading.files(folder):
            names = list(columns(path))
            envelope, payload = reading.beside(pq.read_schema(path), path)
            assert names[-2:] == [envelope, payload]
            assert names[:-2] == sorted(names[:-2])
            assert len(names) <= 7 + 2
            assert clashing or len(set(map(fold, names))) == len(names)


def test_types_that_change_make_several_files(tmp_path):
    mixed = [published(Notification(x=value), n) for n, value in enumerate([1, "one", 1.0, True, b"1", BEGIN] * 3)]
    archive(ListedLog([entry(mixed)]), tmp_path)
    found = sorted(str(columns(path)["x"]) for path in reading.files(tmp_path))
    assert found == ["binary", "bool", "double", "int64", "string", "timestamp[us, tz=UTC]"]
    assert archived(tmp_path) == [whole(each) for each in mixed]


def test_attributes_may_be_called_like_our_own_columns(tmp_path):
    odd = [published(Notification({"_PALIO": 1, "_payload": "p", "origin": 2}).with_payload(b"!"), 0)]
    archive(ListedLog([entry(odd)]), tmp_path)
    (path,) = reading.files(tmp_path)
    assert list(columns(path)) == ["_PALIO", "_payload", "origin", "__palio", "__payload"]
    assert archived(tmp_path) == [whole(each) for each in odd]


def test_many_names_have_a_bound_in_columns(tmp_path):
    wide = [published(Notification({f"a{n}": n, f"b{n}": n}), n) for n in range(100)]
    archive(ListedLog([entry(wide)]), tmp_path, ArchiveSettings(columns=20))
    assert max(len(columns(path)) for path in reading.files(tmp_path)) == 20 + 2
    assert archived(tmp_path) == [whole(each) for each in wide]


def test_notifications_that_do_not_go_together_have_a_bound_in_memory(tmp_path):
    """More kinds than tables: those in the way are written before, and all of it is one roll."""
    kinds = [Notification({f"x{bit}": 1 if n >> bit & 1 else "1" for bit in range(6)}) for n in range(64)]
    mixed = [published(each, n) for n, each in enumerate(kinds)]
    archiver = archive(ListedLog([entry(mixed)]), tmp_path, ArchiveSettings(tables=4))
    assert archiver.progress.figures.rolls == 1
    assert len(reading.files(tmp_path)) == 64
    assert archived(tmp_path) == [whole(each) for each in mixed]


# -- where files go, and when ------------------------------------------------------------------------------------------


def test_days_have_folders(tmp_path):
    log = [
        entry(some(2), BEGIN),
        entry(some(2, 2), BEGIN + timedelta(hours=13, minutes=59)),
        entry(some(2, 4), BEGIN + timedelta(days=1)),
    ]
    archive(ListedLog(log), tmp_path)
    assert {path.parent.name for path in reading.files(tmp_path)} == {"2026-11-16", "2026-11-17"}
    assert [day.rows for day in summary(tmp_path).days] == [4, 2]


def test_rolls_by_rows_bytes_and_seconds(tmp_path):
    log, clock = ListedLog(in_entries(some(50))), [0.0]
    with Archiver(log, Disk(tmp_path), ArchiveSettings(rows=20, seconds=10), clock=lambda: clock[0]) as archiver:
        archiver.step()
        assert archiver.progress.next == 8
        clock[0] = 9.9
        archiver.step()
        assert archiver.progress.next == 8
        clock[0] = 10.0
        archiver.step()
        assert archiver.progress.next == 10
    by_bytes = archive(ListedLog(in_entries(some(5_000), 50)), tmp_path / "other", ArchiveSettings(bytes=100_000))
    assert by_bytes.progress.figures.rolls > 5


def test_progress_without_anything_to_archive(tmp_path):
    """Entries with what came from elsewhere: no file, but the log may be trimmed."""
    archiver = archive(ListedLog(in_entries(some(10, origin="rome"))), tmp_path)
    assert reading.files(tmp_path) == []
    assert archived_up_to(tmp_path, 1) == 2
    assert archiver.progress.figures.foreign == 10
    assert archived_up_to(tmp_path, 2) == 0
    assert archived_up_to(tmp_path / "nowhere", 1) == 0


# -- going on ----------------------------------------------------------------------------------------------------------


def test_going_on_where_it_was(tmp_path):
    log = ListedLog(in_entries(some(20)))
    archive(log, tmp_path)
    log.append(*in_entries(some(20, 20)))
    log.trim(archived_up_to(tmp_path, 1))
    archive(log, tmp_path)
    archive(log, tmp_path)
    assert ids(tmp_path) == list(range(40))
    assert summary(tmp_path).is_whole


def test_what_may_still_be_lost_is_not_archived_yet(tmp_path):
    """After a power loss its positions are given to something else."""
    log = ListedLog(in_entries(some(40)))
    log.meta.unsynced = 3
    assert archive(log, tmp_path).progress.next == 5
    log.entries[5:], log.meta.next, log.meta.unsynced = in_entries(some(10, 25)), 7, 0
    archive(log, tmp_path)
    assert ids(tmp_path) == list(range(35))


def test_what_was_trimmed_too_early_is_told(tmp_path, caplog):
    log = ListedLog(in_entries(some(20)))
    archive(log, tmp_path)
    log.append(*in_entries(some(40, 20)))
    log.trim(7)
    with caplog.at_level(logging.ERROR):
        archiver = archive(log, tmp_path)
    assert "positions 4 to 6 were trimmed" in caplog.text
    assert archiver.progress.figures.missing == 3
    assert ids(tmp_path) == [*range(20), *range(35, 60)]
    newest = pq.read_metadata(reading.files(tmp_path)[-1]).metadata
    assert json.loads(newest[b"palio.gaps"]) == [[1, 4, 6]]
    told = summary(tmp_path)
    assert not told.is_whole
    assert told.problems == ("positions 4 to 6 were trimmed from the log before they were archived: lost",)


def test_trimming_while_it_reads(tmp_path):
    """The log may be trimmed between two looks at it."""
    log = ListedLog(in_entries(some(40)))
    with Archiver(log, Disk(tmp_path)) as archiver:
        log.entries, kept = log.entries[:2], log.entries
        log.meta.next = 2
        archiver.step()
        log.entries, log.meta.next = kept, 8
        log.trim(5)
        archiver.step()
        archiver.write()
    assert ids(tmp_path) == [*range(10), *range(25, 40)]
    assert [span.first for span in archiver.progress.gaps] == [2]


def test_damaged_entries_are_kept_aside(tmp_path, caplog):
    good, bad = in_entries(some(15)), b"\0\0\0\1\xc1 no entry"
    half = entry(some(2, 15), extra=[frames.frame(frames.DELIVER, b"\0\1\xc1"), frames.deliver(some(1, 17)[0])])
    torn = entry(some(1, 18)) + b"\0\0\0\x20"
    log = ListedLog([good[0], b"", good[1], bad, good[2], half, torn])
    archiver = archive(log, tmp_path)
    assert ids(tmp_path) == list(range(19))
    assert [span.first for span in archiver.progress.damaged] == [1, 3, 5, 6]
    kept = {path.name: path.read_bytes() for path in (tmp_path / "_damaged").iterdir()}
    assert kept == {"1-3.entry": bad, "1-5.entry": half, "1-6.entry": torn}
    assert "position 1 cannot be archived" in caplog.text
    assert "position 6 cannot be archived as a whole: the frame at byte" in caplog.text
    assert len(summary(tmp_path).problems) == 4


def test_a_log_that_was_put_back(tmp_path):
    """A store restored from a backup has a new incarnation, and positions that were there before."""
    log = ListedLog(in_entries(some(40)))
    archive(log, tmp_path)
    before = in_entries(some(20))  # the backup
    later = in_entries(some(20, incarnation=2))
    archiver = archive(ListedLog([*before, *later], incarnation=2), tmp_path)
    assert archiver.progress.figures.repeated == 20
    found = [each.envelope.id for each in reading.notifications(tmp_path) if each.envelope is not None]
    assert [(id.incarnation, id.sequence) for id in found] == [(1, n) for n in range(40)] + [(2, n) for n in range(20)]
    assert archived_up_to(tmp_path, 2) == 8


def test_a_log_that_lost_its_beginning(tmp_path):
    archive(ListedLog(in_entries(some(20))), tmp_path)
    archiver = archive(ListedLog(in_entries(some(5, incarnation=2)), incarnation=2, first=6), tmp_path)
    assert [(span.incarnation, span.first, span.last) for span in archiver.progress.gaps] == [(1, 4, 5)]
    assert len(ids(tmp_path)) == 25


def test_logs_that_do_not_belong_here(tmp_path):
    archive(ListedLog(in_entries(some(20)), incarnation=5), tmp_path)
    with pytest.raises(ArchiveError, match="archive of the server 'milan', not of 'rome'; use another folder"):
        archive(ListedLog(name="rome", incarnation=5), tmp_path)
    with pytest.raises(ArchiveError, match="the log ends at 1"):
        archive(ListedLog(in_entries(some(5)), incarnation=5), tmp_path)
    with pytest.raises(ArchiveError, match="old copy"):
        archive(ListedLog(in_entries(some(20)), incarnation=4), tmp_path)


def test_one_archiver_at_a_time(tmp_path):
    with Archiver(ListedLog(), Disk(tmp_path)), pytest.raises(ArchiveBusyError, match="another process archives"):
        archive(ListedLog(), tmp_path)
    archive(ListedLog(in_entries(some(5))), tmp_path)
    assert ids(tmp_path) == list(range(5))


# -- damaged archives --------------------------------------------------------------------------------------------------


def test_progress_is_found_anew_from_names(tmp_path):
    log = ListedLog(in_entries(some(20)))
    archive(log, tmp_path, ArchiveSettings(rows=10))
    (tmp_path / FILE).unlink()
    assert summary(tmp_path).problems == (f"{FILE} is missing; the archiver finds out anew how far it was",)
    log.append(*in_entries(some(10, 20)))
    archive(log, tmp_path)
    assert ids(tmp_path) == list(range(30))


def test_missing_files_are_not_papered_over(tmp_path):
    log = ListedLog(in_entries(some(20)))
    archive(log, tmp_path)
    reading.files(tmp_path)[0].unlink()
    assert summary(tmp_path).problems == ("files are missing of positions 0 to 3",)
    assert len(ids(tmp_path)) < 20
    archive(log, tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(DamagedArchiveError, match="so are files of positions 0 to 3"):
        archive(log, tmp_path)


def test_damaged_progress_is_refused(tmp_path):
    archive(ListedLog(in_entries(some(20))), tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(
            DamagedArchiveError, match=r"remove it, and what it said is found out anew|is not known here"
        ):
            archived_up_to(tmp_path, 1)
    for size in range(0, len(whole), 11):
        (tmp_path / FILE).write_bytes(whole[:size])
        with pytest.raises(DamagedArchiveError):
            archive(ListedLog(), tmp_path)
    assert summary(tmp_path).problems


def test_damaged_files_are_named(tmp_path):
    archive(ListedLog(in_entries(some(20))), tmp_path)
    path = reading.files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DamagedArchiveError, match=path.name):
        archived(tmp_path)
    assert any(path.name in problem for problem in summary(tmp_path).problems)
    shutil.rmtree(path.parent)
    other = tmp_path / path.name
    pq.write_table(pa.table({"x": [1]}), other)
    with pytest.raises(DamagedArchiveError, match="no file of an archive"):
        archived(tmp_path)


def test_settings_that_make_no_sense():
    for wrong in (
        {"rows": 0},
        {"bytes": 1 << 31},
        {"seconds": 0},
        {"keep_rows": 0},
        {"rows": 1.5},
        {"seconds": "1"},
        {"tables": True},
        {"seconds": float("nan")},
    ):
        with pytest.raises(ArchiveError, match="archive." + next(iter(wrong))):
            ArchiveSettings(**wrong)  # type: ignore[arg-type]
