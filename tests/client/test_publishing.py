"""What a publisher may say of a publication, and publications that survive breaks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from palio import Mode, Notification, PublishOptions, Trace
from palio.client import ClosedError, ConnectionLostError, FullDiskError, NoStoreError, TooLargeError, connect
from palio.client.sync import connect_sync
from palio.codec import control, frames, msgpack
from palio.codec.control import Answer, Welcome
from palio.errors import CallerError
from tests.client.puppet import QUICK, Puppet, client_of
from tests.serving import run, serving, until

TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def published(puppet: Puppet) -> list[tuple[int, frames.Options, Notification]]:
    """Number, options and notification of all publications with options."""
    several = [frames.published_with(content) for content in puppet.of_kind(frames.PUBLISH_WITH)]
    return [
        (number, frames.options_of(options), msgpack.decode(Notification, document))
        for number, options, document in several
    ]


def keys(puppet: Puppet) -> list[str | None]:
    return [options.key for _, options, _ in published(puppet)]


def test_acceptance_says_what_it_promises() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, mode="local", **QUICK) as eva:
            assert puppet.hellos[0].mode is Mode.LOCAL
            publishing = asyncio.create_task(eva.publish(x=1))
            await until(puppet.publications)
            puppet.say(frames.accepted(1, Mode.LOCAL))
            assert (await publishing).mode is Mode.LOCAL
            future = await eva.send(x=2)
            puppet.say(frames.accepted(2, Mode.SYNCED))
            assert (await future).mode is Mode.SYNCED

    run(story())


def test_a_real_server_says_it_too() -> None:
    async def story() -> None:
        async with serving() as server, client_of(server) as eva:
            assert (await eva.publish(x=1)).mode is Mode.MEMORY

    run(story())


def test_all_options_go_to_the_server() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            at = datetime(2027, 1, 1, 12, tzinfo=UTC)
            several = [
                PublishOptions(trace=TRACE, expires=at, key="order-17", mode="synced"),
                PublishOptions(expires=timedelta(minutes=10), mode=Mode.MEMORY),
                PublishOptions(expires=2.5),
                TRACE,
            ]
            for options in several:
                await eva.send({"key": 1}, options, mode="fast")  # names of attributes are free
            await eva.publish_unconfirmed(None, PublishOptions(key="k"), x=1)
            await eva.send(Notification(x=1), PublishOptions())
            await until(lambda: len(published(puppet)) == 5 and len(puppet.publications()) == 1)
            said = published(puppet)
            assert said[0][1] == frames.Options(str(TRACE), at, "order-17", Mode.SYNCED)
            assert said[0][2] == Notification(key=1, mode="fast")
            soon = [options.expires - datetime.now(UTC) for _, options, _ in said[1:3] if options.expires]
            assert timedelta(minutes=9) < soon[0] <= timedelta(minutes=10)
            assert timedelta(seconds=-20) < soon[1] <= timedelta(seconds=2.5)
            assert said[3][1] == frames.Options(trace=str(TRACE))
            assert (said[4][0], said[4][1].key) == (0, "k")

    run(story())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (PublishOptions(key=""), "key: '' is none"),
        (PublishOptions(key="k" * 16_385), "key: .* is none; it is text of 1 to 16,384 bytes"),
        (PublishOptions(key=7), "key: 7 is none"),  # type: ignore[arg-type]
        (PublishOptions(mode="fast"), "mode: 'fast' is none of memory, local, synced"),
        (PublishOptions(expires=-1), "expires: -1 is no duration"),
        (PublishOptions(expires="soon"), "expires: 'soon' is no duration"),  # type: ignore[arg-type]
        (PublishOptions(expires=timedelta(days=10**7)), "expires: .* is too far away"),
        (PublishOptions(expires=datetime(2027, 1, 1)), "expires: .* has no time zone"),
        (PublishOptions(trace="00-1"), "'00-1' is no Trace"),  # type: ignore[arg-type]
        ({"key": "k"}, "is neither PublishOptions nor a Trace"),
    ],
)
def test_options_are_checked(options: PublishOptions, problem: str) -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as eva:
            with pytest.raises(CallerError, match=problem):
                await eva.publish(Notification(x=1), options)

    run(story())


def test_a_publication_with_a_key_survives_breaks_in_its_place() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, max_outstanding=3, **QUICK) as eva:
            tasks = [asyncio.create_task(eva.publish({"n": n}, PublishOptions(key=f"k{n}"))) for n in range(5)]
            await until(lambda: len(published(puppet)) == 3)
            puppet.say(frames.accepted(1))
            await until(lambda: len(published(puppet)) == 4)
            await puppet.hang_up()
            await until(lambda: len(published(puppet)) == 7)
            await puppet.hang_up()
            await until(lambda: len(puppet.hellos) == 3 and len(published(puppet)) == 10)
            assert keys(puppet) == ["k0", "k1", "k2", "k3", "k1", "k2", "k3", "k1", "k2", "k3"]
            assert [number for number, _, _ in published(puppet)[7:]] == [1, 2, 3]
            puppet.say(frames.accepted(3, Mode.SYNCED))
            await until(lambda: len(published(puppet)) == 11)
            puppet.say(frames.accepted(4, Mode.LOCAL))
            modes = [each.mode for each in await asyncio.gather(*tasks)]
            assert modes == [Mode.MEMORY, Mode.SYNCED, Mode.SYNCED, Mode.SYNCED, Mode.LOCAL]

    run(story())


def test_without_a_key_it_is_lost_and_with_retry_all_have_keys() -> None:
    async def story() -> None:
        async with Puppet() as puppet, connect(puppet.url, retry=True, **QUICK) as eva:
            tasks = [asyncio.create_task(eva.publish(n=n)) for n in range(3)]
            tasks.append(asyncio.create_task(eva.publish({"n": 3}, PublishOptions(key="mine"))))
            await eva.publish_unconfirmed(n=4)
            await until(lambda: len(published(puppet)) == 4 and puppet.publications())
            await puppet.hang_up()
            await until(lambda: len(published(puppet)) == 8)
            assert keys(puppet)[:4] == keys(puppet)[4:]
            assert len(set(keys(puppet))) == 4
            assert keys(puppet)[3] == "mine"
            puppet.say(frames.accepted(4))
            await asyncio.gather(*tasks)
        async with Puppet() as puppet, connect(puppet.url, **QUICK) as adam:
            lost = asyncio.create_task(adam.publish(n=0))
            await until(puppet.publications)
            await puppet.hang_up()
            with pytest.raises(ConnectionLostError):
                await lost
            async with connect(puppet.url, retry=True, **QUICK) as other:
                await other.send(n=1)
                await until(lambda: len(published(puppet)) == 1)
        assert keys(puppet)[0] is not None

    run(story())


def test_a_refusal_is_final_and_so_is_the_end() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            eva = connect(puppet.url, retry=True, **QUICK)
            await eva.connect()
            full, stored, waiting, cancelled = [await eva.send(n=n) for n in range(4)]
            await until(lambda: len(published(puppet)) == 4)
            puppet.say(
                control.encode(Answer(1, "full-disk", "no room")) + control.encode(Answer(2, "no-store", "none"))
            )
            with pytest.raises(FullDiskError, match="no room"):
                await full
            with pytest.raises(NoStoreError, match="none"):
                await stored
            cancelled.cancel()
            await asyncio.sleep(0)
            assert [each.options.key for each in eva._unaccepted._waiting.values() if each.options] == [keys(puppet)[2]]
            await puppet.hang_up()
            await until(lambda: len(published(puppet)) == 5)  # neither what was refused nor what nobody waits for
            await eva.close()
            with pytest.raises(ConnectionLostError, match="closed"):
                await waiting
            with pytest.raises(ClosedError):
                await eva.publish(n=5)

    run(story())


class Narrowing(Puppet):
    """A server that allows less after every break."""

    def _took(self, kind: int, content: bytes) -> None:
        if kind == control.KINDS[control.Hello] and self.hellos:
            self._welcomes = False
            super()._took(kind, content)
            self.say(control.encode(Welcome(1, "narrow", 1, 100)))
        else:
            super()._took(kind, content)


def test_what_another_server_does_not_allow_is_refused() -> None:
    async def story() -> None:
        async with Narrowing() as puppet, connect(puppet.url, retry=True, **QUICK) as eva:
            large, small = await eva.send(text="x" * 200), await eva.send(text="x")
            await until(lambda: len(published(puppet)) == 2)
            await puppet.hang_up()
            with pytest.raises(TooLargeError):
                await large
            await until(lambda: len(published(puppet)) == 3)
            puppet.say(frames.accepted(published(puppet)[-1][0]))
            await small

    run(story())


def test_a_client_that_gives_up_says_so_to_all() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            eva = connect(puppet.url, retry=True, **{**QUICK, "max_attempts": 2})
            await eva.connect()
            future = await eva.send(n=1)
        with pytest.raises(ConnectionLostError, match="there is no server at"):
            await future
        await eva.close()

    run(story())


def test_a_drained_client_waits_for_what_is_published_again() -> None:
    async def story() -> None:
        async with Puppet() as puppet:
            eva = connect(puppet.url, retry=True, **QUICK)
            await eva.connect()
            future = await eva.send(n=1)
            await until(lambda: len(published(puppet)) == 1)
            await puppet.hang_up()
            draining = asyncio.create_task(eva.drain())
            await until(lambda: len(published(puppet)) == 2)
            puppet.say(frames.accepted(1))
            await draining
            assert (await future).mode is Mode.MEMORY

    run(story())


def test_all_of_it_without_a_loop() -> None:
    async def story() -> None:
        async with serving() as server:
            url = f"palio://127.0.0.1:{server.port}"
            await asyncio.to_thread(_work, url)

    run(story())


def _work(url: str) -> None:
    with connect_sync(url, name="eva", retry=True) as eva, eva.subscribe("x any") as events:
        assert eva.publish({"x": 1}, PublishOptions(key="order-17", expires=60)).mode is Mode.MEMORY
        assert eva.send(None, PublishOptions(trace=TRACE), x=2).result().mode is Mode.MEMORY
        eva.publish_unconfirmed({"x": 3}, TRACE)
        got = [events.next(30) for _ in range(3)]
        assert [each["x"] for each in got] == [1, 2, 3]
        assert [each.envelope.trace for each in got] == [None, TRACE, TRACE]
