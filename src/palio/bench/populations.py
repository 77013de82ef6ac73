"""Subscriptions and advertisements as they may occur together, in any number, the same on every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from typing import TypeVar

from palio.model import Advertisement, Constraint, Filter

E = TypeVar("E", Filter, Advertisement)
Maker = Callable[[], list[Constraint]]


def subscriptions(population: str) -> Iterator[Filter]:
    """Distinct filters of a population, without end.

    >>> print(next(subscriptions("stock")))
    symbol = "S0020" and price > 9.23 and price < 11.39
    """
    return _distinct(Filter, _SUBSCRIPTIONS[population](_seeded(population)))


def advertisements() -> Iterator[Advertisement]:
    """Distinct advertisements of feeds, sites and sensors, without end."""
    return _distinct(Advertisement, _advertisements(_seeded("advertisements")))


def _seeded(seed: str) -> Random:
    return Random(seed)  # noqa: S311 (no secrets)


def _distinct(kind: type[E], make: Maker) -> Iterator[E]:
    seen: set[E] = set()
    while True:
        constraints = make()
        element = kind(constraints)
        if element not in seen:
            seen.add(element)
            yield kind(constraints)  # another one, whose canonical form is still unknown


def _zipf(rng: Random, count: int) -> Callable[[], int]:
    """Numbers below ``count``; the n-th is drawn in proportion to 1 / n."""
    weights = list(accumulate(1 / rank for rank in range(1, count + 1)))
    return lambda: rng.choices(range(count), cum_weights=weights)[0]


def _stock(rng: Random) -> Maker:
    """A few symbols are watched by many; limits lie around each symbol's price."""
    symbol = _zipf(rng, 2000)
    prices = [round(rng.lognormvariate(4, 1), 2) for _ in range(2000)]

    def make() -> list[Constraint]:
        number = symbol()
        middle, width = prices[number] * rng.gauss(1, 0.1), prices[number] * rng.uniform(0.005, 0.2)
        limits = [
            Constraint("price", ">", round(middle - width, 2)),
            Constraint("price", "<", round(middle + width, 2)),
        ]
        if rng.random() < 0.2:
            limits = [rng.choice(limits)]
        return [Constraint("symbol", "=", f"S{number:04d}"), *limits]

    return make


def _areas(rng: Random) -> Maker:
    """Rectangles on a map, small and large, more of them where more people live."""
    towns = [(rng.uniform(-60, 70), rng.uniform(-180, 180)) for _ in range(500)]
    town = _zipf(rng, len(towns))

    def make() -> list[Constraint]:
        found = []
        for name, centre in zip(("lat", "lon"), towns[town()], strict=True):
            middle, half = centre + rng.gauss(0, 0.5), rng.lognormvariate(-2, 1)
            found.append(Constraint(name, ">=", round(middle - half, 4)))
            found.append(Constraint(name, "<=", round(middle + half, 4)))
        return found

    return make


def _sites(rng: Random) -> Maker:
    """Sections of web sites, and single pages."""
    site, section = _zipf(rng, 5000), _zipf(rng, 50)

    def make() -> list[Constraint]:
        url = f"https://www.site{site()}.example/"
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4))):
            url += f"section{section()}/"
        if rng.random() < 0.1:
            return [Constraint("url", "=", f"{url}page{rng.randrange(100)}.html")]
        return [Constraint("url", ">*", url)]

    return make


def _topics(rng: Random) -> Maker:
    """Equality on a few of several attributes."""
    sizes = {"country": 60, "city": 3000, "category": 120, "brand": 1500, "user": 200_000, "language": 30, "event": 200}
    draw = {name: _zipf(rng, size) for name, size in sizes.items()}
    names = list(sizes)

    def make() -> list[Constraint]:
        chosen = rng.sample(names, rng.choice((1, 2, 2, 3, 3)))
        return [Constraint(name, "=", f"{name}{draw[name]()}") for name in chosen]

    return make


def _alarms(rng: Random) -> Maker:
    """Everything else: hosts by their end, key words, levels, spans of time, presence."""
    host, word, service = _zipf(rng, 2000), _zipf(rng, 20_000), _zipf(rng, 100)
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def make() -> list[Constraint]:
        choice = rng.random()
        level = Constraint("level", ">=", rng.randrange(1, 10))
        if choice < 0.3:
            end = f".net{host() % 50}.example" if choice < 0.1 else f"h{host()}.net{host() % 50}.example"
            return [Constraint("host", "*<", end), level]
        if choice < 0.5:
            return [Constraint("text", "*", f"word{word()}")]
        if choice < 0.7:
            begin = start + timedelta(minutes=rng.randrange(500_000))
            until = begin + timedelta(minutes=rng.randrange(5, 5000))
            return [Constraint("time", ">=", begin), Constraint("time", "<", until), level]
        if choice < 0.9:
            return [Constraint("service", "=", f"service{service()}"), level, Constraint("host", "=", f"h{host()}")]
        return [Constraint("service", "=", f"service{service()}"), Constraint("user", "any"), level]

    return make


def _mixed(rng: Random) -> Maker:
    makers = [maker(rng) for maker in (_stock, _areas, _sites, _topics, _alarms)]

    def make() -> list[Constraint]:
        return rng.choice(makers)()

    return make


_SUBSCRIPTIONS: dict[str, Callable[[Random], Maker]] = {
    "stock": _stock,
    "areas": _areas,
    "sites": _sites,
    "topics": _topics,
    "mixed": _mixed,
}
SUBSCRIPTIONS = tuple(_SUBSCRIPTIONS)


def _advertisements(rng: Random) -> Maker:
    """What publishers announce: feeds list symbols, sites their sections, sensors their rooms."""
    symbol, exchange, kind, building = _zipf(rng, 2000), _zipf(rng, 12), _zipf(rng, 25), _zipf(rng, 1000)
    site = _sites(rng)

    def feed() -> list[Constraint]:
        found = [Constraint("symbol", "=", f"S{symbol():04d}") for _ in range(rng.randint(1, 6))]
        found += [Constraint("exchange", "=", f"X{exchange()}") for _ in range(rng.randint(1, 2))]
        found.append(Constraint("price", "any", type="float"))
        return found if rng.random() < 0.5 else [*found, Constraint("volume", "any", type="integer")]

    def pages() -> list[Constraint]:
        found = [each for _ in range(rng.choice((1, 1, 2))) for each in site()]
        return [*found, Constraint("title", "any", type="string"), Constraint("changed", "any", type="time")]

    def sensor() -> list[Constraint]:
        found = [Constraint("kind", "=", f"kind{kind()}") for _ in range(rng.randint(1, 3))]
        room = f"building{building()}/" + "".join(f"{rng.randrange(9)}/" for _ in range(rng.randint(0, 3)))
        return [*found, Constraint("room", ">*", room), Constraint("value", rng.choice((">", "<")), rng.randrange(100))]

    def make() -> list[Constraint]:
        return rng.choice((feed, pages, sensor))()

    return make
