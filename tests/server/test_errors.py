"""Each error has its code, and only who makes it suffers."""

from __future__ import annotations

import asyncio
import random
import socket
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from argon2 import PasswordHasher

from palio.codec import control, frames, msgpack
from palio.codec.control import Ask, Goodbye, Hello, Ping, Welcome
from palio.model import Filter, Notification
from palio.server import credentials
from palio.server.connection import Connection
from palio.server.credentials import hash_of
from palio.server.errors import Code, RefusedError
from palio.server.server import Server
from tests.serving import Raw, configured, serving, until

Play = Callable[[Server, Raw], Awaitable[None]]


def play(scene: Callable[[Server], Awaitable[None]], **more: Any) -> None:
    """Play a scene; a bystander is served before and after, and gets what is published."""

    async def run() -> None:
        async with serving(**more) as server:
            bystander = await Raw.party(server, "bystander")
            await bystander.subscribe('kind = "proof"')
            await scene(server)
            bystander.publish(kind="proof")
            assert (await bystander.until(Notification))["kind"] == "proof"
            await bystander.close()
            assert server.counts.faults == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (control.encode(Hello((7, 9), "party", "eva")), Code.VERSION),
        (control.encode(Hello((), "party", "eva")), Code.VERSION),
        (control.encode(Hello((1,), "king", "eva")), Code.NAME),
        (control.encode(Hello((1,), "party", "")), Code.NAME),
        (control.encode(Hello((1,), "party", "e" * 1025)), Code.NAME),
        (control.encode(Hello((1,), "server", "milan")), Code.NAME),
        (control.encode(Ping(1)), Code.HELLO),
        (frames.publish(Notification(x=1)), Code.HELLO),
        (frames.frame(0x01, b"\xc1"), Code.FRAME),
        (frames.frame(0x01, b"\x91\x91\x01"), Code.FRAME),
        (frames.frame(0x01, b"\x91" * 8000), Code.FRAME),
        (control.encode(Hello((1,), "party", "eva", "t" * 9000)), Code.FRAME_TOO_LONG),
        (b"\x00\x00\x00\x00\x01", Code.FRAME_TOO_LONG),
        (b"\xff\xff\xff\xff\x01", Code.FRAME_TOO_LONG),
        (b"GET / HTTP/1.1\r\n\r\n", Code.FRAME_TOO_LONG),
    ],
)
def test_who_does_not_begin_well_is_told_why(first: bytes, code: Code) -> None:
    async def scene(server: Server) -> None:
        offender = await Raw.connect(server)
        offender.send(first)
        assert await offender.goodbye() == code.value
        assert server.counts.refusals[code.value] == 1

    play(scene)


def test_who_says_nothing_is_closed() -> None:
    async def scene(server: Server) -> None:
        offender, half = await Raw.connect(server), await Raw.connect(server)
        half.send(control.encode(Hello((1,), "party", "eva"))[:7])
        assert await offender.goodbye() == "hello"
        assert await half.goodbye() == "hello"

    play(scene, connections={"hello_seconds": 0.1})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frames.frame(0x77, b""), Code.FRAME),
        (frames.frame(0x04, b"\xc1"), Code.FRAME),
        (control.encode(Welcome(1, "x", 1, 1)), Code.FRAME),
        (control.encode(Hello((1,), "party", "eva")), Code.FRAME),
        (frames.frame(frames.LINK, b"\x93\x06"), Code.FRAME),
        (control.encode(Ask(1, "fly", "filter", msgspec.Raw(b"\x90"))), Code.FRAME),
        ((3_000_000).to_bytes(4, "big") + b"\x10", Code.FRAME_TOO_LONG),
        (bytes(8), Code.FRAME_TOO_LONG),
    ],
)
def test_who_breaks_the_rules_later_is_closed_alone(data: bytes, code: Code) -> None:
    async def scene(server: Server) -> None:
        offender = await Raw.party(server, "offender")
        offender.send(data + bytes(100_000))  # what comes after it must not keep the goodbye from coming through
        assert await offender.goodbye() == code.value

    play(scene)


