"""What a server says of durable parties: their logs, their dead letters, and its store."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from palio.codec import control, frames, json, msgpack
from palio.errors import DecodeError
from palio.model import PROTOCOL_LIMITS, Notification, Pattern
from palio.node.hybrid import date_of
from palio.node.link_letters import PeerLetters
from palio.node.party_log import Letter, PartyLog

if TYPE_CHECKING:
    from palio.server.server import Server

_MOST_LETTER_BYTES = 16 << 20
"""Of the letters of a link in one answer."""
MOST_LOGS = 200
"""Durable parties that a status tells of one by one: those for which most waits."""


def letters(log: PartyLog) -> dict[str, Any]:
    """The dead letters of a party."""
    found = [
        {
            "letter": number,
            "delivery": letter.delivery,
            "reason": letter.reason,
            "time": date_of(letter.time).isoformat(),
            "notifications": [_form(each) for each in _notifications(letter)],
        }
        for number, letter in log.letters.items()
    ]
    return {"letters": found, "forgotten": log.forgotten}


def link_letters(letters: PeerLetters) -> dict[str, Any]:
    """The publications that a peer could not take, the oldest ones first; not more than an answer should have."""
    found: list[dict[str, Any]] = []
    size = 0
    for number, letter in letters.letters.items():
        size += letter.size
        if found and size > _MOST_LETTER_BYTES:
            break
        found.append(
            {
                "letter": number,
                "reason": letter.reason,
                "time": date_of(letter.time).isoformat(),
                "notifications": [_form(letter.notification)],
            }
        )
    left_out = len(letters.letters) - len(found)
    return {"letters": found, "left_out": left_out, "forgotten": letters.forgotten, "total": letters.next}


def _form(notification: Notification) -> dict[str, Any]:
    """As in JSON, with the envelope."""
    assert notification.envelope is not None
    content, envelope = (msgspec.json.decode(json.encode(each)) for each in (notification, notification.envelope))
    return {**content, **envelope}


def _notifications(letter: Letter) -> list[Notification]:
    """What it says; nothing if that is lost."""
    if not letter.frame:
        return []
    ((kind, content),) = frames.frames_of(letter.frame)
    try:
        if kind == frames.DELIVER:
            return [frames.delivered(content)]
        sequence = control.decode(kind, content)
        assert isinstance(sequence, control.Sequence)
        msgpack.decode(Pattern, bytes(sequence.pattern), PROTOCOL_LIMITS)
        return [control.notification(*each) for each in sequence.notifications]
    except DecodeError:
        return []  # an earlier release took what no release takes now


def durable_parties(server: Server, watcher: str | None) -> list[dict[str, Any]]:
    """The logs of durable parties; if somebody watches who is no admin, only its own."""
    logs, now = [log for log in server.driver.node.logs if watcher in (None, log.name)], server.driver.now
    return [
        {
            "name": log.name,
            "log": log.identity,
            "connected": log.reading is not None,
            "next": log.next,
            "waiting": log.waiting,
            "waiting_bytes": log.waiting_bytes,
            "oldest_seconds": round(log.oldest(now) / 1e6, 3),
            "dropped": log.dropped,
            "expired": log.expired,
            "letters": len(log.letters),
        }
        for log in nlargest(MOST_LOGS, logs, key=lambda each: each.waiting)
    ]


def store_figures(server: Server) -> dict[str, Any] | None:
    """The store, if there is one."""
    storage = server.storage
    if storage is None:
        return None
    figures = storage.figures
    return {
        "bytes": storage.store.size,
        "free_bytes": storage.store.free,
        "reusable_bytes": storage.store.reusable,
        "is_full": storage.is_full,
        "first": storage.store.first,
        "next": storage.store.next,
        "waiting_bytes": storage.waiting_bytes,
        "commits": figures.commits,
        "batches": figures.batches,
        "written_bytes": figures.bytes,
        "longest_commit_seconds": round(figures.longest_seconds, 6),
        "damage": [str(each) for each in storage.store.damage],
        "quarantined": storage.quarantine.count,
        "quarantine_dropped": storage.quarantine.dropped,
        "archived": None if server.archiving is None else server.archiving.position,
        "archive_problem": "" if server.archiving is None else server.archiving.problem,
    }
