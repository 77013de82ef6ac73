"""What is done to one server for a short while by the tests, and for long by ``make soak``."""

from __future__ import annotations

import asyncio

from tests.processes.fleet import Fleet
from tests.processes.noise import CONSTRAINTS, FRAME_BYTES, SLOW_BYTES, Offenders
from tests.processes.story import Story

OFFENDERS = 50
FLOOD_SETTINGS = f"""
[limits]
constraints = {CONSTRAINTS}
document_bytes = {FRAME_BYTES - 64}
[connections]
frame_bytes = {FRAME_BYTES}
waiting_bytes = 16_000_000
drain_seconds = 1.0
[slow]
bytes = {SLOW_BYTES}
[http]
port = 0
"""
FLOOD_KILOBYTES = 100_000
"""By how much a flood may let the server's memory grow: what may wait for all (16 MB), a megabyte for each offender
that reads nothing, a frame and what was last read for each, and what Python takes for answers that are being made."""


async def flood(fleet: Fleet, seed: int, frames: int) -> dict[str, int]:
    """Many send bad frames, and others go on as ever, judged by the law; figures of it."""
    server = fleet.servers["a0"]
    story = Story(fleet, seed, 40)
    await story.begin()
    await story.calm()
    before, files = server.status("VmRSS"), server.open_files()
    offenders = Offenders(server.port, seed)
    flooding = asyncio.ensure_future(offenders.run(OFFENDERS, frames))
    while not flooding.done():
        await story.calm()
    await flooding
    await story.calm()
    assert not offenders.problems, "\n".join(offenders.problems[:10])
    peak, figures = server.status("VmHWM"), await server.figures()
    for code, least in offenders.sent.items():
        assert figures[f'palio_refusals_total{{code="{code}"}}'] >= least
    assert figures["palio_faults_total"] == 0
    assert peak - before < FLOOD_KILOBYTES, f"{before:,} KB before, {peak:,} KB at the most"
    await story.end()
    return {
        "frames": offenders.frames,
        "rests": story.counts["rests"],
        "kilobytes before": before,
        "kilobytes at the most": peak,
        "files before": files,
    }
