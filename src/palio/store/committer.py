"""Two threads between a server's loop and its store: one commits, the other reads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from palio.errors import InternalError, PalioError
from palio.store.errors import FullStoreError, StoreError
from palio.store.settings import Batch
from palio.store.store import Store

Token = TypeVar("Token")
Entries = list[tuple[int, bytes]]

_TRANSACTION_BYTES = 8 << 20
_LONGEST_UNSYNCED = 0.005
"""Seconds for which something may be written and not synced while more comes."""
_FIRST_PATIENCE, _LONGEST_PATIENCE = 0.05, 1.0
"""Seconds before it is tried again to write to a full disk."""


@dataclass(slots=True)
class Figures:
    """What a committer has done; read at any time, by anybody."""

    commits: int = 0
    batches: int = 0
    bytes: int = 0
    last_seconds: float = 0.0
    """How long the last commit took."""
    longest_seconds: float = 0.0
    full: int = 0
    """How often there was no room."""
    reads: int = 0
    read_bytes: int = 0


class Committer(Generic[Token]):
    """Commits what waits, all of it together, while more may be submitted; and reads beside that.

    All callbacks are called from its threads, and must not block. ``done`` gets the token of a commit's last batch, and
    whether all up to it is synced: what need not be at once is so a few milliseconds later, and then ``done`` is called
    once more. ``full`` is told when there is no room, and when there is again: nothing is lost
    meanwhile, and the order stays. ``failed`` is told the first error that cannot be overcome: after it nothing is
    written any more, and the server has to stop.

    What waits is not bounded here: whoever submits looks at ``waiting_bytes``, and takes in nothing more when it is
    much.
    """

    def __init__(
        self,
        store: Store,
        done: Callable[[Token, bool], None],
        failed: Callable[[PalioError], None],
        full: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.figures = Figures()
        self.waiting_bytes = 0
        """Bytes that were submitted and are not written yet."""
        self._store = store
        self._done = done
        self._failed = failed
        self._full = full
        self._waiting: deque[tuple[Batch, Token, int]] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._has_failed = False
        self._patience = 0.0
        """Seconds to wait for room, while there is none."""
        self._unsynced: tuple[Token, float] | None = None
        """The last batch that is written and not synced, and since when there are such."""
        self._reads: deque[tuple[int, int, int, Callable[[Entries], None]]] = deque()
        self._asked = threading.Condition()
        self._are_reads_closing = False
        self._threads = [
            threading.Thread(target=self._write_all, name="store-commits", daemon=True),
            threading.Thread(target=self._read_all, name="store-reads", daemon=True),
        ]
        for each in self._threads:
            each.start()

    # -- asked from anywhere -----------------------------------------------------------------------------------------

    def submit(self, batch: Batch, token: Token) -> None:
        """Write a batch behind all that was submitted before."""
        size = batch.size
        with self._changed:
            if self._is_closing:
                raise InternalError("a batch was submitted to a store that is being closed")
            self._waiting.append((batch, token, size))
            self.waiting_bytes += size
            self._changed.notify()

    def read(self, position: int, end: int, most_bytes: int, callback: Callable[[Entries], None]) -> None:
        """Read as :meth:`Store.read` does; the callback gets the entries.

        Questions wait in a line, and answers are made one at a time: who asks once at a time keeps it short.
        """
        with self._asked:
            self._reads.append((position, end, most_bytes, callback))
            self._asked.notify()

    def close(self, seconds: float | None = None) -> bool:
        """Wait until all is written, for so long at most, and end; whether all was written. The store stays open."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        with self._asked:
            self._are_reads_closing = True
            self._asked.notify()
        end = None if seconds is None else time.monotonic() + seconds
        for each in self._threads:
            each.join(None if end is None else max(0.0, end - time.monotonic()))
        if any(each.is_alive() for each in self._threads):
            with self._changed:
                self._has_failed = True  # it must not go on when the store is closed
                self._changed.notify()
            for each in self._threads:
                each.join()
        return not self._waiting

    # -- the thread that writes --------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            while self._wait():
                self._commit()
                self._sync_soon()
                while not self._waiting and self._store.tidy():
                    pass
        except StoreError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 (a thread that ends without a word would let everybody wait)
            self._fail(InternalError(f"the store's thread failed: {error!r}"))

    def _sync_soon(self) -> None:
        """Sync what is only written, if there is nothing better to do or it has waited for long."""
        while self._unsynced is not None and not self._has_failed:
            token, since = self._unsynced
            if self._waiting and time.monotonic() - since <= _LONGEST_UNSYNCED:
                return
            try:
                self._store.commit([Batch()], then_tidy=False)
            except FullStoreError:
                self._be_patient()
                if self._waiting:
                    return  # the next commit will do it
                continue
            self._tell(token, is_synced=True)

    def _fail(self, error: PalioError) -> None:
        self._has_failed = True
        self._failed(error)

    def _wait(self) -> bool:
        """Until there is something to write; whether there is."""
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            return bool(self._waiting) and not self._has_failed

    def _commit(self) -> None:
        """One commit of what waits, as often as it takes."""
        while not self._has_failed:
            batches, token, size = self._take()
            begin = time.perf_counter()
            try:
                self._store.commit(batches, then_tidy=False)
            except FullStoreError:
                self._be_patient()
                continue
            self._count(len(batches), size, time.perf_counter() - begin)
            self._tell(token, is_synced=any(each.is_synced for each in batches))
            self._store.tidy()
            return

    def _tell(self, token: Token, *, is_synced: bool) -> None:
        if self._patience:
            self._patience = 0.0
            self._full(False)
        if is_synced:
            self._unsynced = None
        else:
            self._unsynced = token, time.monotonic() if self._unsynced is None else self._unsynced[1]
        self._done(token, is_synced)

    def _take(self) -> tuple[list[Batch], Token, int]:
        """What the next commit writes: all that waits, up to a bound. It stays in the line until it is written."""
        batches: list[Batch] = []
        total = 0
        with self._changed:
            for batch, token, size in self._waiting:
                if batches and total + size > _TRANSACTION_BYTES:
                    break
                batches.append(batch)
                total += size
                last = token
        return batches, last, total

    def _be_patient(self) -> None:
        """There was no room: tell so, once, and wait for a while, longer each time."""
        self.figures.full += 1
        if not self._patience:
            self._full(True)
        self._patience = min(self._patience * 2 or _FIRST_PATIENCE, _LONGEST_PATIENCE)
        end = time.monotonic() + self._patience
        with self._changed:
            while not self._has_failed and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _count(self, batches: int, size: int, seconds: float) -> None:
        with self._changed:
            for _ in range(batches):
                self._waiting.popleft()
            self.waiting_bytes -= size
        figures = self.figures
        figures.commits += 1
        figures.batches += batches
        figures.bytes += size
        figures.last_seconds = seconds
        figures.longest_seconds = max(figures.longest_seconds, seconds)

    # -- the thread that reads ---------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        while True:
            with self._asked:
                while not self._reads and not self._are_reads_closing:
                    self._asked.wait()
                if not self._reads:
                    return
                position, end, most_bytes, callback = self._reads.popleft()
            try:
                found = self._store.read(position, end, most_bytes)
            except StoreError as error:
                self._fail(error)
                return
            self.figures.reads += 1
            self.figures.read_bytes += sum(len(value) for _, value in found)
            callback(found)
