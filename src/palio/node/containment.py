"""Faults of the node itself: an input that cannot be handled because of one must not harm the others.

A fault is an exception that is not meant for the sender of an input: a bug. The sender gets the error ``internal`` and
the driver gets a :class:`~palio.node.ports.Fault`. What happens besides depends on the kind of input:

======================================  ================================================================================
publications                            those that were not completely handled are refused, one by one
requests                                refused, if the tables still agree about what the party holds
attach, detach, acknowledge; requests   the driver closes the connection that reads the log; the party resumes there
about a log
frames of a peer, changes of links      the link is given up and begins anew: a part of a frame may have been handled
written, fetched, room, space, archived  the node is broken
======================================  ================================================================================

A node whose state may be wrong is *broken*: :class:`BrokenNodeError` leaves :meth:`Node.handle`, and the driver must
stop it. That is so for the last row, for all that a turn does at its end, where no input is to blame, and wherever a
check after a fault finds that parts of the node do not agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palio.errors import InternalError, PalioError, stack_of
from palio.node import ports
from palio.node.ports import Fault, FromPeer, Input, PublishBlock, PublishWith, Reply, Request

if TYPE_CHECKING:
    from palio.node.node import Node


class BrokenNodeError(InternalError):
    """The state of a node may be wrong after a fault: it must be stopped."""


class FaultError(InternalError):
    """A fault of the server kept it from doing what was asked for."""

    def __init__(self) -> None:
        super().__init__("a fault of the server, which is described in its log; this may have had effects or none")


@contextmanager
def critical(what: str, *passing: type[PalioError]) -> Iterator[None]:
    """Whatever fails here, but for some errors, leaves a node in an unknown state.

    >>> with critical("the log"):
    ...     1 / 0
    Traceback (most recent call last):
    palio.node.containment.BrokenNodeError: a fault in the log
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (BrokenNodeError, *passing)):
            raise
        raise BrokenNodeError(f"a fault in {what}") from error


class Containment:
    """What a node does about faults."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def contain(self, given: Input, error: Exception) -> None:
        """Handling an input has failed: tell its sender, and see to it that nothing else is concerned."""
        if isinstance(error, BrokenNodeError):
            raise error
        with critical(f"the handling of a fault in {type(given).__name__}"):
            self._contain(given, error)
            self._check(self._node.logs.is_sound(), error)
            self._check(self._node.router.peers.keys() == set(self._node.links.peers), error)

    def _contain(self, given: Input, error: Exception) -> None:
        node = self._node
        where = type(given).__name__
        match given:
            case PublishBlock() | PublishWith():
                self.report(where, error)
                node.publications.refuse(given)
            case Request(party, number, operation, by):
                self._contain_request(party, operation, error)
                node.emit(Reply(party if by is None else by, number, FaultError()))
            case (
                FromPeer(peer) | ports.Connect(peer) | ports.Disconnect(peer)
                | ports.Allow(peer) | ports.Expect(peer) | ports.Doubt(peer) | ports.Lost(peer)
            ):  # fmt: skip
                self.report(where, error)
                node.lose(peer, "a fault of this server, which is described in its log")
            case ports.Attach(party, _, reading) | ports.Detach(party, reading):
                self.report(where, error, party, reading)
            case ports.Acknowledge(party, _, reading):
                self.report(where, error, party, reading)
            case _:
                raise BrokenNodeError(f"a fault in {where}") from error

    def _contain_request(self, party: str, operation: ports.Operation, error: Exception) -> None:
        node, where = self._node, type(operation).__name__
        if isinstance(operation, ports.Replay | ports.Reject | ports.Letters):
            reading = node.logs.of(party).reading if party in node.logs else None
            self.report(where, error, party, reading or 0)
            return
        self.report(where, error)
        if not isinstance(operation, ports.Publish):
            self._check(node.router.is_sound(party), error)

    @staticmethod
    def _check(is_sound: bool, error: Exception) -> None:
        if not is_sound:
            raise BrokenNodeError("a fault that has left tables or logs in disorder") from error

    def report(self, where: str, error: Exception, party: str = "", reading: int = 0) -> None:
        """Tell the driver of a fault, and perhaps of a connection that must not go on."""
        self._node.emit(Fault(where, stack_of(error), party, reading))
