"""Filters and events to measure matching with: five workloads, the same for the same seed.

Each gives filters, events, and the events again as encoded bodies and as a record batch. docs/benchmarks.md describes
them for readers of figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations, permutations, product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from palio import codec
from palio.bench.timing import without_gc
from palio.model import Constraint, Filter, Notification
from palio.model.value import Value

if TYPE_CHECKING:
    import pyarrow

Attributes = dict[str, Value]
_MATCHES = 2.0
"""What an event matches on average in the workloads whose matches do not grow with the number of filters."""


class Workload(NamedTuple):
    """How filters and events are drawn; the same for the same numbers and seed.

    >>> w1 = WORKLOADS["W1"]
    >>> print(w1.filters(1, seed=3)[0])
    s4 = "v77" and s2 = "v64" and n1 >= 115 and n1 <= 314
    >>> len(w1.events(1)[0])
    10
    """

    name: str
    about: str
    draw_filters: Callable[[Random, int], Iterator[tuple[Constraint, ...]]]
    draw_events: Callable[[Random, int], Iterator[Attributes]]
    is_hostile: bool = False
    """Whether nearly everything matches, so that writing out the result is most of the work."""

    def filters(self, count: int, *, size: int | None = None, seed: int = 1) -> list[Filter]:
        """Some of the filters of an index that holds ``size`` of them (as many as are asked for, if not said)."""
        drawn = self.draw_filters(Random(f"{self.name} filters {seed}"), size or count)
        with without_gc():
            return [Filter(next(drawn)) for _ in range(count)]

    def events(self, count: int, *, size: int = 1000, seed: int = 1) -> list[Notification]:
        """Events for an index of ``size`` filters."""
        drawn = self.draw_events(Random(f"{self.name} events {seed}"), size)
        return [Notification(next(drawn)) for _ in range(count)]


def encode(events: Sequence[Notification]) -> list[bytes]:
    """The events as they arrive from the network: encoded bodies."""
    return [codec.msgpack.encode(event) for event in events]


def record_batch(events: Sequence[Notification]) -> pyarrow.RecordBatch:
    """The events as a table: a column for each attribute, null where an event lacks it."""
    import pyarrow as pa  # noqa: PLC0415 - large, and nothing but batches needs it

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    columns: dict[str, Any] = {}
    for name in sorted({name for event in events for name in event}):
        values = [event.get(name) for event in events]
        of = next(type(value) for value in values if value is not None)
        columns[name] = pa.array(values, types[of])
    return pa.RecordBatch.from_pydict(columns)


class _Pool:
    """Constraints, each built once: subscribers ask for the same things, and building is not what is measured."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, Value | None], Constraint] = {}

    def __call__(self, name: str, operator: str, value: Value | None = None) -> Constraint:
        key = name, operator, value
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Constraint(name, operator, value)
        return known


class _Zipf:
    """Numbers from 0 on, the first the most frequent, falling with a power of the rank."""

    def __init__(self, count: int, exponent: float) -> None:
        weights = list(accumulate((rank + 1) ** -exponent for rank in range(count)))
        self._numbers, self._weights = range(count), weights

    def __call__(self, random: Random) -> int:
        return random.choices(self._numbers, cum_weights=self._weights)[0]


# -- W1: two equalities and a range ------------------------------------------------------------------------------------


def _w1_values(_size: int) -> int:
    return 100


def _w1e_values(size: int) -> int:
    """So many strings an attribute that an event matches as many filters at every size; 100 at 100,000 filters."""
    return max(2, round(math.sqrt(size * 0.2 / _MATCHES)))


def _w1_filters(values: Callable[[int], int]) -> Callable[[Random, int], Iterator[tuple[Constraint, ...]]]:
    def draw(random: Random, size: int) -> Iterator[tuple[Constraint, ...]]:
        alphabet = values(size)
        equal = [[Constraint(f"s{i}", "=", f"v{x:02}") for x in range(alphabet)] for i in range(6)]
        ranges = [
            [(Constraint(f"n{k}", ">=", lo), Constraint(f"n{k}", "<=", lo + 199)) for lo in range(801)]
            for k in range(3)
        ]
        pairs = list(permutations(equal, 2))
        choose = random.choice
        while True:
            first, second = choose(pairs)
            yield (choose(first), choose(second), *choose(choose(ranges)))

    return draw


