"""The connections to other servers: one for each pair of servers, and opened again after each loss."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING

import structlog

from palio.codec import control
from palio.codec.control import VERSIONS, Goodbye, Hello, Welcome
from palio.link.states import State
from palio.model.limits import VERSION_1_LIMITS, WIRE_FIELDS, to_wire
from palio.node import ports
from palio.routing.router import Role
from palio.server.agents import agent_of
from palio.server.config import Peer
from palio.server.connection import Connection
from palio.server.encryption import failure, outgoing_encryption
from palio.server.errors import Code, RefusedError
from palio.server.reports import RepeatedFailures

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from palio.server.server import Server

_FIRST_DELAY, _LAST_DELAY = 0.1, 5.0
"""Seconds between two attempts to connect; the pause doubles with each attempt."""
_STEADY = 1.0
"""After a connection that lasted for so many seconds, the next attempt begins with the shortest pause."""
_CONNECT_SECONDS = 10.0
_CHALLENGES, _CHALLENGE_SECONDS = 2, 1.0
"""The number of pings to an older connection of the same name, and the seconds to wait for each answer."""
_PARTING_SECONDS = 2.0
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
"""Seconds until the server asks again for a refused link; the pause doubles with each refusal."""
_MOST_MET = 1_000
"""The number of neighbours without configuration that stay in the metrics after their links have ended."""
_LOST = "the connection was lost"
"""The reason if neither end has given one."""
_random = SystemRandom()


class Dialed(Connection):
    """A connection that this server has opened to another one."""

    is_dialed = True

    def __init__(self, server: Server, peer: Peer) -> None:
        super().__init__(server)
        self.role, self.name = "server", peer.name
        self._peer = peer
        self.ended = asyncio.get_running_loop().create_future()

    def _begin(self) -> None:
        config = self._server.config
        agent = agent_of(self._server.driver.node.settings.start, self.name)
        self.say(Hello(VERSIONS, "server", config.server, self._peer.token, agent))

    def _before_welcome(self, kind: int, content: bytes) -> None:
        frame = control.decode(kind, content)
        if isinstance(frame, Goodbye):
            self.reason = frame.text if frame.code == Code.NAME.value else f"{frame.code}: {frame.text}"
            self._transport.close()
            return
        if not isinstance(frame, Welcome) or frame.version not in VERSIONS:
            raise RefusedError(Code.HELLO, "a welcome was expected")
        if frame.server != self.name:
            self.reason = f"{frame.server!r:.60} is there instead"
            raise RefusedError(Code.NAME, f"{self.name} was looked for here")
        self.version, self.limits = frame.version, _limits_of(frame)
        self._server.peers.note_limits(self.name, self.limits)
        self._stop_timer()
        self.start = frame.incarnation
        self._server.peers.admit(self)

    def let_in(self) -> None:
        """The server keeps this connection."""
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        super().connection_lost(error)
        if not self.ended.done():
            self.ended.set_result(None)


def _limits_of(welcome: Welcome) -> tuple[int, ...]:
    """The limits of a server of version 1, which cannot send them when links are opened."""
    if welcome.version > 1:
        return ()
    known = {name: max(1, most) for name, most in welcome.limits.items() if name in WIRE_FIELDS}
    limits = replace(VERSION_1_LIMITS, **known)
    return to_wire(replace(limits, key_bytes=limits.literal_bytes))


def next_delay(delay: float, lasted: float) -> float:
    """Seconds until the next attempt to connect, by the last pause and by how long the last connection lasted.

    After a connection that lasted, the pause is short even if the neighbour fails often. Otherwise the link would be
    down for most of the time in which the neighbour can be reached.

    >>> [next_delay(0.1, lasted) for lasted in (0.0, 3.0)], next_delay(4.0, 0.5), next_delay(4.0, 3.0)
    ([0.2, 0.1], 5.0, 0.1)
    """
    return _FIRST_DELAY if lasted > _STEADY else min(2 * delay, _LAST_DELAY)


class Peers:
    """The connections to other servers."""

    def __init__(self, server: Server, log: structlog.stdlib.BoundLogger) -> None:
        self._server = server
        self._log = log
        self.known: dict[str, Peer] = {}
        """All neighbours of the configuration, and those that the operator has added."""
        self._of_file: dict[str, Peer] = {}
        self._added: dict[str, Peer] = {}
        """The neighbours that the operator has added."""
        self.reasons: dict[str, str] = {}
        """Why there is no connection or no link to a neighbour, if that is known."""
        self._dialing: dict[str, asyncio.Task[None]] = {}
        self._parting: set[asyncio.Task[None]] = set()
        """Tasks of peers that were removed or have another url."""
        self._free: dict[str, asyncio.Event] = {}
        """Set while there is no connection to a peer."""
        self._retries: dict[str, tuple[float, float]] = {}
        """When to ask again for a refused link, and the pause after that."""
        self._refusals: dict[str, str] = {}
        """The last reasons for refusals."""
        self._up_since: dict[str, float] = {}
        """When links came up; until they are refused."""
        self._limits: dict[str, tuple[int, ...]] = {}
        """The limits of peers of version 1 that this server has dialed."""
        self._absent: dict[str, float] = {}
        """Since when neighbours are disconnected."""
        self._failures = RepeatedFailures(self._log, server.loop.time)
        """Failed attempts to connect."""
        self._contests: set[asyncio.Task[None]] = set()
        """Pending decisions between two connections of the same name."""
        self._met: dict[str, None] = {}
        """Neighbours that have had a link."""

    # -- configuration -------------------------------------------------------------------------------------------------

    def configure(self, peers: Iterable[Peer]) -> None:
        """Dial the peers of a configuration and those that the operator has added. Allow removed links again."""
        self._of_file = {peer.name: peer for peer in peers}
        for name in self._server.driver.node.links.barred:
            self.allow(name)
        self._take({**self._added, **self._of_file})

    def allow(self, name: str) -> None:
        """Accept links from a removed neighbour again. If it is connected, make it ask at once."""
        self._server.driver.give(ports.Allow(name))
        if name in self._of_file and name not in self.known:
            self._take({**self.known, name: self._of_file[name]})
        connection = self._server.driver.peers.get(name)
        peer = self.known.get(name)
        if isinstance(connection, Connection) and not (peer is not None and peer.url):
            connection.close(Code.REPLACED, "the link is allowed again; connect again to ask for it")

    def add(self, peer: Peer) -> None:
        """Add a neighbour that is not in the configuration, until the server stops or the operator removes it."""
        self._added[peer.name] = peer
        self._server.driver.give(ports.Allow(peer.name))
        self._take({**self.known, peer.name: peer})

    def remove(self, name: str) -> None:
        """Remove a neighbour. If it is in the configuration, a reload adds it again."""
        self._added.pop(name, None)
        self._met.pop(name, None)
        self.reasons.pop(name, None)
        if name in self.known:
            self._take({each: peer for each, peer in self.known.items() if each != name})
        else:
            self._server.driver.give(ports.Disconnect(name))

    def known_from(self, name: str) -> str:
        """The origin of a neighbour: ``file``, ``command``, or ``neighbour`` if the neighbour has opened the link."""
        if name not in self.known:
            return "neighbour"
        return "file" if name in self._of_file else "command"

    def note(self, name: str, reason: str) -> None:
        """Note why there is no connection or no link to a neighbour; also to one that opens the link itself."""
        if name in self.known or name in self._met or name in self._server.driver.node.links.peers:
            self.reasons[name] = reason
            if len(self.reasons) > 2 * _MOST_MET + len(self.known):
                del self.reasons[next(each for each in self.reasons if each not in self.known)]

    def note_end(self, name: str, reason: str) -> None:
        """Why the connection to a neighbour has ended; why the link has ended before that says more."""
        if name not in self.reasons or self._server.driver.node.links.status(name).state.has_link:
            self.note(name, reason)

    def _take(self, wanted: dict[str, Peer]) -> None:
        for name, peer in list(self.known.items()):
            if name not in wanted:
                self._drop(name)
            elif wanted[name] != peer:
                self._change(peer, wanted[name])
        for name, peer in wanted.items():
            if name not in self.known:
                self.known[name] = peer
                self._dial_soon(peer)

    def _drop(self, name: str) -> None:
        """End the link to a peer, and close the connection after the peer has had time to receive the reason."""
        del self.known[name]
        for notes in (self._retries, self.reasons, self._refusals, self._up_since, self._limits):
            notes.pop(name, None)
        self._failures.forget(name)
        self._stop_dialing(
            name, _PARTING_SECONDS, f"{self._server.config.server} has removed {name} from its neighbours"
        )
        self._server.driver.give(ports.Expect(name, None))
        self._server.driver.give(ports.Disconnect(name))

    def _change(self, before: Peer, after: Peer) -> None:
        """Apply a changed configuration of a peer.

        Another url or other credentials need a new connection, but the link continues. Another role or latency renews
        the link over the same connection.
        """
        name, server = after.name, self._server.config.server
        self.known[name] = after
        self._retries.pop(name, None)
        self._expect(after)
        if before.url and not after.url:
            reason = f"{server} does not open the link any more: its configuration has no url of {name}"
            if name in self._server.driver.node.links.wishes or name in self._server.driver.peers:
                self._server.driver.give(ports.Disconnect(name, bars=False, reason=reason))
            self._stop_dialing(name, _PARTING_SECONDS, reason)
        elif _way(before) == _way(after):
            self._wish(name)
        else:
            self._stop_dialing(name, 0.0, f"the configuration of {server} has another url or token for {name}")
            self._dial_soon(after)

    def _dial_soon(self, peer: Peer) -> None:
        if peer.url:
            self._dialing[peer.name] = self._server.loop.create_task(self._dial(peer))
        self._expect(peer)
        self._wish(peer.name)

    def _expect(self, peer: Peer) -> None:
        """A peer without a url opens the link itself, in the role that it has here; others are asked for it."""
        self._server.driver.give(ports.Expect(peer.name, None if peer.url else Role(peer.role)))

    def _stop_dialing(self, name: str, seconds: float, reason: str) -> None:
        dialing = self._dialing.pop(name, None)
        if dialing is not None:
            self._parting.add(dialing)
            dialing.add_done_callback(self._parting.discard)
            self._server.loop.call_later(seconds, dialing.cancel, reason)

    def stop(self) -> None:
        """Stop dialing."""
        for task in (*self._dialing.values(), *self._parting, *self._contests):
            task.cancel()
        self._dialing.clear()

    # -- dialing -------------------------------------------------------------------------------------------------------

    async def _dial(self, peer: Peer) -> None:
        """Connect, and connect again whenever the connection is lost."""
        delay = _FIRST_DELAY
        free = self._free.setdefault(peer.name, asyncio.Event())
        if peer.name not in self._server.driver.peers:
            free.set()
        while True:
            await free.wait()
            began = self._server.loop.time()
            try:
                reason = await self._connect(peer)
            except Exception as error:  # noqa: BLE001 (otherwise the server would never dial the peer again)
                self._server.fault("dialing", error)
                reason = "a fault of this server, which is described in its log"
            delay = next_delay(delay, self._server.loop.time() - began)
            pause = delay * _random.uniform(0.5, 1.0)
            self.note(peer.name, reason)
            self._failures.note("peer-not-connected", peer.name, reason, retry_seconds=round(pause, 2))
            await asyncio.sleep(pause)

    async def _connect(self, peer: Peer) -> str:
        """Connect once and wait for the end of the connection. Returns the reason."""
        host, port = peer.address
        loop = self._server.loop
        try:
            encrypted = outgoing_encryption(peer, self._server.config.tls)
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, dialed = await loop.create_connection(lambda: Dialed(self._server, peer), host, port, ssl=encrypted)
        except (OSError, TimeoutError) as error:  # errors of TLS are among them
            return failure(error)
        try:
            await dialed.ended
        except asyncio.CancelledError as error:
            dialed.close(Code.STOPPING, str(error) or "the server stops")
            raise
        return dialed.reason or _LOST

    # -- choosing between connections ----------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> None:
        """Use a connection as the one to its peer, unless an existing one has to be kept.

        If both servers have dialed, both keep the connection of the server with the lesser name. A connection of
        another process with the same name is used only if the existing one is dead. The same holds for a server that
        does not send its start.
        """
        name = connection.name
        older = self._server.driver.peers.get(name)
        if not isinstance(older, Connection) or older.is_closing:
            self._keep(connection)
            return
        is_same = older.start is not None and older.start == connection.start
        is_other = older.start is not None and connection.start is not None and not is_same
        if is_other or (older.is_dialed == connection.is_dialed and not is_same):
            self._decide(self._contest(older, connection), connection)
            return
        if older.is_dialed != connection.is_dialed and older.is_dialed == (self._server.config.server < name):
            self._decide(self._abort_if_dead(older), connection)
            raise RefusedError(Code.REPLACED, "there is another connection between the two servers")
        older.close(Code.REPLACED, f"{name} has connected again")
        self._keep(connection)

    def _decide(self, decision: Coroutine[None, None, None], newer: Connection) -> None:
        """Decide between two connections in a task of its own. After a fault the newer one is closed."""

        async def decide() -> None:
            try:
                await decision
            except Exception as error:  # noqa: BLE001 (otherwise the newer connection would wait for ever)
                self._server.fault("contest", error)
                newer.fail()

        task = self._server.loop.create_task(decide())
        self._contests.add(task)
        task.add_done_callback(self._contests.discard)

    def _keep(self, connection: Connection) -> None:
        self._server.driver.peers[connection.name] = connection
        connection.let_in()
        self.opened(connection)

    async def _contest(self, older: Connection, newer: Connection) -> None:
        """Two processes have the same name: keep the older connection if it is alive."""
        name = newer.name
        if await self._is_alive(older):
            text = f"the name is taken: a server named {name} is connected to {self._server.config.server}"
            if not newer.is_closing:
                self._server.reports.warn("name-taken", peer=name, address=newer.address)
                newer.close(Code.NAME_TAKEN, text)
            return
        older.abort()
        if newer.is_closing:
            return
        if older.start is not None and newer.start is not None and newer.start < older.start:
            advice = "its clock was put back, or it runs with another store"
            self._log.warning("peer-older", peer=name, start=newer.start, before=older.start, advice=advice)
        try:
            self.admit(newer)
        except RefusedError as error:
            newer.close(error.code, str(error))

    async def _abort_if_dead(self, connection: Connection) -> None:
        if not await self._is_alive(connection):
            connection.abort()

    async def _is_alive(self, connection: Connection) -> bool:
        """Whether the other end of a connection answers one of two pings."""
        loop = self._server.loop
        asked = loop.time()
        for _ in range(_CHALLENGES):
            if not connection.is_closing:
                connection.say(control.Ping(0))
            until = loop.time() + _CHALLENGE_SECONDS
            while not connection.is_closing and loop.time() < until:
                if connection.heard > asked:
                    return True
                await asyncio.sleep(_CHALLENGE_SECONDS / 50)
        return False

    def note_limits(self, name: str, limits: tuple[int, ...]) -> None:
        """Note the limits in the welcome of a peer; empty if it sends them when links are opened."""
        self._limits[name] = limits

    def limits_of(self, name: str) -> tuple[int, ...]:
        """The limits of a peer of version 1 that has dialed this server: noted ones, or the defaults of version 1."""
        return self._limits.get(name) or to_wire(VERSION_1_LIMITS)

    def opened(self, connection: Connection) -> None:
        """There is a connection to a peer: check whether it still knows the link, and ask for the link."""
        name = connection.name
        if name in self._free:
            self._free[name].clear()
        self._server.reports.info("peer-connected", peer=name, dialed=connection.is_dialed)
        self._absent.pop(name, None)
        self.reasons.pop(name, None)
        self._server.driver.give(ports.Doubt(name, connection.limits))
        self._wish(name)

    def lost(self, connection: Connection) -> None:
        """The connection to a peer is lost."""
        reason = connection.reason or _LOST
        self._server.reports.warn("peer-lost", peer=connection.name, reason=reason)
        self.note_end(connection.name, reason)
        if self._server.driver.node.links.status(connection.name).state.has_session:
            self._absent[connection.name] = self._server.loop.time()
        if connection.name in self._free:
            self._free[connection.name].set()

    # -- links ---------------------------------------------------------------------------------------------------------

    def _wish(self, name: str) -> None:
        """Ask for the link to a connected peer with a url, unless it is wanted already as it is configured.

        The server asks even if the peer has opened the link: the peer may end it later.
        """
        peer, links = self.known.get(name), self._server.driver.node.links
        if peer is None or not peer.url or name not in self._server.driver.peers:
            return
        wish = links.wishes.get(name)
        is_changed = wish is not None and (wish.role, wish.latency) != (peer.role, peer.latency)
        is_refused = links.status(name).state is State.REFUSED
        if wish is None or is_changed or is_refused:
            self._server.driver.give(ports.Connect(name, Role(peer.role), peer.latency))

    def refused(self, name: str, reason: str) -> None:
        """A wanted link was refused: plan the next attempt.

        A new reason shows that the network has changed, so the next attempt comes soon.
        """
        is_news = self._refusals.get(name) != reason
        is_steady = self._server.loop.time() - self._up_since.get(name, 0.0) > _LAST_RETRY
        self._refusals[name] = reason
        self.note(name, reason)
        if name in self.known and self.known[name].url:
            _, pause = self._retries.get(name, (0.0, _FIRST_RETRY))
            pause = _FIRST_RETRY if is_news or (is_steady and name in self._up_since) else pause
            self._up_since.pop(name, None)
            self._retries[name] = self._server.loop.time() + pause, min(2 * pause, _LAST_RETRY)

    def up(self, name: str) -> None:
        """A link is established. The back-off after refusals is kept until the link has lasted for a while."""
        if name in self.known:
            self._up_since[name] = self._server.loop.time()
        if self.is_connected(name):  # the connection may be lost again before the store has the link
            self.reasons.pop(name, None)
        if len(self._met) < _MOST_MET:
            self._met[name] = None

    @property
    def names(self) -> list[str]:
        """All neighbours in status and metrics: configured, added, linked, connected, removed, or met before."""
        driver = self._server.driver
        links = driver.node.links
        return sorted({*self.known, *links.peers, *links.wishes, *links.barred, *driver.peers, *self._met})

    def is_connected(self, name: str) -> bool:
        """Whether there is a connection to a neighbour that is not being closed."""
        connection = self._server.driver.peers.get(name)
        return connection is not None and not connection.is_closing

    def is_up(self, name: str) -> bool:
        """Whether a link is up and its neighbour has sent something within the time of two pings."""
        driver = self._server.driver
        connection = driver.peers.get(name)
        if not isinstance(connection, Connection) or connection.is_closing:
            return False
        patience = 2 * self._server.config.connections.ping_seconds
        is_heard = connection.is_held_up or connection.heard >= self._server.loop.time() - patience
        return is_heard and driver.node.links.status(name).state is State.UP

    def retry(self, now: float) -> None:
        """Ask again for refused links whose pause is over, and drop the links of neighbours that stay away.

        A server with a store keeps them: it has acknowledged the messages that wait for a neighbour.
        """
        patience = self._server.config.links.lost_seconds
        for name in [name for name, since in self._absent.items() if since < now - patience]:
            del self._absent[name]
            if self._server.storage is None:
                self._server.driver.give(ports.Lost(name))
        for name, (time, pause) in list(self._retries.items()):
            if time <= now and name in self._server.driver.peers and name not in self._up_since:
                self._retries[name] = now + pause, pause
                self._wish(name)


def _way(peer: Peer) -> tuple[str, str, str]:
    """The part of a peer's configuration that matters for connections; the rest matters for the link."""
    return peer.url, peer.token, peer.ca
