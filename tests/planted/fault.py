"""Planted bugs in how nodes contain their own faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from palio.node.node import Node
from palio.node.ports import AcceptedUpTo, FromPeer, Input, PublishBlock, PublishWith
from palio.node.publications import Publications
from palio.sim.generators.node_faults import FAULTY
from palio.sim.histories.troubled_cluster import TroubledCluster
from tests.planted.bugs import Bugs

BUGS = Bugs("faults")
_Right = Callable[..., Any]
_LINKED = ("hs", "as", "nf", "gs")
_ANY = ("none",)


@BUGS.plant(Node, "_take_all", FAULTY, _ANY)
def _fault_eats_the_batch(_right: _Right) -> _Right:
    """After a fault the rest of the batch is dropped, and the next acceptance covers it."""

    def take_all(node: Node, inputs: Iterable[Input]) -> None:
        with suppress(Exception):
            for each in inputs:
                node._take(each)

    return take_all


@BUGS.plant(Node, "_take_all", FAULTY, _ANY)
def _fault_eats_the_input(_right: _Right) -> _Right:
    """The sender of an input that fails does not hear of it."""

    def take_all(node: Node, inputs: Iterable[Input]) -> None:
        for each in inputs:
            with suppress(Exception):
                node._take(each)

    return take_all


@BUGS.plant(Publications, "refuse", FAULTY, _ANY)
def _failed_publications_are_accepted(_right: _Right) -> _Right:
    """Publications that fail are acknowledged as if they had been handled."""

    def refuse(publications: Publications, given: PublishBlock | PublishWith) -> None:
        publications._node.answer(AcceptedUpTo(given.party, 1_000_000, source=given.source))

    return refuse


@BUGS.plant(Node, "lose", ("as", "gs"), ("weather", "slow"))
def _link_goes_on_after_a_fault(_right: _Right) -> _Right:
    """A link goes on though a frame of it was handled in part, and the rest of the frame is lost."""
    return lambda _node, _peer, _reason: None


@BUGS.plant(Node, "_take_all", _LINKED, _ANY)
def _frames_of_peers_fail_silently(right: _Right) -> _Right:
    """A frame of a neighbour that fails is forgotten, and the link goes on."""

    def take_all(node: Node, inputs: Iterable[Input]) -> None:
        for each in inputs:
            if isinstance(each, FromPeer):
                with suppress(Exception):
                    node._take(each)
            else:
                right(node, (each,))

    return take_all


@BUGS.plant(TroubledCluster, "_break", FAULTY, _ANY)
def _broken_server_goes_on(_right: _Right) -> _Right:
    """A server goes on though the end of a turn has failed."""
    return lambda _cluster, _server: None
