"""A server in the same loop, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from palio.client import Client, connect
from palio.server.config import Config
from palio.server.server import Server
from palio.server.driver import Driver

SECONDS = 20
"""Nothing here takes nearly as long, even on a busy machine."""


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a test in a loop, and not forever."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await coroutine

    asyncio.run(bounded())
