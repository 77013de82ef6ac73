"""The small port: is the server alive and ready, and what are its figures.

Starlette on uvicorn, as for all that Palio will say over HTTP: a parser of requests of our own would have to be guarded
like theirs. Both are imported when the port is wanted only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from palio.server.config_tables import Http
from palio.server.http_connections import MOST_HEADER_BYTES, connection_class
from palio.server.listening import listeners
from palio.server.metrics import Metrics
from palio.server.server import Server

_MOST_PENDING = 256


class _Uvicorn(uvicorn.Server):
    """Signals are the business of the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


class HttpPort:
    """Answers to requests of operators."""

    def __init__(self, server: Server, settings: Http) -> None:
        self._server = server
        self._settings = settings
        self._metrics = Metrics(server)
        app = Starlette(
            routes=[Route("/healthz", self._health), Route("/metrics", self._figures)],
            exception_handlers={Exception: self._failed},
        )
        config = uvicorn.Config(
            app, settings.host, settings.port, log_config=None, log_level="critical", access_log=False, lifespan="off",
            ws="none", server_header=False, timeout_graceful_shutdown=1,
            http=connection_class(), h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        )  # fmt: skip
        self._uvicorn = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen."""
        # bound here, so that an address that is taken is an error of ours; uvicorn would end the process
        self._sockets = listeners(self._settings.host, self._settings.port, self._server.spare, _MOST_PENDING)
        self._task = asyncio.get_running_loop().create_task(self._uvicorn.serve([*self._sockets]))

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Answer no more."""
        self._uvicorn.should_exit = True
        if self._task is not None:
            await self._task

    async def _failed(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        self._server.fault("http", error)
        return Response("a fault of the server, which is described in its log", 500)

    async def _health(self, request: Request) -> Response:  # noqa: ARG002
        is_ready = self._server.is_ready
        return JSONResponse({"live": True, "ready": is_ready}, 200 if is_ready else 503)

    async def _figures(self, request: Request) -> Response:  # noqa: ARG002
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
