"""What a neighbour is told of many subscriptions: by covering alone, by perfect and by imperfect merging.

A neighbour is connected to a server that has all subscriptions of a population; or it is there from the beginning, the
subscriptions come one by one, or in batches that have waited, and then a tenth is cancelled in the same way. Counted
are messages and, at the end, what the neighbour holds, as shares of what it would be without covering: a message for
each subscription and cancellation, and all subscriptions that are left. Where the neighbour compresses, it is told what
covering leaves, and holds what it makes of that. Notifications lie in and around the subscriptions; of those that the
neighbour sends because of what it was told, some are in vain.

What the tables say is worked out once for all modes, so seconds are those of merging alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from palio.routing.compression import Compression
from palio.routing.messages import Control, Subscribe, Unsubscribe
from palio.routing.router import Role
from palio.routing.telling import Behind, Telling, TellingSettings
from palio.routing.unions import Merging

POPULATIONS = ("stock", "areas", "sites")
"""Zipf stock filters, random ranges, hierarchical names."""
MOST = 20_000
"""Subscriptions: more take too long."""


class _Mode(NamedTuple):
    merging: Merging | None = None
    compression: Merging | None = None


MODES: dict[str, _Mode] = {
    "covering": _Mode(),
    "perfect": _Mode(Merging()),
    "5 %": _Mode(Merging(slack=5)),
    "20 %": _Mode(Merging(slack=20)),
    "compressed": _Mode(compression=Merging()),
}
_BATCHES = {"one by one": 1, "in batches": 100}
_CANCELLED = 10  # one of so many
_EVENTS = 5_000


class _Arrival(NamedTuple):
    """How subscriptions come, and go."""

    name: str
    said: list[list[Control]]
    """What the tables say that the neighbour has to be told, from time to time."""
    plain_told: int
    """The messages without covering."""
    left: tuple[Filter, ...]
    """The subscriptions at the end."""


class _Neighbour:
    """What a neighbour of a server hears and holds."""

    def __init__(self, mode: _Mode) -> None:
        settings = TellingSettings(mode.merging, in_flight=1 << 30)  # nothing is acknowledged here
        self._telling, self._compression = Telling(settings), Compression(mode.compression)
        self.held: dict[Filter, None] = {}
        self.messages = 0

    def hear(self, said: list[Control]) -> None:
        """The neighbour is told what has changed."""
        for _, messages in self._telling.take([("rome", said)], 0):
            self.messages += len(messages)
            for message in messages:
                assert not isinstance(message, Behind), "there are no waves here"
                for each in self._compression.take("milan", message):
                    match each:
                        case Subscribe(filter):
                            self.held[filter] = None
                        case Unsubscribe(filter):
                            del self.held[filter]


def rows(size: int, populations: Sequence[str], progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """The figures of some populations, with so many subscriptions."""
    for population in populations:
        progress(f"{population}, {size:,}: what has to be told")
        filters = list(islice(subscriptions(population), size))
        events = list(_events(filters))
        for arrival in (_at_once(filters), *(_steadily(filters, name) for name in _BATCHES)):
            wanted = FilterIndex(list(arrival.left))
            is_wanted = [bool(wanted.match(event)) for event in events]
            for name, mode in MODES.items():
                progress(f"{population}, {size:,}: {arrival.name}, {name}")
                neighbour = _Neighbour(mode)
                begin = process_time()
                for said in arrival.said:
                    neighbour.hear(said)
                yield {
                    "population": population,
                    "operation": f"{arrival.name}, {name}",
                    "size": size,
                    "seconds": process_time() - begin,
                    "told": neighbour.messages,
                    "told_share": neighbour.messages / arrival.plain_told,
                    "held_share": len(neighbour.held) / len(arrival.left),
                    "in_vain": _in_vain(neighbour, events, is_wanted),
                }


def _at_once(filters: Sequence[Filter]) -> _Arrival:
    router = ARCHITECTURES["as"]("milan")
    for number, filter in enumerate(filters):
        router.subscribe(f"p{number}", filter)
    router.connect("rome", Role.PEER)
    return _Arrival("connect", [messages for _, messages in router.control()], len(filters), tuple(filters))


def _steadily(filters: Sequence[Filter], name: str) -> _Arrival:
    """They come in batches, and a tenth of them goes in batches."""
    router = ARCHITECTURES["as"]("milan")
    router.connect("rome", Role.PEER)
    coming, leaving = range(len(filters)), range(0, len(filters), _CANCELLED)
    said: list[list[Control]] = []
    for numbers, work in ((coming, router.subscribe), (leaving, router.unsubscribe)):
        for place in range(0, len(numbers), _BATCHES[name]):
            for number in numbers[place : place + _BATCHES[name]]:
                work(f"p{number}", filters[number])
            said += [messages for _, messages in router.control()]
    left = tuple(filter for number, filter in enumerate(filters) if number % _CANCELLED)
    return _Arrival(name, said, len(coming) + len(leaving), left)


def _in_vain(neighbour: _Neighbour, events: Sequence[Notification], is_wanted: Sequence[bool]) -> float:
    """The share of what the neighbour sends that nobody wants."""
    told = FilterIndex(list(neighbour.held))
    sent = [wanted for event, wanted in zip(events, is_wanted, strict=True) if told.match(event)]
    return sum(not wanted for wanted in sent) / len(sent) if sent else 0.0


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
