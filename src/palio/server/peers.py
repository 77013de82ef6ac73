"""The connections to other servers: opened again and again, and one for each pair."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
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
from palio.server.config import Peer, Tls
from palio.server.connection import Connection
from palio.server.errors import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from palio.server.server import Server

_FIRST_DELAY, _LAST_DELAY = 0.1, 5.0
"""Seconds between two attempts to connect: twice as long each time."""
_STEADY = 1.0
"""A connection that lasted for so many seconds was a good one: the next attempt comes soon."""
_CONNECT_SECONDS = 10.0
_CHALLENGES, _CHALLENGE_SECONDS = 2, 1.0
"""How often an older connection of the same name is asked whether it is alive, and how long it may take to answer."""
_PARTING_SECONDS = 2.0
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
"""Seconds until a link that was refused is asked for again."""
_MOST_MET = 1_000
"""Neighbours that came by themselves and stay in the figures after their links have ended."""
_random = SystemRandom()
_AGENT = re.compile(r"palio start=(\d{1,19})")


def agent_of(start: int) -> str:
    """How a server introduces itself: the number tells two processes of one name apart.

    >>> start_of(agent_of(7)), start_of("another program")
    (7, None)
    """
    return f"palio start={start}"


def start_of(agent: str) -> int | None:
    """Which start of a server says hello, if it says so; servers of version 1 do not."""
    found = _AGENT.fullmatch(agent)
    return int(found.group(1)) if found else None


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
        agent = agent_of(self._server.driver.node.settings.start)
        self.say(Hello(VERSIONS, "server", config.server, self._peer.token, agent))

    def _before_welcome(self, kind: int, content: bytes) -> None:
        frame = control.decode(kind, content)
        if isinstance(frame, Goodbye):
            self.reason = f"{frame.code}: {frame.text}"
            self._transport.close()
            return
        if not isinstance(frame, Welcome) or frame.version not in VERSIONS:
            raise RefusedError(Code.HELLO, "a welcome was expected")
        self.version, self.limits = frame.version, _limits_of(frame)
        self._server.peers.note_limits(self.name, self.limits)
        if frame.server != self.name:
            self.reason = f"{frame.server!r:.60} is there instead"
            raise RefusedError(Code.NAME, f"{self.name} was looked for here")
        self._stop_timer()
        self.start = frame.incarnation
        self._server.peers.admit(self)

    def let_in(self) -> None:
        """No other connection has to be kept instead."""
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        super().connection_lost(error)
        if not self.ended.done():
            self.ended.set_result(None)


def _limits_of(welcome: Welcome) -> tuple[int, ...]:
    """What the server that was dialed takes from this one, if it cannot say so when links are opened."""
    if welcome.version > 1:
        return ()
    known = {name: max(1, most) for name, most in welcome.limits.items() if name in WIRE_FIELDS}
    limits = replace(VERSION_1_LIMITS, **known)
    return to_wire(replace(limits, key_bytes=limits.literal_bytes))


def encryption(tls: Tls) -> ssl.SSLContext:
    """How connections that come in are encrypted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.client_ca or None)
    context.load_cert_chain(tls.certificate, tls.key)
    if tls.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def outgoing_encryption(peer: Peer, tls: Tls | None) -> ssl.SSLContext | None:
    """How a connection to a peer is encrypted; if this server has a certificate, it shows it."""
    if not peer.is_encrypted:
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=peer.ca or None)
    if tls is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


def _reason(error: OSError) -> str:
    """Why a connection did not come about, for people."""
    if isinstance(error, ssl.SSLError) or not error.errno or error.errno < 0:
        return str(error) or "it does not answer"
    return os.strerror(error.errno)


