"""What is told of a notification: its way, and why a party did or did not get it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from palio.client import Client, RefusedError
from palio.codec import control, frames
from palio.codec.control import Query, Result
from palio.model import Notification, Trace
from palio.server.server import Server
from tests.client.puppet import client_of
from tests.server.test_network import network
from tests.serving import Raw, configured, run, serving, until

TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def last_of(server: Server, back: int = 1) -> str:
    """The id of the last notification that was published at a server, or of one before it."""
    node = server.driver.node
    return f"{node.settings.server}/{node.settings.incarnation}/{node.publishing.count - back}"


async def ask(client: Client, id: str, party: str | None = None) -> dict[str, Any]:
    return await client.query("explain", id=id, seconds=10, **({"party": party} if party else {}))


async def verdict(client: Client, id: str, party: str) -> dict[str, Any]:
    told: dict[str, Any] = (await ask(client, id, party))["verdict"]
    return told


def account(found: dict[str, Any], server: str) -> dict[str, Any]:
    return next(each for each in found["servers"] if each["server"] == server)


def peer_of(server: Server, **more: Any) -> dict[str, Any]:
    return {"name": server.config.server, "url": f"palio://127.0.0.1:{server.port}", **more}


@pytest.mark.parametrize("architecture", ["hs", "as", "aa", "nf", "gs", "ga"])
def test_the_way_through_the_network_is_told(architecture: str) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            made = await network(stack, architecture)
            servers = made.servers
            async with (
                client_of(servers["d"], name="adam") as adam,
                client_of(servers["c"], name="eva") as eva,
                client_of(servers["e"], name="otto") as otto,
            ):
                await adam.advertise("x any", wait=True)
                async with eva.subscribe("x > 3", wait=True) as events, otto.subscribe("x > 7 and y any", wait=True):
                    await until(lambda: _would_reach(servers, architecture))
                    await adam.publish(x=5)
                    await anext(events)
                    id = last_of(servers["d"])
                    found = await ask(otto, id, "eva")
                    assert found["notification"]["notification"] == {"x": 5}
                    assert found["verdict"]["code"] == "delivered"
                    assert "c sent it to eva at 20" in found["verdict"]["text"]
                    came = {each["server"]: each["came"][0]["name"] for each in found["servers"] if each["came"]}
                    assert came.items() >= {"d": "adam", "b": "d", "a": "b", "c": "a"}.items()
                    assert [each["party"] for each in account(found, "c")["delivered"]] == ["eva"]
                    assert found["silent"] == {}
                    told = await verdict(adam, id, "otto")
                    assert told["code"] == "no-match"
                    assert told["text"] == "no filter of otto at e matches it"
                    assert told["details"] == ["x > 7 and y any: x > 7 fails: x is 5; y any fails: y is missing"]

    run(play())


def _would_reach(servers: dict[str, Server], architecture: str) -> bool:
    """Whether the subscription of eva at c has got to d, where that is needed."""
    is_told = len(servers["d"].driver.node.router.subscriptions) > 0
    return is_told or architecture in ("hs", "nf")


def test_parties_that_are_not_there_or_want_something_else() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="adam") as adam:
            async with client_of(server, name="gone") as gone:
                await gone.subscribe("x any")
            async with client_of(server, name="idle"):
                await until(lambda: "gone" not in server.driver.parties)
                await adam.publish(x=5)
                id = last_of(server)
                told = await verdict(adam, id, "gone")
                assert told["code"] == "not-connected"
                assert "gone was not connected to milan when it came" in told["text"]
                assert (await verdict(adam, id, "idle"))["code"] == "no-subscription"
                assert (await verdict(adam, id, "nobody"))["text"] == "no server knows nobody"
                assert (await ask(adam, id))["verdict"] is None

    run(play())


def test_the_nearest_filters_come_first_and_are_bounded() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            for number in range(15):
                await eva.subscribe(f'y = {number} and z = "a" and x = 5')
            await eva.subscribe('x = "5"')
            await eva.publish(x=5, z="a")
            told = await verdict(eva, last_of(server), "eva")
            assert told["code"] == "no-match"
            assert len(told["details"]) == 11
            assert told["details"][0] == 'x = "5": x = "5" fails: x is a value of type integer, not string'
            assert told["details"][1] == 'y = 0 and z = "a" and x = 5: y = 0 fails: y is missing'
            assert told["details"][-1] == "and 6 more"

    run(play())


def test_subscriptions_before_and_after() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            await eva.subscribe("x > 100")
            await eva.publish(x=5)
            early = last_of(server)
            events = await eva.subscribe("x > 3")
            told = await verdict(eva, early, "eva")
            assert told["code"] == "subscribed-later"
            assert "subscribed to x > 3 only at 20" in told["text"]
            await eva.publish(x=6)
            await anext(events)
            assert (await verdict(eva, last_of(server), "eva"))["code"] == "delivered"
            await eva.unsubscribe("x > 3")
            await eva.publish(x=7)
            told = await verdict(eva, last_of(server), "eva")
            assert told["code"] == "unsubscribed"
            assert "had unsubscribed from x > 3 at 20" in told["text"]
            assert (await verdict(eva, last_of(server, 2), "eva"))["code"] == "delivered"
            again = await eva.subscribe("x > 3")
            await eva.publish(x=8)
            await anext(again)
            await eva.unsubscribe("x > 3")
            assert (await verdict(eva, last_of(server), "eva"))["code"] == "delivered"
            assert (await verdict(eva, last_of(server, 2), "eva"))["code"] == "unsubscribed"

    run(play())


def test_a_slow_party() -> None:
    async def play() -> None:
        slow = {"policy": "drop", "bytes": 100_000}
        async with serving(slow=slow) as server, client_of(server, name="adam") as adam:
            eva = await Raw.party(server, "eva")
            await eva.subscribe("x any")  # and reads no more
            while not server.counts.dropped["eva"]:
                await adam.publish(x=1, body="y" * 50_000)
            told = await verdict(adam, last_of(server), "eva")
            assert told["code"] == "slow"
            assert "too much waited for it, and milan dropped it" in told["text"]
            await eva.close()

    run(play())


def test_sequences() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            sequences = await eva.subscribe("x = 1 then x = 2")
            await eva.publish(x=1)
            first = last_of(server)
            told = await verdict(eva, first, "eva")
            assert told["code"] == "sequence"
            assert told["details"] == ["pattern: x = 1 then x = 2"]
            await eva.publish(x=2)
            await anext(sequences)
            for id in (first, last_of(server)):
                told = await verdict(eva, id, "eva")
                assert told["code"] == "delivered"
                assert told["text"].endswith(", as part of a sequence")
            await eva.publish(x=3)
            told = await verdict(eva, last_of(server), "eva")
            assert told["details"] == ["and a pattern, no filter of which matches it"]

    run(play())


def test_a_link_that_came_too_late() -> None:
    async def play() -> None:
        async with (
            serving(server="rome") as rome,
            serving() as milan,
            client_of(milan, name="adam") as adam,
            client_of(rome, name="eva") as eva,
            eva.subscribe("x any") as events,
        ):
            await adam.publish(x=5)
            id = last_of(milan)
            told = await verdict(adam, id, "eva")
            assert (told["code"], told["text"]) == ("unknown-party", "no server knows eva")
            await adam.query("link", action="add", **peer_of(rome))
            await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
            told = await verdict(adam, id, "eva")
            assert told["code"] == "link-down"
            assert "it got as far as milan on its way to rome: there has been a link to rome only" in told["text"]
            await adam.publish(x=6)
            await anext(events)
            assert (await verdict(eva, last_of(milan), "eva"))["code"] == "delivered"

    run(play())


def test_a_subscription_that_had_not_spread() -> None:
    """The way between the servers is interrupted while one party subscribes and the other one publishes."""

    async def play() -> None:
        async with serving() as milan, serving(server="rome", peers=[peer_of(milan)]) as rome:
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                for listener in milan._listeners:
                    listener.close()
                milan.driver.peers["rome"].abort()  # type: ignore[attr-defined]
                await until(lambda: not milan.driver.peers and not rome.driver.peers)
                await eva.subscribe("x any")
                await adam.publish(x=5)
                milan.peers.add(configured("x", peers=[peer_of(rome)]).peers[0])
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
                told = await verdict(adam, last_of(milan), "eva")
                assert told["code"] == "not-spread"
                assert "rome asked for x any only at 20" in told["text"]

    run(play())


def test_nobody_asked_on_the_way() -> None:
    async def play() -> None:
        async with serving() as milan, serving(server="rome", peers=[peer_of(milan)]) as rome:
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                subscription = await eva.subscribe("x any", wait=True)
                router = milan.driver.node.router
                await until(lambda: len(router.subscriptions) == 1)
                await subscription.close()
                await until(lambda: len(router.subscriptions) == 0)
                await adam.publish(x=5)
                told = await verdict(adam, last_of(milan), "eva")
                assert told["code"] == "unsubscribed"

    run(play())


@pytest.mark.parametrize("architecture", ["aa", "ga"])
def test_what_was_not_advertised(architecture: str) -> None:
    async def play() -> None:
        async with (
            serving(architecture=architecture) as milan,
            serving(server="rome", architecture=architecture, peers=[peer_of(milan)]) as rome,
        ):
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                await adam.advertise("y any", wait=True)
                await eva.subscribe("x any", wait=True)
                await adam.publish(x=5)
                told = await verdict(eva, last_of(milan), "eva")
                assert told["code"] == "not-advertised"
                assert "rome did not ask for it, because adam has not advertised" in told["text"]

    run(play())


@pytest.mark.parametrize("side", ["exports", "imports"])
def test_a_gateway_that_lets_nothing_pass(side: str) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            out = {"exports": "x > 10"} if side == "exports" else {}
            into = {"imports": "x > 10"} if side == "imports" else {}
            to_rome = {"name": "rome", "role": "gateway", **out}
            milan = await stack.enter_async_context(serving(peers=[to_rome]))
            to_milan = peer_of(milan, role="gateway", **into)
            rome = await stack.enter_async_context(serving(server="rome", peers=[to_milan]))
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                await eva.subscribe("x any", wait=True)
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
                await adam.publish(x=5)
                told = await verdict(adam, last_of(milan), "eva")
                if side == "exports":
                    assert told["code"] == "gateway"
                    assert "over the gateway to rome only goes what matches x > 10" in told["text"]
                else:  # the importing side has asked for nothing else
                    assert told["code"] == "not-asked"

    run(play())


def test_what_is_too_old_or_never_was() -> None:
    async def play() -> None:
        async with serving(history_bytes=20_000) as server, client_of(server, name="eva") as eva:
            await eva.publish(x=0)
            old = last_of(server)
            assert (await ask(eva, old))["verdict"] is None
            for x in range(100):
                await eva.publish(x=x)
            assert 0 < server.driver.history.bytes <= 20_000  # type: ignore[union-attr]
            told = (await ask(eva, old, "eva"))["verdict"]
            assert told["code"] == "forgotten"
            assert f"{old} is too old" in told["text"]
            assert "milan remembers what came since 20" in told["details"][0]
            incarnation = server.driver.node.settings.incarnation
            told = (await ask(eva, f"milan/{incarnation}/5000"))["verdict"]
            assert f"it was never published: the last one is milan/{incarnation}/100" in told["text"]
            assert "was started again since" in (await ask(eva, "milan/1/0"))["verdict"]["text"]
            assert "no server here has that name" in (await ask(eva, "rome/1/0"))["verdict"]["text"]

    run(play())


def test_a_server_that_remembers_nothing() -> None:
    async def play() -> None:
        async with serving(history_bytes=0) as server, client_of(server, name="eva") as eva:
            await eva.publish(x=0)
            assert server.driver.history is None
            told = (await ask(eva, last_of(server), "eva"))["verdict"]
            assert told["code"] == "forgotten"
            assert told["details"] == ["milan remembers nothing: history_bytes is 0"]

    run(play())


def test_what_was_refused_has_no_number() -> None:
    """Numbers go to what is accepted: what is refused in the same block must not shift them."""

    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            party = await Raw.party(server, "adam")
            bad = frames.frame(frames.PUBLISH, (0).to_bytes(4, "big") + b"\xc1")
            numbered = frames.frame(frames.PUBLISH, (3).to_bytes(4, "big") + b"\xc1")
            party.send(
                frames.publish(Notification(x=1), 1)
                + bad
                + frames.publish(Notification(x=2))
                + numbered
                + frames.publish_with(Notification(x=3), frames.Options(trace=str(TRACE)), 4)
                + bad
                + frames.publish(Notification(x=4), 5)
            )
            while await party.until(int) != 5:
                pass
            for back, x in ((1, 4), (2, 3), (3, 2), (4, 1)):
                found = await ask(eva, last_of(server, back))
                assert found["notification"]["notification"] == {"x": x}
                assert found["servers"][0]["came"][0]["name"] == "adam"
            await party.close()

    run(play())


def test_a_block_that_takes_several_turns() -> None:
    async def play() -> None:
        config = {"history_bytes": 1 << 30, "limits": {}}
        async with serving(**config) as server, client_of(server, name="eva") as eva:
            reader, party = await Raw.party(server, "reader"), await Raw.party(server, "adam")
            await reader.subscribe("x any")
            body = "y" * 100_000
            party.send(b"".join(frames.publish(Notification(x=x, body=body), x + 1) for x in range(400)))
            got = [await reader.until(Notification) for _ in range(400)]
            for x in (0, 180, 399):
                envelope = got[x].envelope
                assert envelope is not None
                found = await ask(eva, str(envelope.id), "reader")
                assert found["notification"]["notification"]["x"] == x
                assert found["verdict"]["code"] == "delivered"
            await party.close()
            await reader.close()

    run(play())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "None is no id of a notification"),
        ({"id": "milan"}, "'milan' is no id"),
        ({"id": "milan/1/x"}, "is no id"),
        ({"id": f"milan/1/{2**70}"}, "is no id"),
        ({"id": "/1/1"}, "origin of a notification id: empty"),
        ({"id": "milan/1/1", "party": ""}, "party: '' is no name"),
        ({"id": "milan/1/1", "party": 7}, "party: 7 is no name"),
        ({"id": "milan/1/1", "notification": b""}, "there is no argument 'notification'"),
    ],
)
def test_questions_that_make_no_sense(arguments: dict[str, Any], problem: str) -> None:
    async def play() -> None:
        async with serving() as server:
            party = await Raw.party(server, "eva")
            party.send(control.encode(Query(1, "explain", arguments)))
            answer = await party.until(control.Answer)
            assert (answer.number, answer.code) == (1, "invalid")
            assert problem in answer.text
            assert await party.is_served()
            await party.close()

    run(play())


def test_a_server_that_answers_nonsense_is_named() -> None:
    async def play() -> None:
        async with serving() as server, client_of(server, name="eva") as eva:
            await eva.publish(x=1)
            liar = await Raw.connect(server)
            await liar.hello("liar", role="server")
            party = await Raw.party(server, "asking")
            id = last_of(server)
            party.send(control.encode(Query(1, "explain", {"id": id, "seconds": 10})))
            query = await liar.until(Query)
            assert query.arguments["id"] == id
            answer = {"servers": [{"server": "liar", "came": "yesterday"}], "silent": {}, "left_out": 0}
            liar.send(control.encode(Result(query.number, answer)))
            result = await party.until(Result)
            assert result.document["silent"] == {"liar": "its answer cannot be read"}
            assert [each["server"] for each in result.document["servers"]] == ["milan"]
            assert await liar.is_served()
            await party.close()
            await liar.close()

    run(play())


def test_a_server_asks_with_nonsense() -> None:
    async def play() -> None:
        async with serving() as server:
            other = await Raw.connect(server)
            await other.hello("rome", role="server")
            other.send(control.encode(Query(5, "explain", {"wave": "w", "ms": 100, "id": 7})))
            assert "7 is no id" in (await other.until(Result)).document["silent"]["milan"]
            given = {"wave": "v", "ms": 100, "id": "milan/1/1", "notification": b"\xc1"}
            other.send(control.encode(Query(6, "explain", given)))
            assert "notification: " in (await other.until(Result)).document["silent"]["milan"]
            assert await other.is_served()
            await other.close()

    run(play())


def test_the_last_publication_of_a_party() -> None:
    async def play() -> None:
        async with (
            serving() as server,
            client_of(server, name="adam") as adam,
            client_of(server, name="eva") as eva,
        ):
            with pytest.raises(RefusedError, match="milan remembers nothing that 'adam' has published"):
                await eva.query("explain", last_of="adam")
            await adam.publish(x=1)
            await adam.publish(Notification(x=2), TRACE)
            id = last_of(server)
            await eva.publish(x=3)
            found = await eva.query("explain", last_of="adam", party="eva")
            assert found["id"] == id
            assert found["notification"]["notification"] == {"x": 2}
            assert found["verdict"]["code"] == "no-subscription"
            with pytest.raises(RefusedError, match="not both"):
                await eva.query("explain", last_of="adam", id=id)

    run(play())


def test_long_notifications_are_told_without_their_payload() -> None:
    """Beyond the usual limits, which servers of a network may have raised; the payload is nobody's business."""

    async def play() -> None:
        limits = {"value_bytes": 1_000_000}
        async with (
            serving(limits=limits) as milan,
            serving(server="rome", limits=limits, peers=[peer_of(milan)]) as rome,
        ):
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                raw = await Raw.party(rome, "reader")
                await raw.subscribe("x any", wait=True)
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
                content = Notification(x=5, body="y" * 500_000)
                await adam.publish(content.with_payload(b"secret"))
                await until(lambda: rome.driver.deliveries == 1)
                for client in (adam, eva):
                    found = await ask(client, last_of(milan), "reader")
                    assert found["verdict"]["code"] == "delivered"
                    assert found["notification"]["notification"] == {"body": content["body"], "x": 5}
                    assert "payload" not in found["notification"]
                    assert len(found["servers"]) == 2
                assert not milan.queries._asked
                await raw.close()

    run(play())


