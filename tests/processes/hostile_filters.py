"""Attacks of the hostile campaign on the comparison of filters: many, large, broad, and hard to compare."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tests.processes.hostile_attack import Connection, Scene, filter_document, pattern_document

Row = tuple[Any, ...]
_STRING_OPERATORS = (">*", "*<", "*", "!>*", "!*<", "!*", "!=")


def unequal(random: Random, constraints: int = 20) -> list[Row]:
    """A filter of so many ``!=``; hardly one covers another."""
    names = sorted(random.sample(range(30), constraints))
    return [(f"u{name}", "integer", "!=", random.randrange(6)) for name in names]


def stringy(random: Random, constraints: int = 12) -> list[Row]:
    """A filter that mixes prefixes, suffixes, substrings and their negations on few names."""
    found = {
        (f"s{random.randrange(3)}", "string", random.choice(_STRING_OPERATORS), _word(random))
        for _ in range(constraints)
    }
    return sorted(found)


def _word(random: Random) -> str:
    return "".join(random.choices("ab", k=random.randrange(1, 6)))


async def _subscribe(scene: Scene, connection: Connection, count: int, kind: str, make: Any) -> None:
    """Subscribe so often, as quickly as the share of the processor permits; then wait for the answers."""
    number = 0
    for _ in range(count):
        if scene.is_over:
            return
        number = await connection.ask("advertise" if kind == "advertisement" else "subscribe", kind, make())
        scene.counts["requests"] += 1
        if number % 20 == 0:
            await scene.breathe()
    await connection.answers(number, scene)


async def not_equals(scene: Scene) -> None:
    """2,000 filters of 20 times ``!=``."""
    connection = await scene.enter(scene.target())
    await _subscribe(scene, connection, 2_000, "filter", lambda: filter_document(unequal(scene.random)))


async def strings(scene: Scene) -> None:
    """400 filters of 12 constraints on strings that are hard to compare, and 100 patterns of such filters."""
    connection = await scene.enter(scene.target())
    await _subscribe(scene, connection, 400, "filter", lambda: filter_document(stringy(scene.random)))
    await _subscribe(
        scene, connection, 100, "pattern", lambda: pattern_document([stringy(scene.random, 4) for _ in range(4)])
    )


async def patterns(scene: Scene) -> None:
    """200 patterns of 16 filters."""
    connection = await scene.enter(scene.target())
    await _subscribe(
        scene, connection, 200, "pattern", lambda: pattern_document([unequal(scene.random, 6) for _ in range(16)])
    )


async def broad(scene: Scene) -> None:
    """One party has 3,000 narrow filters; another one subscribes to all of it and cancels that, again and again."""
    target = scene.target()
    narrow, wide = await scene.enter(target), await scene.enter(target)
    place = scene.random.randrange(1_000)
    numbers = iter(range(3_000))
    await _subscribe(
        scene, narrow, 3_000, "filter",
        lambda: filter_document([(f"w{place}", "integer", "=", next(numbers)), ("v", "integer", "!=", 1)]),
    )  # fmt: skip
    while not scene.is_over:
        document = filter_document([(f"w{place}", "integer", ">=", -scene.random.randrange(9))])
        await wide.ask("subscribe", "filter", document)
        await wide.answers(await wide.ask("unsubscribe", "filter", document), scene)
        scene.counts["requests"] += 2
        await scene.breathe()


async def instead(scene: Scene) -> None:
    """One request that replaces a subscription by 1,000 filters: 420 kB."""
    await _replace(scene, 1_000, lambda: unequal(scene.random, 18))


async def unions(scene: Scene) -> None:
    """Subscriptions with as many alternatives as one may have, replaced by others again and again."""
    await _replace(scene, 1_024, lambda: [*unequal(scene.random, 2), *stringy(scene.random, 2)])


async def _replace(scene: Scene, count: int, make: Any) -> None:
    connection = await scene.enter(scene.target())
    first = filter_document([("first", "integer", "=", 1)])
    await connection.ask("subscribe", "filter", first)
    while not scene.is_over:
        wanted = tuple(("filter", msgspec.Raw(filter_document(make()))) for _ in range(count))
        scene.counts["bytes"] += sum(len(bytes(document)) for _, document in wanted)
        number = await connection.ask("unsubscribe", "filter", filter_document([]), instead=wanted)
        scene.counts["requests"] += 1
        await connection.answers(number, scene)
        await scene.breathe()


async def advertisements(scene: Scene) -> None:
    """1,000 advertisements with alternatives for many names, some of strings that are hard to compare."""
    connection = await scene.enter(scene.target())

    def offer() -> bytes:
        names = scene.random.sample(range(30), 10)
        rows = [(f"u{name}", "integer", ">", scene.random.randrange(99)) for name in names for _ in range(2)]
        return filter_document([*rows, *stringy(scene.random, 4)])

    await _subscribe(scene, connection, 1_000, "advertisement", offer)
    while not scene.is_over:
        document = filter_document([(f"u{name}", "any", "any") for name in range(30)])
        await connection.ask("advertise", "advertisement", document)
        await connection.answers(await connection.ask("unadvertise", "advertisement", document), scene)
        scene.counts["requests"] += 2
        await scene.breathe()


async def watches(scene: Scene) -> None:
    """2,000 questions whether there is a demand, while what they depend on changes."""
    target = scene.target()
    watcher, publisher = await scene.enter(target), await scene.enter(target)
    number = 0
    for place in range(2_000):
        if scene.is_over:
            return
        if place % 2:
            row = (f"u{place % 30}", "integer", ">", place)
            number = await watcher.ask("watch", "advertisement", filter_document([row]))
        else:
            number = await watcher.ask("watch", "filter", filter_document(unequal(scene.random)))
        scene.counts["requests"] += 1
        if place % 20 == 0:
            await scene.breathe()
    await watcher.answers(number, scene)
    while not scene.is_over:
        rows = [(f"u{scene.random.randrange(30)}", "any", "any") for _ in range(20)]
        document = filter_document(dict.fromkeys(rows))
        await publisher.ask("advertise", "advertisement", document)
        await publisher.answers(await publisher.ask("unadvertise", "advertisement", document), scene)
        scene.counts["requests"] += 2
        await scene.breathe()
