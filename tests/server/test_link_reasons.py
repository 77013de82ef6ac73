"""A link that is not up has a reason in the status of the server, whichever of the two servers opens it."""

from __future__ import annotations

from typing import Any

import pytest

from palio.link.frames import Open
from palio.node.node import Node, NodeSettings
from palio.server import linking
from palio.server.config import Peer
from palio.server.metrics import Metrics
from palio.server.server import Server
from palio.server.status import STATE_REASONS, status
from tests.server.test_network import kill
from tests.serving import Raw, configured, run, serving, until


def link_of(server: Server, peer: str) -> dict[str, Any]:
    return next(each for each in status(server)["links"] if each["name"] == peer)


async def joined(milan: Server) -> Server:
    """A server that dials another one, and has a link to it."""
    rome = Server(configured("rome", peers=[{"name": "milan", "url": f"palio://127.0.0.1:{milan.port}"}]))
    await rome.start()
    await until(lambda: "rome" in milan.driver.node.links.peers)
    await until(lambda: link_of(milan, "rome")["state"] == link_of(rome, "milan")["state"] == "up")
    assert link_of(milan, "rome")["reason"] == link_of(rome, "milan")["reason"] == ""
    return rome


def test_the_server_that_accepts_says_that_the_connection_was_lost() -> None:
    async def play() -> None:
        async with serving() as milan:
            rome = await joined(milan)
            await kill(rome)
            await until(lambda: link_of(milan, "rome")["state"] == "interrupted")
            await until(lambda: "rome" not in milan.driver.peers)
            assert link_of(milan, "rome")["reason"] in ("the connection was lost", "stopping: the server stops")

    run(play())


def test_the_server_that_accepts_says_that_the_neighbour_was_silent() -> None:
    async def play() -> None:
        async with serving(connections={"ping_seconds": 0.1, "drain_seconds": 30.0}) as milan:
            rome = await joined(milan)
            rome.driver.peers["milan"]._transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: link_of(milan, "rome")["state"] == "interrupted")
            assert link_of(milan, "rome")["reason"] == "silent: nothing came for 0.2 seconds"
            await kill(rome)

    run(play())


@pytest.mark.slow
def test_the_server_that_accepts_says_that_the_operator_of_the_other_one_has_removed_the_link() -> None:
    async def play() -> None:
        async with serving() as milan:
            rome = await joined(milan)
            rome.peers.remove("milan")
            await until(lambda: link_of(milan, "rome")["state"] == "down")
            assert link_of(milan, "rome")["reason"] == "the operator of rome has removed the link"
            await until(lambda: "rome" not in milan.driver.peers)  # the connection ends later, and says less
            assert link_of(milan, "rome")["reason"] == "the operator of rome has removed the link"
            rome.peers.configure(rome.config.peers)
            await until(lambda: link_of(milan, "rome")["state"] == "up")
            assert link_of(milan, "rome")["reason"] == ""
            await rome.stop()

    run(play())


@pytest.mark.slow
def test_a_neighbour_that_was_removed_stays_in_the_status_when_its_connection_has_ended() -> None:
    async def play() -> None:
        async with serving() as milan:
            rome = await joined(milan)
            rome.peers.remove("milan")
            await until(lambda: "milan" not in rome.driver.peers)
            link = link_of(rome, "milan")
            assert (link["state"], link["reason"]) == ("down", "the operator of rome has removed the link")
            assert b'palio_link_up{peer="milan"} 0.0' in Metrics(rome).text()
            await rome.stop()

    run(play())


def test_a_neighbour_that_does_not_ask_for_a_link_is_named_as_such() -> None:
    async def play() -> None:
        async with serving() as milan:
            rome = await Raw.connect(milan)
            await rome.hello("rome", role="server")
            assert link_of(milan, "rome")["state"] == "down"
            assert link_of(milan, "rome")["reason"] == STATE_REASONS["silent"]
            await rome.close()

    run(play())


def test_the_server_that_refuses_a_link_says_why() -> None:
    async def play() -> None:
        async with serving(architecture="gs") as milan:
            peers = [{"name": "milan", "url": f"palio://127.0.0.1:{milan.port}"}]
            async with serving(server="rome", architecture="as", peers=peers) as rome:
                await until(lambda: rome.peers.names and link_of(rome, "milan")["state"] == "refused")
                reasons = link_of(rome, "milan")["reason"], link_of(milan, "rome")["reason"]
                assert reasons == ("milan is gs, and rome is as",) * 2
            await until(lambda: "rome" not in milan.driver.peers)
            async with serving(server="rome", architecture="gs", peers=peers):
                await until(lambda: milan.peers.is_up("rome"))
                assert link_of(milan, "rome")["reason"] == ""
                assert milan.driver.node.links.declined == {}

    run(play())


@pytest.mark.slow
def test_configurations_that_contradict_each_other_are_named_at_both_servers() -> None:
    """Also if one of the servers does not open the link; before, the one that did decided."""

    async def play() -> None:
        waits = [{"name": "rome", "role": "master"}]
        async with serving(architecture="hs", peers=waits) as milan:
            asks = [{"name": "milan", "url": f"palio://127.0.0.1:{milan.port}", "role": "master"}]
            async with serving(server="rome", architecture="hs", peers=asks) as rome:
                await until(lambda: link_of(rome, "milan")["state"] == "refused")
                assert link_of(milan, "rome")["reason"] == link_of(rome, "milan")["reason"]
                assert link_of(rome, "milan")["reason"] == (
                    "in the configuration of milan rome is its master, and rome asks to be its client; "
                    "correct the role in one of the two configurations"
                )
                milan.peers.configure((Peer(name="rome", role="client"),))
                rome.peers.configure(rome.config.peers)
                await until(lambda: rome.peers.is_up("milan"))

    run(play())


def test_reasons_for_refusals_are_kept_of_a_thousand_neighbours() -> None:
    links = Node(NodeSettings("milan", "as")).links
    for number in range(1_002):
        name = f"rome-{number}"
        links.receive(name, Open((1, name, 1), "peer", "gs", ((name, (0, "", 0)),)), 0)
    assert len(links.declined) == 1_000
    assert (next(iter(links.declined)), [*links.declined][-1]) == ("rome-2", "rome-1001")


def test_a_link_that_is_added_again_does_not_say_that_it_was_removed() -> None:
    async def play() -> None:
        async with serving() as milan:
            url = f"palio://127.0.0.1:{milan.port}"
            rome = await joined(milan)
            await kill(milan)
            await until(lambda: link_of(rome, "milan")["state"] == "interrupted")
            linking.change(rome, {"action": "remove", "name": "milan"})
            done = linking.change(rome, {"action": "add", "name": "milan", "url": url})
            assert (done["is_new"], done["remark"]) == (True, linking._IN_FILE)
            await until(lambda: "milan" in rome.peers.reasons)
            assert "removed" not in link_of(rome, "milan")["reason"]
            await rome.stop()

    run(play())