@pytest.mark.parametrize(
    ("operation", "kind", "document", "code"),
    [
        ("subscribe", "filter", b"\xc1", Code.FRAME),
        ("subscribe", "filter", b"\x90", Code.DOCUMENT),
        ("subscribe", "king", b"\x90", Code.DOCUMENT),
        ("subscribe", "filter", msgpack.encode(Filter.parse(" and ".join(f"x{i} > 1" for i in range(9)))), Code.LIMIT),
        ("subscribe", "filter", msgpack.encode(Filter.parse("x > 5 and x < 3")), Code.UNSATISFIABLE),
        ("advertise", "filter", msgpack.encode(Filter.parse("x > 5")), Code.INVALID),
    ],
)
def test_a_request_that_cannot_be_is_answered(operation: str, kind: str, document: bytes, code: Code) -> None:
    async def scene(server: Server) -> None:
        offender = await Raw.party(server, "offender")
        if code is Code.FRAME:
            offender.send(control.encode(Ask(1, operation, kind, msgspec.Raw(document))))
            assert await offender.goodbye() == code.value
            return
        answer = await offender.ask_raw(operation, kind, document)
        assert (answer.code, bool(answer.text)) == (code.value, True)
        assert await offender.is_served()
        await offender.close()

    play(scene, limits={"constraints": 8})


def test_other_requests_that_cannot_be() -> None:
    async def scene(server: Server) -> None:
        offender = await Raw.party(server, "offender")
        assert (await offender.ask("subscribe", "x = 1", party="bystander")).code == "not-allowed"
        assert (await offender.ask("watch", "x = 1; y = 2", "pattern")).code == "invalid"
        await offender.subscribe("x = 1")
        await offender.subscribe("x = 2")
        assert (await offender.ask("subscribe", "x = 3")).code == "limit"
        offender.send(control.encode(control.Query(9, "weather")))
        assert (await offender.until(control.Answer)).code == "invalid"
        offender.send(control.encode(control.Query(9, "status")))
        assert (await offender.until(control.Result)).document["counts"]["parties"] == 2
        for body, code in ((b"\xc1", "document"), (msgpack.encode(Notification(x="y" * 300_000)), "limit")):
            offender.send(frames.frame(frames.PUBLISH, (7).to_bytes(4, "big") + body))
            answer = await offender.until(control.Answer)
            assert (answer.number, answer.code) == (7, code)
        await offender.close()

    play(scene, filters_per_party=2)


def test_what_was_not_advertised_is_refused_where_that_is_asked_for() -> None:
    async def run() -> None:
        async with serving(guard=True) as server:
            party = await Raw.party(server, "eva")
            party.publish(3, x=1)
            answer = await party.until(control.Answer)
            assert (answer.number, answer.code) == (3, "not-advertised")
            await party.close()

    asyncio.run(run())


def test_short_publications_concern_nobody_else() -> None:
    async def scene(server: Server) -> None:
        for content in (b"", b"\x00", b"\x00\x00\x00"):
            offender = await Raw.party(server, "offender")
            whole = frames.publish(Notification(kind="proof"), 1)
            offender.send(whole + whole + frames.frame(frames.PUBLISH, content) + whole)
            assert await offender.goodbye() == "frame"
        assert server.driver.node.publishing.count == 6

    play(scene)


def test_a_party_that_comes_again_replaces_itself() -> None:
    async def scene(server: Server) -> None:
        older = await Raw.party(server, "eva")
        newer = await Raw.party(server, "eva")
        assert await older.goodbye() == "replaced"
        assert await newer.is_served()
        await newer.close()

    play(scene)


def test_there_are_so_many_connections_and_no_more() -> None:
    async def scene(server: Server) -> None:
        second = await Raw.party(server, "second")
        third = await Raw.connect(server)
        assert await third.goodbye() == "full"
        await second.close()
        await until(lambda: len(server._connections) == 1)
        await (await Raw.party(server, "fourth")).close()

    play(scene, connections={"most": 2})


def test_who_is_silent_is_asked_and_then_closed() -> None:
    async def scene(server: Server) -> None:
        silent, slow = await Raw.party(server, "silent"), await Raw.party(server, "slow")
        slow.send((1000).to_bytes(4, "big"))

        async def drip() -> None:
            while True:
                slow.send(b"\x10")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert isinstance(await silent.next(), Ping)
        assert await silent.goodbye() == "silent"
        assert await slow.goodbye() == "frame"
        dripping.cancel()

    async def run() -> None:
        async with serving(connections={"ping_seconds": 0.3}) as server:
            await scene(server)

    asyncio.run(run())


def test_a_stopping_server_says_so() -> None:
    async def run() -> None:
        async with serving() as server:
            party = await Raw.party(server, "eva")
            await party.subscribe("x any")
            before = server.counts.bytes_in
            party.publish(1, x=1)
            await until(lambda: server.counts.bytes_in > before)
            stopping = asyncio.create_task(server.stop())
            assert isinstance(await party.until(Notification), Notification)
            assert await party.goodbye() == "stopping"
            await stopping

    asyncio.run(run())


