"""An attacker of the hostile campaign, a process of its own: ``python -m tests.processes.hostile_worker``.

Commands are JSON lines on the standard input, one attack each; a line about its end goes to the standard output. The
process ends with its input. It is nice, and keeps within a share of one processor.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Any

from palio.errors import PalioError
from tests.processes import hostile_connections, hostile_filters, hostile_peers, hostile_readers
from tests.processes.hostile_attack import Attack, Scene, Target

_NICE = 19


async def busy(scene: Scene) -> None:
    """Use the whole share of the processor and harm nobody: what the load is measured beside before attacks begin."""
    while not scene.is_over:
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
        await scene.breathe()


ATTACKS: dict[str, Attack] = {
    "not-equals": hostile_filters.not_equals,
    "strings": hostile_filters.strings,
    "patterns": hostile_filters.patterns,
    "broad": hostile_filters.broad,
    "instead": hostile_filters.instead,
    "unions": hostile_filters.unions,
    "advertisements": hostile_filters.advertisements,
    "watches": hostile_filters.watches,
    "questions": hostile_readers.questions,
    "history": hostile_readers.history,
    "unread": hostile_readers.unread,
    "slow-reading": hostile_readers.slow_reading,
    "never-acknowledging": hostile_readers.never_acknowledging,
    "rejecting": hostile_readers.rejecting,
    "keys": hostile_readers.keys,
    "odd-options": hostile_readers.odd_options,
    "silent": hostile_connections.silent,
    "silent-http": hostile_connections.silent_http,
    "descriptors": hostile_connections.descriptors,
    "flood": hostile_connections.flood,
    "wrong-tokens": hostile_connections.wrong_tokens,
    "nonsense": hostile_connections.nonsense,
    "names": hostile_connections.names,
    "unfinished-frames": hostile_peers.unfinished_frames,
    "refused-links": hostile_peers.refused_links,
    "twins": hostile_peers.twins,
    "lies": hostile_peers.lies,
    "broad-neighbour": hostile_peers.broad_neighbour,
}
"""All attacks by name."""
_BUSY = "busy"


async def attack(name: str, scene: Scene) -> dict[str, Any]:
    """Make an attack; what became of it."""
    began, used, error = time.monotonic(), time.process_time(), ""
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(0.0, scene.end - began) + 1.0):
            await (busy if name == _BUSY else ATTACKS[name])(scene)
    except* (OSError, EOFError, TimeoutError, PalioError) as errors:  # servers may send an attacker away
        error = repr(errors.exceptions[0])
    finally:
        scene.clean_up()
    return {
        "attack": name,
        "began": began,
        "ended": time.monotonic(),
        "cpu_seconds": round(time.process_time() - used, 3),
        "counts": scene.counts,
        "problems": scene.problems,
        "error": error,
    }


async def _serve() -> None:
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # connections end in all kinds of ways
    while line := await commands.readline():
        given = json.loads(line)
        scene = Scene([Target(*each) for each in given["targets"]], given["seed"], given["seconds"])
        print(json.dumps(await attack(given["attack"], scene)), flush=True)


def main() -> None:
    """Make attacks until the standard input ends."""
    os.nice(_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
