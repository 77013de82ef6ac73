"""What a neighbour is told of many subscriptions: by covering alone, by perfect and by imperfect merging.

A neighbour is connected to a server that has all subscriptions of a population; or it is there from the beginning, the
subscriptions come in batches, and a tenth is cancelled in batches. Counted are messages and, at the end, what the
neighbour holds, as shares of the subscriptions. Notifications lie in and around the subscriptions; of those that the
neighbour sends because of what it was told, some are in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from time import process_time
from typing import NamedTuple

from palio.bench.populations import subscriptions
from palio.bench.report import Figure
from palio.matching import FilterIndex
from palio.model import Filter, Notification
from palio.model.operator import Operator
from palio.model.value import Value
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Subscribe, Unsubscribe
from palio.routing.router import Role, Router
from palio.routing.telling import Telling, TellingSettings
from palio.routing.unions import Merging

POPULATIONS = ("stock", "areas", "sites")
"""Zipf stock filters, random ranges, hierarchical names."""
MODES: dict[str, Merging | None] = {
    "covering": None,
    "perfect": Merging(),
    "5 %": Merging(slack=5),
    "20 %": Merging(slack=20),
}
_BATCH = 100
_CANCELLED = 10  # one of so many
_EVENTS = 5_000


class _Heard:
    """What a neighbour of a server hears and holds."""

    def __init__(self, router: Router, merging: Merging | None) -> None:
        self.router, self.telling = router, Telling(TellingSettings(merging))
        self.held: dict[Filter, None] = {}
        self.messages = 0

    def tell(self) -> None:
        """The neighbour is told what has changed."""
        for _, messages in self.telling.take(self.router.control(), 0):
            self.messages += len(messages)
            for message in messages:
                match message:
                    case Subscribe(filter):
                        self.held[filter] = None
                    case Unsubscribe(filter):
                        del self.held[filter]


class _Cost(NamedTuple):
    heard: _Heard
    seconds: float


def rows(size: int, populations: Sequence[str], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """The figures of some populations, with so many subscriptions."""
    for population in populations:
        filters = list(islice(subscriptions(population), size))
        events = list(_events(filters))
        for mode, merging in MODES.items():
            progress(f"{population}, {size:,}: told, {mode}")
            for operation, cost in (
                ("connect", _connect(filters, merging)),
                ("in batches", _come_and_go(filters, merging)),
            ):
                yield {
                    "population": population,
                    "operation": f"{operation}, {mode}",
                    "size": size,
                    "seconds": cost.seconds,
                    "told": cost.heard.messages,
                    "told_share": cost.heard.messages / size,
                    "held_share": len(cost.heard.held) / size,
                    "in_vain": _in_vain(cost.heard, events),
                }


def _connect(filters: Sequence[Filter], merging: Merging | None) -> _Cost:
    router = _router()
    _subscribe(router, filters)
    heard = _Heard(router, merging)
    begin = process_time()
    router.connect("rome", Role.PEER)
    heard.tell()
    return _Cost(heard, process_time() - begin)


def _come_and_go(filters: Sequence[Filter], merging: Merging | None) -> _Cost:
    router = _router()
    router.connect("rome", Role.PEER)
    heard = _Heard(router, merging)
    begin = process_time()
    for place in range(0, len(filters), _BATCH):
        _subscribe(router, filters[place : place + _BATCH], place)
        heard.tell()
    leaving = range(0, len(filters), _CANCELLED)
    for place in range(0, len(leaving), _BATCH):
        for number in leaving[place : place + _BATCH]:
            router.unsubscribe(f"p{number}", filters[number])
        heard.tell()
    return _Cost(heard, process_time() - begin)


def _router() -> Router:
    return ARCHITECTURES["as"]("milan")


def _subscribe(router: Router, filters: Iterable[Filter], first: int = 0) -> None:
    for number, filter in enumerate(filters, first):
        router.subscribe(f"p{number}", filter)


def _in_vain(heard: _Heard, events: Sequence[Notification]) -> float:
    """The share of what the neighbour sends that nobody wants."""
    wanted, told = FilterIndex(list(heard.router.subscriptions)), FilterIndex(list(heard.held))
    sent = [event for event in events if told.match(event)]
    return sum(not wanted.match(event) for event in sent) / len(sent) if sent else 0.0


def _events(filters: Sequence[Filter]) -> Iterator[Notification]:
    """Notifications in and around the filters, each near one of them."""
    random = Random("near")  # noqa: S311 (no secrets)
    for _ in range(_EVENTS):
        filter = random.choice(filters)
        yield Notification({name: _near(filter, name, random) for name in filter.names})


def _near(filter: Filter, name: str, random: Random) -> Value:
    """A value that the filter allows for a name, or one not far from it."""
    literals = {each.operator: each.value for each in filter if each.name == name}
    numbers = [value for value in literals.values() if isinstance(value, int | float)]
    if numbers:
        width = max(numbers) - min(numbers) or abs(numbers[0]) / 10
        return random.uniform(min(numbers) - width, max(numbers) + width)
    text = str(next(iter(literals.values())))
    if Operator.PREFIX in literals and random.random() < 0.5:
        text = text.rstrip("/").rpartition("/")[0] + "/"
    return text if Operator.EQ in literals else f"{text}section{random.randrange(50)}/"