def test_who_was_accepted_just_before_the_end_is_sent_away() -> None:
    """Between the acceptance of a connection and the moment in which the server hears of it, it may have stopped."""

    async def run() -> None:
        async with serving() as server:
            await server.stop()
            here, there = socket.socketpair()
            await server.loop.create_connection(lambda: Connection(server), sock=there)
            late = Raw(*await asyncio.open_connection(sock=here))
            assert await late.goodbye() == "stopping"

    asyncio.run(run())


# -- tokens ------------------------------------------------------------------------------------------------------------

TOKENS = {"tokens": {"bystander": hash_of("b"), "eva": hash_of("right")}, "server_tokens": {"rome": hash_of("r")}}


def test_tokens() -> None:
    async def run() -> None:
        async with serving(**TOKENS) as server:
            bystander = await Raw.party(server, "bystander", "b")
            wrong = [
                ("eva", "wrong", "party", "token"),
                ("eva", "", "party", "token"),
                ("rome", "right", "server", "token"),
                ("nobody", "right", "party", "unknown"),
                ("rome", "r", "party", "unknown"),
                ("eva", "right", "server", "unknown"),
            ]
            for name, token, role, code in wrong:
                offender = await Raw.connect(server)
                said = await offender.hello(name, token, role)
                assert (type(said), said.code) == (Goodbye, code)
                await offender.close()
            eva = await Raw.party(server, "eva", "right")
            rome = await Raw.connect(server)
            assert isinstance(await rome.hello("rome", "r", "server"), Welcome)
            again = await Raw.party(server, "eva", "right")
            assert await eva.goodbye() == "replaced"
            for each in (bystander, rome, again):
                assert await each.is_served()
                await each.close()

    asyncio.run(run())


def test_the_right_token_is_accepted_however_many_wrong_ones_came_from_the_address() -> None:
    async def run() -> None:
        async with serving(**TOKENS) as server:
            codes = []
            for number in range(40):
                offender = await Raw.connect(server)
                codes.append((await offender.hello("eva" if number % 2 else "nobody", "wrong")).code)
                await offender.close()
            assert codes[:30] == ["unknown", "token"] * 15
            assert set(codes[30:]) == {"too-many"}
            await (await Raw.party(server, "eva", "right")).close()

    asyncio.run(run())


@pytest.mark.slow
def test_wrong_tokens_that_come_at_once_are_limited_as_well() -> None:
    """The hashes of earlier releases are slow: before the first one is checked, many others have come."""

    async def run() -> None:
        async with serving(tokens={"eva": PasswordHasher().hash("right")}) as server:
            checked = []
            check = credentials._is_right

            def counting(expected: str, token: str) -> bool:
                checked.append(token)
                return check(expected, token)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(credentials, "_is_right", counting)
                attempts = [server.credentials.check("party", "eva", f"wrong {n}", "10.0.0.1") for n in range(300)]
                refused = await asyncio.gather(*attempts, return_exceptions=True)
            assert len(checked) == 30
            assert {type(each) for each in refused} == {RefusedError}
            await server.credentials.check("party", "eva", "right", "10.0.0.2")

    asyncio.run(run())


def test_wrong_tokens_are_limited_but_not_those_who_are_known() -> None:
    async def run() -> None:
        async with serving(**TOKENS, connections={"failures_per_minute": 2}) as server:
            await (await Raw.party(server, "eva", "right")).close()
            codes = []
            for _ in range(4):
                offender = await Raw.connect(server)
                codes.append((await offender.hello("eva", "wrong")).code)
                await offender.close()
            assert codes == ["token", "token", "too-many", "too-many"]
            await (await Raw.party(server, "eva", "right")).close()

    asyncio.run(run())


def test_who_goes_on_before_the_welcome_is_closed() -> None:
    async def run() -> None:
        async with serving(**TOKENS) as server:
            hasty = await Raw.connect(server)
            hasty.send(control.encode(Hello((1,), "party", "eva", "right")) + control.encode(Ping(1)))
            assert await hasty.goodbye() == "hello"

    asyncio.run(run())


def test_reloading_takes_tokens_away() -> None:
    async def run() -> None:
        async with serving(**TOKENS) as server:
            eva, bystander = await Raw.party(server, "eva", "right"), await Raw.party(server, "bystander", "b")
            fewer = {**TOKENS, "tokens": {"bystander": TOKENS["tokens"]["bystander"]}}
            assert server.reload(configured(**fewer)) == []
            assert await eva.goodbye() == "token"
            assert await bystander.is_served()
            assert server.reload(configured(**fewer, architecture="hs", guard=True)) == ["architecture"]
            bystander.publish(1, x=1)
            assert (await bystander.until(control.Answer)).code == "not-advertised"
            await bystander.close()

    asyncio.run(run())


