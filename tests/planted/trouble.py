"""Planted bugs that show when servers get into trouble: disks, queues, clocks, and what lies between two effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from palio.node.journal import Record
from palio.node.keeping import Keeping
from palio.node.node import Node
from palio.node.ports import Input, Output, Persist, Send
from palio.routing.messages import Publish
from palio.sim.engine.disk import Batch, Disk
from palio.sim.engine.queue import Queue
from palio.sim.engine.scheduler import Action
from palio.sim.histories.troubled_cluster import TroubledCluster
from tests.planted.bugs import Bugs

BUGS = Bugs()
_Right = Callable[..., Any]
_ALL = ("ce", "hs", "as", "aa", "nf")
_SERVERS = ("hs", "as", "aa", "nf")

# -- disks -------------------------------------------------------------------------------------------------------------


@BUGS.plant(Batch, "is_whole", _ALL, ("disks",))
def _torn_write_taken_as_whole(_right: _Right) -> _Right:
    """Of a batch that was torn by a crash, what is there is taken."""
    return lambda _batch: True


@BUGS.plant(Batch, "is_whole", _ALL, ("disks",))
def _mark_without_a_checksum(_right: _Right) -> _Right:
    """A batch counts as whole if there is a mark behind it, whatever is missing before the mark."""
    return lambda batch: batch.mark is not None


@BUGS.plant(Disk, "write", _ALL, ("disks",))
def _released_when_the_write_begins(right: _Right) -> _Right:
    """A server is told that its records are safe when the write begins."""

    def write(disk: Disk, records: tuple[Record, ...], done: Action, **how: Any) -> None:
        right(disk, records, lambda: None, **how)
        disk._scheduler.at(disk._scheduler.now, done)

    return write


@BUGS.plant(Disk, "fail", _ALL, ("disks",))
def _failed_write_acknowledged(right: _Right) -> _Right:
    """A write that fails is taken as done."""

    def fail(disk: Disk, failed: Action | None) -> None:
        def go_on() -> None:
            disk._under_way.popleft().done()

        right(disk, None if failed is None else go_on)

    return fail


@BUGS.plant(Disk, "make_room", _ALL, ("disks",))
def _lost_while_full(right: _Right) -> _Right:
    """What waited until there was room on the disk is taken as written."""

    def make_room(disk: Disk) -> None:
        waiting, disk._waiting = disk._waiting, []
        right(disk)
        for write in waiting:
            disk._scheduler.at(disk._scheduler.now, write.done)

    return make_room


@BUGS.plant(Node, "_hold", _SERVERS, ("disks", "crashes"))
def _frames_do_not_wait(right: _Right) -> _Right:
    """Parties are told nothing before it is on disk, and neighbours are."""

    def hold(node: Node, keeping: Keeping, outputs: list[Output], entries: Any) -> list[Output]:
        frames = [each for each in outputs if isinstance(each, Send)]
        return [*frames, *right(node, keeping, [each for each in outputs if not isinstance(each, Send)], entries)]

    return hold


@BUGS.plant(Node, "_hold", _ALL, ("disks",))
def _nothing_new_does_not_wait(right: _Right) -> _Right:
    """What depends on no new records overtakes what waits for the disk."""

    def hold(node: Node, keeping: Keeping, outputs: list[Output], entries: Any) -> list[Output]:
        said: list[Output] = right(node, keeping, outputs, entries)
        if any(isinstance(each, Persist) for each in said) or not node.holding._turns:
            return said
        waiting = node.holding._turns[-1].outputs
        del waiting[len(waiting) - len(outputs) :]
        return said + outputs

    return hold


# -- queues ------------------------------------------------------------------------------------------------------------


@BUGS.plant(Queue, "take", _ALL, ("slow",))
def _last_come_first_served(right: _Right) -> _Right:
    """What came while the server was paused or busy is handled from its end."""
    return lambda queue: right(queue)[::-1]


@BUGS.plant(TroubledCluster, "_handle", _ALL, ("slow",))
def _only_the_first_of_a_batch(right: _Right) -> _Right:
    """Of requests that are handled together, only the first one is."""

    def handle(cluster: TroubledCluster, server: str, inputs: Iterable[Input]) -> None:
        right(cluster, server, tuple(inputs)[:1])

    return handle


@BUGS.plant(TroubledCluster, "crash", _ALL, ("all",))
def _queue_outlives_the_server(right: _Right) -> _Right:
    """What waited for a server that has died is taken when it comes back."""

    def crash(cluster: TroubledCluster, server: str, **how: Any) -> bool:
        queue = cluster._queues.get(server)
        waiting = [] if queue is None else queue.take()

        def bring_back() -> None:
            if server not in cluster.nodes:
                cluster.scheduler.at(cluster.scheduler.now + 50, bring_back)
                return
            for each in waiting:
                cluster.give(server, each.inputs, each.taken)

        is_torn = bool(right(cluster, server, **how))
        if waiting:
            bring_back()
        return is_torn

    return crash


# -- clocks ------------------------------------------------------------------------------------------------------------


@BUGS.plant(Node, "_forward", _SERVERS, ("slow",))
def _one_clock_for_all(right: _Right) -> _Right:
    """What was published later than it is now, by the clock of another server, is thrown away."""

    def forward(node: Node, message: Publish, source: str | None, **how: Any) -> None:
        envelope = message.notification.envelope
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=node._now)
        if source is None or (envelope is not None and envelope.published <= now):
            right(node, message, source, **how)

    return forward


# -- ways that are interrupted -----------------------------------------------------------------------------------------


@BUGS.plant(Node, "handle", _SERVERS, ("partitions",))
def _silence_ends_the_link(right: _Right) -> _Right:
    """A neighbour that has not been heard for a while counts as gone, and the link to it begins anew."""

    def handle(node: Node, inputs: Iterable[Input], now: int) -> list[Output]:
        links = node.links
        for peer, session in list(links._sessions.items()):
            if session._patience > 2 * node.settings.link.retransmit:
                node.happened(links.lose(peer, now))
        return list(right(node, inputs, now))

    return handle
