"""A new store with every record of a damaged one that can still be read and verified.

The damaged files keep their bytes, under other names. The new database is made beside them and takes their place in one
step, so that an interruption leaves either the damaged store or the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from palio.store import files, reading, reports, schema, witness
from palio.store.damage import READING, Damage, Describe, Kind, entries_lost, ranges, sign_of_damage
from palio.store.inspection import Findings, state_lost
from palio.store.reports import Report
from palio.store.schema import Meta
from palio.store.sums import added, entry_sum, state_sum
from palio.store.witness import Testimony

_ROWS = 1_000  # in one transaction


def create(path: Path, meta: Meta) -> None:
    """A new, empty store, complete and ready to be installed."""
    connection = files.new_database(files.building(path))
    schema.create(connection, meta)
    connection.close()
    files.finish(path)


def salvage(path: Path, findings: Findings, meta: Meta, describe: Describe) -> None:
    """Make the new store, with reports of all that is lost, ready to be installed.

    ``meta`` has the name and the incarnation of the new store; its other fields follow from what can be read.
    """
    target = files.new_database(files.building(path))
    schema.create(target, meta)
    source = _open(path, findings.vfs)
    damage, earlier = findings.damage, []
    if source is not None:
        work = _Salvage(path, source, target, findings)
        meta = work.copy_log(work.copy_state(meta, describe))
        earlier = work.earlier_reports()
        source.close()
        damage = damage + work.damage
    with target:
        reports.write(target, [*earlier, *((meta.incarnation, each) for each in damage)])
        schema.write_meta(target, meta)
    target.close()
    files.finish(path)


def _open(path: Path, vfs: str | None) -> apsw.Connection | None:
    if not path.exists():
        return None
    try:
        connection = reading.connect(path, vfs=vfs)
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except READING as error:
        sign_of_damage(path, error)
        return None
    return connection


class _Salvage:
    """From a damaged database to a new one."""

    def __init__(self, path: Path, source: apsw.Connection, target: apsw.Connection, findings: Findings) -> None:
        self._path = path
        self._source = source
        self._target = target
        self._found = findings.meta
        self._known = {each.key for each in findings.damage if each.key is not None}
        """Keys whose loss was reported."""
        self.damage: list[Damage] = []

    def copy_state(self, meta: Meta, describe: Describe) -> Meta:
        """All sound state records; they get the number of a commit of the new store."""
        copied: dict[bytes, int] = {}
        statement = "INSERT INTO state VALUES (?, ?, ?, ?)"
        with self._target:
            for row in self._state_rows():
                key = row[0]
                if not reading.is_state_sound(row) or (self._found is not None and row[1] > self._found.commit):
                    if key not in self._known:
                        self.damage.append(state_lost(key, describe))
                        self._known.add(key)
                elif key not in copied:
                    copied[key] = state_sum(meta.commit, key, row[3])
                    self._target.execute(statement, (key, meta.commit, copied[key], row[3]))
        unnamed = self._found.records - len(copied) - len(self._known) if self._found else 0
        if unnamed > 0:
            self.damage.append(Damage(Kind.STATE, f"{unnamed:,} state records whose keys are unreadable"))
        return meta.changed(records=len(copied), sum=added(0, *copied.values()))

    def _state_rows(self) -> Iterator[tuple[bytes, int, int, bytes]]:
        """From the first record on, and, if a page between cannot be read, from the last one back."""
        for order in ("ASC", "DESC"):
            try:
                yield from reading.state_rows(self._source, order)
            except READING as error:
                sign_of_damage(self._path, error)
            else:
                return

    def copy_log(self, meta: Meta) -> Meta:
        """All sound entries, where they were. Positions that are lost stay empty, and are reported, once."""
        first, end = (self._found.first, self._found.next) if self._found else self._ends()
        known = reports.lost_ranges(self.earlier_reports())
        lost: list[int] = []
        self._target.execute("BEGIN")
        for position, value in reading.entries(self._source, first, end):
            if value is not None:
                total = entry_sum(meta.commit, position, value)
                self._target.execute("INSERT INTO log VALUES (?, ?, ?, ?)", (position, meta.commit, total, value))
            elif not any(begin <= position < behind for begin, behind in known):
                lost.append(position)
            if position % _ROWS == 0:
                self._target.execute("COMMIT")
                self._target.execute("BEGIN")
        self._target.execute("COMMIT")
        self.damage += [entries_lost(begin, behind) for begin, behind in ranges(lost)]
        return meta.changed(first=first, next=end, synced=end)

    def _ends(self) -> tuple[int, int]:
        """Where the log begins and ends, as far as its entries tell."""
        found = []
        for order in ("ASC", "DESC"):
            statement = f"SELECT position FROM log WHERE position >= 0 ORDER BY position {order} LIMIT 1"  # noqa: S608
            try:
                row = self._source.execute(statement).fetchone()
            except READING as error:
                sign_of_damage(self._path, error)
                row = None
            if row is None:
                return 0, 0
            found.append(row[0])
        return found[0], found[1] + 1

    def earlier_reports(self) -> list[Report]:
        """What earlier damage has cost."""
        try:
            return reports.read_sound(self._source)
        except READING as error:
            sign_of_damage(self._path, error)
            return []


def install(path: Path) -> None:
    """Let the finished database take its place, first at the witness. It may be done again when it was interrupted."""
    connection = reading.connect(files.finished(path))
    meta = schema.read_meta(connection)
    connection.close()
    if not meta.is_copy:  # a backup needs no witness: it is known to be old
        witness.replace(path, Testimony.of(meta))
    files.clear(path)
    files.install(path)
