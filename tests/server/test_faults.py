"""Hostile input and faults of the server itself: they harm no other client, and nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from palio.codec import control, frames, msgpack
from palio.codec.control import Answer, Goodbye
from palio.codec.frames import Options
from palio.errors import PalioError
from palio.link import wire
from palio.model import Notification
from palio.node import ports
from palio.node.containment import BrokenNodeError
from palio.node.publishing import Publishing
from palio.server import process
from palio.server.driver import Driver
from palio.server.errors import Code
from palio.server.process import start_logs
from palio.server.server import Server
from palio.store import Committer
from tests.serving import DEADLINE, Raw, configured, run, serving, until

SECRET = "very-secret-content"
HOSTILE = "h" * 1_000
pack = msgspec.msgpack.encode


def bad(options: bytes, number: int) -> bytes:
    """A publication with options as they are."""
    document = msgpack.encode(Notification(x=1, hostile=True))
    return frames.frame(
        frames.PUBLISH_WITH, number.to_bytes(4, "big") + len(options).to_bytes(2, "big") + options + document
    )


BAD = {
    "time": pack({"expires": "0001-01-01T00:00:00+14:00"}),
    "text": b"\x81\xa3key\xa2\xff\xfe",
    "key": pack({"key": "k" * 65_500}),
}


def stored(folder: Path | None) -> dict[str, Any]:
    return {} if folder is None else {"store": {"path": str(folder / "milan.db")}}


@pytest.fixture(params=["memory", "store"])
def more(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """With and without a store."""
    return stored(tmp_path if request.param == "store" else None)


class Reader:
    """Notes all that a connection gets."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.got: list[int] = []
        self.accepted = 0
        self.refused: dict[int, str] = {}
        self.goodbye = ""
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                match await self.raw.next():
                    case Notification() as found if "n" in found:
                        self.got.append(found["n"])  # type: ignore[arg-type]
                    case int(number):
                        self.accepted = number
                    case Answer(number, code) if code:
                        self.refused[number] = code
                    case Goodbye(code):
                        self.goodbye = code

    async def close(self) -> None:
        self.task.cancel()
        await self.raw.close()


@pytest.mark.parametrize("kind", [*BAD, "all"])
def test_hostile_publications_cost_others_nothing(more: dict[str, Any], kind: str) -> None:
    kinds = list(BAD.values()) if kind == "all" else [BAD[kind]]
    count, publishers = 400, 3

    async def story() -> None:
        async with serving(**more) as server:
            subscriber = Reader(await Raw.party(server, "subscriber"))
            subscriber.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
            parties = [Reader(await Raw.party(server, f"publisher-{place}")) for place in range(publishers)]
            hostile = Reader(await Raw.party(server, HOSTILE))
            for number in range(1, count + 1):
                hostile.raw.send(bad(kinds[number % len(kinds)], number))
                for place, party in enumerate(parties):
                    party.raw.publish(number, n=number * publishers + place)
                if number % 10 == 0:
                    await asyncio.sleep(0)
            await until(lambda: all(party.accepted == count for party in parties))
            await until(lambda: len(hostile.refused) == count)
            expected = sorted(
                number * publishers + place for number in range(1, count + 1) for place in range(publishers)
            )
            await until(lambda: len(subscriber.got) >= len(expected))
            assert sorted(subscriber.got) == expected
            assert set(hostile.refused.values()) <= {"document", "limit"}
            assert hostile.goodbye == ""
            assert server.counts.faults == 0
            for each in (subscriber, hostile, *parties):
                await each.close()

    run(story())


def _everything() -> tuple[str, msgspec.Raw]:
    return control.document(control.Filter.parse("n any"))


