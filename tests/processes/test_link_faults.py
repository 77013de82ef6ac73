"""Links of server processes come up from every state, or both ends say why not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from palio import connect
from palio.model import Notification
from tests.processes.fleet import Network
from tests.processes.links_fleet import LinksFleet
from tests.processes.links_mischief import CYCLE_SECONDS, LINK_SECONDS
from tests.processes.links_operator import Operator, links_of, reason_in_log
from tests.serving import run, until

_LINK = ("a1", "a0")
"""The server a1 dials a0."""


class Pair:
    """Servers, of which a1 dials a0, and their operator."""

    def __init__(self, fleet: LinksFleet) -> None:
        self.fleet = fleet
        self.operator = Operator(fleet, print)
        self.places = self.operator.places()

    async def restart(self, name: str, *, number: int = signal.SIGTERM, shifted: int = 0) -> None:
        await self.fleet.end(name, number)
        await self.fleet.begin(name, shifted=shifted)

    async def comes_up(self, link: tuple[str, str] = _LINK, seconds: float = LINK_SECONDS) -> None:
        assert await self.operator.not_up([link], seconds, self.places) == [], self.operator.done

    async def is_refused(self, about: str) -> None:
        """Both ends say why the link is down, and the status of the server that dials names the reason."""
        assert await self.operator.unexplained([_LINK], LINK_SECONDS, self.places) == [], self.operator.done
        await _tells(self.fleet.url("a1"), about)


async def _tells(url: str, about: str) -> None:
    """Wait until a server gives a reason in its status why it has no link to a0."""
    reason = ""
    try:
        async with asyncio.timeout(LINK_SECONDS):
            while about not in reason:
                reason = (await links_of(url) or {}).get("a0", {"reason": ""})["reason"]
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{about!r} was expected as the reason, and it is {reason!r}") from None


def _play(
    story: Callable[[Pair], Awaitable[None]],
    folder: Path,
    dials: tuple[tuple[str, str], ...] = (_LINK,),
    without_store: tuple[str, ...] = (),
    architecture: str = "as",
) -> None:
    async def play() -> None:
        async with LinksFleet(Network(architecture, dials), folder, without_store) as fleet:
            pair = Pair(fleet)
            await pair.comes_up()
            await story(pair)

    run(play(), deadline=150)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_server_that_ran_once_without_its_store(tmp_path: Path, is_empty: bool) -> None:
    async def story(pair: Pair) -> None:
        if is_empty:
            pair.fleet.use_empty_store("a1")
        else:
            pair.fleet.stores["a1"] = None
        await pair.restart("a1")
        await pair.comes_up()
        pair.fleet.stores["a1"] = "own"
        await pair.restart("a1")
        await pair.comes_up()

    _play(story, tmp_path)


def test_a_second_live_server_of_a_name_is_refused(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        twin = await pair.fleet.begin_twin("a1")
        await _tells(f"palio://127.0.0.1:{twin.port}", "name is taken")
        assert "name is taken" in reason_in_log(twin, "a0", 0)
        link = await pair.operator.standing(_LINK, pair.places)
        assert link.is_up, link
        await twin.kill()
        await pair.comes_up()

    _play(story, tmp_path)


@pytest.mark.parametrize("means", ["add", "reload", "restart"])
def test_a_link_that_was_removed_at_the_accepting_side(tmp_path: Path, means: str) -> None:
    """It is refused with a reason, its dialer does not give it up, and it comes back without any change there."""

    async def story(pair: Pair) -> None:
        await pair.operator.remove("a0", "a1")
        await pair.is_refused("removed")
        if means == "add":
            await pair.operator.add("a0", "a1")
        elif means == "reload":
            await pair.operator.reload("a0")
        else:
            await pair.restart("a0")
        await pair.comes_up()

    _play(story, tmp_path)


@pytest.mark.parametrize("is_added_first", [True, False])
@pytest.mark.parametrize(("server", "neighbour"), [_LINK, _LINK[::-1]])
def test_a_neighbour_that_was_dead_when_it_was_removed(
    tmp_path: Path, server: str, neighbour: str, is_added_first: bool
) -> None:
    async def story(pair: Pair) -> None:
        await pair.fleet.end(neighbour, signal.SIGKILL)
        await pair.operator.remove(server, neighbour)
        if is_added_first:
            await pair.operator.add(server, neighbour)
            await pair.fleet.begin(neighbour)
        else:
            await pair.fleet.begin(neighbour)
            await pair.operator.add(server, neighbour)
        await pair.comes_up()

    _play(story, tmp_path)


@pytest.mark.parametrize("name", _LINK)
def test_a_clock_that_was_put_back(tmp_path: Path, name: str) -> None:
    async def story(pair: Pair) -> None:
        await pair.restart(name, shifted=-3600)
        await pair.comes_up()
        await pair.restart(name, shifted=-7200)
        await pair.comes_up()

    _play(story, tmp_path, without_store=(name,))


@pytest.mark.parametrize("name", _LINK)
def test_a_store_that_was_restored_from_a_snapshot(tmp_path: Path, name: str) -> None:
    async def story(pair: Pair) -> None:
        await pair.fleet.end(name)
        pair.fleet.take_snapshot(name)
        await pair.fleet.begin(name)
        await pair.comes_up()
        await _talk(pair, "first")
        await pair.fleet.end(name)
        pair.fleet.restore_snapshot(name)
        await pair.fleet.begin(name)
        await pair.comes_up()
        await _talk(pair, "second")

    _play(story, tmp_path)


async def _talk(pair: Pair, word: str) -> None:
    """Let publications go over the link in both directions, and see that they arrive."""
    async with connect(pair.fleet.url("a0")) as one, connect(pair.fleet.url("a1")) as other:
        for publisher, subscriber in ((one, other), (other, one)):
            stream = await subscriber.subscribe(f'word = "{word}"', wait=True)
            for n in range(5):
                await publisher.publish(word=word, n=n)
            for n in range(5):
                notification = await asyncio.wait_for(anext(stream), LINK_SECONDS)
                assert isinstance(notification, Notification)
                assert notification["n"] == n
            await stream.close()


def test_a_link_that_was_refused_for_a_cycle_comes_up_soon_after_the_cycle_has_gone(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        await pair.comes_up(("a2", "a0"))
        await pair.operator.dial("a2", "a1", pair.fleet.url("a1"), "peer")
        await pair.operator.refused_often("a2", "a1")
        await pair.operator.remove("a2", "a0")
        await pair.comes_up(("a2", "a1"), CYCLE_SECONDS)

    _play(story, tmp_path, dials=(_LINK, ("a2", "a0")))


def _is_loss(line: dict[str, Any], neighbour: str) -> bool:
    return line.get("peer") == neighbour and line["level"] == "warning"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(("server", "neighbour"), [_LINK, _LINK[::-1]])
def test_the_loss_of_a_neighbour_is_in_metrics_and_log(
    tmp_path: Path, server: str, neighbour: str, number: int
) -> None:
    async def story(pair: Pair) -> None:
        process, begin = pair.fleet.servers[server], pair.fleet.servers[server].log_bytes
        pair.fleet.servers[neighbour].signal(number)
        assert await pair.operator.shows_down(server, neighbour) == ""
        await until(lambda: any(_is_loss(line, neighbour) for line in process.said(begin)))

    _play(story, tmp_path)


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "the connection was lost"), (signal.SIGSTOP, "silent: nothing came for 4 seconds")],
)
def test_the_server_that_accepts_a_link_says_why_it_is_interrupted(tmp_path: Path, number: int, reason: str) -> None:
    async def story(pair: Pair) -> None:
        pair.fleet.servers["a1"].signal(number)
        link = {"state": "up"}
        async with asyncio.timeout(LINK_SECONDS):
            while link["state"] != "interrupted":
                link = (await links_of(pair.fleet.url("a0")) or {})["a1"]
        assert link["reason"] == reason

    _play(story, tmp_path)


@pytest.mark.parametrize("means", ["reload", "restart"])
def test_another_latency_in_the_file_renews_the_link_and_the_neighbour_learns_why(tmp_path: Path, means: str) -> None:
    async def story(pair: Pair) -> None:
        before = pair.fleet.network.latency("a1", "a0")
        pair.fleet.latencies["a1", "a0"] = before + 7
        begin = pair.fleet.servers["a0"].log_bytes
        if means == "reload":
            await pair.operator.reload("a1")
        else:
            await pair.restart("a1")
        async with asyncio.timeout(LINK_SECONDS):
            for server, neighbour in (_LINK, _LINK[::-1]):
                while await _latency(pair.fleet.url(server), neighbour) != before + 7:
                    await asyncio.sleep(0.05)
        reasons = [line["reason"] for line in pair.fleet.servers["a0"].said(begin) if line["event"] == "link-down"]
        change = f"the latency from {before} to {before + 7}"
        assert reasons == [f"a1 renews the link, because its configuration has changed: {change}"]
        await pair.comes_up()

    _play(story, tmp_path, architecture="gs")


async def _latency(url: str, neighbour: str) -> int | None:
    link = (await links_of(url) or {}).get(neighbour)
    return link["latency"] if link is not None and link["state"] == "up" else None
