"""From the rows of a store to the records of a node: decoded, each under its canonical key, and each once.

A store may have been written with another version of the canonical form, or without any: then equal filters may be
records of their own. What cannot be read is put aside under a key of its own, with the reason, and never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from palio.errors import DecodeError
from palio.model.conditions import FORM
from palio.node import records
from palio.node.journal import Key, Record
from palio.node.quarantine import DROPPED, QUARANTINE, Kept, Quarantine, Quarantined, dropped, kept

_FORM: Key = ("form",)
CONFIRMED, UNCONFIRMED = True, False
"""Values of what neighbours hold. Before there was a canonical form, a record could stay though its neighbour had taken
back what it says: then the neighbour may say it once more."""

Change = tuple[bytes, bytes | None]
"""A row to be written, or to be deleted."""


class Loaded(NamedTuple):
    """What a store holds."""

    records: list[Record]
    changes: list[Change]
    """What has to be written, so that the store holds the same records under their canonical keys."""
    quarantined: list[Quarantined]
    """The records that could not be read."""
    merged: list[str]
    """Records of which there were several, in words."""
    quarantine: Quarantine
    """Where records are put aside."""


def load(stored: Iterable[tuple[bytes, bytes]]) -> Loaded:
    """Read rows, in any order.

    >>> row = records.encode((("party", "urn:eva"), True))
    >>> loaded = load([row, (b"?", b"?")])
    >>> [key for key, _ in loaded.records], [each.reason for each in loaded.quarantined]
    ([('party', 'urn:eva')], ['a key that does not begin with a kind'])
    """
    stored = list(stored)
    aside = kept(stored)
    found = Loaded([], [], [], [], Quarantine(aside, dropped(stored)))
    rows: dict[bytes, list[tuple[bytes, bytes, Any]]] = {}
    keys: dict[bytes, Key] = {}
    passed_over = {each.row for each in aside} | {records.encode_key(DROPPED)}
    for key, value in stored:
        if key in passed_over:
            continue
        try:
            known, content = records.decode(key, value)
            _expect_key(known)
        except DecodeError as error:
            _put_aside(found, key, value, str(error))
            continue
        canonical = records.encode_key(known)
        keys[canonical] = known
        rows.setdefault(canonical, []).append((key, value, content))
    form = rows.pop(records.encode_key(_FORM), [(b"", b"", None)])[0][2]
    for canonical, doubles in rows.items():
        _take(found, keys[canonical], canonical, doubles, is_old=form is None)
    if form != FORM:
        found.changes.append((records.encode_key(_FORM), records.encode_value(FORM)))
    _number(found, aside)
    found.changes.extend(records.encode(each) for each in found.quarantine.changes())
    return found


def _put_aside(found: Loaded, key: bytes, value: bytes, reason: str) -> None:
    found.quarantined.append(found.quarantine.put(key, value, reason))
    found.changes.append((key, None))


def _number(found: Loaded, aside: Iterable[Kept]) -> None:
    """Records that an earlier release has put aside get numbers."""
    for each in aside:
        row, data = records.encode(((QUARANTINE, each.number), (each.key, each.value, each.reason)))
        if row != each.row and data is not None:
            found.changes.extend([(each.row, None), (row, data)])


def _expect_key(key: object) -> None:
    if not isinstance(key, tuple) or not key or not isinstance(key[0], str):
        raise DecodeError("a key that does not begin with a kind")
    if key[0] in (QUARANTINE, DROPPED[0]):
        raise DecodeError("no record of the quarantine")
    try:
        hash(key)
    except TypeError as error:
        raise DecodeError(f"no key: {error}") from error


def _take(found: Loaded, key: Key, canonical: bytes, doubles: list[tuple[bytes, bytes, Any]], *, is_old: bool) -> None:
    """One record, of which there may be several rows: the one with the canonical key counts, or the first."""
    chosen, value, content = min(doubles, key=lambda row: (row[0] != canonical, row[0]))
    for other, data, _ in doubles:
        if other != chosen and data != value:
            reason = f"a double of {records.describe(canonical)} with another value"
            _put_aside(found, other, data, reason)
        elif other != canonical:
            found.changes.append((other, None))
    if len(doubles) > 1:
        found.merged.append(records.describe(canonical))
    upgraded = _upgraded(key, chosen, content) if is_old else content
    if upgraded is not content:
        content = upgraded
        found.changes.append((canonical, records.encode_value(content)))
    elif chosen != canonical:
        found.changes.append((canonical, value))
    found.records.append((key, content))


def _upgraded(key: Key, stored: bytes, content: Any) -> Any:
    """The value of a record that was written before there was a canonical form."""
    if key[0] == "held" and content is CONFIRMED:
        return UNCONFIRMED
    if key[0] == "pattern" and len(key) == 3 and isinstance(content, tuple) and len(content) == 8:
        wording = records.decode_value(stored)[2]  # in the key it is canonical from now on
        return content if records.encode_value(wording) == records.encode_value(key[2]) else (*content, wording)
    return content
