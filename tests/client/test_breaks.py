"""What a client does when the connection breaks, or the server is not as it should be."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from palio.client import (
    Acceptance,
    CannotConnectError,
    Client,
    ConnectionLostError,
    RefusedError,
    Subscription,
    connect,
)
from palio.client.connection import _MOST_NUMBER
from palio.client.options import Options
from palio.codec import control, frames
from palio.codec.control import Answer, Ask, Goodbye, Ping, Pong
from palio.errors import CallerError
from palio.model import Filter, Pattern
from palio.server.errors import Code
from tests.client.puppet import QUICK, Puppet, client_of, held, held_patterns
from tests.serving import run, serving, until


def accepted(number: int) -> bytes:
    return frames.accepted(number)


def asked(puppet: Puppet) -> list[Ask]:
    decoded = [control.decode(control.KINDS[Ask], content) for content in puppet.of_kind(control.KINDS[Ask])]
    return [each for each in decoded if isinstance(each, Ask)]


def test_a_new_server_is_told_everything() -> None:
    async def story() -> None:
        async with serving(architecture="aa") as first:
            port = first.port
            eva = client_of(first, name="eva")
            await eva.connect()
            events = await eva.subscribe("x > 3")
            await eva.subscribe("x = 1 then x = 2")
            await eva.advertise("x any")
            offers = await eva.watch(Filter.parse("z any"))
        await until(lambda: not eva.is_connected)
        publishing = asyncio.create_task(eva.publish(x=5))
        async with serving(port=port, architecture="aa") as second:
            await publishing
            assert (await anext(events))["x"] == 5
            assert held(second, "eva") == {Filter.parse("x > 3")}
            assert held_patterns(second, "eva") == {Pattern.parse("x = 1 then x = 2")}
            assert second.driver.node.router.profile("eva").advertisements
            await offers.close()
            await eva.close()

    run(story())


def test_what_ends_does_not_wait_for_a_server_that_is_away() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            eva = connect(puppet.url, name="eva", reconnect_time_wait=0.2, max_attempts=1000)
            await eva.connect()
            beginning = [asyncio.create_task(_begun(eva, wanted)) for wanted in ("x > 3", "x > 5")]
            await until(lambda: len(asked(puppet)) == 2)
            for ask in asked(puppet):
                puppet.say(control.encode(Answer(ask.number, "", "")))
            broad, narrow = await asyncio.gather(*beginning)
            await puppet.hang_up()
            await until(lambda: not eva.is_connected)
            await broad.close()  # though there is nobody who would answer
            assert [each async for each in broad] == []
            assert not eva.is_connected
            await until(lambda: len(asked(puppet)) == 3)  # after the reconnection: what is wanted still
            puppet.say(control.encode(Answer(asked(puppet)[-1].number, "", "")))
            await until(lambda: len(asked(puppet)) == 4)
            assert [each.operation for each in asked(puppet)[2:]] == ["subscribe", "unsubscribe"]
            leaving = asyncio.create_task(narrow.close())
            await until(lambda: len(asked(puppet)) == 5)
            await puppet.hang_up()
            await leaving  # though the answer did not come
            await eva.close()

    run(story())


async def _begun(client: Client, wanted: str) -> Subscription:
    return await client.subscribe(wanted)


def test_who_publishes_all_the_time_survives_a_server_that_stops() -> None:
    async def story() -> None:
        accepted, lost = [], []

        async def publish(eva: Client, first: int) -> None:
            number = first
            while number < 10**6 + first:
                try:
                    await eva.publish(n=number)
                    accepted.append(number)
                except ConnectionLostError:
                    lost.append(number)
                number += 1

        async with serving() as first:
            port = first.port
            eva = client_of(first)
            await eva.connect()
            tasks = [asyncio.create_task(publish(eva, 10**7 * each)) for each in range(20)]
            await until(lambda: len(accepted) > 200)
        before = len(accepted)
        assert len(lost) <= 20
        async with serving(port=port):
            await until(lambda: len(accepted) > before + 200)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await eva.close()

    run(story())


def test_a_goodbye_is_the_end_before_the_connection_is() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            assert eva._connection is not None
            eva._connection._controlled(Goodbye("stopping", "for now"))
            await asyncio.gather(*(eva.publish_unconfirmed(n=n) for n in range(3)))
            await until(lambda: len(puppet.publications()) == 3)
            assert len(puppet.hellos) == 2

    run(story())


def test_what_is_under_way_when_it_breaks_is_lost_and_what_was_not_sent_is_not() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, max_outstanding=2, **QUICK) as eva:
            tasks = [asyncio.create_task(eva.publish(n=n)) for n in range(4)]
            await until(lambda: len(puppet.publications()) == 2)
            await puppet.hang_up()
            for task in tasks[:2]:
                with pytest.raises(ConnectionLostError):
                    await task
            await until(lambda: len(puppet.publications()) == 4)
            puppet.say(accepted(2))
            await asyncio.gather(*tasks[2:])
            assert len(puppet.hellos) == 2

    run(story())


def test_what_may_be_asked_twice_is() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            advertising = asyncio.create_task(eva.advertise("x any"))
            await until(lambda: asked(puppet))
            await puppet.hang_up()
            await until(lambda: len(asked(puppet)) == 2)
            puppet.say(control.encode(Answer(asked(puppet)[-1].number)))
            await advertising

    run(story())


def test_a_refusal_is_the_publications_own() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            tasks = [asyncio.create_task(eva.publish(n=n)) for n in range(3)]
            await until(lambda: len(puppet.publications()) == 3)
            puppet.say(control.encode(Answer(2, "strange", "no")) + accepted(3))
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in results] == [Acceptance, RefusedError, Acceptance]
            assert results[1].code == "strange"  # type: ignore[union-attr]

    run(story())


def test_numbers_begin_anew_when_they_end() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            assert eva._connection is not None
            eva._connection._number = _MOST_NUMBER - 2
            tasks = [asyncio.create_task(eva.publish(n=n)) for n in range(4)]
            await until(lambda: len(puppet.publications()) == 2)
            puppet.say(accepted(_MOST_NUMBER))
            await until(lambda: len(puppet.publications()) == 4)
            puppet.say(accepted(2))
            await asyncio.gather(*tasks)
            numbers = [int.from_bytes(content[:4], "big") for content in puppet.publications()]
            assert numbers == [_MOST_NUMBER - 1, _MOST_NUMBER, 1, 2]

    run(story())


def test_numbers_that_begin_anew_with_a_request_wait_for_publications() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            assert eva._connection is not None
            eva._connection._number = _MOST_NUMBER - 1
            first = await eva.send(n=0)
            advertising = asyncio.create_task(eva.advertise("x any"))
            await until(lambda: asked(puppet))
            assert asked(puppet)[0].number == 1
            second = asyncio.create_task(eva.publish(n=1))
            await asyncio.sleep(0)
            puppet.say(accepted(_MOST_NUMBER))
            await first
            await until(lambda: len(puppet.publications()) == 2)
            assert not second.done()
            puppet.say(accepted(2) + control.encode(Answer(1)))
            await asyncio.gather(second, advertising)

    run(story())


def test_a_silent_server_is_left() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, ping_interval=0.01, **QUICK):
            await until(lambda: len(puppet.hellos) >= 2)
            assert puppet.of_kind(control.KINDS[Ping])

    run(story())


def test_a_server_that_answers_is_not_left() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, ping_interval=0.05, **QUICK) as eva:
            for count in range(1, 6):
                await until(lambda: len(puppet.of_kind(control.KINDS[Ping])) >= count)  # noqa: B023
                puppet.say(control.encode(Pong(0)))
            assert len(puppet.hellos) == 1
            puppet.say(control.encode(Ping(7)))
            await until(lambda: control.encode(Pong(7))[5:] in puppet.of_kind(control.KINDS[Pong]))
            assert eva.is_connected

    run(story())


@pytest.mark.parametrize("data", [b"\xff" * 9, frames.frame(0x77, b""), frames.frame(frames.DELIVER, b"\0\1")])
def test_a_server_that_talks_nonsense_is_left(data: bytes) -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, max_attempts=0) as eva:
            puppet.say(data)
            events = await_ended(eva)
            with pytest.raises(ConnectionLostError, match="cannot be read"):
                await events

    async def await_ended(eva: object) -> None:
        await until(lambda: eva._end)  # type: ignore[attr-defined]
        await eva.publish(x=1)  # type: ignore[attr-defined]

    run(story())


@pytest.mark.parametrize("code", ["replaced", "token"])
def test_where_it_makes_no_sense_the_client_does_not_come_back(code: str) -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            subscribing = asyncio.create_task(eva.subscribe("x any")._started())
            await until(lambda: asked(puppet))
            puppet.say(control.encode(Answer(1)))
            events = await subscribing
            puppet.say(control.encode(Goodbye(code, "so it is")))
            with pytest.raises(ConnectionLostError, match="so it is") as lost:
                await anext(events)
            assert lost.value.code == code
            with pytest.raises(ConnectionLostError, match="so it is"):
                await eva.publish(x=1)
            assert len(puppet.hellos) == 1

    run(story())


def test_the_younger_of_two_clients_of_one_name_stays() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server, name="eva") as older:
            events = await older.subscribe("x any")
            async with client_of(server, name="eva") as younger:
                with pytest.raises(ConnectionLostError) as lost:
                    await anext(events)
                assert lost.value.code == Code.REPLACED.value
                await younger.publish(x=1)

    run(story())


def test_a_client_gives_up_in_the_end() -> None:
    async def story() -> None:
        async with serving() as server:
            eva = client_of(server, max_attempts=3)
            await eva.connect()
            events = await eva.subscribe("x any")
        with pytest.raises(CannotConnectError, match="there is no server at"):
            await anext(events)
        with pytest.raises(ConnectionLostError):
            await eva.publish(x=1)
        await eva.close()

    run(story())


def test_a_client_can_be_closed_while_it_connects_again() -> None:
    async def story() -> None:
        async with serving() as server:
            eva = client_of(server, reconnect_time_wait=1000, reconnect_time_max=1000)
            await eva.connect()
        await until(lambda: not eva.is_connected)
        publishing = asyncio.create_task(eva.publish(x=1))
        await asyncio.sleep(0)
        await eva.close()
        with pytest.raises(CallerError, match="closed"):
            await publishing

    run(story())


def test_without_a_server_it_says_so() -> None:
    async def story() -> None:
        async with serving() as server:
            port = server.port
        with pytest.raises(CannotConnectError, match=f"there is no server at palio://127.0.0.1:{port}"):
            async with connect(f"palio://127.0.0.1:{port}"):
                pass

    run(story())


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async def story() -> None:
        async with Puppet(welcomes=False) as puppet:
            with pytest.raises(CannotConnectError, match=r"does not answer within 0\.02 s"):
                await connect(puppet.url, connect_timeout=0.02).connect()

    run(story())


def test_who_is_not_let_in_hears_why() -> None:
    async def story() -> None:
        async with Puppet(welcomes=False) as puppet:
            connecting = asyncio.create_task(connect(puppet.url, token="x").connect())
            await until(lambda: puppet.hellos)
            assert puppet.hellos[0].token == "x"
            puppet.say(control.encode(Goodbye("token", "that is not the token")))
            with pytest.raises(CannotConnectError, match="that is not the token") as refused:
                await connecting
            assert refused.value.code == "token"

    run(story())


def test_a_plain_server_is_not_taken_for_an_encrypted_one() -> None:
    async def story() -> None:
        async with serving() as server:
            with pytest.raises(CannotConnectError):
                await connect(f"palios://127.0.0.1:{server.port}", ssl=ssl.create_default_context()).connect()

    run(story())


@pytest.mark.parametrize("is_connected", [False, True])
def test_closing_a_client_can_be_cancelled_at_any_moment(is_connected: bool) -> None:
    """A supervisor that cancels a task while the task closes its client must not wait for the task for ever."""

    async def story() -> None:
        async with serving() as server:
            for steps in range(1, 14):
                client = connect(f"palio://127.0.0.1:{server.port}", name="eva")
                if is_connected:
                    await client.connect()
                closing = asyncio.create_task(client.close())
                for _ in range(steps):
                    await asyncio.sleep(0)
                is_asked_for = closing.cancel()
                await asyncio.wait([closing])
                assert closing.cancelled() is is_asked_for, steps
                await client.close()
                assert not client.is_connected

    run(story())


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:7400", "http://host", "palio://", "palio://h:99999", "palio://h/x", "palio://a..b:1", None],
)
def test_addresses_are_checked(url: str) -> None:
    async def story() -> None:
        with pytest.raises(CallerError, match="is no address of a server"):
            connect(url)

    run(story())


@pytest.mark.parametrize(
    "options", [{"name": ""}, {"name": 7}, {"max_outstanding": 0}, {"ping_interval": -1}, {"nmae": "eva"}]
)
def test_options_are_checked(options: dict[str, object]) -> None:
    async def story() -> None:
        with pytest.raises(CallerError, match=next(iter(options))):
            connect("palio://h", **options)
        with pytest.raises(CallerError, match="not encrypted"):
            connect("palio://h", ssl=ssl.create_default_context())

    run(story())


def test_pauses_grow_and_differ() -> None:
    options = Options(reconnect_time_wait=1, reconnect_time_max=10)
    for attempt, longest in enumerate((1, 2, 4, 8, 10, 10)):
        pauses = {options.pause(attempt) for _ in range(20)}
        assert len(pauses) > 1
        assert all(longest / 2 <= pause <= longest for pause in pauses)
    assert options.pause(10_000) <= 10


def test_a_server_that_takes_nothing_is_not_flooded() -> None:
    filling = bytes(3000)

    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            puppet.is_deaf = True
            connection, sent = eva._connection, 0
            assert connection is not None

            async def publish() -> None:
                nonlocal sent
                while connection.is_open:
                    await eva.publish_unconfirmed(filling=filling)
                    sent += 1

            publishing = asyncio.create_task(publish())
            await until(lambda: not connection._is_writable)
            before = sent
            assert connection._transport.get_write_buffer_size() < 2**18
            for _ in range(100):  # turns of the loop in which it could go on
                await asyncio.sleep(0)
            assert sent == before
            puppet.is_deaf = False
            connection._transport.abort()
            await publishing
            assert sent == before + 1

    run(story())


def test_encrypted_connections(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=palio -addext"
    command = [openssl, "req", *options.split(), "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)

    async def story() -> None:
        async with Puppet(context=context) as puppet:
            async with connect(puppet.url, ssl=trusting) as eva:
                await eva.publish_unconfirmed(x=1)
                await until(puppet.publications)
            with pytest.raises(CannotConnectError, match="certificate"):
                await connect(puppet.url).connect()

    run(story())


def test_a_full_queue_does_not_keep_a_client_from_connecting_again() -> None:
    async def story() -> None:
        async with serving() as first:
            port = first.port
            eva = client_of(first)
            await eva.connect()
            events = await eva.subscribe("n any", queue=1)
            for n in range(3):
                await eva.publish(n=n)
            await until(lambda: events.is_full)
        async with serving(port=port) as second:
            with pytest.raises(ConnectionLostError):  # who does not read has not noticed
                await eva.publish(n=3)
            await eva.publish(n=4)
            assert held(second, eva.name)
            await eva.close()

    run(story())
