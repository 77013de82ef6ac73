"""The threads between a loop and its store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from palio.errors import InternalError, PalioError
from palio.store import Batch, Committer, FailedStoreError, InvalidWriteError, Store
from tests.store.conftest import Rome
from tests.store.faults import faults

_DEADLINE = 30.0


class Told:
    """What a committer has told, and waiting for it."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.written: list[int] = []
        """Done, but not synced yet."""
        self.failures: list[PalioError] = []
        self.full: list[bool] = []
        self.entries: list[list[tuple[int, bytes]]] = []
        self._changed = threading.Condition()

    def _note(self, place: list[object]) -> Callable[[object], None]:
        def note(what: object) -> None:
            with self._changed:
                place.append(what)
                self._changed.notify_all()

        return note

    def committer(self, store: Store) -> Committer[int]:
        def done(token: int, is_synced: bool) -> None:
            self._note(self.done if is_synced else self.written)(token)  # type: ignore[arg-type]

        return Committer(store, done, self._note(self.failures), self._note(self.full))  # type: ignore[arg-type]

    def read(self) -> Callable[[list[tuple[int, bytes]]], None]:
        return self._note(self.entries)  # type: ignore[arg-type, return-value]

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, _DEADLINE)


@pytest.fixture
def told() -> Told:
    return Told()


@contextmanager
def holding(store: Store) -> Iterator[threading.Event]:
    """Commits do not begin before the event is set."""
    go, commit = threading.Event(), store.commit

    def wait(batches: list[Batch], *, then_tidy: bool = True) -> None:
        assert go.wait(_DEADLINE)
        commit(batches, then_tidy=then_tidy)

    store.commit = wait  # type: ignore[method-assign, assignment]
    try:
        yield go
    finally:
        go.set()


def entry(position: int, size: int = 100) -> Batch:
    return Batch([(b"next", b"%d" % (position + 1))], [(position, b"%d" % position + b"." * size)])


def test_what_waits_is_committed_together(rome: Rome, told: Told) -> None:
    with rome.open() as store:
        with holding(store) as go:
            committer = told.committer(store)
            for position in range(100):
                committer.submit(entry(position), position)
            assert committer.waiting_bytes > 10_000
            go.set()
            told.wait(lambda: 99 in told.done)
        assert committer.close()
        assert told.done == sorted(told.done)
        assert committer.figures.commits == len(told.done) <= 3
        assert (committer.figures.batches, committer.waiting_bytes) == (100, 0)
        assert committer.figures.longest_seconds >= committer.figures.last_seconds > 0
        assert dict(store.records()) == {b"next": b"100"}
        assert [position for position, _ in store.read(0, 1_000, 1 << 30)] == list(range(100))
    assert told.failures == []


def test_a_transaction_has_a_bound(rome: Rome, told: Told) -> None:
    with rome.open() as store:
        with holding(store) as go:
            committer = told.committer(store)
            for position in range(10):
                committer.submit(entry(position, 3_000_000), position)
            go.set()
            told.wait(lambda: 9 in told.done)
        committer.close()
        assert committer.figures.commits >= 5


