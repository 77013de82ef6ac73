"""Durable parties at a server with a store, as a connection sees them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from palio import Notification
from palio.codec import control, frames
from palio.codec.control import (
    VERSION,
    Answer,
    Durable,
    Hello,
    Letters,
    Missed,
    Position,
    Query,
    Reject,
    Replay,
    Result,
)
from palio.model import Mode
from palio.node.reading import GoneError
from palio.server.errors import code_of
from palio.server.server import Server
from palio.server.status import status
from tests.serving import Noted, Raw, configured, run, serving, until


def stored(folder: Path, **more: Any) -> dict[str, Any]:
    table = {"path": str(folder / "milan.db"), **more.pop("store", {})}
    return {"store": table, **more}


async def reader(
    server: Server | int, name: str = "eva", versions: tuple[int, ...] = (VERSION,), **wish: Any
) -> tuple[Raw, Position]:
    """A durable party that is let in, and where its log is."""
    raw = await Raw.connect(server)
    raw.send(control.encode(Hello(versions, "party", name, durable=Durable(**wish))))
    assert isinstance(await raw.next(), control.Welcome)
    return raw, await raw.until(Position)


async def accepted(raw: Raw) -> tuple[int, Mode]:
    """The next acceptance, with what it promises."""
    while True:
        async with asyncio.timeout(30):
            head = await raw.reader.readexactly(frames.HEADER)
            content = await raw.reader.readexactly(int.from_bytes(head[:4], "big") - 1)
        if head[4] == frames.ACCEPTED:
            return frames.accepted_up_to(content)


async def values(raw: Raw, count: int) -> list[Any]:
    return [(await raw.until(Notification))["x"] for _ in range(count)]


async def acknowledge(raw: Raw, number: int) -> None:
    """Acknowledge, and wait until the server has noted it."""
    raw.send(frames.acknowledge(number))
    while (await raw.until(Noted)).number < number:
        pass


async def answered(raw: Raw, frame: control.Control) -> Answer:
    raw.send(control.encode(frame))
    answer = await raw.until(Answer)
    assert isinstance(answer, Answer)
    return answer


async def publish(server: Server | int, *numbers: int) -> None:
    raw = await Raw.party(server, "adam")
    for place, number in enumerate(numbers, 1):
        raw.publish(place, x=number)
    while (await accepted(raw))[0] < len(numbers):
        pass
    await raw.close()


def test_deliveries_wait_until_they_are_acknowledged_also_over_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, position = await reader(server)
            assert (position.first, position.repeated) == (0, 0)
            await eva.subscribe("x any")
            await publish(server, 1, 2, 3)
            assert await values(eva, 3) == [1, 2, 3]
            await acknowledge(eva, 0)
            await eva.close()
            await until(lambda: server.driver.node.logs.of("eva").reading is None)
            await publish(server, 4)
        async with serving(**stored(tmp_path)) as server:
            await publish(server, 5)
            eva, again = await reader(server)
            assert (again.log, again.first, again.repeated) == (position.log, 1, 3)
            assert await values(eva, 4) == [2, 3, 4, 5]
            await eva.close()
            eva, third = await reader(server, log=again.log, after=3)
            assert third.first == 4
            assert await values(eva, 1) == [5]
            await acknowledge(eva, 4)
            await eva.close()
            eva, last = await reader(server)
            assert last.first == 5
            await eva.close()

    run(story())


def test_a_cursor_that_is_not_known_begins_where_the_party_stands(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, position = await reader(server)
            await eva.subscribe("x any")
            await publish(server, 1, 2)
            for wish in ({"log": position.log, "after": 17}, {"log": position.log + 1, "after": 0}):
                eva, told = await reader(server, **wish)
                assert (told.log, told.first) == (position.log, 0)
            await eva.close()

    run(story())


@pytest.mark.parametrize("wish", [{"durable": Durable()}, {"mode": Mode.SYNCED}, {"mode": Mode.LOCAL}])
def test_a_server_without_a_store_says_so(wish: dict[str, Any]) -> None:
    async def story() -> None:
        async with serving() as server:
            raw = await Raw.connect(server)
            raw.send(control.encode(Hello((VERSION,), "party", "eva", **wish)))
            assert await raw.goodbye() == "no-store"
            adam = await Raw.party(server, "adam")
            adam.send(frames.publish_with(Notification(x=1), frames.Options(mode=Mode.SYNCED), 7))
            assert (await adam.until(Answer)).code == "no-store"
            adam.publish(8, x=1)
            assert await accepted(adam) == (7, Mode.MEMORY)
            assert await accepted(adam) == (8, Mode.MEMORY)
            await adam.close()

    run(story())


@pytest.mark.parametrize("usual", list(Mode))
def test_acceptance_says_what_it_promises(tmp_path: Path, usual: Mode) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path, store={"mode": usual.value})) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            adam = await Raw.party(server, "adam")
            adam.publish(1, x=1)
            assert await accepted(adam) == (1, usual)
            for number, mode in enumerate(Mode, 2):
                adam.send(frames.publish_with(Notification(x=number), frames.Options(mode=mode), number))
                assert await accepted(adam) == (number, mode)
            bert = await Raw.connect(server)
            bert.send(control.encode(Hello((VERSION,), "party", "bert", mode=Mode.LOCAL)))
            bert.publish(1, x=7)
            assert await accepted(bert) == (1, Mode.LOCAL)
            assert await values(eva, 5) == [1, 2, 3, 4, 7]

    run(story())


@pytest.mark.slow
def test_a_key_counts_once_also_over_restarts(tmp_path: Path) -> None:
    def publication(number: int, **options: Any) -> bytes:
        return frames.publish_with(Notification(x=number), frames.Options(**options), number)

    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            adam = await Raw.party(server, "adam")
            adam.send(publication(1, key="a") + publication(2, key="a") + publication(3, key="b"))
            while (await accepted(adam))[0] < 3:
                pass
            bert = await Raw.party(server, "bert")
            bert.send(publication(4, key="a"))  # another's key is another key
            assert (await accepted(bert))[0] == 4
            assert await values(eva, 3) == [1, 3, 4]
        async with serving(**stored(tmp_path)) as server:
            adam = await Raw.party(server, "adam")
            adam.send(publication(5, key="b") + publication(6, key="c"))
            while (await accepted(adam))[0] < 6:
                pass
            eva, _ = await reader(server)
            assert await values(eva, 4) == [1, 3, 4, 6]

    run(story())


def test_no_more_is_sent_than_may_be_unacknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server, window=3)
            await eva.subscribe("x any")
            await publish(server, *range(8))
            assert await values(eva, 3) == [0, 1, 2]
            assert await eva.is_served()
            assert server.driver.node.logs.of("eva").sent == 3
            eva.send(frames.acknowledge(1))
            assert await values(eva, 2) == [3, 4]
            eva.send(frames.acknowledge(4))
            assert await values(eva, 3) == [5, 6, 7]

    run(story())


def test_what_falls_out_of_bounds_is_counted_and_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path, durable={"count": 4})) as server:
            eva, _ = await reader(server, count=1_000)  # nobody gets more than there may be
            await eva.subscribe("x any")
            await eva.close()
            await publish(server, *range(10))
            eva = await Raw.connect(server)
            eva.send(control.encode(Hello((VERSION,), "party", "eva", durable=Durable())))
            assert isinstance(await eva.next(), control.Welcome)
            assert await eva.next() == Missed(0)
            position = await eva.next()
            await eva.close()
            eva = await Raw.connect(server)
            eva.send(control.encode(Hello((3,), "party", "eva", durable=Durable())))
            assert isinstance(await eva.next(), control.Welcome)
            again = await eva.next()
            assert isinstance(again, Position)
            assert (again.first, again.dropped) == (6, 6), "earlier versions do not know the frame Missed"
            assert (position.first, position.dropped, position.expired) == (6, 6, 0)
            assert await values(eva, 4) == [6, 7, 8, 9]
            await acknowledge(eva, 9)

    run(story())


def test_what_is_worth_nothing_any_more_is_not_delivered(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            await eva.close()
            soon, later = datetime.now(UTC) + timedelta(seconds=0.2), datetime.now(UTC) + timedelta(hours=1)
            adam = await Raw.party(server, "adam")
            for number, expires in enumerate([later, soon, None, soon], 1):
                adam.send(frames.publish_with(Notification(x=number), frames.Options(expires=expires), number))
            while (await accepted(adam))[0] < 4:
                pass
            await until(lambda: datetime.now(UTC) > soon)
            eva, _ = await reader(server)
            assert await values(eva, 1) == [1]
            eva.send(frames.acknowledge(0))
            told = await eva.until(Position)
            assert (told.first, told.expired) == (2, 1)
            assert await values(eva, 1) == [3]
            await acknowledge(eva, 2)
            log = server.driver.node.logs.of("eva")
            await until(lambda: (log.done, log.expired) == (4, 2))

    run(story())


def test_replay(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path, store={"keep_seconds": 3_600.0})) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            await publish(server, *range(5))
            assert await values(eva, 5) == [0, 1, 2, 3, 4]
            await acknowledge(eva, 4)
            middle = datetime.now(UTC)
            await publish(server, 5, 6)
            assert await values(eva, 2) == [5, 6]
            wishes: list[tuple[dict[str, Any], int]] = [
                ({"first": 0}, 0), ({"first": 3}, 3), ({"last": 2}, 5), ({"last": 99}, 0), ({"since": middle}, 5),
                ({"first": 7}, 7), ({"since": middle - timedelta(days=1)}, 0),
            ]  # fmt: skip
            for number, (wish, first) in enumerate(wishes, 10):
                assert (await answered(eva, Replay(number, **wish))).code == "", wish
                if first < 7:
                    position = await eva.until(Position)
                    assert (position.first, position.repeated) == (first, 7), wish
                    assert await values(eva, 7 - first) == list(range(first, 7))
            for wish in ({"first": 8}, {}):
                assert (await answered(eva, Replay(30, **wish))).code == "invalid"
            await publish(server, 7)
            assert await values(eva, 1) == [7]

    run(story())


def test_what_is_gone_has_a_code() -> None:
    assert code_of(GoneError("delivery 0 is gone")).value == "gone"


def _x(form: dict[str, Any]) -> Any:
    assert form["envelope"]["publisher"] == "adam"
    return form["notification"]["x"]


@pytest.mark.slow
def test_dead_letters(tmp_path: Path) -> None:
    async def letters(raw: Raw) -> list[tuple[int, int, str, list[Any]]]:
        raw.send(control.encode(Query(50, "letters")))
        document = (await raw.until(Result)).document
        return [
            (
                each["letter"],
                each["delivery"],
                each["reason"],
                [one["notification"]["x"] for one in each["notifications"]],
            )
            for each in document["letters"]
        ]

    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x any")
            await publish(server, 1, 2, 3)
            assert await values(eva, 3) == [1, 2, 3]
            assert (await answered(eva, Reject(10, 1, "too early"))).code == "invalid"
            eva.send(frames.acknowledge(0))
            assert (await answered(eva, Reject(11, 1, "no such customer"))).code == ""
            assert await letters(eva) == [(0, 1, "no such customer", [2])]
        async with serving(**stored(tmp_path)) as server:
            eva, position = await reader(server)
            assert position.first == 2
            assert await values(eva, 1) == [3]
            assert await letters(eva) == [(0, 1, "no such customer", [2])]
            assert (await answered(eva, Letters(12, "requeue", (0, 7)))).code == "invalid"
            assert (await answered(eva, Letters(13, "bury", (0,)))).code == "invalid"
            assert (await answered(eva, Letters(14, "requeue", (0,)))).code == ""
            assert await values(eva, 1) == [2]
            await acknowledge(eva, 3)
            assert await letters(eva) == []
            plain = await Raw.party(server, "adam")
            plain.send(control.encode(Query(5, "letters")))
            assert (await plain.until(Answer)).code == "invalid"

    run(story())


def test_what_is_sent_in_vain_becomes_a_dead_letter(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server, attempts=2)
            await eva.subscribe("x any")
            await publish(server, 1, 2)
            for expected in ([1, 2], [1, 2]):
                assert await values(eva, 2) == expected
                await eva.close()
                await until(lambda: server.driver.node.logs.of("eva").reading is None)
                eva, _ = await reader(server, attempts=2)
            assert await values(eva, 1) == [2]
            log = server.driver.node.logs.of("eva")
            assert [(each.delivery, each.reason) for each in log.letters.values()] == [
                (0, "sent in 2 connections and never acknowledged")
            ]

    run(story())


def test_a_lease_ends_and_a_party_that_leaves_has_no_log(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, first = await reader(server, lease=50_000)
            await eva.subscribe("x any")
            await eva.close()
            await until(lambda: "eva" not in server.driver.node.logs)
            assert server.driver.node.router.profile("eva") == ((), ())
            eva, second = await reader(server, versions=(2,))  # which does not know how to say that the lease has ended
            assert second.log != first.log
            eva.send(control.encode(control.Goodbye("left", "")))
            await until(lambda: "eva" not in server.driver.node.logs)
        async with serving(**stored(tmp_path)) as server:
            assert not list(server.driver.node.logs)

    run(story())


@pytest.mark.parametrize("number", [0, 5, 2**63])
def test_acknowledging_what_was_never_sent_ends_the_connection(tmp_path: Path, number: int) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server)
            eva.send(frames.acknowledge(number))
            assert await eva.goodbye() == "frame"
            adam = await Raw.party(server, "adam")
            adam.send(frames.acknowledge(number))
            assert await adam.goodbye() == "frame"

    run(story())


def test_a_second_connection_takes_over_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            first, _ = await reader(server)
            await first.subscribe("x any")
            await publish(server, 1, 2)
            assert await values(first, 2) == [1, 2]
            second, position = await reader(server)
            assert (position.first, position.repeated) == (0, 2)
            assert await first.goodbye() == "replaced"
            assert await values(second, 2) == [1, 2]
            await publish(server, 3)
            assert await values(second, 1) == [3]
            await acknowledge(second, 2)

    run(story())


@pytest.mark.slow
def test_without_room_publications_are_refused_and_deliveries_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        config = configured(**stored(tmp_path))
        async with serving(config) as server:
            eva, _ = await reader(server, window=2)
            await eva.subscribe("x any")
            await publish(server, *range(6))
            assert server.storage is not None
            server.storage._note_full(True)
            adam = await Raw.party(server, "adam")
            adam.publish(1, x=7)
            assert (await adam.until(Answer)).code == "full-disk"
            adam.send(frames.publish_with(Notification(x=8), frames.Options(key="k"), 2))
            assert (await adam.until(Answer)).code == "full-disk"
            assert await values(eva, 2) == [0, 1]
            await acknowledge(eva, 1)
            assert await values(eva, 2) == [2, 3]
            server.storage._note_full(False)
            adam.send(frames.publish_with(Notification(x=9), frames.Options(key="k"), 3))
            assert (await accepted(adam))[0] in (1, 2, 3)
            eva.send(frames.acknowledge(3))
            assert await values(eva, 2) == [4, 5]
            eva.send(frames.acknowledge(5))
            assert await values(eva, 1) == [9]

    run(story())


def test_patterns_and_plain_deliveries_are_numbered_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server)
            await eva.subscribe("x = 1 then x = 2", "pattern")
            await eva.subscribe("x = 2")
            await publish(server, 1, 2)
            await eva.until(control.Sequence)
            await eva.close()
            eva, position = await reader(server)
            assert (position.first, server.driver.node.logs.of("eva").next) == (0, 2)
            kinds = {type(await eva.next()) for _ in range(2)}
            assert kinds == {Notification, control.Sequence}
            await acknowledge(eva, 1)

    run(story())


def test_publications_are_counted_since_the_start_though_their_numbers_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        for _ in range(2):
            async with serving(**stored(tmp_path)) as server:
                before = server.driver.node.publishing.count
                await publish(server, 1, 2, 3)
                assert status(server)["counts"]["publications"] == 3
                assert server.driver.node.publishing.count == before + 3
        assert before > 3

    run(story())


def test_what_came_before_a_replay_may_be_acknowledged_after_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path, store={"keep_seconds": 60.0})) as server:
            eva, _ = await reader(server, window=2)
            await eva.subscribe("x any")
            await publish(server, 1, 2, 3, 4)
            assert await values(eva, 2) == [1, 2]
            await acknowledge(eva, 1)
            assert await values(eva, 2) == [3, 4]
            assert (await answered(eva, Replay(5, 0))).code == ""
            assert await values(eva, 2) == [1, 2]  # no more are sent, and the party has got 4 deliveries
            await acknowledge(eva, 3)
            eva.send(frames.acknowledge(4))
            assert await eva.goodbye() == "frame"

    run(story())
