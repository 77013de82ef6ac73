"""What a party holds at a server: its subscriptions and advertisements, as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from palio.node.node import Node

_MOST_BYTES = 4 << 20
"""Of the texts of one answer; further ones are left out, and counted."""


def holdings(node: Node, party: str) -> dict[str, Any]:
    """The filters, patterns and advertisements of a party, sorted."""
    filters, advertisements = node.router.profile(party)
    patterns = node.monitors.patterns(party)
    room = _MOST_BYTES
    subscribed, room, more_subscribed = _fitting([*map(str, filters), *map(str, patterns)], room)
    advertised, room, more_advertised = _fitting(map(str, advertisements), room)
    return {
        "party": party,
        "subscriptions": subscribed,
        "subscriptions_left_out": more_subscribed,
        "advertisements": advertised,
        "advertisements_left_out": more_advertised,
    }


def _fitting(texts: Iterable[str], room: int) -> tuple[list[str], int, int]:
    """As many texts as there is room for; the room that is left, and how many texts do not fit."""
    found = sorted(texts)
    for number, text in enumerate(found):
        room -= len(text.encode())
        if room < 0:
            return found[:number], 0, len(found) - number
    return found, room, 0
