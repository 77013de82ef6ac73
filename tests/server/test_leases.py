"""Leases of durable parties at servers: their ends are logged and counted, and clocks that jump end none."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from palio.codec import control
from palio.codec.control import Durable, Hello, LeaseEnded
from palio.server.metrics import Metrics
from tests.server.test_disks import listening
from tests.server.test_durable import acknowledge, publish, reader, stored, values
from tests.server.test_process import running
from tests.serving import Raw, run, serving, until

DAYS = 86_400
TEXT = """
server = "milan"
[store]
path = "milan.db"
[durable]
age_seconds = {age}.0
lease_seconds = 604_800.0
"""


def configuration(folder: Path, age: int) -> Path:
    path = folder / "milan.toml"
    path.write_text(TEXT.format(age=age))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("dies", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_whose_clock_is_eight_days_ahead_ends_no_lease(tmp_path: Path, dies: signal.Signals) -> None:
    path = configuration(tmp_path, 100 * DAYS)

    async def story() -> None:
        async with running(path) as server:
            port = await listening(server)
            eva, first = await reader(port)
            await eva.subscribe("x any")
            await eva.close()
            await publish(port, 1, 2)
            server.signal(dies)
            await server.process.wait()
        for shifted in (8 * DAYS, -8 * DAYS, 0):
            async with running(path, shifted=shifted) as server:
                port = await listening(server)
                eva, position = await reader(port)
                assert position.log == first.log
                assert await values(eva, 2) == [1, 2]
                await eva.close()
                server.signal(signal.SIGTERM)
                await server.log("stopped")
                assert "lease-ended" not in [line["event"] for line in server.lines]

    run(story(), 60)


def test_the_end_of_a_lease_is_logged_and_told(tmp_path: Path) -> None:
    path = configuration(tmp_path, DAYS)

    async def story() -> None:
        async with running(path) as server:
            port = await listening(server)
            eva, first = await reader(port, lease=100_000)
            await eva.subscribe("x any")
            await publish(port, 1, 2, 3)
            await values(eva, 3)
            await acknowledge(eva, 0)
            await eva.close()
            line = await server.log("lease-ended")
            assert line["level"] == "warning"
            assert (line["party"], line["log"], line["dropped"], line["subscriptions"]) == ("'eva'", first.log, 2, 1)
            assert line["dropped_bytes"] > 0
            assert line["lease_seconds"] == 0.1
            raw = await Raw.connect(port)
            raw.send(control.encode(Hello(control.VERSIONS, "party", "eva", durable=Durable())))
            told = await raw.until(LeaseEnded)
            assert (told.log, told.done, told.lost) == (first.log, 1, 2)
            assert (await raw.until(control.Position)).log != first.log
            await raw.close()

    run(story(), 60)


def lost(text: bytes) -> dict[str, float]:
    return {
        found[0]: float(found[1])
        for found in re.findall(r'^palio_durable_lost_total{why="(\w+)"} ([\d.]+)$', text.decode(), re.MULTILINE)
    }


def test_the_end_of_a_lease_is_counted_and_other_counters_do_not_fall(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(**stored(tmp_path)) as server:
            eva, _ = await reader(server, lease=50_000, count=2)
            await eva.subscribe("x any")
            await publish(server, 1, 2, 3)
            await eva.close()
            await until(lambda: "eva" not in server.driver.node.logs)
            text = Metrics(server).text()
            assert lost(text) == {"dropped": 1.0, "expired": 0.0, "lease": 2.0}
            assert b"palio_durable_leases_ended_total 1.0" in text

    run(story())
