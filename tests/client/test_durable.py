"""What a durable client does with its deliveries, over connections that break."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from palio.client import (
    CannotConnectError,
    Client,
    ClosedError,
    ConnectionLostError,
    Cursor,
    Delivery,
    Durable,
    Gap,
    GoneError,
    NoStoreError,
    RefusedError,
    Subscription,
    UnknownCursorError,
    connect,
)
from palio.client.sync import connect_sync
from palio.codec import control, frames
from palio.codec.control import Answer, Goodbye, Letters, Position, Reject, Replay
from palio.errors import CallerError
from palio.model import Filter, Notification, Pattern
from tests.client.log_puppet import LogPuppet
from tests.client.puppet import QUICK, Puppet
from tests.serving import run, until


def durable_client(puppet: Puppet, durable: Durable | bool = True, **options: Any) -> Client:
    return connect(puppet.url, name="urn:eva", durable=durable, **{**QUICK, **options})


async def taken(subscription: Subscription, count: int) -> list[Delivery]:
    return [await anext(subscription) for _ in range(count)]


def test_deliveries_are_numbered_and_acknowledged() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            for x in range(3):
                puppet.deliver(x=x)
            first, second, third = await taken(events, 3)
            assert (first.number, first.cursor, first.is_repeated) == (0, Cursor(3, 0), False)
            assert first.notification == first.element == Notification(x=0)
            assert first.notifications == (Notification(x=0),)
            await third.ack()
            await first.ack(wait=True)
            assert puppet.acknowledged == 0
            await second.ack()
            await second.ack()  # what is said twice counts once
            await eva.acknowledged("3/2")
            assert puppet.acknowledged == 2
            await eva.acknowledged(third.cursor)

    run(story())


def test_sequences_are_deliveries_too() -> None:
    pattern = Pattern.parse("x = 1 then x = 2")

    async def story() -> None:
        async with (
            LogPuppet() as puppet,
            durable_client(puppet) as eva,
            eva.subscribe(pattern) as pairs,
            eva.subscribe("x any") as events,
            eva.subscribe(Pattern([Filter.parse("x any")])) as alone,
        ):
            puppet.deliver(x=1)
            puppet.deliver_sequence(pattern, Notification(x=1), Notification(x=2))
            pair = await anext(pairs)
            assert (pair.number, pair.element) == (1, (Notification(x=1), Notification(x=2)))
            assert pair.notification == Notification(x=2)
            assert (await anext(alone)).element == (Notification(x=1),)
            assert (await anext(events)).element == Notification(x=1)

    run(story())


def test_a_delivery_is_done_when_all_who_got_it_are() -> None:
    async def story() -> None:
        async with (
            LogPuppet() as puppet,
            durable_client(puppet, Durable(settle=0)) as eva,
            eva.subscribe("x > 3") as high,
            eva.subscribe("x any") as every,
        ):
            await until(lambda: eva._inbox._is_settled)  # type: ignore[attr-defined]
            puppet.deliver(x=5)
            puppet.deliver(y=1)
            puppet.deliver(x=1)
            one, low = await taken(every, 2)
            await low.ack()
            await one.ack()
            other = await anext(high)
            assert puppet.acknowledgements == []
            await other.ack()
            await until(lambda: puppet.acknowledged == 2)
            assert eva.unwanted == 1

    run(story())


def test_acknowledgements_go_together() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any", queue=4000) as events:
            for x in range(2000):
                puppet.deliver(x=x)
            for delivery in await taken(events, 2000):
                await delivery.ack()
            await until(lambda: puppet.acknowledged == 1999)
            assert len(puppet.acknowledgements) <= 2000 / 64 + 2
            assert puppet.acknowledgements == sorted(set(puppet.acknowledgements))

    run(story())


def test_a_small_window_does_not_wait_for_more() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet, Durable(window=4)) as eva:
            events = await eva.subscribe("x any")
            assert puppet.hellos[0].durable == control.Durable(window=4)
            for x in range(2):
                puppet.deliver(x=x)
            for delivery in await taken(events, 2):
                await delivery.ack()
            assert eva._desk is not None
            assert eva._desk._sent == 1  # at once, and not some milliseconds later

    run(story())


def test_automatic_acknowledgement_comes_with_the_next() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            async with eva.subscribe("x any", ack="auto") as events:
                for x in range(4):
                    puppet.deliver(x=x)
                await taken(events, 2)
                await until(lambda: puppet.acknowledged == 0)
                assert [each.number for each in await events.take()] == [2, 3]
                await until(lambda: puppet.acknowledged == 1)
            await until(lambda: puppet.acknowledged == 3)  # it was left in good order

    run(story())


def test_what_is_left_by_an_error_comes_again() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            for x in range(3):
                puppet.deliver(x=x)
            with suppress(ZeroDivisionError):
                async with eva.subscribe("x any", ack="auto") as events:
                    await taken(events, 2)
                    raise ZeroDivisionError
            puppet.deliver(x=3)
            async with eva.subscribe("x any") as events:
                again = await taken(events, 3)
                assert [(each.number, each.is_repeated) for each in again] == [(1, True), (2, False), (3, False)]
                for each in again:
                    await each.ack()
                await until(lambda: puppet.acknowledged == 3)
            assert not puppet.asked(control.Ask)[2:]  # nothing was cancelled

    run(story())


def test_what_a_consumer_cancels_it_gives_up() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            closed, drained = await eva.subscribe("x any"), await eva.subscribe("y any")
            for x in range(3):
                puppet.deliver(x=x)
                puppet.deliver(y=x)
            held = await anext(closed)
            await until(lambda: len(drained._waiting) == 3)
            await closed.close()
            await eva.unsubscribe("y any")
            async for each in drained:  # what has come can still be taken, and must be acknowledged
                await each.ack()
            assert [each async for each in closed] == []
            assert puppet.acknowledgements == []
            await held.ack(wait=True)
            await until(lambda: puppet.acknowledged == 5)
            assert [each.operation for each in puppet.asked(control.Ask)] == ["subscribe"] * 2 + ["unsubscribe"] * 2

    run(story())


# -- what nobody wants yet ---------------------------------------------------------------------------------------------


def test_what_waited_goes_to_those_who_subscribe_later() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for number in range(6):
                puppet.deliver(**{"x" if number % 2 else "y": number})
            async with durable_client(puppet) as eva, eva.subscribe("x any") as some:
                got = await taken(some, 3)
                for each in got:
                    await each.ack()
                assert [each.number for each in got] == [1, 3, 5]
                assert puppet.acknowledgements == []
                async with eva.subscribe("y any") as others:
                    got = await taken(others, 3)
                    assert [each.number for each in got] == [0, 2, 4]
                    for each in got:
                        await each.ack()
                    await until(lambda: puppet.acknowledged == 5)
                assert eva.unwanted == 0

    run(story())


def test_what_nobody_comes_for_is_done_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            puppet.deliver(z=1)
            async with durable_client(puppet, Durable(settle=0.05)) as eva:
                await until(lambda: len(eva._inbox._unclaimed) == 1)  # type: ignore[attr-defined]
                assert eva.unwanted == 0  # it waits for the first subscription, however long
                await eva.subscribe("x any")
                await until(lambda: puppet.acknowledged == 0)
                puppet.deliver(z=2)
                await until(lambda: puppet.acknowledged == 1)
                assert eva.unwanted == 2

    run(story())
    assert sum("match no subscription" in each.message for each in caplog.records) == 1


def test_who_wants_nothing_reads_no_more_than_it_can_keep() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for x in range(5000):
                puppet.deliver(x=x)
            async with durable_client(puppet) as eva:
                assert eva._connection is not None
                await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
                assert len(eva._inbox._unclaimed) == 1024  # type: ignore[attr-defined]
                async with eva.subscribe("x any", queue=10) as events:
                    got = await taken(events, 5000)
                    assert [each.number for each in got] == list(range(5000))

    run(story())


def test_what_nobody_comes_for_does_not_stand_in_the_way() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for z in range(3000):
                puppet.deliver(z=z)
            puppet.deliver(x=1)
            async with durable_client(puppet, Durable(settle=0.05)) as eva:
                await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
                events = await eva.subscribe("x any")
                await (await anext(events)).ack(wait=True)
                assert (puppet.acknowledged, eva.unwanted) == (3000, 3000)

    run(story())


def test_what_is_full_of_what_nobody_wants_is_read_again_when_it_is_settled() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet, Durable(settle=1000)) as eva:
            events = await eva.subscribe("x any")
            for z in range(3000):
                puppet.deliver(z=z)
            puppet.deliver(x=1)
            await until(lambda: eva._connection._is_paused)  # type: ignore[union-attr]
            eva._inbox._settle()  # type: ignore[attr-defined]
            assert (await anext(events)).number == 3000

    run(story())


def test_a_subscription_that_is_refused_takes_nothing() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            pattern = Pattern.parse("x = 1 then x = 2")
            puppet.deliver(x=1)
            puppet.deliver_sequence(pattern, Notification(x=1), Notification(x=2))
            puppet.deliver(x=2)
            async with durable_client(puppet) as eva:
                puppet.refusals[control.Ask] = "limit", "too many"
                for wanted in ("x = 1", pattern):
                    with pytest.raises(RefusedError, match="too many"):
                        await eva.subscribe(wanted)
                puppet.refusals.clear()
                async with eva.subscribe("x any") as events, eva.subscribe(pattern) as pairs:
                    assert [each.number for each in await taken(events, 2)] == [0, 2]
                    assert (await anext(pairs)).number == 1

    run(story())


def test_what_two_subscriptions_have_got_that_are_refused_comes_once() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            puppet.is_silent = True
            refused = [asyncio.create_task(_refused(eva, "x any")) for _ in range(2)]
            await until(lambda: len(list(eva._inbox.subscriptions)) == 2)
            puppet.deliver(x=1)
            await until(lambda: all(each._waiting for each in eva._inbox.subscriptions))
            puppet.is_silent = False
            for each in puppet.asked(control.Ask):
                puppet.say(control.encode(Answer(each.number, "limit", "too many")))
            await asyncio.gather(*refused)
            puppet.deliver(x=2)
            one, other = await taken(await eva.subscribe("x any"), 2)
            assert (one.number, other.number) == (0, 1)
            await one.ack()
            await other.ack(wait=True)

    run(story())


async def _refused(client: Client, wanted: str) -> None:
    with pytest.raises(RefusedError):
        await client.subscribe(wanted)


# -- breaks ------------------------------------------------------------------------------------------------------------


def test_a_new_connection_begins_after_what_has_come() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            puppet.notes = False
            for x in range(4):
                puppet.deliver(x=x)
            held = await taken(events, 2)
            await held[0].ack()
            await until(lambda: puppet.acknowledged == 0)
            puppet.acknowledged = -1  # the server died before it has noted that
            await puppet.hang_up()
            puppet.notes = True
            for x in range(4, 6):
                puppet.deliver(x=x)
            await until(lambda: puppet.acknowledged == 0)
            assert puppet.hellos[1].durable == control.Durable(log=3, after=3)
            got = await taken(events, 4)
            assert [(each.number, each.is_repeated) for each in got] == [(2, False), (3, False), (4, False), (5, False)]
            await asyncio.gather(*(each.ack(wait=True) for each in [held[1], *got]))
            assert puppet.acknowledged == 5

    run(story())


def test_a_full_queue_does_not_keep_a_client_from_connecting_again() -> None:
    async def story() -> None:
        options = {"connect_timeout": 1000.0}
        async with LogPuppet() as puppet, durable_client(puppet, **options) as eva:
            events = await eva.subscribe("x any", queue=1)
            puppet.deliver(x=0)
            await until(lambda: events.is_full)
            await puppet.hang_up()
            puppet.deliver(x=1)
            await until(lambda: len(puppet.hellos) == 2 and eva.is_connected)
            assert [each.number for each in await taken(events, 2)] == [0, 1]

    run(story())


def test_room_that_comes_while_the_client_connects_is_not_overlooked() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as adam:
            subscribing = asyncio.create_task(subscribed(adam))
            await until(lambda: puppet.of_kind(control.KINDS[control.Ask]))
            puppet.say(control.encode(control.Answer(1)))
            events = await subscribing
            await puppet.hang_up()
            await until(lambda: len(puppet.of_kind(control.KINDS[control.Ask])) == 2)
            puppet.say(control.encode(control.Answer(1)) + one_delivery() * 3)
            while not events._waiting:
                await asyncio.sleep(0)
            assert not adam.is_connected
            events._waiting.clear()  # somebody takes it just now
            events._taken()
            assert (await anext(events))["x"] == 1

    async def subscribed(adam: Client) -> Subscription:
        return await adam.subscribe("x any", queue=1)

    run(story())


def test_who_waits_for_an_acknowledgement_survives_a_break() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any", queue=1) as events:
            puppet.notes = False
            for x in range(3):
                puppet.deliver(x=x)
            waiting = asyncio.create_task((await anext(events)).ack(wait=True))
            await until(lambda: puppet.acknowledged == 0)
            puppet.notes = True
            await puppet.hang_up()
            await waiting  # though the queue is full, and deliveries come before the answer
            assert puppet.acknowledgements == [0, 0]

    run(story())


def test_who_waits_when_the_client_ends_is_told() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            eva = durable_client(puppet)
            await eva.connect()
            events = await eva.subscribe("x any")
            puppet.notes = False
            puppet.deliver(x=1)
            delivery = await anext(events)
            waiting = asyncio.create_task(delivery.ack(wait=True))
            await until(lambda: puppet.acknowledgements)
            await eva.close()
            with pytest.raises(ClosedError):
                await waiting
            await delivery.ack()  # makes no difference any more
            with pytest.raises(ClosedError):
                await eva.acknowledged(delivery.cursor)

    run(story())


def test_what_is_noted_goes_out_before_the_end() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            async with durable_client(puppet) as eva:
                events = await eva.subscribe("x any")
                puppet.deliver(x=1)
                await (await anext(events)).ack()
            await until(lambda: puppet.acknowledged == 0)
            last = puppet.received[-1]
            assert last[0] == control.KINDS[Goodbye]
            assert not puppet.of_kind(control.KINDS[Goodbye])[0].count(b"left")

    run(story())


def test_to_leave_is_the_end_of_the_party() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            eva = durable_client(puppet)
            await eva.connect()
            await eva.leave()
            await until(lambda: puppet.of_kind(control.KINDS[Goodbye]))
            assert control.decode(*puppet.received[-1]) == Goodbye("left", "")
            with pytest.raises(ClosedError):
                await eva.publish(x=1)

    run(story())


def test_a_client_is_drained_when_all_is_acknowledged() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            eva = durable_client(puppet)
            await eva.connect()
            events = await eva.subscribe("x any")
            for x in range(3):
                puppet.deliver(x=x)
            await until(lambda: len(events._waiting) == 3)
            puppet.notes = False
            draining = asyncio.create_task(eva.drain())
            await until(lambda: events._has_ended)
            puppet.deliver(x=3)  # comes too late, and so will come again
            async for each in events:
                await each.ack()
            await until(lambda: puppet.acknowledged == 2)
            assert not draining.done()
            puppet.say(frames.acknowledge(2, frames.ACKNOWLEDGED))
            await draining
            assert puppet.acknowledged == 2
            assert {each.operation for each in puppet.asked(control.Ask)} == {"subscribe"}

    run(story())


@pytest.mark.parametrize("subscribes", [False, True])
def test_draining_acknowledges_nothing_that_another_program_may_want(*, subscribes: bool) -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for number in range(4):
                puppet.deliver(**{"y" if number == 2 else "x": number})
            eva = durable_client(puppet)
            await eva.connect()
            if subscribes:
                for each in await taken(await eva.subscribe("x any"), 3):
                    await each.ack()
            await until(lambda: eva._inbox._unclaimed)  # type: ignore[attr-defined]
            await eva.drain()
            assert puppet.acknowledged == (1 if subscribes else -1)

    run(story())


# -- positions ---------------------------------------------------------------------------------------------------------


def test_gaps_are_told(caplog: pytest.LogCaptureFixture) -> None:
    gaps: list[Gap] = []

    def note(gap: Gap) -> None:
        gaps.append(gap)
        raise ZeroDivisionError  # which is not our fault

    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet, Durable(on_gap=note)) as eva:
            events = await eva.subscribe("x any")
            held = puppet.deliver(x=0)
            first = await anext(events)
            await until(lambda: first.number == held)
            await puppet.hang_up()
            for x in range(1, 8):
                puppet.deliver(x=x)
            puppet.dropped = 5
            got = await taken(events, 3)
            assert [each.number for each in got] == [5, 6, 7]
            assert gaps == [Gap(Cursor(3, 0), Cursor(3, 5), "dropped")]
            assert eva.missed == gaps[0].count == 4
            assert eva.position == Position(3, 5, 0, 5, 0)
            for each in [first, *got]:
                await each.ack()
            await until(lambda: puppet.acknowledged == 7)

    run(story())
    messages = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert "4 deliveries after 3/0 are gone, because more waited than the log may hold; it goes on with 3/5" in messages


def test_another_log_begins() -> None:
    gaps: list[Gap] = []

    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet, Durable(on_gap=gaps.append)) as eva:
            events = await eva.subscribe("x any")
            puppet.deliver(x=0)
            puppet.deliver(x=1)
            old = await anext(events)
            waiting = asyncio.create_task(eva.acknowledged(old.cursor))
            await asyncio.sleep(0)
            await until(lambda: len(events._waiting) == 1)
            puppet.log, puppet.deliveries = 4, []
            await puppet.hang_up()
            puppet.deliver(x=7)
            with pytest.raises(GoneError, match="log 3"):
                await waiting
            waited, new = await taken(events, 2)
            assert (waited.cursor, new.cursor) == (Cursor(3, 1), Cursor(4, 0))
            await old.ack()  # of the old log nothing can be said any more
            await waited.ack()
            with pytest.raises(GoneError, match="3/0 is of a log that is gone; there is the log 4"):
                await old.ack(wait=True)
            await new.ack(wait=True)
            assert puppet.acknowledgements == [0]
            assert gaps == [Gap(Cursor(3, 1), Cursor(4, 0), "other-log")]
            assert gaps[0].count is None

    run(story())


def test_what_is_left_of_another_log_waits_for_its_subscription() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            events = await eva.subscribe("x any")
            puppet.deliver(x=0)
            puppet.deliver(y=1)
            await until(lambda: eva._inbox._unclaimed)  # type: ignore[attr-defined]
            puppet.log, puppet.deliveries = 4, []
            await puppet.hang_up()
            await until(lambda: eva.position is not None and eva.position.log == 4)
            assert (await anext(await eva.subscribe("y any"))).cursor == Cursor(3, 1)
            eva._inbox._settle()  # type: ignore[attr-defined]
            for name in "xzx":  # the second has the number of what is left, and nobody wants it
                puppet.deliver(**{name: 2})
            for each in await taken(events, 3):
                await each.ack()
            await eva.acknowledged(Cursor(4, 2))

    run(story())


def test_who_knows_where_it_was_goes_on_there() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for x in range(5):
                puppet.deliver(x=x)
            puppet.acknowledged = 3
            gaps: list[Gap] = []
            durable = Durable(after="3/1", on_gap=gaps.append)
            async with durable_client(puppet, durable) as eva, eva.subscribe("x any") as events:
                assert [each.number for each in await taken(events, 3)] == [2, 3, 4]  # though 3 was acknowledged
                assert not gaps
            puppet.refusals[Replay] = "gone", "deliveries before 4 are gone"
            async with durable_client(puppet, durable) as eva, eva.subscribe("x any") as events:
                assert (await anext(events)).number == 4
                assert gaps == [Gap(Cursor(3, 1), Cursor(3, 4), "skipped")]
                assert eva.missed == 2
                await puppet.hang_up()
                puppet.deliver(x=5)
                assert (await anext(events)).number == 5
                assert len(puppet.asked(Replay)) == 2

    run(story())


def test_what_has_come_too_early_is_not_acknowledged_when_it_comes_again() -> None:
    """A client that asks the server to go back has done nothing yet with what has come meanwhile."""

    async def story() -> None:
        async with LogPuppet() as puppet:
            for x in range(40):
                puppet.deliver(x=x)
            puppet.acknowledged = 3
            durable = Durable(after="3/1", window=4)
            async with durable_client(puppet, durable) as eva, eva.subscribe("x any") as events:
                got = await taken(events, 38)
                assert [each.number for each in got] == [*range(2, 40)]
                assert max(puppet.acknowledgements, default=3) <= 3
                await asyncio.gather(*(each.ack(wait=True) for each in got))
                assert puppet.acknowledged == 39

    run(story())


class _Reluctant(LogPuppet):
    """One that does not answer who wants it to go back, until it is told to."""

    is_reluctant = True

    def _asked(self, request: Any) -> None:
        if isinstance(request, Replay) and self.is_reluctant:
            self.requests.append(request)
        else:
            super()._asked(request)


def test_a_server_that_would_go_back_and_cannot_any_more() -> None:
    """While it has more to deliver, what is wanted may fall out of the log behind the answer."""

    async def story() -> None:
        async with _Reluctant() as puppet:
            for x in range(6):
                puppet.deliver(x=x)
            puppet.acknowledged = 3
            gaps: list[Gap] = []
            eva = durable_client(puppet, Durable(after="3/1", on_gap=gaps.append))
            connecting = asyncio.create_task(eva.connect())
            await until(lambda: puppet.asked(Replay))
            puppet.say(control.encode(control.Answer(puppet.asked(Replay)[0].number)))
            puppet.begin_at(6)
            puppet.deliver(x=6)
            await connecting
            async with eva.subscribe("x any") as events:
                assert [each.number for each in await taken(events, 3)] == [4, 5, 6]
                assert gaps == [Gap(Cursor(3, 1), Cursor(3, 4), "skipped")]
            await eva.close()

    run(story())


@pytest.mark.parametrize("is_gone", [False, True], ids=["it can go back", "it cannot"])
def test_who_goes_back_is_not_led_astray_by_a_break(*, is_gone: bool) -> None:
    """It wants the same as before, what has come too early comes once, and what is gone is told once, in the end."""

    async def story() -> None:
        async with _Reluctant() as puppet:
            for x in range(6):
                puppet.deliver(x=x)
            gaps: list[Gap] = []
            async with durable_client(puppet, Durable(on_gap=gaps.append)) as eva, eva.subscribe("x any") as events:
                for each in await taken(events, 6):
                    await each.ack()
                await until(lambda: puppet.acknowledged == 5)
                later = puppet.deliveries[2:]
                del puppet.deliveries[2:]
                puppet.is_reluctant = False
                await eva.replay(first=0)
                await taken(events, 2)  # of the replay; the rest does not come any more
                puppet.is_reluctant = True
                puppet.deliveries += later
                await puppet.hang_up()
                await until(lambda: len(puppet.asked(Replay)) == 2)
                puppet.deliver(x=6)  # too early, if the server goes back
                puppet.is_reluctant = False
                if is_gone:
                    puppet.refusals[Replay] = "gone", "deliveries before 6 are gone"
                await puppet.hang_up()
                rest = [6] if is_gone else [2, 3, 4, 5, 6]
                assert [each.number for each in await taken(events, len(rest))] == rest
                assert gaps == ([Gap(Cursor(3, 1), Cursor(3, 6), "skipped")] if is_gone else [])
                assert [each.first for each in puppet.asked(Replay)] == [0, 2, 2]
                assert puppet.acknowledged == 5
                puppet.deliver(x=7)
                assert (await anext(events)).number == 7  # and nothing came twice

    run(story())


@pytest.mark.parametrize(
    ("after", "problem"),
    [("2/1", "3/1: there is the log 2"), ("3/5", "there is the log 3, whose next delivery is 3/0")],
)
def test_a_cursor_that_the_server_does_not_know(after: str, problem: str) -> None:
    async def story() -> None:
        async with LogPuppet(3 if after == "3/5" else 2) as puppet:
            for x in range(5):
                puppet.deliver(x=x)
            cursor = Cursor.parse(after) if after == "3/5" else Cursor(3, 1)
            with pytest.raises(UnknownCursorError, match=problem) as unknown:
                await durable_client(puppet, Durable(after=cursor)).connect()
            assert (unknown.value.log, unknown.value.next) == (puppet.log, 0)
            assert isinstance(unknown.value, CannotConnectError)

    run(story())


def test_replay_brings_everything_once_more() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            for x in range(5):
                puppet.deliver(x=x)
            for each in await taken(events, 3):
                await each.ack()
            await until(lambda: puppet.acknowledged == 2 and len(events._waiting) == 2)
            await eva.replay(first=1)
            await until(lambda: [each.number for each in events._waiting] == [1, 2, 3, 4])  # nothing waits twice
            got = await taken(events, 4)
            assert all(each.is_repeated for each in got)
            await puppet.hang_up()
            await until(lambda: len(puppet.hellos) == 2)
            for each in got:
                await each.ack()
            await until(lambda: puppet.acknowledged == 4)
            await eva.replay(last=1)
            assert (await anext(events)).number == 4
            await eva.replay(since=timedelta(hours=1))
            since = datetime(2026, 11, 16, tzinfo=UTC)
            await eva.replay(since=since)
            asked = puppet.asked(Replay)
            assert [(each.first, each.last) for each in asked] == [(1, -1), (-1, 1), (-1, -1), (-1, -1)]
            assert timedelta(minutes=59) < datetime.now(UTC) - asked[2].since < timedelta(minutes=61)
            assert asked[3].since == since
            puppet.refusals[Replay] = "gone", "deliveries before 3 are gone"
            with pytest.raises(GoneError, match="before 3 are gone"):
                await eva.replay(first=1)

    run(story())


def test_a_replay_goes_on_after_a_break() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            for x in range(4):
                puppet.deliver(x=x)
            for each in await taken(events, 4):
                await each.ack()
            await until(lambda: puppet.acknowledged == 3)
            later = puppet.deliveries[2:]
            del puppet.deliveries[2:]
            await eva.replay(first=0)
            await taken(events, 2)
            puppet.deliveries += later
            await puppet.hang_up()
            got = await taken(events, 2)
            assert [(each.number, each.is_repeated) for each in got] == [(2, True), (3, True)]
            assert puppet.hellos[1].durable == control.Durable(log=3, after=1)
            assert [each.first for each in puppet.asked(Replay)] == [0, 2]
            assert eva.missed == 0

    run(story())


# -- dead letters ------------------------------------------------------------------------------------------------------


def test_a_rejection_waits_for_those_before_it() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            for x in range(4):
                puppet.deliver(x=x)
            zero, one, two, three = await taken(events, 4)
            rejecting = asyncio.create_task(one.reject("no such customer", wait=True))
            await three.reject("neither")
            await two.ack()
            await asyncio.sleep(0)
            assert not puppet.asked(Reject)
            await zero.ack()
            await rejecting
            await until(lambda: len(puppet.asked(Reject)) == 2)
            assert [(each.delivery, each.reason) for each in puppet.asked(Reject)] == [
                (1, "no such customer"),
                (3, "neither"),
            ]
            kinds = [kind for kind, _ in puppet.received if kind in (frames.ACKNOWLEDGE, control.KINDS[Reject])]
            assert kinds[:2] == [frames.ACKNOWLEDGE, control.KINDS[Reject]]
            await eva.acknowledged(three.cursor)
            assert puppet.acknowledged == 3
            with pytest.raises(CallerError, match="reason: '' is none"):
                await one.reject("")

    run(story())


def test_acknowledgements_behind_a_rejection_are_not_lost_when_the_client_is_closed() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            async with durable_client(puppet) as eva, eva.subscribe("x any") as events:
                for x in range(6):
                    puppet.deliver(x=x)
                zero, one, two, three, four, five = await taken(events, 6)
                await zero.ack()
                await one.reject("no such customer")
                await two.ack()
                await three.reject("neither")
                await four.ack()
                await five.ack()
            await until(lambda: puppet.acknowledged == 5)
            assert [each.delivery for each in puppet.asked(Reject)] == [1, 3]

    run(story())


def test_closing_does_not_wait_for_ever_for_a_rejection() -> None:
    async def story() -> None:
        async with (
            LogPuppet() as puppet,
            durable_client(puppet, connect_timeout=0.1) as eva,
            eva.subscribe("x any") as events,
        ):
            puppet.deliver(x=1)
            delivery = await anext(events)
            puppet.is_silent = True
            await delivery.reject("why")

    run(story())


def test_a_rejection_is_said_again_after_a_break() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            puppet.deliver(x=1)
            delivery = await anext(events)
            await puppet.hang_up()
            rejecting = asyncio.create_task(delivery.reject("why", wait=True))
            await rejecting
            assert [each.delivery for each in puppet.asked(Reject)] in ([0], [0, 0])
            assert len(puppet.hellos) == 2

    run(story())


def test_what_cannot_be_rejected_is_still_held() -> None:
    async def story() -> None:
        async with (
            LogPuppet() as puppet,
            durable_client(puppet) as eva,
            eva.subscribe("x any") as events,
            eva.subscribe("x = 1") as others,
        ):
            puppet.refusals[Reject] = "full-disk", "there is no room"
            puppet.deliver(x=1)
            mine, other = await anext(events), await anext(others)
            await other.reject("why")
            with pytest.raises(RefusedError, match="there is no room"):
                await mine.reject("why not", wait=True)
            assert puppet.asked(Reject)[0].reason == "why"
            puppet.refusals.clear()
            await mine.ack()
            await asyncio.sleep(0)
            assert puppet.acknowledgements == []
            await other.ack(wait=True)
            assert puppet.acknowledged == 0

    run(story())


@pytest.mark.parametrize("is_broken", [False, True])
def test_what_is_acknowledged_already_cannot_be_rejected(is_broken: bool) -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva, eva.subscribe("x any") as events:
            puppet.deliver(x=1)
            delivery = await anext(events)
            puppet.is_silent = is_broken
            rejecting = asyncio.create_task(delivery.reject("why", wait=True))
            await until(lambda: puppet.asked(Reject))
            puppet.is_silent = False
            puppet.refusals[Reject] = "invalid", "the first that is not acknowledged is 1"
            if is_broken:  # it was done, but the answer was lost
                await puppet.hang_up()
                await rejecting
                assert len(puppet.asked(Reject)) == 2
            else:
                await rejecting
                await eva.replay(first=0)
                again = await anext(events)
                with pytest.raises(RefusedError, match="not acknowledged is 1"):
                    await again.reject("why", wait=True)
            puppet.deliver(x=2)
            await (await anext(events)).ack(wait=True)  # nothing stands in the way

    run(story())


def test_dead_letters_are_listed_and_dealt_with() -> None:
    form = {
        "letter": 4,
        "delivery": 41,
        "reason": "no such customer",
        "time": "2026-11-16T09:30:00Z",
        "notifications": [
            {
                "palio": 1,
                "notification": {"customer": 7},
                "envelope": {
                    "origin": "milan",
                    "incarnation": 3,
                    "sequence": 41,
                    "published": "2026-11-16T09:29:00Z",
                    "publisher": "adam",
                },
            }
        ],
    }

    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            puppet.letters = {"letters": [form], "forgotten": 2}
            found = await eva.letters()
            assert found.forgotten == 2
            (letter,) = found.letters
            assert letter[:4] == (4, 41, "no such customer", datetime(2026, 11, 16, 9, 30, tzinfo=UTC))
            assert letter.notifications == (Notification(customer=7),)
            assert letter.notifications[0].envelope is not None
            assert letter.notifications[0].envelope.publisher == "adam"
            await eva.requeue([4])
            await eva.discard(range(2))
            assert [each[1:] for each in map(control_fields, puppet.asked(Letters))] == [
                ("requeue", (4,)),
                ("discard", (0, 1)),
            ]
            for wrong in ([], [-1], [True], ["4"]):
                with pytest.raises(CallerError, match="letters:"):
                    await eva.requeue(wrong)  # type: ignore[arg-type]
            puppet.is_silent = True
            requeueing = asyncio.create_task(eva.requeue([4]))
            await until(lambda: len(puppet.asked(Letters)) == 3)
            await puppet.hang_up()
            with pytest.raises(ConnectionLostError):  # it may have been done, and cannot be done twice
                await requeueing
            puppet.is_silent = False
            puppet.letters = {"letters": [{"letter": 4}], "forgotten": 0}
            with pytest.raises(ValueError, match="dead letters cannot be read"):
                await eva.letters()

    run(story())


def control_fields(letters: Letters) -> tuple[int, str, tuple[int, ...]]:
    return letters.number, letters.action, letters.letters


# -- what makes no sense -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"durable": True}, "durable: it needs a name"),
        ({"durable": 7}, "durable: 7 is neither true nor a Durable"),
        ({"durable": Durable(count=-1)}, "durable: count: -1 is no count"),
        ({"durable": Durable(window=True)}, "durable: window: True is no count"),
        ({"durable": Durable(age=-1)}, "durable: age: -1 is no duration"),
        ({"durable": Durable(lease=timedelta(-1))}, "durable: lease: .* is no duration"),
        ({"durable": Durable(lease=float("nan"))}, "durable: lease: nan is no duration"),
        ({"durable": Durable(settle=-1)}, "durable: settle: -1 is no number of seconds"),
        ({"durable": Durable(after="41")}, "'41' is no cursor; it is a log and a number in it, such as 3/41"),
        ({"durable": Durable(after=41)}, "durable: after: 41 is no Cursor"),  # type: ignore[arg-type]
        ({"durable": Durable(on_gap=7)}, "durable: on_gap: it is a function"),  # type: ignore[arg-type]
        ({"mode": "fast"}, "mode: 'fast' is none of memory, local, synced"),
    ],
)
def test_options_are_checked(options: dict[str, Any], problem: str) -> None:
    async def story() -> None:
        with pytest.raises(CallerError, match=problem):
            connect("palio://h", **options)

    run(story())


@pytest.mark.parametrize("text", ["3", "3/", "3/-2", "a/1", "3/41 ", "", "٣/٤", f"{2**63}/1", "3/" + "9" * 30, None])
def test_cursors_are_checked(text: str) -> None:
    with pytest.raises(CallerError, match="is no cursor"):
        Cursor.parse(text)


def test_cursors_survive_being_text() -> None:
    for cursor in (Cursor(0, -1), Cursor(3, 41), Cursor(2**63 - 1, 2**63 - 1)):
        assert Cursor.parse(str(cursor)) == cursor


def test_what_only_durable_parties_can_do() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as adam:
            with pytest.raises(CallerError, match="only durable parties"):
                await adam.replay(last=1)
            with pytest.raises(CallerError, match="only durable parties"):
                await adam.acknowledged("3/41")
            with pytest.raises(CallerError, match="ack: only durable parties"):
                adam.subscribe("x any", ack="auto")
            assert (adam.position, adam.missed, adam.unwanted) == (None, 0, 0)

    run(story())


def test_what_durable_parties_cannot_do() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet, durable_client(puppet) as eva:
            with pytest.raises(CallerError, match="overflow: 'drop_oldest': a durable party loses nothing"):
                eva.subscribe("x any", overflow="drop_oldest")
            with pytest.raises(CallerError, match="ack: 'never' is none of manual, auto"):
                eva.subscribe("x any", ack="never")  # type: ignore[arg-type]
            for wrong in ({}, {"first": 1, "last": 1}, {"first": -1}, {"last": True}, {"since": 7}):
                with pytest.raises(CallerError, match="replay:"):
                    await eva.replay(**wrong)  # type: ignore[arg-type]
            with pytest.raises(CallerError, match=r"replay: since: .* is no time with a time zone"):
                await eva.replay(since=datetime(2026, 11, 16))
            with pytest.raises(CallerError, match="is no cursor"):
                await eva.acknowledged("41")

    run(story())


def test_a_server_without_a_store_says_so() -> None:
    async def story() -> None:
        async with Puppet(welcomes=False) as puppet:
            connecting = asyncio.create_task(durable_client(puppet).connect())
            await until(lambda: puppet.hellos)
            puppet.say(control.encode(Goodbye("no-store", "this server keeps nothing")))
            with pytest.raises(NoStoreError, match="this server keeps nothing") as refused:
                await connecting
            assert isinstance(refused.value, CannotConnectError)

    run(story())


def test_a_server_that_does_not_say_where_it_begins_is_not_waited_for() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            with pytest.raises(CannotConnectError, match=r"does not answer within 0\.05 s"):
                await durable_client(puppet, connect_timeout=0.05).connect()

    run(story())


@pytest.mark.parametrize(
    ("is_durable", "data"),
    [
        (False, control.encode(Position(3, 0, 0, 0, 0))),
        (False, frames.acknowledge(1, frames.ACKNOWLEDGED)),
        (True, frames.frame(frames.ACKNOWLEDGED, b"1")),
    ],
)
def test_what_does_not_belong_there_ends_the_connection(is_durable: bool, data: bytes) -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            eva = durable_client(puppet, is_durable, max_attempts=0)
            await eva.connect()
            events = await eva.subscribe("x any")
            puppet.say(data)
            with pytest.raises(ConnectionLostError, match="cannot be read"):
                await anext(events)
            await eva.close()

    run(story())


def test_a_delivery_without_a_number_ends_the_connection() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            connecting = asyncio.create_task(durable_client(puppet).connect())
            await until(lambda: puppet.hellos)
            puppet.say(one_delivery())
            with pytest.raises(CannotConnectError, match="a delivery before it was said which one it is"):
                await connecting

    run(story())


def one_delivery() -> bytes:
    puppet = LogPuppet()
    puppet.deliver(x=1)
    return puppet.deliveries[0]


# -- without a loop ----------------------------------------------------------------------------------------------------


def test_all_of_it_without_a_loop() -> None:
    async def story() -> None:
        async with LogPuppet() as puppet:
            for x in range(4):
                puppet.deliver(x=x)
            await asyncio.to_thread(_work, puppet)
            await until(lambda: puppet.acknowledged == 3)
            await until(lambda: puppet.of_kind(control.KINDS[Goodbye]))

    run(story())


def _work(puppet: LogPuppet) -> None:
    with connect_sync(puppet.url, name="urn:eva", durable=True) as eva:
        with eva.subscribe("x any") as events:
            first = next(events)
            assert (first.number, first.cursor, first.notification["x"]) == (0, Cursor(3, 0), 0)
            assert not first.is_repeated
            assert repr(first) == "<Delivery 3/0: Notification(x=0)>"
            first.ack(wait=True)
            next(events).reject("why", wait=True)
            next(events).ack()
            next(events).ack()
        eva.acknowledged("3/3")
        eva.replay(first=2)
        with eva.subscribe("x any", ack="auto") as events:
            assert [each.element["x"] for each in (next(events), next(events))] == [2, 3]
        eva.acknowledged("3/3")
        assert eva.letters().letters == ()
        eva.requeue([1])
        eva.discard([2])
        assert eva.position is not None
        assert (eva.missed, eva.unwanted) == (0, 0)
        eva.leave()
