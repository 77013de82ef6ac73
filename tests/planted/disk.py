"""Planted bugs of what is kept: records that are not written, not read, or too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palio.link.link import Link
from palio.link.links import Links
from palio.model import Advertisement, Filter
from palio.node.keeping import Keeping, Kept
from palio.node.logs import Logs
from palio.node.node import Node
from palio.node.party_log import PartyLog
from palio.node.ports import Output, Persist
from palio.node.waves import Waves
from palio.routing.holdings import Holdings
from palio.routing.messages import Control
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs()
_Right = Callable[..., Any]
_ALL = ("ce", "hs", "as", "aa", "nf")
_SERVERS = ("hs", "as", "aa", "nf")
_CRASHES = ("crashes", "all")


@BUGS.plant(Node, "_hold", _ALL, _CRASHES)
def _acknowledged_before_persisted(right: _Right) -> _Right:
    """What is said does not wait until what it depends on is on disk."""

    def hold(node: Node, keeping: Keeping, outputs: list[Output], entries: Any) -> list[Output]:
        said: list[Output] = right(node, keeping, outputs, entries)
        for persist in [each for each in said if isinstance(each, Persist)]:
            node._persisted(persist.token, is_synced=True)
        released, node.holding._released = node.holding._released, []
        return released + said

    return hold


@BUGS.plant(Holdings, "take", _ALL, _CRASHES)
def _parties_not_kept(_right: _Right) -> _Right:
    """What parties hold is not written."""
    return lambda _holdings: []


@BUGS.plant(Keeping, "held", TREES, _CRASHES)
def _tables_not_kept(_right: _Right) -> _Right:
    """What neighbours hold is not written."""

    def held(_keeping: Keeping, _peer: str, _message: Control) -> None:
        return None

    return held


@BUGS.plant(Keeping, "gone", TREES, ("all",))
def _tables_of_the_gone_kept(_right: _Right) -> _Right:
    """What a neighbour held stays on disk when its link has ended."""
    return lambda _keeping, _peer: None


@BUGS.plant(Filter, "canonical", TREES, ("crashes",))
def _filters_identified_by_words(_right: _Right) -> _Right:
    """Equal filters in other words are other records, though they are one filter in memory."""
    return lambda filter: filter


@BUGS.plant(Advertisement, "canonical", ("aa",), ("crashes",))
def _advertisements_identified_by_words(_right: _Right) -> _Right:
    """The same of advertisements."""
    return lambda advertisement: advertisement


@BUGS.plant(Links, "keep", _SERVERS, _CRASHES)
def _outbox_not_kept(_right: _Right) -> _Right:
    """How far the sequences of links have come is not written."""
    return lambda _links: None


@BUGS.plant(Link, "restored", _SERVERS, _CRASHES)
def _outbox_not_restored(right: _Right) -> _Right:
    """Messages that had not been acknowledged are forgotten, and their numbers are given again."""

    def restored(records: Mapping[tuple[Any, ...], Any], peer: str, *more: Any) -> Link:
        link: Link = right({key: each for key, each in records.items() if key[:2] != ("out", peer)}, peer, *more)
        return link

    return restored


@BUGS.plant(Logs, "_recover", _ALL, _CRASHES)
def _mail_not_restored(right: _Right) -> _Right:
    """Deliveries that were not acknowledged are forgotten."""

    def recover(logs: Logs, log: PartyLog, cursor: Any) -> None:
        right(logs, log, cursor)
        log.drop(log.next)

    return recover


@BUGS.plant(Keeping, "restore", _ALL, _CRASHES)
def _numbers_begin_anew(right: _Right) -> _Right:
    """A server that comes back numbers its notifications from zero again, in the same incarnation."""

    def restore(keeping: Keeping, node: Node, kept: Kept, now: int) -> None:
        right(keeping, node, kept, now)
        node.publishing.count = 0

    return restore


@BUGS.plant(Waves, "restore", TREES, _CRASHES)
def _waves_not_restored(_right: _Right) -> _Right:
    """Waves that had gone out are forgotten, and who waits for them waits for ever."""
    return lambda _waves, _kept: None