def test_reloading_changes_how_many_filters_a_party_may_hold() -> None:
    async def run() -> None:
        async with serving(filters_per_party=1) as server:
            eva = await Raw.party(server, "eva")
            assert (await eva.ask("subscribe", "x = 1")).code == ""
            assert (await eva.ask("subscribe", "x = 2")).code == "limit"
            assert server.reload(configured(filters_per_party=2)) == []
            assert (await eva.ask("subscribe", "x = 2")).code == ""
            assert (await eva.ask("subscribe", "x = 3")).code == "limit"
            await eva.close()

    asyncio.run(run())


# -- noise -------------------------------------------------------------------------------------------------------------


def noise(draw: random.Random) -> bytes:
    """Frames of all kinds, whole and broken."""
    kinds = [*control.KINDS.values(), frames.PUBLISH, frames.DELIVER, frames.ACCEPTED, frames.LINK, 0x99]
    good = [
        frames.publish(Notification(x=1), 1),
        control.encode(Ask(1, "subscribe", "filter", msgspec.Raw(msgpack.encode(Filter.parse("x > 1"))))),
        control.encode(Ping(3)),
    ]
    made = b""
    for _ in range(draw.randrange(1, 6)):
        piece = draw.choice([*good, frames.frame(draw.choice(kinds), draw.randbytes(draw.randrange(40)))])
        if draw.random() < 0.3:
            piece = bytearray(piece)
            piece[draw.randrange(len(piece))] ^= 1 << draw.randrange(8)
        made += bytes(piece[: draw.randrange(len(piece) + 1)] if draw.random() < 0.2 else piece)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("role", ["party", "server"])
def test_noise_concerns_nobody_else_and_leaves_nothing_behind(role: str) -> None:
    draw = random.Random(f"noise {role}")

    async def scene(server: Server) -> None:
        tracemalloc.start()
        for turn in range(300):
            offender = await Raw.connect(server)
            if turn % 10:
                await offender.hello("offender", role=role)
            offender.send(noise(draw))
            offender.writer.write_eof()
            async with asyncio.timeout(10):
                await offender.reader.read()
            await offender.close()
            if turn == 100:
                before, _ = tracemalloc.get_traced_memory()
        await until(lambda: len(server._connections) == 1)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 2_000_000

    play(scene)


def test_a_long_frame_in_small_pieces() -> None:
    async def scene(server: Server) -> None:
        party = await Raw.party(server, "eva")
        await party.subscribe("x any")
        data = frames.publish(Notification(x="y" * 200_000), 5)
        for start in range(0, len(data), 1000):
            party.send(data[start : start + 1000])
            await party.writer.drain()
        party.send(data[:3])
        await party.writer.drain()
        party.send(data[3:])
        for _ in range(2):
            assert len((await party.until(Notification))["x"]) == 200_000
        await party.close()

    play(scene)


def test_every_code_is_documented() -> None:
    documented = (Path(__file__).parents[2] / "docs/server.md").read_text()
    assert [code.value for code in Code if f"| `{code.value}` |" not in documented] == []


def test_frames_that_are_not_whole_have_a_bound_together() -> None:
    async def run() -> None:
        async with serving(connections={"unfinished_bytes": 100_000}) as server:
            bystander = await Raw.party(server, "bystander")
            beginning = (1_000_000).to_bytes(4, "big") + b"\x10"
            parties = [await Raw.party(server, f"party-{number}") for number in range(3)]
            for party, size in zip(parties, (30_000, 45_000, 20_000), strict=True):
                party.send(beginning + bytes(size))
            await until(lambda: server.unfinished.bytes > 90_000)
            assert len(server.driver.parties) == 4
            bystander.send(control.encode(Ping(1))[:3])  # something short is no reason to be closed
            parties[2].send(bytes(10_000))
            assert await parties[1].goodbye() == "full"  # the longest
            await until(lambda: len(server.driver.parties) == 3)
            assert 60_000 < server.unfinished.bytes < 100_000
            bystander.send(control.encode(Ping(1))[3:])
            assert (await bystander.until(control.Pong)).number == 1
            for party in (parties[0], parties[2]):
                await party.close()
            await until(lambda: server.unfinished.bytes == 0)
            await bystander.close()

    asyncio.run(run())
