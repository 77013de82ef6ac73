"""Parties that come and go leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from palio.codec import control, frames
from palio.errors import PalioError
from palio.model import Notification
from palio.server.connection import Connection
from palio.server.server import Server
from tests.serving import Raw, run, serving, until


async def come_and_go(server: Server, names: range) -> None:
    for number in names:
        party = await Raw.party(server, f"party-{number}")
        await party.subscribe(f"x = {number}")
        await party.subscribe(f"x = {number} then y = {number}", "pattern")
        assert (await party.ask("advertise", f"x = {number}", "advertisement")).code == ""
        assert (await party.ask("watch", f"x = {number}", "advertisement")).code == ""
        party.publish(1000, x=number)
        await party.until(Notification)
        party.send(frames.publish(Notification(x=number), 1001)[: number % 20])
        if number % 3 == 0:
            party.send(control.encode(control.Goodbye("", "")))
        party.writer.transport.abort()
        await party.close()  # on this side, too: who keeps it here would count as kept by the server


async def forget_cancelled_timers() -> None:
    """The event loop keeps them until they are due, or until most of more than a hundred timers are cancelled."""
    loop = asyncio.get_running_loop()
    for _ in range(1_000):
        loop.call_later(60, gc.collect).cancel()
    await asyncio.sleep(0)


def snapshot() -> tracemalloc.Snapshot:
    gc.collect()
    return tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["aa", "gs"])
def test_a_server_forgets_those_who_do_not_come_back(architecture: str) -> None:
    async def play() -> None:
        settings = {"connections": {"forget_seconds": 0.05}, "history_bytes": 0}
        async with serving(architecture=architecture, **settings) as server:

            def is_empty() -> bool:
                router = server.driver.node.router
                left = len(router.subscriptions) + len(router.advertisements) + len(server.absences)
                return not left and not server._connections and not server.driver.parties

            snapshots = []
            tracemalloc.start()
            for names in (range(30), range(30, 60), range(60, 130)):
                await come_and_go(server, names)
                await until(is_empty)
                await forget_cancelled_timers()
                snapshots.append((snapshot(), len(asyncio.all_tasks())))
            tracemalloc.stop()
            (_, _), (before, tasks_before), (after, tasks_after) = snapshots
            assert [str(each) for each in after.compare_to(before, "lineno") if each.count_diff >= 50] == []
            assert tasks_after == tasks_before
            assert server.counts.faults == 0

    run(play(), 60)


def test_refused_requests_leave_nothing_behind() -> None:
    """An error knows where it was raised, and so what holds it: nothing may hide that circle from the collector."""

    def kept() -> set[int]:
        gc.collect()
        return {id(each) for each in gc.get_objects() if isinstance(each, PalioError | Connection)}

    async def play() -> None:
        before = kept()
        async with serving(history_bytes=0) as server:
            party = await Raw.party(server, "eva")
            for _ in range(20):
                assert (await party.ask("subscribe", "x > 5 and x < 3")).code == "unsatisfiable"
                assert (await party.ask("watch", "x > 5", "filter")).code == "invalid"
            await party.close()
            await until(lambda: not server._connections)
            assert len(kept() - before) == 0

    run(play())
