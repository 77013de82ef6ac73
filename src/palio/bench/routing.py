"""How fast a server takes subscriptions and notifications when its tables are full.

Subscriptions of a population come one by one, from a thousand parties, into a router with neighbours; what they have to
be told is worked out after each. Then another neighbour is connected, and a tenth of the subscriptions cancelled. The
largest number of subscriptions comes to a router with many neighbours too, once from parties and once from the
neighbours themselves in turn, so that each has to be told what all but itself hold. Notifications are published by a
party, in batches, at a node without neighbours, beside calls of its index alone. Patterns have three filters each, and
a party each; beside them, the same filters as plain subscriptions. Times are the processor's, for one thread. Merging,
and networks of any shape, have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from time import process_time
from typing import NamedTuple

from palio.bench import delegation, graphs, merging
from palio.bench.populations import SUBSCRIPTIONS, subscriptions
from palio.bench.report import Figure, Report
from palio.bench.workloads import WORKLOADS
from palio.matching import FilterIndex
from palio.model import Filter, Notification, Pattern
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Publish, Subscribe
from palio.routing.router import Profile, Role, Router

SIZES = (50_000, 100_000)
POPULATIONS = SUBSCRIPTIONS
_WORKLOADS = ("W1", "W2", "W3", "W4")
_PATTERNS = "W2"
"""The workload whose filters patterns consist of: stock ticks."""
_IN_A_PATTERN = 3
_PARTIES = 1_000
_FEW_NEIGHBOURS = 2
_MANY_NEIGHBOURS = 16
_CANCELLED = 10  # one of so many
_EVENTS = 2_000
_BATCH = 100
_ROUNDS = 3
_KEYS = (
    *("population", "operation", "size", "neighbours", "per_second", "seconds", "told", "times_half", "of_matcher"),
    *("told_share", "held_share", "in_vain"),
    *graphs.KEYS,
    *delegation.KEYS,
)
PARTS = ("tables", "notifications", "patterns", "merging", "graphs")
"""What can be measured by itself."""


def run(
    progress: Callable[[str], None] = lambda _: None,
    sizes: Sequence[int] = SIZES,
    servers: Sequence[int] = graphs.SERVERS,
    parts: Collection[str] = PARTS,
) -> Report:
    """Measure everything, or some parts; ``progress`` is told what comes next."""
    rows: list[dict[str, Figure]] = []
    if "tables" in parts:
        for name in POPULATIONS:
            rows += _subscribing(name, sizes, progress)
    if "notifications" in parts:
        rows += _notifications(sizes, progress)
    if "patterns" in parts:
        rows += _patterns(sizes, progress)
    if "merging" in parts:
        rows += merging.rows(min(*sizes, merging.MOST), merging.POPULATIONS, progress)
    if "graphs" in parts:
        rows += graphs.rows(servers, progress)
    return Report("routing", [dict.fromkeys(_KEYS) | row for row in rows])


def _notifications(sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    for name in _WORKLOADS:
        for size in sizes:
            progress(f"{name}, {size:,}: notifications")
            yield from _publishing(name, size)


def _patterns(sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    for size in sizes:
        progress(f"{_PATTERNS}, {size:,}: patterns")
        yield from _monitoring(size)
    yield from delegation.rows(progress)


def _subscribing(population: str, sizes: Sequence[int], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    filters = list(islice(subscriptions(population), max(sizes)))
    for filter in filters:
        hash(filter)  # its canonical form, which is no part of this
    known: dict[int, float] = {}
    for size in sorted(sizes):
        progress(f"{population}, {size:,}: subscriptions")
        router, chosen = _router(_FEW_NEIGHBOURS), filters[:size]
        cost = _timed(size, partial(_subscribe, router, chosen))
        half, known[size] = known.get(size // 2), cost.seconds
        ratio: dict[str, Figure] = {"times_half": cost.seconds / half if half else None}
        yield _row(population, "subscribe", size, _FEW_NEIGHBOURS, cost) | ratio
        cost = _timed(1, partial(_connect, router))
        yield _row(population, "connect", size, _FEW_NEIGHBOURS + 1, cost)
        leaving = range(0, size, _CANCELLED)
        cost = _timed(len(leaving), partial(_unsubscribe, router, chosen, leaving))
        yield _row(population, "unsubscribe", size, _FEW_NEIGHBOURS + 1, cost)
    for operation, work in (("subscribe", _subscribe), ("hear", _hear)):
        progress(f"{population}, {len(filters):,}: {operation}, {_MANY_NEIGHBOURS} neighbours")
        cost = _timed(len(filters), partial(work, _router(_MANY_NEIGHBOURS), filters))
        yield _row(population, operation, len(filters), _MANY_NEIGHBOURS, cost)


class _Cost(NamedTuple):
    operations: int
    seconds: float
    told: int
    """Messages for the neighbours."""


def _row(population: str, operation: str, size: int, neighbours: int, cost: _Cost) -> dict[str, Figure]:
    return {
        "population": population,
        "operation": operation,
        "size": size,
        "neighbours": neighbours,
        "per_second": cost.operations / cost.seconds,
        "seconds": cost.seconds,
        "told": cost.told,
    }


def _router(neighbours: int) -> Router:
    router = ARCHITECTURES["as"]()
    for number in range(neighbours):
        router.connect(f"n{number}", Role.PEER)
    return router


def _subscribe(router: Router, filters: Sequence[Filter]) -> int:
    """Parties subscribe in turn; how many messages the neighbours get about it."""
    told = 0
    for number, filter in enumerate(filters):
        router.subscribe(f"p{number % _PARTIES}", filter)
        told += _told(router)
    return told


def _hear(router: Router, filters: Sequence[Filter]) -> int:
    """The neighbours themselves subscribe, in turn."""
    told = 0
    peers = list(router.peers)
    for number, filter in enumerate(filters):
        router.receive(peers[number % len(peers)], Subscribe(filter))
        told += _told(router)
    return told


def _connect(router: Router) -> int:
    router.connect("another", Role.PEER)
    return _told(router)


def _unsubscribe(router: Router, filters: Sequence[Filter], leaving: Iterable[int]) -> int:
    """Some subscriptions are cancelled by their parties, unless they were replaced by broader ones."""
    told = 0
    for number in leaving:
        router.unsubscribe(f"p{number % _PARTIES}", filters[number])
        told += _told(router)
    return told


def _told(router: Router) -> int:
    return sum(len(messages) for _, messages in router.control())


def _timed(operations: int, work: Callable[[], int]) -> _Cost:
    begin = process_time()
    told = work()
    return _Cost(operations, process_time() - begin, told)


def _publishing(workload: str, size: int) -> Iterator[dict[str, Figure]]:
    filters, events = WORKLOADS[workload].filters(size), WORKLOADS[workload].events(_EVENTS, size=size)
    node = Node(NodeSettings("milan", "ce"))
    for number, filter in enumerate(filters):
        node.router.subscribe(f"p{number}", filter)
    index = FilterIndex(filters)
    batches = _batches(events)
    messages = [Publish(event) for event in events]
    matching = _best(lambda: [index.match(event) for event in events])
    routing = _best(lambda: [node.router.route(message) for message in messages])
    handling = _best(lambda: [node.handle(batch, 0) for batch in batches])
    for operation, seconds in (("match alone", matching), ("route", routing), ("publish at a node", handling)):
        yield {
            "population": workload,
            "operation": operation,
            "size": size,
            "per_second": _EVENTS / seconds,
            "of_matcher": matching / seconds,
        }


def _monitoring(size: int) -> Iterator[dict[str, Figure]]:
    workload, count = WORKLOADS[_PATTERNS], _IN_A_PATTERN * size
    filters, batches = workload.filters(count), _batches(workload.events(_EVENTS, size=count))
    for operation in ("publish, plain filters", "publish, patterns"):
        node = Node(NodeSettings("milan", "ce"))
        for begin in range(0, count, _IN_A_PATTERN):
            party, mine = f"p{begin}", filters[begin : begin + _IN_A_PATTERN]
            if operation == "publish, patterns":
                node.monitors.subscribe(party, Pattern(mine))
            else:
                node.router.put_in(party, Profile(tuple(mine), ()))
        seconds = _best(lambda node=node: [node.handle(batch, 0) for batch in batches])  # type: ignore[misc]
        yield {"population": _PATTERNS, "operation": operation, "size": size, "per_second": _EVENTS / seconds}


def _batches(events: Sequence[Notification]) -> list[list[ports.Input]]:
    requests = [ports.Request("object", number, ports.Publish(event)) for number, event in enumerate(events)]
    return [list(requests[begin : begin + _BATCH]) for begin in range(0, len(requests), _BATCH)]


def _best(work: Callable[[], object]) -> float:
    work()
    return min(_seconds(work) for _ in range(_ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin
