"""The client and a real server, in one loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import palio
from palio.client import (
    Acceptance,
    ClosedError,
    NotAdvertisedError,
    RefusedError,
    TooLargeError,
    UnsatisfiableError,
)
from palio.errors import CallerError, TextSyntaxError
from palio.model import Advertisement, Filter, Notification, Pattern
from palio.server.config_tables import Connections
from tests.client.puppet import client_of, held, held_patterns
from tests.serving import run, serving, until


def test_two_clients_talk() -> None:
    async def story() -> None:
        async with (
            serving() as server,
            client_of(server, name="eva") as eva,
            client_of(server) as bob,
            eva.subscribe('symbol = "DIS" and change > 0') as events,
        ):
            await bob.publish(symbol="DIS", change=-1.0)
            await bob.publish(Notification(symbol="DIS", change=1.5).with_payload(b"!", "text/plain"))
            got = await anext(events)
            assert got == Notification(symbol="DIS", change=1.5).with_payload(b"!", "text/plain")
            assert got.envelope is not None
            assert got.envelope.publisher == bob.name
            assert got.envelope.id.origin == "milan"

    run(story())


def test_the_package_exports_it() -> None:
    assert palio.connect is palio.client.connect
    with pytest.raises(AttributeError):
        palio.conect  # noqa: B018


@pytest.mark.parametrize("window", [1, 7, 4096])
def test_ten_thousand_publications_are_pipelined_in_order(window: int) -> None:
    count = 10_000 if window > 1 else 500

    async def story() -> None:
        async with (
            serving() as server,
            client_of(server, max_outstanding=window) as eva,
            client_of(server) as bob,
            bob.subscribe("n any", queue=count) as events,
        ):
            await asyncio.gather(*(eva.publish(n=number) for number in range(count)))
            assert [(await anext(events))["n"] for _ in range(count)] == list(range(count))

    run(story())


def test_unconfirmed_publications_keep_their_place() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, max_outstanding=2) as eva, eva.subscribe("n any") as events:
            sent = [
                asyncio.ensure_future(eva.publish_unconfirmed(n=n) if n % 3 else eva.publish(n=n)) for n in range(50)
            ]
            assert [(await anext(events))["n"] for _ in range(50)] == list(range(50))
            await asyncio.gather(*sent)

    run(story())


def test_each_subscription_gets_its_own() -> None:
    async def story() -> None:
        async with (
            serving() as server,
            client_of(server) as eva,
            eva.subscribe("level > 3") as loud,
            eva.subscribe("level > 7") as louder,
            eva.subscribe('event in ("fire", "flood")') as events,
        ):
            for level, event in ((5, "fire"), (9, "x"), (1, "flood"), (8, "flood")):
                await eva.publish(level=level, event=event)
            assert [(await anext(loud))["level"] for _ in range(3)] == [5, 9, 8]
            assert [(await anext(louder))["level"] for _ in range(2)] == [9, 8]
            assert [(await anext(events))["level"] for _ in range(3)] == [5, 1, 8]

    run(story())


def test_the_end_of_a_broader_subscription_leaves_the_narrower() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            narrow = await eva.subscribe("level > 7")
            async with eva.subscribe("level > 3"):
                assert held(server, "eva") == {Filter.parse("level > 3")}
            assert held(server, "eva") == {Filter.parse("level > 7")}
            await eva.publish(level=5)
            await eva.publish(level=9)
            assert (await anext(narrow))["level"] == 9
            await narrow.close()
            assert held(server, "eva") == set()

    run(story())


def test_the_end_of_a_narrower_or_equal_subscription_leaves_the_broader() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva, eva.subscribe("level > 3") as events:
            async with eva.subscribe("level > 3"), eva.subscribe("level > 7"):
                pass
            assert held(server, "eva") == {Filter.parse("level > 3")}
            await eva.publish(level=5)
            assert (await anext(events))["level"] == 5

    run(story())


def test_unsubscribing_ends_what_is_covered() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            broad = await eva.subscribe("level any")
            narrow = await eva.subscribe("level > 7")
            either = await eva.subscribe('level > 9 or event = "fire"')
            await eva.unsubscribe("level > 5")
            assert [each async for each in narrow] == []
            assert either.wanted == (Filter.parse('event = "fire"'),)
            assert held(server, "eva") == {Filter.parse("level any"), Filter.parse('event = "fire"')}
            await eva.publish(level=10)
            assert (await anext(broad))["level"] == 10

    run(story())


def test_patterns_give_sequences() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            async with eva.subscribe("x = 1 then x = 2") as pairs, eva.subscribe("x any") as singles:
                for x in (2, 1, 1, 2):
                    await eva.publish(x=x)
                assert await anext(pairs) == (Notification(x=1), Notification(x=2))
                assert [(await anext(singles))["x"] for _ in range(4)] == [2, 1, 1, 2]
            assert held_patterns(server, "eva") == set()

    run(story())


def test_the_end_of_a_broader_pattern_leaves_the_narrower() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            narrow = await eva.subscribe(Pattern.parse("x = 1 then x = 2"))
            async with eva.subscribe("x > 0 then x > 0") as broad:
                await eva.publish(x=1)
                await eva.publish(x=2)
                assert await anext(broad) == await anext(narrow) == (Notification(x=1), Notification(x=2))
            assert held_patterns(server, "eva") == {Pattern.parse("x = 1 then x = 2")}

    run(story())


def test_a_pattern_of_one_filter_gives_sequences_of_one() -> None:
    async def story() -> None:
        async with (
            serving() as server,
            client_of(server) as eva,
            eva.subscribe(Pattern([Filter.parse("x = 1")])) as events,
        ):
            await eva.publish(x=1)
            assert await anext(events) == (Notification(x=1),)

    run(story())


def test_what_is_refused_says_why() -> None:
    async def story() -> None:
        async with serving(guard=True) as server, client_of(server, name="eva") as eva:
            with pytest.raises(UnsatisfiableError, match="nothing can match") as refused:
                await eva.subscribe("x > 3 and x < 2")
            assert refused.value.code == "unsatisfiable"
            results = await asyncio.gather(*(eva.publish(x=x) for x in range(3)), return_exceptions=True)
            assert [type(each) for each in results] == [NotAdvertisedError] * 3
            await eva.advertise("integer x > 0", wait=True)
            results = await asyncio.gather(*(eva.publish(x=x) for x in range(3)), return_exceptions=True)
            assert [type(each) for each in results] == [NotAdvertisedError, Acceptance, Acceptance]
            await eva.unadvertise("integer x any")
            with pytest.raises(RefusedError):
                await eva.publish(x=1)

    run(story())


def test_a_refused_subscription_leaves_nothing() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            with pytest.raises(UnsatisfiableError):
                await eva.subscribe([Filter.parse("y = 1"), Filter.parse("x > 3 and x < 2")])
            await until(lambda: not held(server, "eva"))
            assert not list(eva._inbox.subscriptions)

    run(story())


def test_an_unconfirmed_publication_that_is_refused_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving(guard=True) as server, client_of(server) as eva:
            await eva.publish_unconfirmed(x=1)
            await until(lambda: "an unconfirmed publication was refused" in caplog.text)

    run(story())


def test_what_is_too_long_is_refused_before_it_is_sent() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            with pytest.raises(TooLargeError, match="the server allows"):
                await eva.publish(Notification(x=1).with_payload(bytes(3_000_000)))
            await eva.publish(x=1)

    run(story())


@pytest.mark.parametrize("nonsense", [7, [], ["x = 1"], None])
def test_only_filters_and_patterns_can_be_subscribed_to(nonsense: object) -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            with pytest.raises(CallerError, match="neither a filter nor a pattern"):
                eva.subscribe(nonsense)  # type: ignore[arg-type]

    run(story())


@pytest.mark.parametrize(
    ("text", "column"), [("x >", 4), ("x = 1 then y >", 15), ("x = 1 or y = 2 then z = 3", 16), ("then", 1)]
)
def test_errors_in_text_point_at_the_place(text: str, column: int) -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            with pytest.raises(TextSyntaxError) as error:
                eva.subscribe(text)
            assert error.value.column == column

    run(story())


def test_outlooks_are_watched() -> None:
    async def story() -> None:
        async with serving(architecture="aa") as server, client_of(server) as eva, client_of(server) as bob:
            async with eva.watch(Filter.parse("x = 1")) as offers:
                assert await anext(offers) is False
                await bob.advertise("integer x any", wait=True)
                assert await anext(offers) is True
                async with eva.watch(Filter.parse("x = 1")):
                    pass
                await bob.unadvertise("integer x any")
                while await anext(offers):  # the second question may have repeated the answer
                    pass
            with pytest.raises(CallerError):
                eva.watch("x = 1")  # type: ignore[arg-type]

    run(story())


def test_where_nobody_can_tell_the_outlook_watching_is_refused() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            with pytest.raises(RefusedError, match="none can tell"):
                await eva.watch(Filter.parse("x = 1"))
            await until(lambda: not eva._inbox.watches)

    run(story())


def test_a_nameless_party_leaves_nothing_behind_and_a_named_one_does() -> None:
    async def story() -> None:
        async with serving() as server:
            async with client_of(server, name="eva") as eva, client_of(server) as bob:
                for client in (eva, bob):
                    await client.subscribe("x = 1")
                    await client.subscribe("x = 1 then x = 2")
                    await client.advertise(Advertisement.parse("x any"))
                assert held(server, bob.name)
            router = server.driver.node.router
            await until(lambda: not held(server, bob.name) and not router.profile(bob.name).advertisements)
            assert held_patterns(server, bob.name) == set()
            assert held(server, "eva") == {Filter.parse("x = 1")}
            assert held_patterns(server, "eva")
            assert router.profile("eva").advertisements

    run(story())


def test_a_closed_client_does_nothing() -> None:
    async def story() -> None:
        async with serving() as server:
            async with client_of(server) as eva:
                events = await eva.subscribe("x any")
                await eva.publish(x=1)
                await until(lambda: events._waiting)
                waiting = asyncio.ensure_future(anext(await eva.subscribe("y any"), None))
            assert [each["x"] async for each in events] == [1]
            assert await waiting is None
            for attempt in (eva.publish(x=1), eva.subscribe("x = 1"), eva.advertise("x any"), eva.connect()):
                with pytest.raises(ClosedError):
                    await attempt
            await eva.close()

    run(story())


def test_a_client_must_be_connected_first() -> None:
    async def story() -> None:
        async with serving() as server:
            with pytest.raises(ClosedError, match="not connected"):
                await client_of(server).publish(x=1)

    run(story())


def test_a_subscription_begins_once() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            events = await eva.subscribe("x any")
            with pytest.raises(ClosedError, match="begun already"):
                await events
            await events.close()
            await events.close()
            await eva.subscribe("y any").close()

    run(story())


def test_draining_ends_in_good_order() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="bob") as bob:
            eva = client_of(server, name="eva")
            await eva.connect()
            events = await eva.subscribe("n any", queue=10)
            futures = [await eva.send(n=n) for n in range(500)]

            async def consume() -> list[int]:
                return [each["n"] async for each in events]

            consumer = asyncio.create_task(consume())
            draining = asyncio.create_task(eva.drain())
            await asyncio.sleep(0)
            with pytest.raises(ClosedError, match="drains"):
                await eva.publish(n=0)
            await draining
            assert await consumer == list(range(500))
            assert all(future.done() for future in futures)
            assert held(server, "eva") == set()
            await bob.publish(n=1)

    run(story())


def test_draining_takes_what_is_on_its_way() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as bob:
            eva = client_of(server, name="eva")
            await eva.connect()
            events = await eva.subscribe("n any", queue=10)
            await asyncio.gather(*(bob.publish(n=n) for n in range(1000)))
            draining = asyncio.create_task(eva.drain())
            assert [each["n"] async for each in events] == list(range(1000))
            await draining

    run(story())


def test_draining_does_not_wait_forever() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            await eva.subscribe("n any")
            await eva.publish(n=1)
            with pytest.raises(TimeoutError):
                await eva.drain(timeout=0.01)
            with pytest.raises(ClosedError):
                await eva.publish(n=1)

    run(story())


def test_who_uses_only_the_model_does_not_load_the_client() -> None:
    code = "import palio, sys; print({'asyncio', 'palio.client', 'palio.codec'} & set(sys.modules), palio.connect)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.startswith("set() <function connect")


def test_a_server_with_larger_limits_says_so() -> None:
    large = bytes(3_000_000)

    async def story() -> None:
        limits, connections = (
            {"payload_bytes": 4_000_000, "document_bytes": 5_000_000},
            Connections(frame_bytes=5_000_064),
        )
        async with (
            serving(limits=limits, connections=connections) as server,
            client_of(server) as eva,
            eva.subscribe("x any") as events,
            eva.subscribe("x = 1 then x = 2") as sequences,
        ):
            for x in (1, 2):
                await eva.publish(Notification(x=x).with_payload(large))
            assert (await anext(events)).payload.data == large
            assert [each.payload.data for each in await anext(sequences)] == [large, large]

    run(story())