def test_a_neighbour_to_which_no_link_can_be() -> None:
    """There is a connection, over which questions go, and no link, for the networks are of different kinds."""

    async def play() -> None:
        async with serving() as milan, serving(server="rome", architecture="aa", peers=[peer_of(milan)]) as rome:
            await until(lambda: "milan" in rome.peers.reasons)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                await eva.subscribe("x any")
                await adam.publish(x=5)
                told = await verdict(adam, last_of(milan), "eva")
                assert (told["code"], told["text"]) == (
                    "link-down",
                    "it got as far as milan on its way to rome: there is no link to rome",
                )
                (link,) = (await eva.query("status"))["links"]
                assert (link["state"], link["reason"]) == ("refused", "milan is as, and rome is aa")

    run(play())


def test_a_party_behind_a_server_that_does_not_answer() -> None:
    async def play() -> None:
        async with serving() as milan, client_of(milan, name="adam") as adam:
            async with serving(server="rome", peers=[peer_of(milan)]):
                await until(lambda: "rome" in milan.driver.node.links.peers)
                await adam.publish(x=5)
            await until(lambda: "rome" not in milan.driver.peers)
            milan.peers.add(configured("x", peers=[{"name": "bari", "url": "palio://127.0.0.1:1"}]).peers[0])
            told = await verdict(adam, last_of(milan), "eva")
            assert (told["code"], told["text"]) == ("unknown-party", "no server knows eva")
            assert "bari could not be asked: milan has no connection to it" in told["details"]

    run(play())