def test_what_is_done_is_there(rome: Rome, told: Told) -> None:
    """Whatever was told to be done can be read at once, in the order in which it was submitted."""
    with rome.open() as store:
        committer = told.committer(store)
        for position in range(300):
            committer.submit(entry(position), position)
            if position % 50 == 49:
                told.wait(lambda position=position: position in told.done)  # type: ignore[misc]
                committer.read(position - 49, position + 1, 1 << 30, told.read())
                told.wait(lambda position=position: len(told.entries) == position // 50 + 1)  # type: ignore[misc]
                assert [place for place, _ in told.entries[-1]] == list(range(position - 49, position + 1))
        assert committer.close()
        assert committer.figures.reads == 6
        assert committer.figures.read_bytes > 30_000


def test_reading_beside_writing(rome: Rome, told: Told) -> None:
    """One who catches up reads what is committed, while more is; neither keeps the other from going on."""
    with rome.open() as store:
        committer = told.committer(store)
        wanted = submitted = 0
        deadline = time.monotonic() + _DEADLINE
        while wanted < 2_000:
            assert time.monotonic() < deadline
            for position in range(submitted, min(2_000, submitted + 20)):
                committer.submit(entry(position, 2_000), position)
                submitted = position + 1
            committer.read(wanted, 1 << 40, 1 << 16, told.read())
            told.wait(lambda: len(told.entries) == 1)
            found = [position for position, _ in told.entries.pop()]
            assert found == list(range(wanted, wanted + len(found)))
            wanted += len(found)
        assert committer.close()
        assert store.check().damage == []
    assert told.failures == []


def test_a_full_disk_is_waited_for(rome: Rome, told: Told) -> None:
    with faults() as disk, rome.open() as store:
        committer = told.committer(store)
        committer.submit(entry(0), 0)
        told.wait(lambda: told.done == [0])
        disk.is_full = True
        for position in range(1, 10):
            committer.submit(entry(position), position)
        told.wait(lambda: told.full == [True])
        assert told.done == [0]
        tried = committer.figures.full
        told_until = time.monotonic() + _DEADLINE
        while committer.figures.full < tried + 2:
            assert time.monotonic() < told_until
            committer.read(0, 1, 1, told.read())  # reading goes on
            count = len(told.entries)
            told.wait(lambda count=count: len(told.entries) > count)  # type: ignore[misc]
        disk.is_full = False
        told.wait(lambda: 9 in told.done)
        assert told.full == [True, False]
        assert committer.close()
        assert [position for position, _ in store.read(0, 100, 1 << 30)] == list(range(10))
    assert told.failures == []


def test_closing_does_not_wait_for_room_for_ever(rome: Rome, told: Told) -> None:
    with faults() as disk, rome.open() as store:
        committer = told.committer(store)
        disk.is_full = True
        committer.submit(entry(0), 0)
        told.wait(lambda: told.full == [True])
        assert committer.close(seconds=0.2) is False
        disk.is_full = False
        assert store.next == 0


def test_a_failing_disk_is_told_once(rome: Rome, told: Told) -> None:
    with faults() as disk, rome.open() as store:
        committer = told.committer(store)
        disk.has_bad_syncs = True
        committer.submit(entry(0), 0)
        committer.submit(entry(1), 1)
        told.wait(lambda: bool(told.failures))
        assert committer.close() is False
        assert [type(each) for each in told.failures] == [FailedStoreError]
        assert told.done == []
        disk.has_bad_syncs = False


def test_faults_of_callers_are_told(rome: Rome, told: Told) -> None:
    with rome.open() as store:
        committer = told.committer(store)
        committer.submit(entry(5), 5)
        told.wait(lambda: bool(told.failures))
        assert isinstance(told.failures[0], InvalidWriteError)
        committer.close()
        with pytest.raises(InternalError):
            committer.submit(entry(0), 0)


def test_no_thread_ends_without_a_word(rome: Rome, told: Told) -> None:
    with rome.open() as store:
        committer: Committer[int] = Committer(store, lambda *_: 1 / 0, told.failures.append)  # type: ignore[arg-type, return-value]
        committer.submit(entry(0), 0)
        assert committer.close() is True
        assert isinstance(told.failures[0], InternalError)


def test_what_need_not_be_synced_is_written_first_and_synced_soon(rome: Rome, told: Told) -> None:
    with rome.open() as store:
        committer = told.committer(store)
        for position in range(50):
            committer.submit(Batch(entries=[(position, b"x" * 100)], is_synced=False), position)
        told.wait(lambda: 49 in told.done)
        assert told.written[-1] == 49
        assert told.done == sorted(told.done)
        assert set(told.done) <= set(told.written)
        committer.submit(Batch(entries=[(50, b"x")]), 50)
        told.wait(lambda: 50 in told.done)
        assert 50 not in told.written
        assert committer.close()


def test_what_is_only_written_is_synced_when_there_is_room_again(rome: Rome, told: Told) -> None:
    """Also if nobody submits anything any more."""
    with faults() as disk, rome.open() as store:
        commit = store.commit

        def fill(batches: list[Batch], *, then_tidy: bool = True) -> None:
            commit(batches, then_tidy=then_tidy)
            disk.is_full = not told.full

        store.commit = fill  # type: ignore[method-assign, assignment]
        committer = told.committer(store)
        committer.submit(Batch(entries=[(0, b"x")], is_synced=False), 0)
        told.wait(lambda: told.full == [True])
        assert (told.written, told.done) == ([0], [])
        disk.is_full = False
        told.wait(lambda: told.done == [0])
        assert committer.close()
        assert told.full == [True, False]
    assert told.failures == []