def _w1_events(values: Callable[[int], int]) -> Callable[[Random, int], Iterator[Attributes]]:
    def draw(random: Random, size: int) -> Iterator[Attributes]:
        alphabet = values(size)
        while True:
            event: Attributes = {"c0": f"c{random.randrange(5)}"}
            event |= {f"n{k}": random.randrange(1000) for k in range(3)}
            event |= {f"s{i}": f"v{random.randrange(alphabet):02}" for i in range(6)}
            yield event

    return draw


# -- W2: stock ticks ---------------------------------------------------------------------------------------------------

_EXCHANGES = ("NYSE", "NASDAQ", "XETRA", "LSE", "TSE", "HKEX", "SIX", "EURONEXT")
_SECTORS = ("energy", "materials", "industry", "retail", "food", "health", "finance", "software", "telecom", "power")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS = ["".join(letters) for letters in product(_LETTERS, _LETTERS, _LETTERS[:15])][:10_000]
_POPULARITY = _Zipf(len(_SYMBOLS), 0.9)
_STEP = 0.01


def _usual_price(symbol: int) -> float:
    return 5.0 + symbol * 7919 % 49_500 / 100


def _exchange_of(random: Random, symbol: int) -> str:
    """Each symbol is listed at two exchanges and mostly traded at one of them."""
    return _EXCHANGES[(symbol + (3 if random.random() < 0.25 else 0)) % 8]


def _w2_events(random: Random, _size: int) -> Iterator[Attributes]:
    while True:
        symbol = _POPULARITY(random)
        price = round(_usual_price(symbol) * random.gauss(1, 0.03), 2)
        event: Attributes = {
            "symbol": _SYMBOLS[symbol],
            "exchange": _exchange_of(random, symbol),
            "price": price,
            "change": round(random.gauss(0, 1.5), 2),
        }
        if random.random() < 0.8:
            event["volume"] = int(random.lognormvariate(6, 2)) * 10
        if random.random() < 0.4:
            event |= {"bid": round(price - _STEP, 2), "ask": round(price + _STEP, 2)}
        if random.random() < 0.3:
            event["sector"] = _SECTORS[symbol % 10]
        if random.random() < 0.02:
            event["halted"] = True
        yield event


def _w2_filters(random: Random, _size: int) -> Iterator[tuple[Constraint, ...]]:
    pool = _Pool()
    while True:
        symbol = _POPULARITY(random)
        of_sector = random.random() < 0.02
        if of_sector:
            found = [pool("sector", "=", _SECTORS[symbol % 10]), pool("exchange", "=", _exchange_of(random, symbol))]
        else:
            found = [pool("symbol", "=", _SYMBOLS[symbol])]
            if random.random() < 0.5:
                found.append(pool("exchange", "=", _exchange_of(random, symbol)))
        kind = random.random()
        if kind < 0.85 and not of_sector:  # a corridor of two percent
            lo = _usual_price(symbol) * random.uniform(0.75, 1.25)
            found += pool("price", ">=", round(lo, 2)), pool("price", "<=", round(lo * 1.02, 2))
        if kind > 0.25 or of_sector:  # a rise, a fall, or a corridor
            change = round(random.uniform(1.5, 4), 1)
            if kind > 0.75:
                found += pool("change", ">=", change), pool("change", "<=", change + 1)
            else:
                found.append(pool("change", "<=", -change) if kind < 0.5 else pool("change", ">=", change))
        if random.random() < 0.1:
            found.append(random.choice([pool("volume", ">=", 10_000), pool("bid", "any"), pool("halted", "absent")]))
        yield tuple(found)


# -- W3: ranges --------------------------------------------------------------------------------------------------------

_STEPS = 10_000
"""Places at which a range may begin or end: integers from 0 on, or hundredths of floats."""


def _w3_width(_size: int) -> int:
    return 669  # (669 / 10,000) ** 4 is 2.0e-5


def _w3e_width(size: int) -> int:
    return min(_STEPS, round(_STEPS * math.pow(_MATCHES / size, 0.25)))


