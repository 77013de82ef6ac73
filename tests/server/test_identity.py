"""Equal filters in other words, at real servers with real stores: no ghosts, no doubles, and every store starts."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.codec import frames
from palio.link import wire
from palio.link.frames import Accept, Close, Data, Open, Why
from palio.model import Filter, Notification
from palio.node import quarantine, records
from palio.node.loading import load
from palio.routing.messages import Message, Stamp, Subscribe
from palio.server.metrics import Metrics
from palio.server.server import Server
from palio.server.status import link_reason, status
from palio.store import Batch, FullStoreError, Store
from tests.serving import Raw, configured, run, serving, until

FIRST, SECOND = "x > 5 and y any", "y any and x > 5"
_FIXTURES = Path(__file__).parent / "fixtures"


def milan(folder: Path, **more: Any) -> dict[str, Any]:
    return {"server": "milan", "architecture": "as", "store": {"path": str(folder / "milan.db")}, **more}


def rome(folder: Path, milan: Server | None, **more: Any) -> dict[str, Any]:
    peers = [] if milan is None else [{"name": "milan", "url": f"palio://127.0.0.1:{milan.port}"}]
    store = {"path": str(folder / "rome.db")}
    return {"server": "rome", "architecture": "as", "store": store, "peers": peers, **more}


async def linked(one: Server, other: Server) -> None:
    names = one.config.server, other.config.server
    await until(lambda: names[1] in one.driver.node.links.peers and names[0] in other.driver.node.links.peers)


async def written(server: Server) -> None:
    assert server.storage is not None
    await until(server.storage._settled.is_set)


def kept(folder: Path, name: str = "milan") -> list[Any]:
    """The records of a server that is not running."""
    with Store.open(folder / f"{name}.db", name=name) as store:
        loaded = load(store.records())
    assert not loaded.changes
    return loaded.records


def is_sound(folder: Path) -> bool:
    result = CliRunner().invoke(palio, ["store", "check", str(folder / "milan.db"), "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code == 0) is found["is_sound"]
    return bool(found["is_sound"])


# -- the story ---------------------------------------------------------------------------------------------------------


async def tell_and_take_back(folder: Path, server: Server) -> None:
    """Two parties of rome want the same in other words; one does not any more, rome restarts, nor does the other."""
    async with serving(**rome(folder, server)) as there:
        await linked(server, there)
        one, two = await Raw.party(there, "p1"), await Raw.party(there, "p2")
        await one.subscribe(FIRST, wait=True)
        await two.subscribe(SECOND, wait=True)
        assert (await one.ask("unsubscribe", FIRST)).code == ""
        await written(there)
    async with serving(**rome(folder, server)) as there:
        await linked(server, there)
        two = await Raw.party(there, "p2")
        assert (await two.ask("unsubscribe", SECOND)).code == ""
        await until(lambda: not server.driver.node.router.subscriptions.held_by("rome"))
        await written(there)
        await written(server)


@pytest.mark.slow
def test_a_filter_that_is_taken_back_in_other_words_leaves_no_ghost(tmp_path: Path) -> None:
    """The first ending: the filter is wanted once more."""

    async def play() -> None:
        async with serving(**milan(tmp_path)) as here:
            port = here.port
            await tell_and_take_back(tmp_path, here)
        assert is_sound(tmp_path)
        assert not [key for key, _ in kept(tmp_path) if key[0] == "held"]
        async with serving(**milan(tmp_path, port=port)) as here, serving(**rome(tmp_path, here)) as there:
            await linked(here, there)
            party, publisher = await Raw.party(there, "p1"), await Raw.party(here, "publisher")
            await party.subscribe(SECOND, wait=True)
            assert "rome" in here.driver.node.links.peers
            publisher.publish(1, x=7, y=1)
            assert await party.until(Notification) == Notification(x=7, y=1)

    run(play())


@pytest.mark.slow
def test_a_server_starts_when_the_link_to_such_a_neighbour_is_removed(tmp_path: Path) -> None:
    """The second ending: the link is removed, and milan restarts."""

    async def play() -> None:
        async with serving(**milan(tmp_path)) as here:
            await tell_and_take_back(tmp_path, here)
            async with serving(**rome(tmp_path, here)) as there:
                await linked(here, there)
                there.reload(configured(**rome(tmp_path, None)))
                await until(lambda: "rome" not in here.driver.node.links.peers)
                await written(here)
        assert is_sound(tmp_path)
        async with serving(**milan(tmp_path)) as here:
            assert here.storage is not None
            assert not here.storage.quarantined
            assert await (await Raw.party(here, "eva")).is_served()

    run(play())


# -- a peer that breaks the rules --------------------------------------------------------------------------------------


class Peer:
    """A server of which only the frames are there."""

    stamp: Stamp = (1, "rome", 7)

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    @classmethod
    async def linked(cls, server: Server) -> Peer:
        peer = await cls.asking(server)
        await until(lambda: "rome" in server.driver.node.links.peers)
        return peer

    @classmethod
    async def asking(cls, server: Server, name: str = "rome", role: str = "peer") -> Peer:
        peer = cls(await Raw.connect(server))
        peer.stamp = (1, name, 7)
        await peer._raw.hello(name, role="server")
        peer.say(Open(peer.stamp, role, server.config.architecture, ((name, (0, "", 0)),)))
        peer.say(Data(peer.stamp, 0, (), 0))
        return peer

    def say(self, frame: Open | Close | Data | Accept) -> None:
        self._raw.send(frames.frame(frames.LINK, wire.encode(frame)))

    def tell(self, *messages: Message) -> None:
        self.say(Data(self.stamp, 0, messages, 0))


@pytest.mark.parametrize("architecture", ["as", "aa"])
def test_a_peer_cannot_leave_a_record_that_keeps_a_server_from_starting(tmp_path: Path, architecture: str) -> None:
    async def play() -> None:
        config = milan(tmp_path, architecture=architecture)
        async with serving(**config) as server:
            bystander = await Raw.party(server, "eva")
            await bystander.subscribe("x any")
            peer = await Peer.linked(server)
            peer.tell(Subscribe(Filter.parse("x > 5"), "x"))
            await until(lambda: "rome" not in server.driver.node.links.peers)
            peer.say(Close(Peer.stamp, Why.ENDED))
            bystander.publish(1, x=1)
            assert await bystander.until(Notification) == Notification(x=1)
            await written(server)
        assert is_sound(tmp_path)
        async with serving(**config) as server:
            assert server.storage is not None
            assert not server.storage.quarantined

    run(play())


def test_a_peer_that_names_a_gateway_as_a_source_does_not_stop_a_server(tmp_path: Path) -> None:
    async def play() -> None:
        config = milan(tmp_path, architecture="gs", peers=[{"name": "gate", "role": "gateway"}])
        async with serving(**config) as server:
            peer = await Peer.linked(server)
            peer.tell(Subscribe(Filter.parse("x > 5"), "gate"))
            await until(lambda: len(server.driver.node.router.subscriptions) == 1)
            gate = await Peer.asking(server, "gate", "gateway")
            gate.tell(Subscribe(Filter.parse("x > 5")))
            reason = "'gate' cannot be a gateway now"
            await until(lambda: link_reason(server, "gate").startswith(reason))
            assert await (await Raw.party(server, "eva")).is_served()
            assert server.counts.faults == 0
            await written(server)
        async with serving(**config) as server:
            assert server.storage is not None
            assert not server.storage.quarantined

    run(play())


# -- stores of the release before --------------------------------------------------------------------------------------


def unpack(name: str, folder: Path) -> None:
    for path in _FIXTURES.glob(f"{name}.db*.gz"):
        target = folder / f"milan{path.name.removeprefix(name).removesuffix('.gz')}"
        target.write_bytes(gzip.decompress(path.read_bytes()))


@pytest.mark.slow
def test_doubles_of_the_release_before_are_merged(tmp_path: Path) -> None:
    unpack("doubled", tmp_path)
    assert not is_sound(tmp_path)

    async def play() -> None:
        async with serving(**milan(tmp_path, architecture="aa")) as here:
            node, storage = here.driver.node, here.storage
            assert storage is not None
            assert len(storage.merged) == 2
            assert not storage.quarantined
            assert {str(each) for each in node.router.subscriptions.held_by("rome")} == {FIRST}
            assert {str(each) for each in node.router.advertisements.held_by("rome")} == {"w any and y any"}
            profile = node.router.profile("urn:publisher")
            assert [str(each) for each in profile.filters] == ["z = 1 and x = 5.0"], "the party's own words"
            assert [str(each) for each in node.monitors.patterns("urn:publisher")] == ["y any and x = 1 then x = 2.0"]
            async with serving(**rome(tmp_path, here, architecture="aa")) as there:
                await linked(here, there)
                reader, publisher = await Raw.party(there, "urn:reader"), await Raw.party(here, "urn:publisher")
                await reader.subscribe(SECOND, wait=True)
                publisher.publish(1, x=9, y=1)
                assert await reader.until(Notification) == Notification(x=9, y=1)
                await written(here)
        found = [key for key, _ in kept(tmp_path) if key[0] == "held"]
        assert len(found) == len({records.encode_key(key) for key in found})

    run(play())
    assert is_sound(tmp_path)


def test_an_orphan_of_the_release_before_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    unpack("orphaned", tmp_path)
    assert not is_sound(tmp_path)

    async def play() -> None:
        with caplog.at_level(logging.ERROR, "palio.server"):
            async with serving(**milan(tmp_path)) as server:
                assert [each for each in caplog.messages if "record-quarantined" in each and "no neighbour" in each]
                figures = status(server)["store"]
                assert figures is not None
                assert figures["quarantined"] == 1
                assert b"palio_store_quarantined 1.0" in Metrics(server).text()
                assert await (await Raw.party(server, "eva")).is_served()
                await written(server)
        caplog.clear()
        async with serving(**milan(tmp_path)) as server:
            assert server.storage is not None
            assert (server.storage.quarantine.count, server.storage.quarantined) == (1, [])

    run(play())
    assert is_sound(tmp_path)


def test_a_server_starts_on_rows_that_it_cannot_read(tmp_path: Path) -> None:
    rows = [(b"\xc1", b"nothing"), (records.encode_value(("link", "rome")), b"\xc1")]
    with Store.open(tmp_path / "milan.db", name="milan") as store:
        store.commit([Batch(rows)])

    async def play() -> None:
        async with serving(**milan(tmp_path)) as server:
            assert server.storage is not None
            assert server.storage.quarantine.count == 2
            party = await Raw.party(server, "eva")
            await party.subscribe("x any")
            party.publish(1, x=1)
            assert await party.until(Notification) == Notification(x=1)

    run(play())
    with Store.open(tmp_path / "milan.db", name="milan") as store:
        aside = [each.key for each in quarantine.kept(store.records())]
    assert sorted(aside) == sorted(key for key, _ in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["doubled", ""])
def test_a_full_disk_keeps_a_server_from_starting_only_if_records_have_to_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    unpack(name, tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise FullStoreError("no room")

    async def play() -> None:
        monkeypatch.setattr(Store, "commit", refuse)
        async with serving(**milan(tmp_path, architecture="aa")) as server:
            assert await (await Raw.party(server, "eva")).is_served()

    if name:
        with pytest.raises(FullStoreError):
            run(play())
    else:
        run(play())
