"""What a server says of durable parties: their logs, their dead letters, and its store."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from palio.codec import control, frames, json, msgpack
from palio.errors import DecodeError
from palio.model import Limits, Notification, Pattern
from palio.node.hybrid import date_of
from palio.node.party_log import Letter, PartyLog

if TYPE_CHECKING:
    from palio.server.server import Server

MOST_LOGS = 200
"""Durable parties that a status tells of one by one: those for which most waits."""


def letters(log: PartyLog, limits: Limits) -> dict[str, Any]:
    """The dead letters of a party."""
    found = [
        {
            "letter": number,
            "delivery": letter.delivery,
            "reason": letter.reason,
            "time": date_of(letter.time).isoformat(),
            "notifications": [_form(each) for each in _notifications(letter, limits)],
        }
        for number, letter in log.letters.items()
    ]
    return {"letters": found, "forgotten": log.forgotten}


def _form(notification: Notification) -> dict[str, Any]:
    """As in JSON, with the envelope."""
    assert notification.envelope is not None
    content, envelope = (msgspec.json.decode(json.encode(each)) for each in (notification, notification.envelope))
    return {**content, **envelope}


def _notifications(letter: Letter, limits: Limits) -> list[Notification]:
    """What it says; nothing if that is lost."""
    if not letter.frame:
        return []
    ((kind, content),) = frames.frames_of(letter.frame)
    try:
        if kind == frames.DELIVER:
            return [frames.delivered(content, limits)]
        sequence = control.decode(kind, content)
        assert isinstance(sequence, control.Sequence)
        msgpack.decode(Pattern, bytes(sequence.pattern), limits)
        return [control.notification(*each, limits) for each in sequence.notifications]
    except DecodeError:
        return []  # limits were higher once


def durable_parties(server: Server, watcher: str | None) -> list[dict[str, Any]]:
    """The logs of durable parties; if somebody watches who is no admin, only its own."""
    logs = [log for log in server.driver.node.logs if watcher in (None, log.name)]
    return [
        {
            "name": log.name,
            "log": log.identity,
            "connected": log.reading is not None,
            "next": log.next,
            "waiting": log.next - log.done,
            "waiting_bytes": max(0, log.size - log.done_size),
            "dropped": log.dropped,
            "expired": log.expired,
            "letters": len(log.letters),
        }
        for log in nlargest(MOST_LOGS, logs, key=lambda each: each.next - each.done)
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
        "is_full": storage.is_full,
        "first": storage.store.first,
        "next": storage.store.next,
        "waiting_bytes": storage.waiting_bytes,
        "commits": figures.commits,
        "batches": figures.batches,
        "written_bytes": figures.bytes,
        "longest_commit_seconds": round(figures.longest_seconds, 6),
        "damage": [str(each) for each in storage.store.damage],
        "quarantined": storage.put_aside,
        "archived": None if server.archiving is None else server.archiving.position,
        "archive_problem": "" if server.archiving is None else server.archiving.problem,
    }