def _w3_range(i: int, lo: int, wide: int) -> tuple[Constraint, Constraint]:
    """A range over so many of the steps; an event's value lies in it with just that probability."""
    name = f"x{i}"
    if i % 2 == 0:
        return Constraint(name, ">=", lo), Constraint(name, "<=", lo + wide - 1)
    return Constraint(name, ">=", lo / 100), Constraint(name, "<=", (lo + wide) / 100)


def _w3_filters(width: Callable[[int], int]) -> Callable[[Random, int], Iterator[tuple[Constraint, ...]]]:
    def draw(random: Random, size: int) -> Iterator[tuple[Constraint, ...]]:
        wide = width(size)
        places = _STEPS - wide + 1
        ranges: list[list[tuple[Constraint, Constraint] | None]] = [[None] * places for _ in range(10)]
        choices = list(combinations(range(10), 4))
        while True:
            found: list[Constraint] = []
            for i in random.choice(choices):
                lo = int(random.random() * places)
                known = ranges[i][lo]
                if known is None:
                    known = ranges[i][lo] = _w3_range(i, lo, wide)
                found += known
            yield tuple(found)

    return draw


def _w3_events(random: Random, _size: int) -> Iterator[Attributes]:
    while True:
        yield {f"x{i}": random.randrange(_STEPS) if i % 2 == 0 else random.random() * 100 for i in range(10)}


# -- W4: strings -------------------------------------------------------------------------------------------------------


def _words(count: int, syllables: int) -> list[str]:
    """Words that can be spoken, all different, short ones first."""
    parts = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    random = Random("words")
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(random.choices(parts, k=random.randint(2, syllables)))] = None
    return list(found)


_VOCABULARY = _words(5000, 4)
_HOSTS = [f"{word}.example" for word in _words(2000, 3)]
_FAMILIES = [word.capitalize() for word in _words(3000, 3)]
_GIVEN = [word.capitalize() for word in _words(200, 2)]
_ENDINGS = (".html", ".pdf", ".jpg", "/", ".xml", ".mp4", ".json", ".zip")
_ANY_WORD, _ANY_HOST = _Zipf(len(_VOCABULARY), 0.7), _Zipf(len(_HOSTS), 0.8)
_ANY_FAMILY, _ANY_GIVEN, _ANY_ENDING = _Zipf(len(_FAMILIES), 0.6), _Zipf(len(_GIVEN), 0.6), _Zipf(len(_ENDINGS), 1)


def _site(random: Random) -> str:
    return f"https://{_HOSTS[_ANY_HOST(random)]}/"


def _section(random: Random) -> str:
    """The first part of a path, one of 50."""
    return _VOCABULARY[random.randrange(50)]


def _w4_events(random: Random, _size: int) -> Iterator[Attributes]:
    while True:
        words = [_VOCABULARY[_ANY_WORD(random)] for _ in range(random.randint(3, 6))]
        ending = _ENDINGS[_ANY_ENDING(random)]
        yield {
            "url": f"{_site(random)}{_section(random)}/{random.randrange(100)}/{'-'.join(words)}{ending}",
            "title": " ".join(words).capitalize(),
            "author": f"{_GIVEN[_ANY_GIVEN(random)]} {_FAMILIES[_ANY_FAMILY(random)]}",
            "agent": f"reader/{random.randrange(1, 9)}.{random.randrange(10)}",
        }


def _w4_filters(random: Random, _size: int) -> Iterator[tuple[Constraint, ...]]:
    pool = _Pool()
    while True:
        kind = random.random()
        word, ending = _VOCABULARY[_ANY_WORD(random)], _ENDINGS[_ANY_ENDING(random)]
        if kind < 0.35:  # a part of a site
            yield (pool("url", ">*", f"{_site(random)}{_section(random)}/{random.randrange(100)}/"),)
        elif kind < 0.5:  # files of a kind in a part of a site
            yield pool("url", ">*", f"{_site(random)}{_section(random)}/"), pool("url", "*<", ending)
        elif kind < 0.7:  # two words of a title
            yield pool("title", "*", word), pool("title", "*", f" {_VOCABULARY[_ANY_WORD(random)]}")
        elif kind < 0.8:  # an author, on one subject
            yield pool("author", "*<", f" {_FAMILIES[_ANY_FAMILY(random)]}"), pool("url", "*", f"/{_section(random)}/")
        elif kind < 0.9:  # an author whose name is known in part, but not on one site
            name = f"{_GIVEN[_ANY_GIVEN(random)]} {_FAMILIES[_ANY_FAMILY(random)][:4]}"
            yield pool("author", ">*", name), pool("url", "!>*", _site(random))
        else:  # a subject on a site, but no pictures
            yield pool("url", ">*", _site(random)), pool("url", "*", f"-{word}"), pool("url", "!*<", ".jpg")