def test_faults_in_the_node_cost_others_nothing(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the doors let it in: the node fails at each publication of the hostile party."""
    right = Publishing.accept
    right_block = Publishing.accept_block

    def accept(self: Publishing, party: str, *given: Any) -> Any:
        if party == HOSTILE:
            raise OverflowError(SECRET)
        return right(self, party, *given)

    def accept_block(self: Publishing, block: ports.PublishBlock, *given: Any, **how: Any) -> Any:
        if block.party == HOSTILE:
            raise OverflowError(SECRET)
        return right_block(self, block, *given, **how)

    monkeypatch.setattr(Publishing, "accept", accept)
    monkeypatch.setattr(Publishing, "accept_block", accept_block)
    count = 400

    async def story() -> None:
        async with serving(**more) as server:
            subscriber, publisher, hostile = [
                Reader(await Raw.party(server, name)) for name in ("subscriber", "publisher", HOSTILE)
            ]
            subscriber.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
            for number in range(1, count + 1):
                if number % 2:
                    hostile.raw.publish(number, n=-number)
                else:
                    hostile.raw.send(frames.publish_with(Notification(n=-number), Options(key=f"k{number}"), number))
                publisher.raw.publish(number, n=number)
                if number % 10 == 0:
                    await asyncio.sleep(0)
            await until(lambda: publisher.accepted == count and len(hostile.refused) == count)
            await until(lambda: len(subscriber.got) >= count)
            assert subscriber.got == list(range(1, count + 1))
            assert set(hostile.refused.values()) == {"internal"}
            assert not server.failed.is_set()
            assert server.counts.faults > 0
            for each in (subscriber, publisher, hostile):
                await each.close()

    run(story())


@pytest.mark.slow
def test_a_long_key_survives_a_restart(tmp_path: Path) -> None:
    """The longest key, name and trace go through the log of a durable party and the disk."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 " + "a" * 456

    async def story() -> None:
        key = "k" * 1_024
        async with serving(**stored(tmp_path)) as server:
            await _durable(server, "subscriber")
            publisher = await Raw.party(server, "p" * 1_024)
            publisher.send(frames.publish_with(Notification(n=1), Options(trace=trace, key=key), 1))
            assert await publisher.until(int) == 1
            publisher.send(frames.publish_with(Notification(n=1), Options(key=key + "k"), 2))
            assert (await publisher.until(Answer)).code == "limit"
        async with serving(**stored(tmp_path)) as server:
            subscriber = await _durable(server, "subscriber", is_new=False)
            found = await subscriber.until(Notification)
            assert (found.envelope.key, found.envelope.publisher) == (key, "p" * 1_024)
            assert str(found.envelope.trace) == trace

    run(story())


async def _durable(server: Server, name: str, *, is_new: bool = True) -> Raw:
    raw = await Raw.connect(server)
    raw.send(control.encode(control.Hello((1,), "party", name, durable=control.Durable())))
    assert isinstance(await raw.next(), control.Welcome)
    if is_new:
        await raw.subscribe("n any")
    return raw


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_an_output_that_fails_concerns_its_connection_alone(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Driver._deliver

    def deliver(self: Driver, party: str, *given: Any) -> None:
        if party == "victim":
            raise RuntimeError(SECRET)
        right(self, party, *given)

    monkeypatch.setattr(Driver, "_deliver", deliver)

    async def story() -> None:
        async with serving(**more) as server:
            victim, reader, publisher = [
                Reader(await Raw.party(server, name)) for name in ("victim", "reader", "publisher")
            ]
            for each in (victim, reader):
                each.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
            await until(lambda: len(server.driver.node.router.subscriptions) == 1)
            await until(lambda: server.driver.node.router.is_sound("reader") and _holds(server, "reader"))
            for number in range(1, 51):
                publisher.raw.publish(number, n=number)
            await until(lambda: publisher.accepted == 50 and len(reader.got) == 50)
            await until(lambda: victim.goodbye == "internal")
            assert (reader.goodbye, publisher.goodbye) == ("", "")
            assert not server.failed.is_set()
            for each in (victim, reader, publisher):
                await each.close()

    run(story())


def _holds(server: Server, party: str) -> bool:
    return bool(server.driver.node.router.profile(party).filters)


def test_a_flush_that_fails_concerns_its_connection_alone() -> None:
    async def story() -> None:
        async with serving() as server:
            victim, other = await Raw.party(server, "victim"), await Raw.party(server, "other")
            connection = server.driver.parties["victim"]

            def flush() -> None:
                raise RuntimeError(SECRET)

            connection.flush = flush  # type: ignore[method-assign]
            victim.publish(1, n=1)
            assert await victim.goodbye() == "internal"
            other.publish(1, n=1)
            assert await other.until(int) == 1
            assert server.counts.faults == 1
            await other.close()

    run(story())


def test_a_frame_for_a_peer_that_cannot_be_encoded_ends_the_link_and_it_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = wire.encode

    def encode(frame: Any, version: int) -> bytes:
        for message in getattr(frame, "messages", ()):
            if "poison" in getattr(message, "notification", ()):
                raise RuntimeError(SECRET)
        return right(frame, version)

    monkeypatch.setattr(wire, "encode", encode)

    async def story() -> None:
        async with serving(configured("rome", connections={"drain_seconds": 0.5})) as rome:
            peer = {"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"}
            async with serving(configured("milan", peers=[peer], connections={"drain_seconds": 0.5})) as milan:
                reader = Reader(await Raw.party(rome, "reader"))
                reader.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
                await until(
                    lambda: "rome" in milan.driver.node.router.peers and len(milan.driver.node.router.subscriptions)
                )
                publisher = await Raw.party(milan, "publisher")
                publisher.publish(1, n=1)
                await until(lambda: reader.got == [1])
                publisher.publish(2, n=2, poison=True)
                await until(lambda: milan.counts.faults >= 1)
                await until(lambda: "rome" not in milan.driver.node.router.peers)
                await until(
                    lambda: "rome" in milan.driver.node.router.peers and len(milan.driver.node.router.subscriptions)
                )
                publisher.publish(3, n=3)
                await until(lambda: reader.got == [1, 3])
                assert not milan.failed.is_set()
                await publisher.close()
                await reader.close()

    run(story(), 2 * DEADLINE)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["turn", "persist", "look"])
def test_a_server_whose_state_may_be_wrong_acknowledges_nothing_and_stops(
    place: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story() -> None:
        async with serving(**more) as server:
            publisher = Reader(await Raw.party(server, "publisher"))
            if server.storage is not None:
                await _durable(server, "subscriber")
            publisher.raw.publish(1, n=1)
            await until(lambda: publisher.accepted == 1)
            with monkeypatch.context() as patched:
                if place == "turn":
                    patched.setattr(server.driver.node.links, "frames", _fails)
                elif place == "look":
                    patched.setattr(server.driver, "_look_at_links", _fails)
                elif server.storage is None:
                    return
                else:
                    patched.setattr(Committer, "submit", _fails)
                publisher.raw.publish(2, n=2)
                await until(server.failed.is_set)
            publisher.raw.publish(3, n=3)
            handled = 2 if place == "look" else 1  # then the node was done with it
            assert await last_accepted(server, publisher) <= handled
            assert not server.is_ready
            assert "fault" in server.failure
            await publisher.close()

    run(story())


async def last_accepted(server: Server, publisher: Reader) -> int:
    """The last number that is acknowledged, after all that was sent has been read."""
    await until(lambda: server.driver.parties["publisher"].received > 0)
    publisher.raw.send(control.encode(control.Ping(5)))
    before = server.counts.bytes_out
    await until(lambda: server.counts.bytes_out > before)  # the answer to the ping
    return publisher.accepted


def _fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


def test_who_cannot_be_let_in_because_of_a_fault_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving() as server:
            with monkeypatch.context() as patched:
                patched.setattr(server, "_let_in", _fails)
                raw = await Raw.connect(server)
                assert (await raw.hello("eva")).code == "internal"
            assert isinstance(await (await Raw.connect(server)).hello("eva"), control.Welcome)
            assert server.counts.faults == 1

    run(story())


def test_a_round_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving() as server:
            monkeypatch.setattr(server.peers, "retry", _fails)
            await until(lambda: server.counts.faults >= 2)

    run(story())


@pytest.mark.parametrize(
    "arguments", [{"seconds": [[[1]]]}, {"id": {"a": [1]}}, {"seconds": float("nan")}, {"ms": 2**64 - 1}]
)
@pytest.mark.parametrize("subject", ["status", "network", "explain", "link", "letters", "\0"])
def test_strange_questions(subject: str, arguments: dict[str, Any]) -> None:
    async def story() -> None:
        async with serving(admins=["eva"]) as server:
            eva = await Raw.party(server, "eva")
            eva.send(control.encode(control.Query(1, subject, arguments)))
            assert (await eva.until(Answer)).code in ("invalid", "limit")
            deep = b"\x93\x01" + pack(subject) + b"\x81\xa7seconds" + b"\x91" * 500 + b"\x01"
            eva.send(frames.frame(0x40, deep))
            assert (await eva.until(Answer)).code in ("invalid", "limit")
            assert server.counts.faults == 0
            await eva.close()

    run(story())


def test_a_question_that_fails_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving() as server:
            eva = await Raw.party(server, "eva")
            monkeypatch.setattr("palio.server.queries.status", _fails)
            for subject in ("status", "network"):
                eva.send(control.encode(control.Query(3, subject)))
                assert (await eva.until(Answer)).code == "internal"
            assert await eva.is_served()
            assert server.counts.faults == 2
            await eva.close()

    run(story())


@pytest.mark.parametrize("name", ["a\0b", "é" * 512, "a\nb", " ", "\U0010ffff"])
def test_strange_names(name: str, more: dict[str, Any]) -> None:
    async def story() -> None:
        async with serving(**more) as server:
            party = Reader(await Raw.party(server, name))
            party.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
            party.raw.publish(2, n=2)
            await until(lambda: party.got == [2] and party.accepted == 2)
            assert server.counts.faults == 0
            await party.close()

    run(story())


# -- logs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("place", ["node", "output", "connection", "broken", "loop"])
def test_logs_hold_no_content(form: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(log={"format": form, "level": "debug"}, connections={"drain_seconds": 0.5})
    stream = io.StringIO()
    monkeypatch.setattr(process.sys, "stderr", stream)
    start_logs(config)

    def fail_with(*given: Any, **_: Any) -> Any:
        text = f"{SECRET} {given}"  # a local variable, and the text of the error
        raise ValueError(text)

    async def story() -> None:
        async with serving(config) as server:
            eva = Reader(await Raw.party(server, "eva"))
            eva.raw.send(control.encode(control.Ask(1, "subscribe", *_everything())))
            await until(lambda: _holds(server, "eva"))
            targets = {
                "node": (Publishing, "accept_block"),
                "output": (Driver, "_deliver"),
                "connection": (type(server.driver.parties["eva"]), "_publish"),
                "broken": (server.driver.node.links, "frames"),
            }
            if place == "loop":
                made = process.Process.__new__(process.Process)
                made._server, made._log = server, structlog.get_logger()
                with suppress(ValueError):
                    made._unexpected(server.loop, {"message": SECRET[:4], "exception": ValueError(SECRET)})
            else:
                monkeypatch.setattr(*targets[place], fail_with)
                eva.raw.publish(1, n=1, text=SECRET)
            await until(lambda: server.counts.faults > 0)
            await eva.close()

    try:
        run(story())
    finally:
        structlog.reset_defaults()
    said = stream.getvalue()
    assert SECRET not in said
    assert '"fault"' in said or "fault " in said or "broken" in said
    assert "ValueError" in said
    assert place == "loop" or "test_faults.py" in said
    if form == "json":
        assert all(json.loads(line) for line in said.splitlines())


def test_logs_of_a_program_that_holds_a_server_hold_no_content(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving() as server:
            monkeypatch.setattr(Publishing, "accept_block", _fails)
            eva = Reader(await Raw.party(server, "eva"))
            eva.raw.publish(1, n=1, text=SECRET)
            await until(lambda: eva.refused == {1: "internal"})
            await eva.close()

    with caplog.at_level(logging.DEBUG):
        run(story())
    assert SECRET not in caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.slow
def test_a_flood_of_faults_does_not_flood_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving() as server:
            monkeypatch.setattr(Publishing, "accept_block", _fails)
            eva = Reader(await Raw.party(server, "eva"))
            for number in range(1, 201):
                eva.raw.publish(number, n=1)
                await eva.raw.writer.drain()
                await until(lambda number=number: number in eva.refused)  # type: ignore[misc]
            await until(lambda: "more=" in caplog.text)
            await eva.close()

    with caplog.at_level(logging.DEBUG):
        run(story())
    assert caplog.text.count("event='fault'") < 100


def test_errors_of_the_node_are_of_palio() -> None:
    assert issubclass(BrokenNodeError, PalioError)


def test_a_connection_whose_transport_is_gone_can_be_closed() -> None:
    """A closed transport with TLS has no protocol any more, and raises when it is asked who is at the other end."""

    async def story() -> None:
        async with serving() as server:
            raw = await Raw.party(server, "eva")
            connection = next(iter(server._connections))
            connection._transport.get_extra_info = _fails  # type: ignore[method-assign]
            connection.close(Code.STOPPING, "the server stops")
            assert await raw.goodbye() == "stopping"

    run(story())