def next_delay(delay: float, lasted: float) -> float:
    """Seconds until a neighbour is dialed again, after so many before and a connection that lasted so long.

    A neighbour that dies every few seconds is waited for no longer than one that dies for the first time: else links
    would hardly ever be up while it could be reached.

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
        """All that are neighbours by configuration, or were added since."""
        self._of_file: dict[str, Peer] = {}
        self._added: dict[str, Peer] = {}
        """Neighbours that are not in the configuration."""
        self.reasons: dict[str, str] = {}
        """Why there is no connection or no link to a neighbour, as far as is known."""
        self._dialing: dict[str, asyncio.Task[None]] = {}
        self._parting: set[asyncio.Task[None]] = set()
        """Of peers that are none any more."""
        self._free: dict[str, asyncio.Event] = {}
        """Set while there is no connection to a peer."""
        self._retries: dict[str, tuple[float, float]] = {}
        """When to ask for a link again that was refused, and how long to wait after that."""
        self._refusals: dict[str, str] = {}
        """Why links were refused the last time."""
        self._up_since: dict[str, float] = {}
        """Since when links are up."""
        self._limits: dict[str, tuple[int, ...]] = {}
        """What peers take that were dialed and are of version 1."""
        self._absent: dict[str, float] = {}
        """Neighbours that cannot be reached, and since when."""
        self._said: dict[str, str] = {}
        """Why the last attempt to connect to a neighbour failed, as it was logged."""
        self._contests: set[asyncio.Task[None]] = set()
        """Decisions between two connections of the same name."""
        self._met: dict[str, None] = {}
        """Neighbours to which there was a link; they stay in the figures until an operator removes them."""

    # -- which there are -----------------------------------------------------------------------------------------------

    def configure(self, peers: Iterable[Peer]) -> None:
        """Dial these, those that were added, and no others. Links that an operator removed are allowed again."""
        self._of_file = {peer.name: peer for peer in peers}
        for name in self._server.driver.node.links.barred:
            self.allow(name)
        self._take({**self._added, **self._of_file})

    def allow(self, name: str) -> None:
        """Accept links from a neighbour again that was removed; if it is connected, let it ask at once."""
        self._server.driver.give(ports.Allow(name))
        if name in self._of_file and name not in self.known:
            self._take({**self.known, name: self._of_file[name]})
        connection = self._server.driver.peers.get(name)
        peer = self.known.get(name)
        if isinstance(connection, Connection) and not (peer is not None and peer.url):
            connection.close(Code.REPLACED, "the link is allowed again; connect again to ask for it")

    def add(self, peer: Peer) -> None:
        """There is a neighbour that is not in the configuration; until the server stops, or it is removed."""
        self._added[peer.name] = peer
        self._take({**self.known, peer.name: peer})

    def remove(self, name: str) -> None:
        """It is a neighbour no longer; if it is in the configuration, it is one again when that is read again."""
        self._added.pop(name, None)
        self._met.pop(name, None)
        if name in self.known:
            self._take({each: peer for each, peer in self.known.items() if each != name})
        else:
            self._server.driver.give(ports.Disconnect(name))

    def known_from(self, name: str) -> str:
        """Where a neighbour comes from: ``file``, ``command``, or ``neighbour`` if it was that who came."""
        if name not in self.known:
            return "neighbour"
        return "file" if name in self._of_file else "command"

    def note(self, name: str, reason: str) -> None:
        """Why there is no connection, or no link, to a neighbour."""
        if name in self.known:
            self.reasons[name] = reason

    def _take(self, wanted: dict[str, Peer]) -> None:
        for name, peer in list(self.known.items()):
            if wanted.get(name) != peer:
                self._remove(name, replacement=wanted.get(name))
        for name, peer in wanted.items():
            if name not in self.known:
                self.known[name] = peer
                if peer.url:
                    self._dialing[name] = self._server.loop.create_task(self._dial(peer))
                if name in self._server.driver.peers:
                    self._wish(name)

    def _remove(self, name: str, *, replacement: Peer | None) -> None:
        before = self.known.pop(name)
        self._retries.pop(name, None)
        self.reasons.pop(name, None)
        dialing = self._dialing.pop(name, None)
        if dialing is not None:  # the other end is told first that the link is no more
            self._parting.add(dialing)
            dialing.add_done_callback(self._parting.discard)
            self._server.loop.call_later(_PARTING_SECONDS, dialing.cancel)
        if replacement is None:
            self._server.driver.give(ports.Disconnect(name))
        elif name in self._server.driver.node.links.wishes and _is_another_link(before, replacement):
            self._server.driver.give(ports.Disconnect(name, bars=False))

    def stop(self) -> None:
        """Dial nobody any more."""
        for task in (*self._dialing.values(), *self._parting, *self._contests):
            task.cancel()
        self._dialing.clear()

    # -- how they are reached ------------------------------------------------------------------------------------------

    async def _dial(self, peer: Peer) -> None:
        """Connect, and again when the connection is lost, for good."""
        delay = _FIRST_DELAY
        free = self._free.setdefault(peer.name, asyncio.Event())
        if peer.name not in self._server.driver.peers:
            free.set()
        while True:
            await free.wait()
            began = self._server.loop.time()
            try:
                reason = await self._connect(peer)
            except Exception as error:  # noqa: BLE001 (else the peer would never be dialed again)
                self._server.fault("dialing", error)
                reason = "a fault of this server, which is described in its log"
            delay = next_delay(delay, self._server.loop.time() - began)
            pause = delay * _random.uniform(0.5, 1.0)
            self.note(peer.name, reason)
            say = self._log.warning if reason != self._said.get(peer.name) else self._log.info
            self._said[peer.name] = reason
            say("peer-not-connected", peer=peer.name, reason=reason, retry_seconds=round(pause, 2))
            await asyncio.sleep(pause)

    async def _connect(self, peer: Peer) -> str:
        """One connection from beginning to end; why it ended."""
        host, port = peer.address
        loop = self._server.loop
        try:
            encrypted = outgoing_encryption(peer, self._server.config.tls)
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, dialed = await loop.create_connection(lambda: Dialed(self._server, peer), host, port, ssl=encrypted)
        except (OSError, TimeoutError) as error:  # errors of TLS are among them
            return _reason(error)
        try:
            await dialed.ended
        except asyncio.CancelledError:
            dialed.close(Code.STOPPING, "the server stops, or this one is no neighbour any more")
            raise
        return dialed.reason or "the connection was lost"

    # -- which one counts ----------------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> None:
        """Take a connection as the one to its peer, unless the other one is to be kept.

        If both servers have dialed, it is the one that the server with the lesser name has opened: so both keep the
        same. A connection of another process with the same name is taken only when the older one is dead; so is one
        of a server that does not say which process it is.
        """
        name = connection.name
        older = self._server.driver.peers.get(name)
        if not isinstance(older, Connection) or older.is_closing:
            self._keep(connection)
            return
        is_same = older.start is not None and older.start == connection.start
        is_other = older.start is not None and connection.start is not None and not is_same
        if is_other or (older.is_dialed == connection.is_dialed and not is_same):
            self._decide(self._contest(older, connection))
            return
        if older.is_dialed != connection.is_dialed and older.is_dialed == (self._server.config.server < name):
            self._decide(self._abort_if_dead(older))
            raise RefusedError(Code.REPLACED, "there is another connection between the two servers")
        older.close(Code.REPLACED, f"{name} has connected again")
        self._keep(connection)

    def _decide(self, decision: Coroutine[None, None, None]) -> None:
        """Let a decision between two connections take its time."""
        task = self._server.loop.create_task(decision)
        self._contests.add(task)
        task.add_done_callback(self._contests.discard)

    def _keep(self, connection: Connection) -> None:
        self._server.driver.peers[connection.name] = connection
        connection.let_in()
        self.opened(connection)

    async def _contest(self, older: Connection, newer: Connection) -> None:
        """Two processes say that they are the same server: the older connection stays, if it is alive."""
        name = newer.name
        if await self._is_alive(older):
            text = f"the name is taken: a server named {name} is connected to {self._server.config.server}"
            if not newer.is_closing:
                self._log.warning("name-taken", peer=name, address=newer.address)
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
        """Whether the other end of a connection answers at least one of two pings."""
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
        """What a peer has said in its welcome of what it takes; empty if it says that when links are opened."""
        self._limits[name] = limits

    def limits_of(self, name: str) -> tuple[int, ...]:
        """What a peer of version 1 takes that has dialed this server: as it said when it was dialed, or the usual."""
        return self._limits.get(name) or to_wire(VERSION_1_LIMITS)

    def opened(self, connection: Connection) -> None:
        """There is a way to a peer, perhaps again: what it knows of the link is to be found out."""
        name = connection.name
        if name in self._free:
            self._free[name].clear()
        self._log.info("peer-connected", peer=name, dialed=connection.is_dialed)
        self._absent.pop(name, None)
        self._server.driver.give(ports.Doubt(name, connection.limits))
        self._wish(name)

    def lost(self, connection: Connection) -> None:
        """The connection to a peer is gone."""
        self._absent[connection.name] = self._server.loop.time()
        if connection.name in self._free:
            self._free[connection.name].set()

    # -- links ---------------------------------------------------------------------------------------------------------

    def _wish(self, name: str) -> None:
        """Ask for the link to a peer that is to be dialed, if that is not being done."""
        peer, links = self.known.get(name), self._server.driver.node.links
        if peer is None or not peer.url:
            return
        is_refused = links.status(name).state is State.REFUSED
        if is_refused or (name not in links.wishes and name not in links.peers):
            self._server.driver.give(ports.Connect(name, Role(peer.role), peer.latency))

    def refused(self, name: str, reason: str) -> None:
        """A link cannot be now; that may change, because the network does.

        A new reason shows that it does: then the next attempt comes soon.
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
        """There is a link. If it does not last, the next attempt after a refusal comes no sooner than before it."""
        self._up_since[name] = self._server.loop.time()
        self.reasons.pop(name, None)
        if len(self._met) < _MOST_MET:
            self._met[name] = None

    @property
    def names(self) -> list[str]:
        """All neighbours that figures are told of: configured, added, linked, connected, or met before."""
        driver = self._server.driver
        return sorted({*self.known, *driver.node.links.peers, *driver.node.links.wishes, *driver.peers, *self._met})

    def is_up(self, name: str) -> bool:
        """Whether a link is there and its neighbour was heard of in the time of two pings."""
        driver = self._server.driver
        connection = driver.peers.get(name)
        if not isinstance(connection, Connection) or connection.is_closing:
            return False
        patience = 2 * self._server.config.connections.ping_seconds
        is_heard = connection.is_held_up or connection.heard >= self._server.loop.time() - patience
        return is_heard and driver.node.links.status(name).state is State.UP

    def retry(self, now: float) -> None:
        """Ask again for the links whose time has come; and wait no longer for neighbours that stay away.

        A server with a store waits for ever: what it has for a neighbour was acknowledged.
        """
        patience = self._server.config.links.lost_seconds
        is_over = [name for name, since in self._absent.items() if since < now - patience]
        for name in is_over if self._server.storage is None else ():
            del self._absent[name]
            self._server.driver.give(ports.Lost(name))
        for name, (time, pause) in list(self._retries.items()):
            if time <= now and name in self._server.driver.peers and name not in self._up_since:
                self._retries[name] = now + pause, pause
                self._wish(name)


def _is_another_link(before: Peer, after: Peer) -> bool:
    """Whether the configuration of a neighbour has changed so that the link has to begin anew."""
    return (before.role, before.latency, bool(before.url)) != (after.role, after.latency, bool(after.url))
