"""What servers say of themselves and of the network, and what becomes of questions that make no sense."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from palio.client import RefusedError
from palio.codec import control
from palio.codec.control import Answer, Query, Result
from palio.server import queries
from palio.server.server import Server
from palio.server.status import status
from tests.client.puppet import client_of
from tests.server.test_network import TREE, kill, network
from tests.serving import Raw, configured, run, serving, until


def test_status_counts_what_happened() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva, client_of(server, name="adam") as adam:
            async with eva.subscribe("x > 3") as events:
                for x in range(10):
                    await adam.publish(x=x)
                assert [(await anext(events))["x"] for _ in range(6)] == [4, 5, 6, 7, 8, 9]
                status = await adam.query("status")
            assert status["server"] == "milan"
            assert status["architecture"] == "as"
            assert status["incarnation"] == server.driver.node.settings.incarnation
            assert status["uptime_seconds"] > 0
            counts = status["counts"]
            assert (counts["publications"], counts["deliveries"], counts["dropped"]) == (10, 6, 0)
            assert (counts["subscriptions"], counts["parties"], counts["links"], counts["faults"]) == (1, 2, 0, 0)
            assert counts["received_bytes"] > 0 < counts["sent_bytes"]
            parties = {each["name"]: each for each in status["parties"]}
            assert parties["eva"]["deliveries"] == 6
            assert parties["adam"]["deliveries"] == 0 < parties["adam"]["received_bytes"]
            assert not parties["eva"]["slow"]
            assert status["parties_left_out"] == 0

    run(play())


def test_a_status_names_a_bounded_number_of_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.server.status.MOST_PARTIES", 2)

    async def play() -> None:
        async with serving() as server, AsyncExitStack() as stack:
            for name in ("a", "b", "c"):
                client = await stack.enter_async_context(client_of(server, name=name))
            status = await client.query("status")
            assert len(status["parties"]) == 2
            assert status["parties_left_out"] == 1

    run(play())


@pytest.mark.parametrize("architecture", ["hs", "as", "gs"])
def test_the_network_is_asked_from_any_server(architecture: str) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, architecture)
            for name in "ade":
                async with client_of(made.servers[name]) as client:
                    found = await client.query("network", seconds=10)
                assert sorted(each["server"] for each in found["servers"]) == list("abcde")
                assert found["silent"] == {}
                links = {
                    (each["server"], link["name"])
                    for each in found["servers"]
                    for link in each["links"]
                    if link["state"] == "up"
                }
                assert links == {pair for low, high in TREE.items() for pair in ((low, high), (high, low))}

    run(play())


def test_a_cycle_of_servers_is_asked_once_each() -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, "gs")
            made.servers["e"].peers.add(_peer(made.servers["c"], "c"))
            await until(lambda: "c" in made.servers["e"].driver.node.links.peers)
            async with client_of(made.servers["a"]) as client:
                found = await client.query("network", seconds=10)
            assert sorted(each["server"] for each in found["servers"]) == list("abcde")
            assert all(not server.queries._waves for server in made.servers.values())

    run(play())


def _peer(server: Server, name: str) -> Any:
    (peer,) = configured("x", peers=[{"name": name, "url": f"palio://127.0.0.1:{server.port}"}]).peers
    return peer


def test_servers_that_are_gone_or_mute_are_named() -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, "as")
            await kill(made.servers.pop("c"))
            mute = await Raw.connect(made.servers["e"])
            await mute.hello("mute", role="server")
            await until(lambda: "c" not in made.servers["a"].driver.peers)
            async with client_of(made.servers["d"]) as client:
                found = await client.query("network", seconds=1.0)
            assert sorted(each["server"] for each in found["servers"]) == list("abde")
            assert found["silent"]["c"] == "a has no connection to it"
            assert sorted(found["silent"]) == ["c", "mute"]
            assert "did not answer e within" in found["silent"]["mute"]
            await mute.close()

    run(play())


def test_a_neighbour_that_cannot_be_reached_is_named() -> None:
    async def play() -> None:
        peer = {"name": "rome", "url": "palio://127.0.0.1:1"}
        async with serving(peers=[peer]) as server, client_of(server) as client:
            await until(lambda: "rome" in server.peers.reasons)
            found = await client.query("network")
            assert found["silent"] == {"rome": "milan has no connection to it"}
            (link,) = found["servers"][0]["links"]
            assert (link["state"], link["known_from"]) == ("down", "file")
            assert "refused" in link["reason"].lower() or "connect" in link["reason"].lower()

    run(play())


@pytest.mark.parametrize(
    ("subject", "arguments", "problem"),
    [
        ("weather", {}, "nothing is known of 'weather'; one can ask for status, network"),
        ("status", {"x": 1}, "status: there is no argument 'x'; it has none"),
        ("network", {"seconds": 0}, "seconds: 0 is no number above 0"),
        ("network", {"seconds": 1000}, "up to 10"),
        ("network", {"seconds": True}, "seconds: True is no number"),
        ("network", {"seconds": "2"}, "seconds: '2' is no number"),
        ("link", {}, "'action' must be add"),
        ("link", {"action": "add", "name": "rome"}, "was not removed here. To open a link to it, give its url"),
        ("link", {"action": "add", "name": "rome", "url": "http://x"}, "palio://host:port"),
        ("link", {"action": "add", "name": "rome", "url": "palio://[::1:7400"}, "palio://host:port"),
        ("link", {"action": "add", "name": "milan", "url": "palio://127.0.0.1:1"}, "this server itself"),
        ("link", {"action": "add", "name": "r", "url": "palio://127.0.0.1:1", "role": "master"}, "there is no master"),
        ("link", {"action": "add", "name": "r", "url": "palio://127.0.0.1:1", "role": "gateway"}, "a gateway must"),
        ("link", {"action": "add", "name": "r", "url": "palio://127.0.0.1:1", "colour": 1}, "unknown field `colour`"),
        ("link", {"action": "remove", "name": "rome"}, "'rome' is not a neighbour of milan; neighbours: none"),
        ("link", {"action": "remove", "name": 7}, "'action' must be add"),
    ],
)
def test_what_makes_no_sense_is_refused_and_harms_nobody(subject: str, arguments: dict[str, Any], problem: str) -> None:
    async def play() -> None:
        async with serving() as server, client_of(server) as client:
            with pytest.raises(RefusedError) as refused:
                await client.query(subject, **arguments)
            assert refused.value.code == "invalid"
            assert problem in str(refused.value)
            assert not server.queries._asked
            assert (await client.query("status"))["server"] == "milan"

    run(play())


def test_questions_of_one_connection_are_bounded() -> None:
    async def play() -> None:
        async with serving() as server:
            mute = await Raw.connect(server)
            await mute.hello("mute", role="server")
            party = await Raw.party(server, "eva")
            for number in range(queries.MOST_ASKED + 1):
                party.send(control.encode(Query(number, "network", {"seconds": 0.5})))
            refused = await party.until(Answer)
            assert (refused.number, refused.code) == (queries.MOST_ASKED, "limit")
            for number in range(queries.MOST_ASKED):
                assert (await party.until(Result)).number == number
            party.send(control.encode(Query(99, "status")))
            assert (await party.until(Result)).number == 99
            assert not server.queries._asked
            await party.close()
            await mute.close()

    run(play())


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"servers": 1, "silent": {}, "left_out": 0},
        {"servers": [], "silent": [], "left_out": "many"},
        {"servers": [], "silent": {}, "left_out": 1 << 63},
        {"servers": [], "silent": {}, "left_out": -1},
        {"servers": [{}], "silent": {}, "left_out": 0},
        {"servers": [{"server": ["x"]}], "silent": {}, "left_out": 0},
        {
            "servers": [{"server": "x", "uptime_seconds": 1, "counts": {}, "links": [{}]}],
            "silent": {},
            "left_out": 0,
        },
    ],
    ids=str,
)
def test_an_answer_that_is_none_harms_nobody(document: dict[str, Any]) -> None:
    async def play() -> None:
        async with serving() as server, client_of(server) as client:
            liar = await Raw.connect(server)
            await liar.hello("liar", role="server")
            asking = asyncio.create_task(client.query("network", seconds=10))
            query = await liar.until(Query)
            liar.send(control.encode(Result(query.number + 1000, {})))  # nobody asked that
            liar.send(control.encode(Result(query.number, document)))
            found = await asking
            assert found["silent"] == {"liar": "its answer cannot be read"}
            assert await liar.is_served()
            await liar.close()

    run(play())


@pytest.mark.parametrize("arguments", [{}, {"wave": 1, "ms": 5}, {"wave": "x", "ms": "soon"}], ids=str)
def test_a_server_that_asks_nonsense_is_answered(arguments: dict[str, Any]) -> None:
    async def play() -> None:
        async with serving() as server:
            other = await Raw.connect(server)
            await other.hello("rome", role="server")
            other.send(control.encode(Query(5, "network", arguments)))
            result = await other.until(Result)
            assert result.document["silent"] == {"milan": "it does not know the question"}
            assert await other.is_served()
            await other.close()

    run(play())


def test_answers_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_SERVERS", 3)

    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, "as")
            async with client_of(made.servers["a"]) as client:
                found = await client.query("network", seconds=10)
            assert (len(found["servers"]), found["left_out"]) == (3, 2)

    run(play())


def test_links_are_added_and_removed_while_servers_run() -> None:
    async def play() -> None:
        async with serving(server="rome") as rome, serving() as milan, client_of(milan) as client:
            url = f"palio://127.0.0.1:{rome.port}"
            done = await client.query("link", action="add", name="rome", url=url)
            assert done["is_new"]
            assert "not in the configuration file" in done["remark"]
            await until(lambda: "rome" in milan.driver.node.links.peers)
            again = await client.query("link", action="add", name="rome", url=url)
            assert not again["is_new"]
            (link,) = (await client.query("status"))["links"]
            assert (link["name"], link["state"], link["known_from"], link["url"]) == ("rome", "up", "command", url)
            milan.reload(configured())  # what was added stays
            assert "rome" in milan.driver.node.links.peers
            with pytest.raises(RefusedError, match="a neighbour already, with other settings"):
                await client.query("link", action="add", name="rome", url="palio://127.0.0.1:1")
            removed = await client.query("link", action="remove", name="rome")
            assert removed["remark"] == ""
            await until(lambda: "rome" not in milan.driver.node.links.peers)
            await until(lambda: "milan" not in rome.driver.node.links.peers)

    run(play())


def test_a_link_of_the_file_is_back_when_that_is_read_again() -> None:
    async def play() -> None:
        async with serving(server="rome") as rome:
            peers = [{"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"}]
            async with serving(peers=peers) as milan, client_of(milan) as client:
                await until(lambda: "rome" in milan.driver.node.links.peers)
                assert (
                    "comes back with a reload" in (await client.query("link", action="remove", name="rome"))["remark"]
                )
                await until(lambda: "rome" not in milan.driver.node.links.peers)
                milan.reload(configured(peers=peers))
                await until(lambda: "rome" in milan.driver.node.links.peers)

    run(play())


def test_only_admins_change_links_where_there_are_any() -> None:
    async def play() -> None:
        async with (
            serving(admins=["eva"]) as server,
            client_of(server, name="eva") as eva,
            client_of(server, name="adam") as adam,
        ):
            with pytest.raises(RefusedError) as refused:
                await adam.query("link", action="add", name="rome", url="palio://127.0.0.1:1")
            assert refused.value.code == "not-allowed"
            assert (await eva.query("link", action="add", name="rome", url="palio://127.0.0.1:1"))["is_new"]

    run(play())


def test_where_not_everybody_is_believed_nobody_is_an_admin_unless_named() -> None:
    token = {"eva": "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"}
    assert not configured(tokens=token).is_admin("eva")
    assert configured(tokens=token, admins=["eva"]).is_admin("eva")
    assert not configured(host="0.0.0.0", insecure=True).is_admin("eva")


def test_who_is_no_admin_sees_itself_alone() -> None:
    async def play() -> None:
        async with serving(server="rome") as rome, client_of(rome, name="otto"):
            peer = {"name": "rome", "url": f"palio://127.0.0.1:{rome.port}"}
            async with (
                serving(admins=["eva"], peers=[peer]) as milan,
                client_of(milan, name="eva") as eva,
                client_of(milan, name="adam") as adam,
            ):
                await until(lambda: "rome" in milan.driver.node.links.peers)
                for client, seen in ((eva, {"eva", "adam", "otto"}), (adam, {"adam"})):
                    found = await client.query("network", seconds=10)
                    assert {party["name"] for each in found["servers"] for party in each["parties"]} == seen
                    assert sum(each["counts"]["parties"] for each in found["servers"]) == 3
                assert [each["name"] for each in (await adam.query("status"))["parties"]] == ["adam"]
                with pytest.raises(RefusedError, match="adam' may not do that; 'admins'") as refused:
                    await adam.query("explain", id="milan/1/1")
                assert refused.value.code == "not-allowed"
                assert (await eva.query("explain", id="milan/1/1"))["verdict"]["code"] == "unknown"

    run(play())


def test_many_questions_do_not_delay_what_comes_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a question that took long, others wait; a ping that was sent after all of them is answered earlier."""

    def slow(server: Server, watcher: str | None = None) -> dict[str, Any]:
        time.sleep(0.02)
        return status(server, watcher)

    monkeypatch.setattr(queries, "status", slow)

    async def story() -> None:
        async with serving() as server:
            eva = await Raw.party(server, "eva")
            for number in range(1, 9):
                eva.send(control.encode(control.Query(number, "status")))
            assert await eva.is_served()
            assert [(await eva.until(control.Result)).number for _ in range(7)] == [2, 3, 4, 5, 6, 7, 8]
            await eva.close()

    run(story())


def test_questions_of_a_client_that_has_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving() as server:
            eva = await Raw.party(server, "eva")
            monkeypatch.setattr(server.queries._queue, "_free_at", server.loop.time() + 0.2)
            for number in range(1, 9):
                eva.send(control.encode(control.Query(number, "status")))
            await until(lambda: server.queries._asked.total() == 8)
            await eva.close()
            await until(lambda: not server.queries._asked)
            assert not server.queries._queue._waiting

    run(story())
