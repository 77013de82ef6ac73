"""Is a store as it was written? What is looked at whenever it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import apsw

from palio.errors import brief
from palio.store import header, reading, reports, schema
from palio.store.damage import READING, Damage, Describe, Kind, sign_of_damage
from palio.store.errors import DamagedStoreError, NewerStoreError, NoStoreError
from palio.store.schema import Meta
from palio.store.sums import added
from palio.store.witness import Testimony


@dataclass
class Findings:
    """What was found out about a store."""

    meta: Meta | None = None
    """What it says of itself, if that can be read."""
    version: int = schema.VERSION
    damage: list[Damage] = field(default_factory=list)
    vfs: str | None = None
    """How it was read."""


def inspect(
    path: Path, witness: Testimony | None, *, was_store: bool, describe: Describe = brief, vfs: str | None = None
) -> Findings:
    """Check all but the entries of the log; nothing is changed. A file that never was a store is refused.

    ``was_store``: other files say that one was here, so that anything else now is damage.
    """
    findings = Findings(vfs=vfs)
    try:
        connection = reading.connect(path, vfs=vfs)
    except apsw.Error as error:
        findings.damage.append(_unreadable(path, error, was_store=was_store))
        return findings
    try:
        _inspect(connection, findings, path, was_store=was_store, describe=describe)
    finally:
        connection.close()
    if findings.meta is not None and findings.version == schema.VERSION:
        findings.damage += _compare(findings.meta, witness)
    return findings


def inspect_damaged(path: Path, plain: Findings, witness: Testimony | None, describe: Describe) -> Findings:
    """What else can be found out about a store with damage, if its first page is taken for granted."""
    rebuilt = inspect(path, witness, was_store=True, describe=describe, vfs=header.rebuilding())
    if rebuilt.meta is None or (plain.meta is not None and len(plain.damage) <= len(rebuilt.damage)):
        return plain
    rebuilt.damage.insert(0, Damage(Kind.FILE, "the file's first page, which could be made anew"))
    return rebuilt


def _inspect(
    connection: apsw.Connection, findings: Findings, path: Path, *, was_store: bool, describe: Describe
) -> None:
    try:
        application = connection.pragma("application_id")
        if application != schema.APPLICATION_ID and not was_store:
            raise NoStoreError(f"{path} is a database of something else; give another path")
        data = schema.read_meta_bytes(connection)
        findings.version = schema.version_of(data)
    except READING as error:
        findings.damage.append(_unreadable(path, error, was_store=was_store))
        return
    if findings.version > schema.VERSION:
        raise NewerStoreError(
            f"{path} was written by a later version of Palio (store version {findings.version}; this one knows up to"
            f" {schema.VERSION}); use that version, or another path"
        )
    if findings.version < schema.VERSION:
        return
    try:
        findings.meta = meta = Meta.decode(data)
        _check_schema(connection, findings)
        _check_state(connection, meta, findings, describe)
        _check_ends(connection, meta, findings)
    except READING as error:
        findings.damage.append(Damage(Kind.FILE, f"a part of the database: {sign_of_damage(path, error)}"))


def _unreadable(path: Path, error: Exception, *, was_store: bool) -> Damage:
    """The damage of a store that does not even say whose it is."""
    if isinstance(error, NoStoreError):
        raise error
    if not was_store and isinstance(error, apsw.NotADBError):
        raise NoStoreError(f"{path} is no store of a server; give another path") from error
    why = sign_of_damage(path, error)
    return Damage(Kind.FILE, f"unknown: the file's header or meta record is unreadable ({why})")


def _check_schema(connection: apsw.Connection, findings: Findings) -> None:
    found = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    header = (connection.pragma("application_id"), connection.pragma("auto_vacuum"), connection.pragma("page_size"))
    if found != schema.TABLES or header != (schema.APPLICATION_ID, 2, schema.PAGE_BYTES):
        findings.damage.append(Damage(Kind.FILE, "the database's header or schema is not as it was written"))


def _check_state(connection: apsw.Connection, meta: Meta, findings: Findings, describe: Describe) -> None:
    count = total = 0
    for row in reading.state_rows(connection):
        count += 1
        if reading.is_state_sound(row) and row[1] <= meta.commit:
            total = added(total, row[2])
        else:
            findings.damage.append(state_lost(row[0], describe))
    if count != meta.records or (total != meta.sum and not findings.damage):
        findings.damage.append(
            Damage(Kind.FILE, f"state records are missing or old: {meta.records:,} were written, {count:,} are there")
        )


def state_lost(key: object, describe: Describe) -> Damage:
    """A state record that is not as it was written."""
    if not isinstance(key, bytes):
        return Damage(Kind.STATE, "a state record whose key is unreadable")
    return Damage(Kind.STATE, f"the state record {describe(key)}", key)


def _check_ends(connection: apsw.Connection, meta: Meta, findings: Findings) -> None:
    """The first and the last entry are there, and nothing behind it; what lies between is checked when it is read."""
    for (behind,) in connection.execute("SELECT position FROM log WHERE position >= ? LIMIT 1", (meta.next,)):
        findings.damage.append(Damage(Kind.FILE, f"there is an entry {behind}, but the log ended before {meta.next}"))
    lost = reports.lost_ranges(reports.read(connection))
    for position in {meta.first, meta.next - 1} if meta.first < meta.next else ():
        row = connection.execute("SELECT 1 FROM log WHERE position = ?", (position,)).fetchone()
        if row is None and not any(first <= position < end for first, end in lost):
            findings.damage.append(Damage(Kind.FILE, f"the log is not whole: there is no entry {position}"))


def _compare(meta: Meta, witness: Testimony | None) -> list[Damage]:
    """Whether the database is at least as new as its witness says. A backup is old, and says so itself."""
    if meta.is_copy:
        return []
    if witness is None:
        text = "unknown: the witness file is missing or unreadable, so the database may be an old one"
        return [Damage(Kind.FILE, text)]
    if meta.opening == witness.opening and meta.nonce == witness.nonce and meta.commit < witness.commit:
        missing = f"commits {meta.commit + 1} to {witness.commit}"
        return [Damage(Kind.FILE, f"{missing}: the database is older than its witness file says it has to be")]
    if meta.opening < witness.opening or (meta.opening == witness.opening and meta.nonce != witness.nonce):
        text = "unknown: an old database was put in place of the last one, or another one"
        return [Damage(Kind.FILE, text)]
    return []


def require_store(path: Path) -> Meta:
    """The meta record of a store that is only to be read."""
    try:
        connection = reading.connect(path)
        try:
            application = connection.pragma("application_id")
            data = schema.read_meta_bytes(connection) if application == schema.APPLICATION_ID else None
        finally:
            connection.close()
    except READING as error:
        _unreadable(path, error, was_store=False)
        raise DamagedStoreError(f"{path}: {error}; a server that opens it saves what can be saved") from error
    if data is None:
        raise NoStoreError(f"{path} is no store of a server; give another path")
    version = schema.version_of(data)
    if version != schema.VERSION:
        raise NewerStoreError(
            f"{path} has the store version {version}, and this Palio reads {schema.VERSION}; use the one that wrote it"
        )
    return Meta.decode(data)
