"""Trace contexts travel with notifications, unchanged and in their place."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from opentelemetry.context import attach, detach
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, get_current_span, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from palio import Filter, Notification, Trace
from palio.client import RefusedError
from palio.client.sync import connect_sync
from palio.codec import control, frames, msgpack
from palio.errors import CallerError, InvalidValueError
from palio.model import Mode
from palio.node import ports
from palio.node.node import Node, NodeSettings
from tests.client.puppet import client_of
from tests.serving import Raw, run, serving, until

TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")
TRACED = frames.Options(trace=str(TRACE))
PARENT = SpanContext(
    0x0AF7651916CD43DD8448EB211C80319C,
    0xB7AD6B7169203331,
    is_remote=False,
    trace_flags=TraceFlags(1),
    trace_state=TraceState([("vendor", "1")]),
)


@contextmanager
def child_of(trace: Trace) -> Iterator[SpanContext]:
    """What a subscriber's tracing does with the context that it finds: it goes on within it."""
    token = attach(TraceContextTextMapPropagator().extract(trace.headers))
    try:
        yield get_current_span().get_span_context()
    finally:
        detach(token)


def test_a_subscriber_at_another_server_goes_on_with_the_publishers_trace() -> None:
    async def story() -> None:
        async with serving(server="rome") as rome:
            peer = {"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"}
            async with serving(peers=[peer]) as milan, client_of(milan) as adam, client_of(rome) as eva:
                await until(lambda: "rome" in milan.driver.node.links.peers)
                async with eva.subscribe("x any", wait=True) as events:
                    with use_span(NonRecordingSpan(PARENT)):
                        await adam.publish(x=1)
                    await adam.publish(x=2)
                    first, second = await anext(events), await anext(events)
                assert first.envelope is not None
                assert first.envelope.trace == TRACE
                with child_of(first.envelope.trace) as parent:
                    assert (parent.trace_id, parent.span_id) == (PARENT.trace_id, PARENT.span_id)
                    assert parent.is_remote
                    assert parent.trace_state.get("vendor") == "1"
                assert second.envelope is not None
                assert second.envelope.trace is None

    run(story())


def test_a_trace_can_be_given_and_counts_more_than_the_current_span() -> None:
    async def story() -> None:
        other = Trace("00-00000000000000000000000000000001-0000000000000001-00")
        async with serving() as server, client_of(server) as client, client_of(server) as eva:
            async with eva.subscribe("x any") as events, eva.subscribe("x = 1 then x = 2") as sequences:
                with use_span(NonRecordingSpan(PARENT)):
                    await client.publish(Notification(x=1), other)
                    await client.publish_unconfirmed(None, other, x=2)
                    await client.publish(x=3)
                got = [await anext(events) for _ in range(3)]
                found = await anext(sequences)
            assert [each.envelope.trace for each in got if each.envelope] == [other, other, TRACE]
            assert [each.envelope.trace for each in found if each.envelope] == [other, other]
            with pytest.raises(
                CallerError, match=r"'00-1' is neither PublishOptions nor a Trace; Trace\.parse makes one"
            ):
                await client.publish(Notification(), "00-1")  # type: ignore[arg-type]

    run(story())


def test_publications_with_and_without_traces_keep_their_order() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as adam, client_of(server) as eva:
            async with eva.subscribe("x any", queue=2_000) as events:
                traces = [TRACE if x % 7 == 3 else None for x in range(1_000)]
                futures = [await adam.send(Notification(x=x), trace) for x, trace in enumerate(traces)]
                await asyncio.gather(*futures)
                got = [await anext(events) for _ in range(1_000)]
            assert [each["x"] for each in got] == list(range(1_000))
            assert [each.envelope.trace for each in got if each.envelope] == traces
            sequences = [each.envelope.id.sequence for each in got if each.envelope]
            assert sequences == sorted(sequences)

    run(story())


def test_a_traced_publication_waits_for_the_rest_of_a_large_block() -> None:
    """The block makes more deliveries than a turn holds; what comes behind it must not overtake its rest."""

    async def story() -> None:
        async with serving() as server:
            reader, publisher = await Raw.party(server, "eva"), await Raw.party(server, "adam")
            await reader.subscribe("x any")
            body = "y" * 100_000
            block = b"".join(frames.publish(Notification(x=x, body=body)) for x in range(400))
            publisher.send(block + frames.publish_with(Notification(x=400, body=body), TRACED, 7))
            publisher.send(frames.publish(Notification(x=401), 8))
            got = [(await reader.until(Notification))["x"] for _ in range(402)]
            assert got == list(range(402))
            assert [await publisher.until(int) for _ in range(2)] == [7, 8]
            await reader.close()
            await publisher.close()

    run(story())