# -- W5: hostile -------------------------------------------------------------------------------------------------------


def _w5a_filters(random: Random, _size: int) -> Iterator[tuple[Constraint, ...]]:
    pool = _Pool()
    while True:
        yield (
            pool("type", "=", "alarm"),
            pool("level", ">=", random.randrange(10)),
            pool("room", "!=", f"r{random.randrange(1000)}"),
            pool("source", "!=", random.randrange(100)),
        )


def _w5a_events(random: Random, _size: int) -> Iterator[Attributes]:
    while True:
        yield {
            "type": "alarm",
            "level": random.randrange(100),
            "room": f"r{random.randrange(1000)}",
            "source": random.randrange(100),
        }


def _w5b_filters(random: Random, _size: int) -> Iterator[tuple[Constraint, ...]]:
    pool = _Pool()
    while True:
        names = random.sample(range(10), 3)
        found = [pool(f"a{names[0]}", "any")]
        found += [pool(f"a{i}", "!=", _w5b_value(random, i)) for i in names[1 : random.randint(1, 3)]]
        yield tuple(found)


def _w5b_events(random: Random, _size: int) -> Iterator[Attributes]:
    while True:
        yield {f"a{i}": _w5b_value(random, i) for i in range(10)}


def _w5b_value(random: Random, i: int) -> Value:
    return f"v{random.randrange(1000)}" if i % 2 else random.randrange(1000)


def _w5c_filters(random: Random, _size: int) -> Iterator[tuple[Constraint, ...]]:
    pool = _Pool()
    while True:
        words = f"{_VOCABULARY[_ANY_WORD(random)]} {_VOCABULARY[_ANY_WORD(random)]}"
        place = f"{_site(random)}{_section(random)}/{random.randrange(100)}/"
        found = [pool("text", "!*", words), pool("url", "!>*", place), pool("url", "!*<", words.replace(" ", "-"))]
        yield tuple(random.sample(found, random.randint(1, 2)))


def _w5c_events(random: Random, size: int) -> Iterator[Attributes]:
    for event in _w4_events(random, size):
        yield event | {"text": " ".join(_VOCABULARY[_ANY_WORD(random)] for _ in range(80))}


_ALL = (
    Workload(
        "W1",
        "two equalities of 100 strings and a range over a fifth of the integers: 2e-5 of the filters match",
        _w1_filters(_w1_values),
        _w1_events(_w1_values),
    ),
    Workload(
        "W1e",
        "the same with so many strings that an event matches two filters at every size",
        _w1_filters(_w1e_values),
        _w1_events(_w1e_values),
    ),
    Workload("W2", "stock ticks: Zipf symbols, ranges of price and change, sparse attributes", _w2_filters, _w2_events),
    Workload("W3", "ranges on 4 of 10 numbers: 2e-5 of the filters match", _w3_filters(_w3_width), _w3_events),
    Workload(
        "W3e",
        "the same with ranges so wide that an event matches two filters at every size",
        _w3_filters(_w3e_width),
        _w3_events,
    ),
    Workload("W4", "prefixes, suffixes and parts of addresses, titles and names", _w4_filters, _w4_events),
    Workload(
        "W5a", "hostile: all filters share their equality, and the rest mostly holds", _w5a_filters, _w5a_events, True
    ),
    Workload("W5b", "hostile: any and != only, nearly all filters match", _w5b_filters, _w5b_events, True),
    Workload(
        "W5c", "hostile: parts that texts must not have, in addresses and long texts", _w5c_filters, _w5c_events, True
    ),
)
WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
"""By name."""