def test_what_a_guarded_server_has_refused_in_the_same_block() -> None:
    """Nobody was told which of them it was; but what went out says what it is."""

    async def play() -> None:
        async with serving(guard=True) as server, client_of(server, name="eva") as eva:
            party = await Raw.party(server, "adam")
            assert (await party.ask("advertise", "x any", "advertisement")).code == ""
            party.send(frames.publish(Notification(y=1)) + frames.publish(Notification(x=2)))
            await until(lambda: server.driver.node.publishing.count == 1)
            told = (await ask(eva, last_of(server)))["verdict"]
            assert told["code"] == "forgotten"
            assert "what it was cannot be told any more" in told["text"]
            await eva.subscribe("x any")
            party.send(frames.publish(Notification(y=1)) + frames.publish(Notification(x=4), 8))
            while await party.until(int) != 8:
                pass
            told = await ask(eva, last_of(server), "eva")
            assert told["notification"]["notification"] == {"x": 4}
            assert told["servers"][0]["came"][0]["name"] == "adam"
            assert told["verdict"]["code"] == "delivered"
            await party.close()

    run(play())


def test_a_server_on_the_way_that_remembers_nothing() -> None:
    async def play() -> None:
        async with serving() as milan, serving(server="rome", history_bytes=0, peers=[peer_of(milan)]) as rome:
            await until(lambda: "rome" in milan.driver.node.links.peers)
            async with client_of(milan, name="adam") as adam, client_of(rome, name="eva") as eva:
                events = await eva.subscribe("x any", wait=True)
                await until(lambda: len(milan.driver.node.router.subscriptions) == 1)
                await adam.publish(x=5)
                await anext(events)
                told = await verdict(adam, last_of(milan), "eva")
                assert told["code"] == "forgotten"
                assert "milan sent it to rome at 20" in told["text"]
                assert told["details"] == ["rome remembers nothing: history_bytes is 0"]

    run(play())
