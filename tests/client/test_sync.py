"""The client that blocks; ``tests/cli/test_party.py`` uses it a lot, too."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import palio
from palio.client import CannotConnectError, ClosedError, UnsatisfiableError
from palio.client.sync import connect_sync
from palio.errors import CallerError
from palio.model import Advertisement, Filter, Notification
from tests.serving import run, serving


def with_server(work: Callable[[str], None]) -> None:
    """Do something that blocks while a server runs."""

    async def story() -> None:
        async with serving() as server:
            await asyncio.to_thread(work, f"palio://127.0.0.1:{server.port}")

    run(story())


def test_all_functions() -> None:
    def work(url: str) -> None:
        with palio.connect_sync(url, name="eva") as client:
            client.advertise("x any")
            with client.subscribe("x any") as events, client.subscribe("x = 1 then x = 2") as pairs:
                client.publish(x=1)
                client.publish_unconfirmed({"x": 2})
                client.send(Notification(x=3)).result()
                assert [next(events)["x"] for _ in range(3)] == [1, 2, 3]
                assert next(pairs) == (Notification(x=1), Notification(x=2))
                with pytest.raises(TimeoutError):
                    events.next(0.001)
                client.unsubscribe(Filter.parse("x any"))
                assert list(events) == []
                assert events.dropped == 0
            client.unadvertise("x any")
            with pytest.raises(UnsatisfiableError):
                client.subscribe("x > 3 and x < 2")
            assert client.name == "eva"

    with_server(work)


def test_watching() -> None:
    def work(url: str) -> None:
        offered = Advertisement.parse("x any")
        with connect_sync(url) as seller, connect_sync(url) as buyer:
            seller.advertise(offered)
            with seller.watch(offered) as demand:
                assert demand.next(30) is False
                with buyer.subscribe("x > 3"):
                    assert demand.next(30) is True
                assert demand.next(30) is False
                assert demand.dropped == 0
                with pytest.raises(CallerError):
                    seller.watch("x any")  # type: ignore[arg-type]  # text could be either
            assert list(demand) == []
            assert seller.is_connected
            assert str(seller.address) == url

    with_server(work)


def test_many_publications_in_order() -> None:
    def work(url: str) -> None:
        with connect_sync(url) as client:
            events = client.subscribe("n any")
            for future in [client.send(n=n) for n in range(3000)]:
                future.result()
            assert [next(events)["n"] for _ in range(3000)] == list(range(3000))
            client.drain()
            assert list(events) == []

    with_server(work)


def test_closing_ends_the_iteration_of_another_thread() -> None:
    def work(url: str) -> None:
        client = connect_sync(url)
        got: list[object] = []
        events = client.subscribe("n any")
        consumer = threading.Thread(target=lambda: got.extend(events))
        consumer.start()
        client.publish(n=1)
        client.drain()
        consumer.join()
        assert got == [Notification(n=1)]
        for attempt in (lambda: client.publish(n=1), lambda: client.send(n=1), lambda: client.subscribe("x any")):
            with pytest.raises(ClosedError):
                attempt()
        client.close()

    with_server(work)


def test_without_a_server() -> None:
    with pytest.raises(CannotConnectError):
        connect_sync("palio://127.0.0.1:1")
