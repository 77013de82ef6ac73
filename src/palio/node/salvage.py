"""What of the records of a server still counts when its links cannot go on: data was lost, or the network is another.

What parties hold and wait for counts always. What was agreed with neighbours does not; publications that waited for
them are discarded, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from palio.link.frames import Close, Why
from palio.node.fitting import begun_anew
from palio.node.party_log import all_sent
from palio.node.ports import LinkDown
from palio.node.watches import COLLECTING, Watch
from palio.routing.messages import Publish
from palio.routing.router import MONITORS

Key = tuple[Any, ...]
Records = dict[Key, Any]

_OWN = (
    *("party", "holds", "watch", "asks", "logs", "mail", "owner", "cursor", "end", "mark", "sweep", "letter", "key"),
    *("wish", "link letter", "link letters", "architecture", "running", "ended lease"),
)
"""Kinds of records that count though data was lost."""

_WITHOUT_LINKS = (*_OWN, "life", "counters", "seen", "tag", "closing", "last", "ended")
"""Kinds of records that count in another network."""


class Unlinked(NamedTuple):
    """What is left of a server without its links."""

    records: Records
    lost: list[LinkDown]
    """The links that are gone."""


def salvaged(known: Mapping[Key, Any], life: int) -> Unlinked:
    """What counts in a new life of a server that has lost data.

    Logs of parties are others from now on, because numbers may have been given that are not known here; and what they
    hold may have been sent. Sequences that were half found are given up.
    """
    found = {key: value for key, value in known.items() if key[0] in _OWN}
    for place, (key, (number, _, keep)) in enumerate(item for item in known.items() if item[0][0] == "mail"):
        found[key] = number, life + place, keep
    for key, value in known.items():
        if key[0] == "cursor":
            found[key] = all_sent(value)
        elif key[0] == "pattern" and isinstance(key[1], str) and key[1] != MONITORS:
            found[key] = begun_anew(key[1], key[2], value)
    if ("counters",) in known:
        found["counters",] = 0, 0, known["counters",][2]
    return Unlinked(found, _lost(known, "the store was damaged, so that the link begins anew"))


def moved(known: Mapping[Key, Any], architecture: str) -> Unlinked:
    """What counts of a server that is in another network from now on: neighbours are told that links are gone.

    Patterns of parties that neighbours have watched are watched here, and go on.
    """
    found = {key: value for key, value in known.items() if key[0] in _WITHOUT_LINKS}
    reason = f"the architecture of the server is {architecture}, and was {known['architecture',]}"
    for key, value in known.items():
        match key[0]:
            case "link":
                found["closing", key[1], value[0]] = Close(value[0], Why.UNKNOWN, reason)
            case "pattern" if _is_of_party(key):
                found[key] = _at_home(key, value)
            case "held back" if value[2] is None or _is_of_party(value[2]):
                found[key] = value
            case "pending" if _is_of_party(key[2]) and _waits(known.get(key[2])):
                found["held back", key[1]] = 0, value, key[2]
    return Unlinked(found, _lost(known, reason))


def _is_of_party(key: Key) -> bool:
    return isinstance(key[1], str) and key[1] != MONITORS


def _waits(state: Any) -> bool:
    return state is not None and state[7][0] in COLLECTING


def _at_home(key: Key, state: tuple[Any, ...]) -> tuple[Any, ...]:
    """The state of a pattern that goes on where its party is."""
    plain = Watch(key[1], key[2], 0).state()
    factors, place = plain[6], plain[7]
    return (*state[:6], factors, place, *state[8:])


def _lost(known: Mapping[Key, Any], reason: str) -> list[LinkDown]:
    """The links that there were, and how many publications waited for each neighbour."""
    discarded = {key[1]: 0 for key in known if key[0] == "link"}
    for key, messages in known.items():
        if key[0] == "out" and key[1] in discarded:
            base = known.get(("base", key[1]), 0)
            waiting = [each for number, each in enumerate(messages, key[2]) if number >= base]
            discarded[key[1]] += sum(isinstance(each, Publish) for each in waiting)
    return [LinkDown(peer, reason, count) for peer, count in discarded.items()]