@pytest.mark.parametrize(
    ("options", "document", "code"),
    [
        ({"trace": "00-1"}, msgpack.encode(Notification(x=1)), "document"),
        ({"trace": 7}, msgpack.encode(Notification(x=1)), "document"),
        ({"trace": str(TRACE) + "," * 500}, msgpack.encode(Notification(x=1)), "document"),
        ({"trace": str(TRACE)}, b"\xc1", "document"),
        ({"trace": str(TRACE)}, msgpack.encode(Notification(x="y" * 300_000)), "limit"),
        ({"mode": "eternal"}, msgpack.encode(Notification(x=1)), "document"),
        ({"strange": 1}, msgpack.encode(Notification(x=1)), "document"),
        ([], msgpack.encode(Notification(x=1)), "document"),
    ],
    ids=["form", "no text", "long", "notification", "size", "mode", "option", "no map"],
)
def test_a_publication_with_options_that_is_none_is_refused_alone(options: object, document: bytes, code: str) -> None:
    async def story() -> None:
        async with serving() as server:
            party = await Raw.party(server, "eva")
            packed = msgspec.msgpack.encode(options)
            content = (7).to_bytes(4, "big") + len(packed).to_bytes(2, "big") + packed + document
            party.send(frames.frame(frames.PUBLISH_WITH, content))
            answer = await party.until(control.Answer)
            assert (answer.number, answer.code) == (7, code)
            assert await party.next() == 7  # nothing up to it is under way
            party.send(frames.publish_with(Notification(x=1), TRACED, 8))
            assert await party.next() == 8
            await party.close()

    run(story())


@pytest.mark.parametrize("content", [b"", b"\0\0\0\7\0", b"\0\0\0\7\0\5abcd"], ids=["empty", "short", "no end"])
def test_a_traced_publication_that_does_not_end_closes_the_connection(content: bytes) -> None:
    async def story() -> None:
        async with serving() as server:
            party = await Raw.party(server, "eva")
            party.send(frames.frame(frames.PUBLISH_WITH, content))
            assert await party.goodbye() == "frame"

    run(story())


def test_a_guarded_server_refuses_what_is_not_advertised_with_a_trace_too() -> None:
    async def story() -> None:
        async with serving(guard=True) as server, client_of(server) as client:
            with pytest.raises(RefusedError) as refused:
                await client.publish(Notification(x=1), TRACE)
            assert refused.value.code == "not-advertised"
            await client.advertise("x any")
            await client.publish(Notification(x=1), TRACE)

    run(story())


def test_the_client_without_a_loop_takes_the_callers_span() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva, eva.subscribe("x any") as events:

            def publish() -> None:
                with connect_sync(f"palio://127.0.0.1:{server.port}") as client:
                    with use_span(NonRecordingSpan(PARENT)):
                        client.publish(x=1)
                        client.send(x=2).result(20)
                        client.publish_unconfirmed(x=3)
                    client.publish(x=4)

            await asyncio.to_thread(publish)
            got = [await anext(events) for _ in range(4)]
            assert [each.envelope.trace for each in got if each.envelope] == [TRACE, TRACE, TRACE, None]

    run(story())


def test_a_state_that_is_too_long_stays_behind() -> None:
    async def story() -> None:
        long = TraceState([(f"v{number}", "x" * 200) for number in range(3)])
        span = SpanContext(PARENT.trace_id, PARENT.span_id, False, TraceFlags(1), long)
        async with serving() as server, client_of(server) as eva, eva.subscribe("x any") as events:
            with use_span(NonRecordingSpan(span)):
                await eva.publish(x=1)
            got = await anext(events)
            assert got.envelope is not None
            assert got.envelope.trace == Trace(TRACE.parent)

    run(story())


def test_a_durable_node_keeps_traces() -> None:
    node = Node(NodeSettings("milan", "as", durable=True))
    node.handle([ports.Request("eva", 1, ports.Subscribe(Filter()))], 0)
    node.handle([ports.Persisted(1)], 1)
    frame = frames.publish_with(Notification(x=1), TRACED, 7)
    (persist,) = [
        each
        for each in node.handle([ports.PublishWith("adam", frame[frames.HEADER :])], 2)
        if isinstance(each, ports.Persist)
    ]
    outputs = node.handle([ports.Persisted(persist.token)], 3)
    (delivery,) = [each for each in outputs if isinstance(each, ports.Deliver)]
    assert delivery.notification.envelope is not None
    assert delivery.notification.envelope.trace == TRACE
    assert ports.AcceptedUpTo("adam", 7, Mode.SYNCED) in outputs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
        TRACE.parent + " vendor=ü",
        TRACE.parent + " " + "x" * (512 - len(TRACE.parent)),
    ],
)
def test_what_is_no_trace(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^trace: "):
        Trace.parse(text)


def test_what_is_one() -> None:
    assert Trace.parse(TRACE.parent + " " + "x" * (511 - len(TRACE.parent))).state[0] == "x"
    later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"
    assert Trace.parse(later).headers == {"traceparent": later}


def test_the_client_does_without_opentelemetry() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from palio.client.tracing import current_trace\n"
        "assert current_trace() is None\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
