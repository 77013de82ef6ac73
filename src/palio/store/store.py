"""The store of a server: state records and a log of entries, in one SQLite file."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

import apsw

from palio.errors import brief
from palio.store import files, reading, reports, salvage, schema, witness
from palio.store.backup import backup
from palio.store.check import Checked, check
from palio.store.damage import Damage, Describe, Kind, write_error
from palio.store.errors import DamagedStoreError, FailedStoreError, FullStoreError, StorePathError, WrongStoreError
from palio.store.gate import Gate
from palio.store.inspection import Findings, inspect, inspect_damaged
from palio.store.schema import Meta
from palio.store.settings import Batch, StoreSettings
from palio.store.witness import Testimony, Witness
from palio.store.writing import Plan, is_vacuum_due, sweep, vacuum

T = TypeVar("T")

_CACHE_KIB = 64 * 1024

_CHECKPOINT_PAGES = (4 << 20) // schema.PAGE_BYTES
"""After so many pages in the WAL they go to the database: few enough for that to take some milliseconds."""
_WAL_MOST_BYTES = 64 << 20
"""To this the WAL shrinks when a backup or another long reader had made it grow."""
_MOST_DAMAGE = 1_000
"""Reports of entries that cannot be read, kept at the same time; the first ones."""


class Store:
    """Bytes that survive: a server's state records, by key, and its log, entries at dense positions.

    One process at a time has a store open. ``commit`` is called by one thread; ``read`` may be called by another.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder, "rome.db"), name="rome") as store:
    ...     store.commit([Batch([(b"key", b"value")], [(0, b"first entry")])])
    ...     list(store.records()), store.read(0, 10, 1_000_000), store.next
    ([(b'key', b'value')], [(0, b'first entry')], 1)
    """

    def __init__(self, path: Path, lock: files.Lock, settings: StoreSettings) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.settings = settings
        self._lock = lock
        self._failure: FailedStoreError | None = None
        self._wal_pages = 0
        self._is_swept = False
        self._is_syncing = True
        self._has_unsynced = False
        self._checkpoint_at = _CHECKPOINT_PAGES
        self._readers = Gate()
        self._read_lock = threading.Lock()
        self._connection = _open_to_write(path)
        self._connection.set_wal_hook(self._note_wal)
        self._reader: reading.LogReader | None = None
        self._witness: Witness | None = None
        self._meta = schema.read_meta(self._connection)
        self.is_new_incarnation = self._meta.is_copy or not self._meta.is_settled
        """Whether nothing was committed in this incarnation before: the store is new, was damaged, or is a backup."""
        self.damage: list[Damage] = []
        """What was lost before this incarnation, if that is new, and entries that could not be read since."""
        if self.is_new_incarnation:
            found = reports.read(self._connection)
            self.damage += [each for incarnation, each in found if incarnation == self._meta.incarnation]
        self._sums: dict[bytes, int] = dict(self._connection.execute("SELECT key, sum FROM state"))
        """The checksums of all state records: each commit has to know those that it replaces."""
        self._pages = self._free_pages = 0
        self._count_pages()

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        name: str,
        settings: StoreSettings | None = None,
        incarnation: int | None = None,
        describe: Describe = brief,
    ) -> Self:
        """Open the store of the server ``name``, or make it if there is none.

        ``incarnation`` is what a new or damaged store gets if it is higher than before; the time in microseconds unless
        given. ``describe`` puts keys of state records into words, for reports of damage.
        """
        path = Path(path).resolve()
        files.check_usable(path)
        candidate = incarnation if incarnation is not None else time.time_ns() // 1000
        lock = files.Lock(path)
        try:
            try:
                return cls._opened(path, name, lock, settings or StoreSettings(), candidate, describe)
            except FailedStoreError:
                if not files.is_suspect(path):
                    raise
            return cls._opened(path, name, lock, settings or StoreSettings(), candidate, describe)  # it was salvaged
        except BaseException as error:
            lock.release()
            match error:
                case OSError():
                    raise files.path_error(path, error) from error
                case apsw.Error():
                    raise write_error(path, error, 0) from error
            raise

    @classmethod
    def _opened(  # noqa: PLR0913, PLR0917 (what open was given)
        cls, path: Path, name: str, lock: files.Lock, settings: StoreSettings, candidate: int, describe: Describe
    ) -> Self:
        before = _prepare(path, name, candidate, describe)
        store = cls(path, lock, settings)
        try:
            store._begin(before, candidate)
        except BaseException:
            store._connection.close()
            raise
        return store

    def _begin(self, before: Testimony | None, candidate: int) -> None:
        """Count this opening, in the store and then at its witness."""
        meta = self._meta
        changes: dict[str, object] = {"opening": meta.opening + 1, "nonce": secrets.randbits(63), "is_copy": False}
        if meta.is_copy:
            known = max(meta.incarnation, before.incarnation if before else 0)
            changes["incarnation"] = max(known + 1, candidate)
            changes["is_settled"] = False
            changes["opening"] = max(meta.opening, before.opening if before else 0) + 1
        self._write(Plan(meta.changed(**changes), (), is_synced=True))
        self._witness = Witness(self.path, Testimony.of(self._meta))
        self._reader = reading.LogReader(self.path, self._notice)

    # -- what it says of itself ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Whose store it is."""
        return self._meta.name

    @property
    def incarnation(self) -> int:
        """A number that is higher whenever the store is not the one that was closed last."""
        return self._meta.incarnation

    @property
    def first(self) -> int:
        """The position of the log's first entry."""
        return self._meta.first

    @property
    def next(self) -> int:
        """The position that the next entry has to have."""
        return self._meta.next

    @property
    def size(self) -> int:
        """Bytes of the store's files."""
        return files.size(self.path)

    @property
    def used(self) -> int:
        """Bytes of the database that hold something; the rest is used again before the file grows."""
        return (self._pages - self._free_pages) * schema.PAGE_BYTES

    @property
    def free(self) -> int:
        """Bytes that are free on the disk."""
        found = os.statvfs(self.path.parent)
        return found.f_bavail * found.f_frsize

    @property
    def reusable(self) -> int:
        """Bytes of the database that hold nothing any more: new entries go there before the file grows."""
        return self._free_pages * schema.PAGE_BYTES

    def has_room(self) -> bool:
        """Whether something large should be written. Trims and state are written whatever it says."""
        most = self.settings.most_bytes
        return (not most or self.used < most) and self.free + self.reusable >= self.settings.reserve_bytes

    # -- reading -----------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """All state records, in the order of their keys."""
        return reading.records(self.path)

    def read(self, position: int, end: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Entries from a position on, within the log: at least one, then until there are so many bytes.

        An entry that cannot be read comes as ``b""``, and ``damage`` tells of it.
        """
        assert self._reader is not None
        with self._readers.together(), self._read_lock:
            return self._reader.read(position, end, most_bytes)

    def _notice(self, damage: Damage) -> None:
        if len(self.damage) < _MOST_DAMAGE and damage not in self.damage:
            self.damage.append(damage)

    def check(self) -> Checked:
        """Read everything, and tell what is not as it was written; another thread may write meanwhile."""
        return check(self.path)

    def backup(self, target: Path | str) -> None:
        """Copy the store as it is now, while it is written to; see :func:`palio.store.backup.backup`."""
        backup(self.path, Path(target))

    # -- writing -----------------------------------------------------------------------------------------------------

    def commit(self, batches: Sequence[Batch], *, then_tidy: bool = True) -> None:
        """Write batches, together: all of them or none. If one asks for it, all that was ever written is synced.

        :class:`FullStoreError`: nothing was written; make room and try again. :class:`FailedStoreError`: stop. Whoever
        does not let it tidy up calls :meth:`tidy` now and then.
        """
        self._write(Plan(self._meta, batches, is_synced=any(each.is_synced for each in batches)))
        if then_tidy:
            self.tidy()

    def _write(self, plan: Plan) -> None:
        with self._guarded():
            self._sync(is_synced=plan.is_synced)
            self._connection.execute("BEGIN IMMEDIATE")
            meta = plan.write(self._connection, self._sums)
            self._connection.execute("COMMIT")
        for key, total in plan.sums.items():
            if total is None:
                del self._sums[key]
            else:
                self._sums[key] = total
        self._is_swept = self._is_swept and meta.first == self._meta.first
        self._meta = meta
        self._count_pages()
        self._has_unsynced = not plan.is_synced
        if plan.is_synced and self._witness is not None:
            try:
                self._witness.tell(Testimony.of(meta))
            except FailedStoreError as error:
                self._failure = error
                raise

    def tidy(self) -> bool:
        """Do a little of what can wait: remove trimmed entries, give free pages back, move the WAL to the database.

        Whether there is more to do. If it does not work because there is no room it is done later.
        """
        is_done = True
        try:
            if not self._is_swept:
                self._is_swept = self._aside(lambda: sweep(self._connection, self._meta.first))
                is_done = self._is_swept
            if is_vacuum_due(self._pages, self._free_pages):
                self._aside(lambda: vacuum(self._connection))
                is_done = False
            if self._wal_pages >= self._checkpoint_at:
                self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        except FullStoreError:
            return False
        return not is_done

    def _aside(self, work: Callable[[], T]) -> T:
        """Do something in a transaction of its own. It is not synced: if it is lost, it is done again."""
        with self._guarded():
            self._sync(is_synced=False)
            self._connection.execute("BEGIN IMMEDIATE")
            result = work()
            self._connection.execute("COMMIT")
        self._count_pages()
        return result

    def _checkpoint(self, mode: int) -> None:
        """Move the WAL to the database and begin it anew, without our own readers, who would keep it from that.

        Readers of other processes may do so: then it grows until they end.
        """
        self._checkpoint_at = self._wal_pages + _CHECKPOINT_PAGES
        self._connection.set_busy_timeout(0)
        try:
            with self._readers.alone(), self._guarded(), contextlib.suppress(apsw.BusyError):
                self._connection.wal_checkpoint(mode=mode)
                self._checkpoint_at = _CHECKPOINT_PAGES
                self._wal_pages = 0
        finally:
            self._connection.set_busy_timeout(reading.BUSY_MILLISECONDS)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """What SQLite says of failures, as ours. After one that is not for lack of room nothing is written any more."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except apsw.Error as error:
            problem = write_error(self.path, error, self._connection.system_errno)
            if isinstance(problem, FailedStoreError):
                self._failure = problem
                if isinstance(error, apsw.CorruptError):
                    files.suspect(self.path)
            self._roll_back()
            raise problem from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        with contextlib.suppress(apsw.Error):  # what has failed already is told
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _sync(self, *, is_synced: bool) -> None:
        if is_synced is not self._is_syncing:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_syncing = is_synced

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _count_pages(self) -> None:
        self._pages = self._connection.execute("PRAGMA page_count").get
        self._free_pages = self._connection.execute("PRAGMA freelist_count").get

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End; what was written without being synced is synced."""
        if self._reader is not None:
            self._reader.close()
        try:
            if self._failure is None:
                with contextlib.suppress(FullStoreError):
                    if self._has_unsynced:
                        self._write(Plan(self._meta, (), is_synced=True))
                    self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            if self._failure is not None:  # nothing is moved any more: what the disk holds is not known
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._connection.close()
            if self._witness is not None:
                self._witness.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_to_write(path: Path) -> apsw.Connection:
    connection = reading.connect(path, apsw.SQLITE_OPEN_READWRITE)
    if connection.pragma("journal_mode") != "wal":
        connection.close()
        raise StorePathError(f"{path} lies where SQLite cannot write ahead, perhaps on a network disk; give another")
    connection.pragma("synchronous", "FULL")
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("journal_size_limit", _WAL_MOST_BYTES)
    connection.pragma("temp_store", "MEMORY")  # a commit opens no file, so it works when there are no descriptors left
    connection.wal_autocheckpoint(0)  # we say when
    return connection


def _prepare(path: Path, name: str, candidate: int, describe: Describe) -> Testimony | None:
    """See that a sound store of this version lies there; what its witness told, if it was one before."""
    if files.finished(path).exists():
        salvage.install(path)  # that was interrupted
    files.clean(files.building(path))
    was_store = witness.is_there(path)
    before = witness.read(path)
    if not path.exists() and not files.wal(path).exists() and not was_store:
        salvage.create(path, Meta(name, candidate))
        salvage.install(path)
        return None
    if path.exists():
        findings = inspect(path, before, was_store=was_store, describe=describe)
        if findings.version < schema.VERSION:
            _migrate(path, findings.version)
            findings = inspect(path, before, was_store=was_store, describe=describe)
    else:
        findings = Findings(damage=[Damage(Kind.FILE, "unknown: the database file is gone")])
    if path.exists() and findings.damage:
        findings = inspect_damaged(path, findings, before, describe)
    if files.is_suspect(path):
        findings.damage.append(Damage(Kind.FILE, "the database's structure, as a commit had found"))
    if findings.meta is not None and findings.meta.name != name:
        raise WrongStoreError(
            f"{path} is the store of {findings.meta.name}, and not of {name}; give {name} another path"
        )
    if findings.damage:
        files.keep_aside(path, "damaged")
        salvage.salvage(path, findings, _successor(name, findings.meta, before, candidate), describe)
        salvage.install(path)
    return before


def _successor(name: str, meta: Meta | None, before: Testimony | None, candidate: int) -> Meta:
    """What the store that comes after a damaged one says of itself: more than was ever said."""
    known = [each for each in (meta, before) if each is not None]
    incarnation = max([candidate, *(each.incarnation + 1 for each in known)])
    opening = max((each.opening for each in known), default=0)
    commit = max((each.commit for each in known), default=0) + 1
    return Meta(name, incarnation, opening, secrets.randbits(63), commit)


def _migrate(path: Path, version: int) -> None:
    connection = _open_to_write(path)
    try:
        schema.migrate(connection, version)
    except apsw.Error as error:
        raise DamagedStoreError(
            f"{path} could not be brought from store version {version} to {schema.VERSION}: {error}; nothing was"
            " changed. Open it with the earlier version of Palio, which saves what can be saved"
        ) from error
    finally:
        connection.close()
