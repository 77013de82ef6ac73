"""Planted bugs in how blocks of publications are handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palio.codec.frames import Options
from palio.model import Notification
from palio.node.ports import PublishBlock, PublishWith
from palio.node.publications import Publications
from palio.node.publishing import Published, Publishing
from palio.routing.board import Board, Dispatched
from palio.routing.messages import Publish
from tests.planted.bugs import Bugs

BUGS = Bugs()
_Right = Callable[..., Any]
_ALL = ("ce", "hs", "as", "aa", "nf")
_SERVERS = ("hs", "as", "aa", "nf")
_ANY = ("none",)
_NO_OPTIONS = Options()


@BUGS.plant(Board, "remove", _ALL, _ANY)
def _block_for_who_has_left(_right: _Right) -> _Right:
    """A party that has unsubscribed still gets what comes in blocks."""
    return lambda _board, _slot, _party: None


@BUGS.plant(Board, "dispatch", _SERVERS, _ANY)
def _block_stays_here(right: _Right) -> _Right:
    """What comes in blocks goes to parties of the server only."""

    def dispatch(board: Board, *given: Any, **how: Any) -> Dispatched:
        done: Dispatched = right(board, *given, **how)
        return done._replace(others=[])

    return dispatch


@BUGS.plant(Board, "dispatch", _ALL, _ANY)
def _block_for_one_party(right: _Right) -> _Right:
    """Of the parties that want something of a block, only the first gets it."""

    def dispatch(board: Board, *given: Any, **how: Any) -> Dispatched:
        done: Dispatched = right(board, *given, **how)
        return done._replace(deliveries=done.deliveries[:1])

    return dispatch


@BUGS.plant(Publishing, "accept_block", _ALL, _ANY)
def _blocks_are_not_counted(right: _Right) -> _Right:
    """Publications of a block have the numbers that were given to those before it."""

    def accept_block(publishing: Publishing, block: PublishBlock, now: int, **how: Any) -> Published:
        before = publishing.count
        published: Published = right(publishing, block, now, **how)
        publishing.count = before
        return published

    return accept_block


@BUGS.plant(Publishing, "accept", _ALL, _ANY)
def _trace_of_the_one_before(right: _Right) -> _Right:
    """A publication without a trace gets that of the one before it."""
    last: list[str | None] = [None]

    def accept(
        publishing: Publishing, party: str, notification: Notification, now: int, options: Options = _NO_OPTIONS
    ) -> Publish:
        last[0] = options.trace or last[0]
        made: Publish = right(publishing, party, notification, now, msgspec.structs.replace(options, trace=last[0]))
        return made

    return accept


@BUGS.plant(Publications, "take_with", _ALL, _ANY)
def _traced_goes_behind(right: _Right) -> _Right:
    """A publication with a trace is handled when the next one comes."""
    waiting: dict[Publications, PublishWith] = {}

    def take_with(publications: Publications, given: PublishWith) -> None:
        before = waiting.pop(publications, None)
        if before is None:
            waiting[publications] = given
            return
        right(publications, given)
        right(publications, before)

    return take_with
