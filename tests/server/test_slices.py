"""A long request is decoded in slices; what its party sends behind it waits, and others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import msgspec
import pytest

from palio import Filter, Pattern
from palio.codec import control, frames, msgpack
from palio.codec.control import Answer, Ask
from palio.model import Constraint, Notification
from palio.server import connection
from palio.server.operations import Decoding, decode
from palio.server.server import Server
from tests.serving import Raw, run, serving

MANY = 20
SIZE = 256


def wide(number: int, size: int = SIZE) -> Filter:
    return Filter(Constraint("x", "!=", 1_000 * number + each) for each in range(size))


def documents(filters: list[Filter]) -> tuple[tuple[str, msgspec.Raw], ...]:
    return tuple(("filter", msgspec.Raw(msgpack.encode(each))) for each in filters)


def cancelling(number: int, instead: tuple[tuple[str, msgspec.Raw], ...]) -> bytes:
    kind, document = documents([Filter.parse("y any")])[0]
    return control.encode(Ask(number, "unsubscribe", kind, document, False, "", instead))


class Watched:
    """Counts the constraints that are decoded for each connection in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: dict[tuple[str, int], int] = {}
        self.turn = 0
        monkeypatch.setattr(connection, "decode", self.decode)

    def decode(self, ask: Ask, party: str, limits: Any) -> Decoding:
        def steps() -> Generator[int, None, Any]:
            right = decode(ask, party, limits)
            while True:
                try:
                    cost = next(right)
                except StopIteration as done:
                    return done.value
                self.counts[party, self.turn] = self.counts.get((party, self.turn), 0) + cost
                yield cost

        return steps()

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def of(self, party: str) -> list[int]:
        return [count for (name, _), count in self.counts.items() if name == party]


def play(monkeypatch: pytest.MonkeyPatch, act: Callable[[Server, Raw, Watched], Any]) -> Watched:
    watched = Watched(monkeypatch)

    async def whole() -> None:
        async with serving() as server:
            party = await Raw.party(server, "mallory")
            counting = asyncio.create_task(watched.count_turns())
            try:
                await act(server, party, watched)
            finally:
                counting.cancel()

    run(whole())
    return watched


def test_filters_in_the_place_of_another_are_decoded_in_slices_and_what_follows_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(server: Server, party: Raw, watched: Watched) -> None:
        eva = await Raw.party(server, "eva")
        assert (await eva.ask("subscribe", "z any")).code == ""
        watched.counts.clear()
        kind, document = documents([Filter.parse("v = 1")])[0]
        party.send(
            cancelling(1, documents([wide(number) for number in range(MANY)]))
            + frames.publish(Notification(z=1), 1)
            + control.encode(Ask(2, "subscribe", kind, document))
        )
        party.send(control.encode(control.Ping(7)))
        found = [await party.next() for _ in range(4)]
        answers = [each.number for each in found if isinstance(each, Answer)]
        assert answers == [1, 2]
        assert (await eva.until(Notification))["z"] == 1
        assert len(server.driver.node.router.profile("mallory").filters) == MANY + 1

    counts = play(monkeypatch, act).of("mallory")
    assert sum(counts) == MANY * SIZE + 2
    assert len(counts) >= MANY
    assert max(counts) <= 2 * SIZE


def test_a_pattern_is_decoded_filter_by_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(server: Server, party: Raw, _: Watched) -> None:
        pattern = Pattern([wide(number) for number in range(MANY)])
        assert (await party.ask_raw("subscribe", "pattern", msgpack.encode(pattern))).code == ""
        assert list(server.driver.node.monitors.patterns("mallory")) == [pattern]

    counts = play(monkeypatch, act).of("mallory")
    assert sum(counts) == MANY * SIZE
    assert max(counts) <= 2 * SIZE


def test_dense_requests_one_after_another_share_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames are short, so that a bound in bytes alone would let in hundreds of constraints more."""

    async def act(_: Server, party: Raw, __: Watched) -> None:
        sent = [Filter(Constraint("x", "!=", each) for each in range(100)) for _ in range(30)]
        asks = [Ask(number, "unsubscribe", *each) for number, each in enumerate(documents(sent), 1)]
        party.send(b"".join(map(control.encode, asks)))
        assert [(await party.until(Answer)).number for _ in asks] == list(range(1, 31))

    assert max(play(monkeypatch, act).of("mallory")) < SIZE + 100


def test_a_mistake_in_one_of_many_filters_refuses_the_whole_request_and_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(server: Server, party: Raw, _: Watched) -> None:
        assert (await party.ask("subscribe", "y any")).code == ""
        given = list(documents([wide(number, 40) for number in range(80)]))
        wrong = msgspec.msgpack.encode([1, [["x", "number", "!=", 1], ["x", "number", "~", 1]]])
        given[56] = "filter", msgspec.Raw(wrong)
        party.send(cancelling(5, tuple(given)))
        party.send(cancelling(6, ()))
        refused, done = await party.until(Answer), await party.until(Answer)
        assert (refused.number, refused.code) == (5, "document")
        assert refused.text.startswith("instead[56]: ")
        assert "constraints[1]" in refused.text
        assert (done.number, done.code) == (6, "")
        assert server.driver.node.router.profile("mallory").filters == ()

    play(monkeypatch, act)


def test_a_connection_that_is_closed_in_the_middle_of_a_request_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(server: Server, party: Raw, watched: Watched) -> None:
        party.send(cancelling(1, documents([wide(number) for number in range(MANY)])))
        while not watched.of("mallory"):
            await asyncio.sleep(0)
        again = await Raw.party(server, "mallory")  # it takes the place of the other one
        assert await party.goodbye() == "replaced"
        assert (await again.ask("subscribe", "x any")).code == ""
        assert len(server.driver.node.router.profile("mallory").filters) in (1, MANY + 1)

    play(monkeypatch, act)
