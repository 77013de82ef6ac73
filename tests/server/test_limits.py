"""Servers with different limits, and peers and clients of protocol version 1, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from palio import Advertisement, Durable, Envelope, Filter, Notification, NotificationId, PublishOptions
from palio.client import RefusedError, connect
from palio.codec import control, frames
from palio.codec.control import Hello, Welcome
from palio.link import wire
from palio.link.frames import Accept, Data, Frame, Open
from palio.model import PROTOCOL_LIMITS
from palio.model.limits import DEFAULT_LIMITS, HIGHEST_LIMITS, VERSION_1_LIMITS, to_wire
from palio.routing.messages import Advertise, Message, Publish, Subscribe
from palio.server.config import ConfigError, read_config
from palio.server.metrics import Metrics
from palio.server.server import Server
from tests.client.puppet import Puppet, client_of
from tests.serving import Raw, run, serving, until

WIDE = {
    "key_bytes": 4_096,
    "value_bytes": 1_000_000,
    "constraints": 400,
    "literal_bytes": 5_000,
    "attributes": 3_000,
    "name_bytes": 1_000,
    "payload_bytes": 1_000_000,
}
TIGHT = {"key_bytes": 4, "value_bytes": 10, "constraints": 2, "literal_bytes": 5, "attributes": 2, "payload_bytes": 1}
LARGE: dict[str, dict[str, Any]] = {
    "key": {"x": 1},
    "value": {"x": 1, "y": "." * 1_000_000},
    "name": {"x": 1, "n" * 1_000: 1},
    "attributes": {"x": 1, **{f"a{number}": 1 for number in range(2_999)}},
}


def peer_of(server: Server) -> dict[str, Any]:
    return {"name": server.config.server, "url": f"palio://127.0.0.1:{server.port}"}


@asynccontextmanager
async def pair(**of_rome: Any) -> AsyncIterator[tuple[Server, Server]]:
    """Milan takes much from its clients, and Rome little."""
    async with (
        serving(limits=WIDE) as milan,
        serving(server="rome", limits=TIGHT, peers=[peer_of(milan)], **of_rome) as rome,
    ):
        await until(lambda: "rome" in milan.driver.node.links.peers and "milan" in rome.driver.node.links.peers)
        yield milan, rome


@pytest.mark.parametrize("what", LARGE)
def test_what_one_server_took_all_take(what: str, tmp_path: Path) -> None:
    """A key, a value, a name and a number of attributes at the limit of one server, to a durable client of another."""

    async def play() -> None:
        store = {"path": str(tmp_path / "rome.db")}
        async with (
            pair(store=store) as (milan, rome),
            client_of(rome, name="eva", durable=True) as eva,
            client_of(milan, name="adam") as adam,
        ):
            async with eva.subscribe("x any") as events:
                options = PublishOptions(key="k" * 4_096) if what == "key" else PublishOptions()
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
                await adam.publish(Notification(LARGE[what]).with_payload(b"." * 1_000_000), options)
                await adam.publish(x=2)
                first, second = [await anext(events) for _ in range(2)]
                assert dict(first.notification) == LARGE[what]
                assert dict(second.notification) == {"x": 2}
                assert first.notification.envelope is not None
                assert first.notification.envelope.key == options.key
            assert not milan.counts.refusals
            assert not rome.counts.refusals

    run(play())


def test_a_durable_client_gets_past_it_also_after_restarts(tmp_path: Path) -> None:
    async def play() -> None:
        store = {"path": str(tmp_path / "rome.db")}
        async with pair(store=store) as (milan, rome), client_of(milan, name="adam") as adam:
            async with client_of(rome, name="eva", durable=Durable(lease=600)) as eva:
                await eva.subscribe("x any")
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
            for number, key in enumerate(("k" * 4_096, "short")):
                await adam.publish(Notification(x=number, y="." * 900_000), PublishOptions(key=key))
            await until(lambda: rome.driver.node.logs.of("eva").next == 2)
        async with (
            serving(server="rome", limits=TIGHT, store=store) as rome,
            client_of(rome, name="eva", durable=Durable(lease=600)) as eva,
            eva.subscribe("x any") as events,
        ):
            found = [await anext(events) for _ in range(2)]
            assert [each.notification["x"] for each in found] == [0, 1]
            await found[0].reject("too long for me", wait=True)
            (letter,) = (await eva.letters()).letters
            assert letter.notifications == (found[0].notification,)
            assert letter.notifications[0].envelope == found[0].notification.envelope
            with pytest.raises(RefusedError) as refused:
                await eva.publish(x="." * 11)
            assert refused.value.code == "limit"  # the configured limits bind where something enters

    run(play())


def test_a_large_filter_crosses_a_server_with_a_small_limit() -> None:
    async def play() -> None:
        async with (
            pair() as (milan, rome),
            client_of(milan, name="eva") as eva,
            client_of(rome, name="adam") as adam,
        ):
            text = " and ".join(["x = 1", *(f"n{number} != {number}" for number in range(399))])
            filter = Filter.parse(text.replace("n0 != 0", f'n0 != "{"l" * 5_000}"'), HIGHEST_LIMITS)
            async with eva.subscribe(filter):
                await until(lambda: len(rome.driver.node.router.subscriptions) == 1)
                assert [*rome.driver.node.router.subscriptions] == [filter]
                with pytest.raises(RefusedError):
                    await adam.subscribe("x = 1 and y = 1 and z = 1")
            await until(lambda: not len(rome.driver.node.router.subscriptions))
            assert not rome.counts.refusals.keys() - {"limit"}

    run(play())


def test_a_key_that_is_too_long_is_refused_where_it_enters() -> None:
    async def play() -> None:
        async with (
            serving() as server,
            client_of(server, name="adam") as adam,
            client_of(server, name="eva") as eva,
            eva.subscribe("x any") as events,
        ):
            await adam.publish(Notification(x=1), PublishOptions(key="k" * 1_024))
            with pytest.raises(RefusedError) as refused:
                await adam.publish(Notification(x=2), PublishOptions(key="k" * 1_025))
            assert refused.value.code == "limit"
            assert "key_bytes" in str(refused.value)
            await adam.publish(x=3)
            assert [(await anext(events))["x"] for _ in range(2)] == [1, 3]

    run(play())


# -- protocol version 1 ------------------------------------------------------------------------------------------------


class OldPeer:
    """A server of protocol version 1: it writes frames of links in that form, and refuses what it would refuse."""

    def __init__(self, raw: Raw, limits: Any = VERSION_1_LIMITS) -> None:
        self.raw, self.limits = raw, limits
        self.messages: list[Message] = []
        self._expected = 0
        self._stamp: Any = None

    @classmethod
    async def connected(cls, server: Server) -> OldPeer:
        raw = await Raw.connect(server)
        welcome = await raw.hello("rome", role="server", versions=(1,))
        assert welcome == Welcome(1, "milan", server.driver.node.settings.incarnation, 64 << 20, server.config.limits)
        return cls(raw)

    @classmethod
    async def dialing(cls, port: int) -> OldPeer:
        """To a server in another process."""
        raw = await Raw.connect(port)
        assert (await raw.hello("rome", role="server", versions=(1,))).version == 1
        return cls(raw)

    async def open(self) -> None:
        """Ask for a link, and wait until it is there."""
        self._stamp = (1, "rome", 7)
        self.say(Open(self._stamp, "peer", "as", (("rome", (0, "", 0)),), 1))
        assert isinstance(await self.next(), Accept)
        self.say(Data(self._stamp, 0, (), 0))

    def say(self, frame: Frame) -> None:
        self.raw.send(frames.frame(frames.LINK, wire.encode(frame, 1)))

    async def next(self) -> Frame:
        while True:
            head = await self.raw.reader.readexactly(frames.HEADER)
            content = await self.raw.reader.readexactly(int.from_bytes(head[:4], "big") - 1)
            if head[4] == frames.LINK:
                return self.read(content)
            assert head[4] != control.KINDS[control.Goodbye], content

    def read(self, content: bytes) -> Frame:
        frame = wire.decode(content, self.limits)
        assert wire.encode(frame, 1) == content  # no field that version 1 does not know
        return frame

    def take(self, frame: Frame) -> None:
        """Acknowledge what comes."""
        if isinstance(frame, Data) and frame.messages:
            self._stamp = frame.session
            known = self._expected - frame.first
            if 0 <= known < len(frame.messages):
                self.messages += frame.messages[known:]
                self._expected += len(frame.messages) - known
            self.say(Data(self._stamp, 0, (), self._expected))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.take(await self.next())

    def of(self, kind: type[Message]) -> list[Any]:
        return [each for each in self.messages if isinstance(each, kind)]


def test_a_peer_of_version_1_gets_what_it_can_take_and_the_rest_are_letters() -> None:
    async def play() -> None:
        limits = {**WIDE, "key_bytes": 2_000}
        async with serving(limits=limits) as milan, client_of(milan, name="adam") as adam:
            rome = await OldPeer.connected(milan)
            await rome.open()
            rome.say(Data((1, "rome", 7), 0, (Subscribe(Filter.parse("x any")),), 0))
            await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
            await adam.publish(x=0)
            await adam.publish(Notification(x=1), PublishOptions(key="k" * 1_025))
            await adam.publish(x="." * 300_000)
            await adam.publish(Notification(x=3), PublishOptions(key="k" * 1_024))
            await rome.until(lambda: len(rome.of(Publish)) == 2)
            assert [each.notification["x"] for each in rome.of(Publish)] == [0, 3]
            found = await adam.query("letters", link="rome")
            assert [letter["letter"] for letter in found["letters"]] == [0, 1]
            assert "key_bytes" in found["letters"][0]["reason"]
            assert found["letters"][1]["notifications"][0]["notification"] == {"x": "." * 300_000}
            assert (found["total"], found["forgotten"], found["left_out"]) == (2, 0, 0)
            (link,) = (await adam.query("status"))["links"]
            assert (link["name"], link["state"], link["letters"]) == ("rome", "up", 2)
            assert b'palio_link_letters_total{peer="rome"} 2.0' in Metrics(milan).text()
            id = "milan/{incarnation}/{sequence}".format(**found["letters"][0]["notifications"][0]["envelope"])
            told = await adam.query("explain", id=id, party="carl", seconds=0.5)
            assert [each["letter"] for each in told["servers"][0]["neighbours"]] == [found["letters"][0]["reason"]]
            for wrong in ([1.0], [True], [[0]], [2], 0, {"0": 0}):
                with pytest.raises(RefusedError, match="are not numbers of letters"):
                    await adam.query("letters", link="rome", discard=wrong)
            assert await adam.query("letters", link="rome", discard=[0]) == {"discarded": [0]}
            left = await adam.query("letters", link="rome")
            assert [letter["letter"] for letter in left["letters"]] == [1]
            await rome.raw.close()

    run(play())


def test_filters_for_a_peer_of_version_1_are_widened() -> None:
    async def play() -> None:
        async with serving(limits=WIDE) as milan, client_of(milan, name="eva") as eva:
            rome = await OldPeer.connected(milan)
            await rome.open()
            text = " and ".join(f"n{number} = {number}" for number in range(300))
            await eva.subscribe(Filter.parse(text, HIGHEST_LIMITS))
            await rome.until(lambda: rome.of(Subscribe))
            (told,) = rome.of(Subscribe)
            assert len(told.filter) == 256
            assert told.filter.covers(Filter.parse(text, HIGHEST_LIMITS))
            await eva.unsubscribe(Filter())
            await rome.until(lambda: len(rome.messages) > 1)
            assert rome.messages[-1].filter == told.filter  # type: ignore[attr-defined]
            await rome.raw.close()

    run(play())


class OldServer(Puppet):
    """A server of version 1 that is dialed; what it takes it says in its welcome."""

    def __init__(self, limits: dict[str, int], name: str = "rome") -> None:
        super().__init__(welcomes=False)
        self.limits, self.name = limits, name
        self.peer = OldPeer(None, VERSION_1_LIMITS)  # type: ignore[arg-type]
        self.peer.say = lambda frame: self.say(frames.frame(frames.LINK, wire.encode(frame, 1)))  # type: ignore[method-assign]

    def _took(self, kind: int, content: bytes) -> None:
        super()._took(kind, content)
        if kind == control.KINDS[Hello]:
            assert self.hellos[-1].versions == control.VERSIONS
            self.say(control.encode(Welcome(1, self.name, 1, 64 << 20, self.limits)))
        elif kind == frames.LINK:
            frame = self.peer.read(content)
            if isinstance(frame, Open):
                self.peer.say(Accept(frame.session, (("rome", (0, "", 0)),)))
                self.peer.say(Data(frame.session, 0, (Subscribe(Filter.parse("x any")),), 0))
            self.peer.take(frame)


def test_a_peer_of_version_1_that_is_dialed_says_in_its_welcome_what_it_takes() -> None:
    async def play() -> None:
        async with OldServer({"constraints": 3, "literal_bytes": 6, "value_bytes": 5}) as rome:
            peers = [{"name": "rome", "url": rome.url}]
            async with serving(peers=peers) as milan, client_of(milan, name="adam") as adam:
                await until(lambda: "rome" in milan.driver.node.links.peers)
                await adam.subscribe("a = 1 and b = 2 and c = 3 and d = 4")
                await until(lambda: len(milan.driver.node.router.subscriptions) == 2)
                for value in ("short", "longer", "again"):
                    await adam.publish(x=value)
                await adam.publish(Notification(x="key"), PublishOptions(key="k" * 7))
                await until(lambda: len(rome.peer.of(Publish)) == 2)
                assert [each.notification["x"] for each in rome.peer.of(Publish)] == ["short", "again"]
                assert [len(each.filter) for each in rome.peer.of(Subscribe)] == [3]
                assert len((await adam.query("letters", link="rome"))["letters"]) == 2
                told = replace(VERSION_1_LIMITS, constraints=3, literal_bytes=6, value_bytes=5, key_bytes=6)
                assert milan.peers.limits_of("rome") == to_wire(told)  # also if it dials next time
                assert milan.peers.limits_of("bari") == to_wire(VERSION_1_LIMITS)

    run(play())


def test_limits_of_a_server_that_is_there_instead_of_the_neighbour_do_not_count() -> None:
    async def play() -> None:
        bari = OldServer({"constraints": 3}, name="bari")
        async with bari, serving(peers=[{"name": "rome", "url": bari.url}]) as milan:
            await until(lambda: "rome" in milan.peers.reasons)
            assert milan.peers.reasons["rome"] == "'bari' is there instead"
            assert milan.peers.limits_of("rome") == to_wire(VERSION_1_LIMITS)

    run(play())


def test_advertisements_for_a_peer_of_version_1() -> None:
    async def play() -> None:
        async with OldServer({"constraints": 2}) as rome:
            peers = [{"name": "rome", "url": rome.url}]
            async with serving(peers=peers, architecture="aa") as milan, client_of(milan, name="adam") as adam:
                await until(lambda: "rome" in milan.driver.node.links.peers)
                await adam.advertise("x = 1; x = 2; y any")
                await until(lambda: rome.peer.of(Advertise))
                assert rome.peer.of(Advertise) == [Advertise(Advertisement.parse("x any; y any"))]

    run(play())


def test_servers_of_version_2_say_what_they_take() -> None:
    async def play() -> None:
        async with serving() as milan:
            raw = await Raw.connect(milan)
            welcome = await raw.hello("rome", role="server", versions=(2, 1))
            assert welcome.version == 2
            open = Open((1, "rome", 7), "peer", "as", (("rome", (0, "", 0)),), 1, (3,))
            raw.send(frames.frame(frames.LINK, wire.encode(open)))
            rome = OldPeer(raw, PROTOCOL_LIMITS)
            rome.read = wire.decode  # type: ignore[method-assign,assignment]
            accept = await rome.next()
            assert isinstance(accept, Accept)
            assert accept.limits == to_wire(PROTOCOL_LIMITS)
            raw.send(frames.frame(frames.LINK, wire.encode(Data(open.session, 0, (), 0))))
            party = await Raw.party(milan, "eva")
            await party.subscribe("a = 1 and b = 2 and c = 3 and d = 4")
            await rome.until(lambda: rome.of(Subscribe))
            assert [len(each.filter) for each in rome.of(Subscribe)] == [3]  # it takes no more
            await raw.close()

    run(play())


def test_a_client_of_version_1_is_told_to_take_everything() -> None:
    async def play() -> None:
        async with serving(limits=TIGHT) as server:
            old = await Raw.connect(server)
            welcome = await old.hello("eva", versions=(1,))
            assert welcome.version == 1
            known = {name: most for name, most in welcome.limits.items() if name in VERSION_1_NAMES}
            assert known == {name: getattr(PROTOCOL_LIMITS, name) for name in VERSION_1_NAMES}
            new = await Raw.connect(server)
            assert (await new.hello("adam", versions=(2, 1))) == Welcome(
                2, "milan", server.driver.node.settings.incarnation, server.config.connections.frame_bytes, TIGHT
            )
            await old.close()
            await new.close()

    run(play())


VERSION_1_NAMES = (
    *("constraints", "pattern_filters", "attributes", "name_bytes", "literal_bytes", "value_bytes"),
    *("payload_bytes", "document_bytes"),
)
"""The limits that clients of version 1 know of."""


def test_a_client_takes_from_a_server_of_version_1_whatever_the_protocol_allows() -> None:
    async def play() -> None:
        async with Puppet() as server, connect(server.url, name="eva") as client:
            assert server.hellos[0].versions == control.VERSIONS
            events = client.subscribe("x any")
            subscribing = asyncio.ensure_future(events)
            await until(lambda: server.received[-1][0] == control.KINDS[control.Ask])
            ask = control.decode(*server.received[-1])
            assert isinstance(ask, control.Ask)
            server.say(control.encode(control.Answer(ask.number)))
            await subscribing
            envelope = Envelope(
                NotificationId("rome", 1, 1), datetime(2026, 1, 1, tzinfo=UTC), "p" * 1_024, key="k" * 16_384
            )
            large = Notification(x="." * 4_000_000).with_envelope(envelope)
            server.say(frames.deliver(large))
            assert await anext(events) == large

    run(play())


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VERSION_1_NAMES)
def test_limits_beyond_the_maxima_are_refused(name: str) -> None:
    most = getattr(HIGHEST_LIMITS, name)
    frame = f"[connections]\nframe_bytes = {most + 64}\n" if name == "document_bytes" else ""
    text = 'server = "m"\n{}[limits]\n{} = {}'
    assert getattr(read_config(text.format(frame, name, most)).model_limits, name) == most
    with pytest.raises(ConfigError, match=rf"limits\.{name}: {most + 1:,} is more than {most:,}, the maximum"):
        read_config(text.format(frame, name, most + 1))


def test_limits_of_letters_are_configured() -> None:
    text = 'server = "m"\n[links]\nletters = 7\nletters_bytes = 800'
    settings = read_config(text).links.settings(is_durable=False)
    assert (settings.letters, settings.letters_bytes) == (7, 800)
    assert (DEFAULT_LIMITS.key_bytes, HIGHEST_LIMITS.key_bytes) == (1_024, 16_384)
