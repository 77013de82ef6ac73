"""The server: listens, lets in who may come in, and stops in good order."""

from __future__ import annotations

import asyncio
import time

from palio.codec import control
from palio.codec.control import VERSION, Hello
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.server.config import Config
from palio.server.connection import Connection
from palio.server.driver import Driver
from palio.server.errors import Code, RefusedError


class Server:
    """One event server, in the running loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        settings = NodeSettings(
            config.server, config.architecture, incarnation=int(time.time()), guard=config.guard, limits=config.limits
        )
        self.driver = Driver(Node(settings))
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._listener = await self.loop.create_server(
            lambda: Connection(self), self.config.host, self.config.port, backlog=1024
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Say goodbye to all, and end."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.close(Code.STOPPING, "the server stops")
        self.driver.stop()
        await asyncio.sleep(0)

    # -- connections ---------------------------------------------------------------------------------------------------

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Let somebody in, or not."""
        if VERSION not in hello.versions:
            raise RefusedError(Code.VERSION, f"this server speaks version {VERSION} of the protocol")
        if hello.role not in ("party", "server") or not hello.name or len(hello.name.encode()) > 1024:
            raise RefusedError(Code.NAME, "a hello has the role party or server, and a name of 1 to 1,024 bytes")
        if len(self._connections) >= self.config.connections.most:
            raise RefusedError(Code.FULL, "there are as many connections as there may be")
        known = self.driver.parties if hello.role == "party" else self.driver.peers
        older = known.get(hello.name)
        if isinstance(older, Connection):
            older.close(Code.REPLACED, f"{hello.name} has connected again")
        known[hello.name] = connection
        self._connections.add(connection)
        connection.welcome(VERSION)
        if hello.role == "party":
            self.driver.give(ports.Attach(hello.name))

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        known = self.driver.parties if connection.role == "party" else self.driver.peers
        if known.get(connection.name) is connection:
            del known[connection.name]

    def closed(self, connection: Connection, code: Code, text: str) -> None:
        """A connection was closed from here."""

    def slow(self, connection: Connection, waiting: int) -> None:
        """A connection does not take what there is for it."""
        connection.close(Code.SLOW, f"{waiting:,} bytes wait for {connection.name}")
        connection.abort()

    def query(self, connection: Connection, query: control.Query) -> None:
        """A question about the server."""
        connection.put(control.encode(control.Result(query.number, {"server": self.config.server})))
        connection.flush()
