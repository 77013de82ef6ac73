"""Observers look at a durable party and leave its consumer alone; what waits for durable parties is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from palio import Durable
from palio.client import NotAllowedError, connect
from palio.codec import control, frames
from palio.codec.control import Goodbye, Hello, Query, Reject, Result, Welcome
from palio.errors import CallerError
from palio.model import Notification
from palio.server import metrics
from palio.server.credentials import hash_of
from palio.server.metrics import Metrics
from palio.server.server import Server
from palio.server.status import status
from tests.client.puppet import client_of
from tests.server.test_disks import configuration, listening
from tests.server.test_durable import acknowledge, answered, publish, reader, stored, values
from tests.server.test_limits_process import palio
from tests.server.test_process import running
from tests.serving import Raw, run, serving, until


async def observer(server: Server | int, name: str, token: str = "", **more: Any) -> Raw:
    raw = await Raw.connect(server)
    raw.send(control.encode(Hello(control.VERSIONS, "observer", name, token, **more)))
    return raw


async def rejected(server: Server | int) -> Raw:
    """A connected worker that has rejected its first delivery, and holds another one."""
    worker, _ = await reader(server, "worker")
    await worker.subscribe("x any")
    await publish(server, 1, 2)
    assert await values(worker, 2) == [1, 2]
    assert (await answered(worker, Reject(9, 0, "no such customer"))).code == ""
    return worker


def test_an_observer_sees_the_letters_and_the_log_and_the_worker_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            worker = await rejected(server)
            looker = await observer(server, "worker")
            assert isinstance(await looker.next(), Welcome)
            looker.send(control.encode(Query(1, "letters")))
            assert [each["reason"] for each in (await looker.until(Result)).document["letters"]] == ["no such customer"]
            looker.send(control.encode(Query(2, "status")))
            (log,) = (await looker.until(Result)).document["durable"]
            assert (log["name"], log["connected"], log["waiting"]) == ("worker", True, 1)
            assert (await answered(looker, control.Letters(3, "requeue", (0,)))).code == ""
            assert await values(worker, 1) == [1]
            await publish(server, 3)
            assert await values(worker, 1) == [3]
            await looker.close()
            await until(lambda: not server.driver.observers)
            await acknowledge(worker, 3)
            assert "worker" in server.driver.parties

    run(story())


@pytest.mark.parametrize(
    "frame",
    [
        frames.publish(Notification(x=1), 1),
        frames.acknowledge(0),
        control.encode(control.Replay(1, first=0)),
        control.encode(control.Reject(1, 0, "why")),
    ],
    ids=["publish", "acknowledge", "replay", "reject"],
)
def test_an_observer_does_nothing_in_the_place_of_its_party(tmp_path: Path, frame: bytes) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            worker = await rejected(server)
            looker = await observer(server, "worker")
            looker.send(frame)
            assert await looker.goodbye() == "frame"
            assert await worker.is_served()

    run(story())


def test_an_observer_has_no_log_of_its_own_and_leaving_ends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            worker = await rejected(server)
            assert await (await observer(server, "worker", durable=control.Durable())).goodbye() == "hello"
            looker = await observer(server, "worker")
            looker.send(control.encode(Goodbye(control.LEFT, "")))
            await until(lambda: not server.driver.observers)
            assert await worker.is_served()
            assert "worker" in server.driver.node.logs

    run(story())


def test_an_observer_needs_the_credentials_of_the_party_or_is_an_admin(tmp_path: Path) -> None:
    tokens = {name: hash_of(name) for name in ("worker", "eva", "boss")}

    async def story() -> None:
        async with (
            serving(**stored(tmp_path), tokens=tokens, admins=["boss"]) as server,
            client_of(server, name="worker", token="worker", durable=True) as worker,
        ):
            assert await (await observer(server, "worker", "eva")).goodbye() == "token"
            async with client_of(server, name="eva", token="eva", observe=True) as eva:
                with pytest.raises(NotAllowedError):
                    await eva.letters("worker")
            async with client_of(server, name="boss", token="boss", observe=True) as boss:
                assert (await boss.letters("worker")).letters == ()
            async with client_of(server, name="worker", token="worker", observe=True) as looker:
                assert (await looker.letters()).letters == ()
                with pytest.raises(CallerError, match="an observer looks"):
                    await looker.publish(x=1)
                with pytest.raises(CallerError, match="an observer looks"):
                    await looker.subscribe("x any")
            assert worker.is_connected

    run(story())


def test_a_client_that_observes_is_not_durable() -> None:
    with pytest.raises(CallerError, match="an observer gets no deliveries"):
        connect("palio://127.0.0.1:1", name="eva", observe=True, durable=True)


# -- lag ---------------------------------------------------------------------------------------------------------------


def gauges(server: Server, name: str) -> dict[str, float]:
    pattern, text = rf'^palio_durable_lag_{name}{{party="(.*)"}} (\S+)$', Metrics(server).text().decode()
    return {party: float(value) for party, value in re.findall(pattern, text, re.MULTILINE)}


def test_lag_is_told_for_each_durable_party(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server, "eva")
            await eva.subscribe("x any")
            await publish(server, 1, 2, 3)
            await values(eva, 3)
            await acknowledge(eva, 0)
            await until(lambda: gauges(server, "seconds")["eva"] > 0.05)
            (log,) = status(server)["durable"]
            assert (log["waiting"], log["waiting_bytes"] > 0, log["oldest_seconds"] >= 0.05) == (2, True, True)
            assert gauges(server, "messages") == {"eva": 2.0}
            assert gauges(server, "bytes")["eva"] == log["waiting_bytes"]
            await acknowledge(eva, 2)
            assert gauges(server, "messages") == {}
            (log,) = status(server)["durable"]
            assert (log["waiting"], log["waiting_bytes"], log["oldest_seconds"]) == (0, 0, 0.0)

    run(story())


def test_metrics_name_a_bounded_number_of_durable_parties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MOST_NAMES", 2)

    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            for place, name in enumerate("abcd"):
                raw, _ = await reader(server, name)
                await raw.subscribe(f"x > {place}")
                await raw.close()
            await publish(server, 1, 2, 3, 4)
            assert gauges(server, "messages") == {"a": 4.0, "b": 3.0, metrics.OTHERS: 3.0}
            assert set(gauges(server, "seconds")) == {"a", "b", metrics.OTHERS}

    run(story())


# -- as people see it --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_looking_from_the_shell_leaves_the_worker_connected(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(configuration(tmp_path)) as server:
            url = f"palio://127.0.0.1:{await listening(server)}"
            async with connect(url, name="worker", durable=Durable(), max_attempts=0) as worker:
                events = await worker.subscribe("x any")
                async with connect(url, name="adam") as adam:
                    for x in range(3):
                        await adam.publish(x=x)
                first = await anext(events)
                await first.reject("no such customer", wait=True)
                who = "--server", url, "--name", "worker"
                code, out, _ = await palio("letters", "list", *who, "--json")
                assert (code, json.loads(out)["letters"][0]["reason"]) == (0, "no such customer")
                code, out, _ = await palio("net", "status", *who, "--json")
                (log,) = json.loads(out)["servers"][0]["durable"]
                assert (log["name"], log["waiting"]) == ("worker", 2)
                assert log["oldest_seconds"] > 0
                code, out, _ = await palio("net", "status", *who)
                assert (code, "durable party" in out) == (0, True)
                code, out, _ = await palio("top", *who, "--once", "--interval", "0.05")
                assert (code, "durable party" in out) == (0, True)
                code, out, _ = await palio("letters", "requeue", *who, "0")
                assert code == 0
                got = [(await anext(events)).notification["x"] for _ in range(3)]
                assert got == [1, 2, 0]
                assert worker.is_connected

    run(story(), 60)


@pytest.mark.slow
def test_the_answer_says_duplicate(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(configuration(tmp_path)) as server:
            url = f"palio://127.0.0.1:{await listening(server)}"
            command = "pub", "--server", url, "--name", "shop", "--key", "order-17", "order = 17"
            for expected in ((1, 0), (0, 1)):
                code, out, _ = await palio(*command, "--json")
                told = json.loads(out)
                assert (code, told["published"], told["duplicates"]) == (0, *expected)
            code, out, error = await palio(*command)
            assert (code, out, error) == (0, "", "1 duplicate: published before with the same key\n")
            raw = await Raw.connect(int(url.rpartition(":")[2]))
            assert isinstance(await raw.hello("shop", versions=(2, 1)), Welcome)
            raw.send(frames.publish_with(Notification(order=17), frames.Options(key="order-17"), 1))
            assert await raw.next() == 1, "an earlier version does not know of duplicates"
            await raw.close()

    run(story(), 60)
