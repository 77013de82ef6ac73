"""The server: listens, lets in who may come in, and stops in good order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog

from palio.codec import control
from palio.codec.control import VERSIONS, Hello
from palio.errors import PalioError, brief, stack_of
from palio.model import Mode
from palio.model.limits import MOST_NAME_BYTES
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.ports import Fault, LeaseEnded, LinkDown, LinkRefused, LinkUp, Unsendable
from palio.routing.router import Role
from palio.server.absences import Absences
from palio.server.agents import check_target, start_of
from palio.server.archiving import Archiving
from palio.server.backlog import Backlog
from palio.server.config import Config
from palio.server.connection import Connection
from palio.server.consumers import Consumers
from palio.server.credentials import Credentials
from palio.server.driver import Driver
from palio.server.encryption import encryption
from palio.server.errors import Code, RefusedError
from palio.server.listening import Spare, listeners
from palio.server.metrics import Counts
from palio.server.peers import Peers
from palio.server.queries import Queries
from palio.server.reloading import merged
from palio.server.reports import Reports
from palio.server.storage import Storage
from palio.server.store_config import log_settings, mode_of
from palio.server.tls_port import TlsDoor
from palio.server.unfinished import Unfinished

_LETTERS_SECONDS = 60.0
"""Between two lines of the log that say of a link that its peer cannot take a publication."""
_MOST_LETTERS_SAID = 1_000
_ROUND_SECONDS = 0.25
"""How often the server looks whether connections are silent, and how late its loop is."""
_MOST_PENDING = 1_024
"""Connections that the system has opened and the server has not accepted yet."""
_MOST_REFUSED = 64
"""Connections above the limit that are told so before they are closed; others are only closed."""


def _logger(server: str) -> structlog.stdlib.BoundLogger:
    """A process of its own has said how it logs; a server within another program leaves that to the program."""
    if structlog.is_configured():
        return structlog.get_logger(server=server)  # type: ignore[no-any-return]
    renderer = structlog.processors.KeyValueRenderer(key_order=["event"])
    standard = logging.getLogger("palio.server")
    return structlog.wrap_logger(  # type: ignore[no-any-return]
        standard, processors=[renderer], wrapper_class=structlog.stdlib.BoundLogger, server=server
    )


class Server:
    """One event server, in the running loop."""

    most_files: int | None = None
    """How many connections there are open files for, if that is known."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self._log: structlog.stdlib.BoundLogger = _logger(config.server)
        self.storage = None if config.store is None else Storage(config.store, config.server, self.loop)
        started = time.time_ns() // 1000
        settings = NodeSettings(
            config.server,
            config.architecture,
            incarnation=started if self.storage is None else self.storage.store.incarnation,
            boot=started,
            link=config.links.settings(is_durable=config.store is not None),
            guard=config.guard,
            limits=config.model_limits,
            filters_per_party=config.filters_per_party,
            comparisons=config.comparisons_per_turn,
            window=round(config.window * 1e6),
            neighbours=frozenset(Role(peer.role) for peer in config.peers),
            gateways={peer.name: peer.gateway for peer in config.peers if peer.role == "gateway"},
        )
        if config.store is not None:
            log = log_settings(config.store, config.durable, everything=config.archive is not None)
            settings = settings._replace(durable=True, log=log, mode=mode_of(config.store))
        node = Node(settings) if self.storage is None else self.storage.node(settings, time.time_ns() // 1000)
        self.counts = Counts()
        self.driver = Driver(node, self.counts, self._event, self._failed, config.history_bytes)
        self.driver.storage = self.storage
        self.driver.broken = self._broken
        self.reports = Reports(self._log, self.loop.time)
        self.consumers = Consumers(lambda: self.config.slow, self.counts, self.reports)
        connections = config.connections
        self.backlog = Backlog(connections.waiting_bytes, config.slow.seconds, self.driver, self.consumers.relieve)
        self.driver.congested = self.backlog.links
        self.driver.delayed = self.backlog.disk
        self.credentials = Credentials(config)
        self.peers = Peers(self, self._log)
        self.queries = Queries(self)
        self.began = self.loop.time()
        self._encryption = encryption(config.tls) if config.tls is not None else None
        self._connections: set[Connection] = set()
        self.unfinished = Unfinished(connections.unfinished_bytes)
        self._admissions: set[asyncio.Task[None]] = set()
        self._listeners: list[asyncio.Server] = []
        self.spare = Spare()
        self._round: asyncio.TimerHandle | None = None
        self._round_due = 0.0
        self._look_due = 0.0
        self.absences = Absences()
        self._letters_said: dict[str, float] = {}
        """When it was last logged that a peer cannot take a publication."""
        self._all_gone = asyncio.Event()
        self.is_ready = self._is_stopping = False
        self.failed = asyncio.Event()
        """Set when the server has to stop, because it cannot write any more, or its state may be wrong."""
        self.failure = ""
        """Why."""
        self.archiving: Archiving | None = None
        if self.storage is not None:
            self._begin_storage(self.storage)

    def _begin_storage(self, storage: Storage) -> None:
        for each in storage.quarantined:
            event = "record-quarantined" if each.is_kept else "record-dropped"
            self._log.error(event, key=each.key, reason=each.reason)
        if storage.merged:
            self._log.warning("records-merged", count=len(storage.merged), first=storage.merged[0])
        storage.start(self.driver.give_at_once, self._storage_failed)
        self._look_at_storage(storage)
        now = self.loop.time()
        durable = self.driver.node.logs
        self.absences.begin([party for party in storage.parties if party not in durable], now)
        configured = {peer.name for peer in self.config.peers if peer.url}
        for name in self.driver.node.links.wishes:
            if name not in configured:  # the file has changed, or a command had added it
                reason = f"{self.config.server} was restarted, and its configuration has no url of {name}"
                self.driver.give(ports.Disconnect(name, bars=False, reason=reason))
        self.driver.give(ports.Room(is_there=True))  # what was kept may have something to say

    def _look_at_storage(self, storage: Storage) -> None:
        for lost in storage.new_damage():
            self._log.error("store-damaged", lost=lost)
        storage.look()
        if storage.has_news_of_room():
            self._say_room(storage)

    def _say_room(self, storage: Storage) -> None:
        """Log that the store has become full, or has room again."""
        store = storage.store
        figures = {"free_bytes": store.free, "reusable_bytes": store.reusable, "bytes": store.size}
        if storage.is_full:
            advice = "publications are refused until there is room; make room on the disk, or let parties read"
            self._log.error("store-full", **figures, advice=advice)
        else:
            self._log.warning("store-has-room", **figures)

    def _archived(self, position: int) -> None:
        self.driver.give(ports.Archived(position))

    def _storage_failed(self, error: PalioError) -> None:
        """Nothing is acknowledged any more; who starts it again finds what was."""
        self._log.critical(
            "store-failed", error=str(error), advice="the server stops; mend the disk and start it again"
        )
        self._give_up("its store cannot be written")

    async def start(self) -> None:
        """Listen."""
        config = self.config
        encryption = self._encryption
        self._listeners = [
            await self.loop.create_server(
                lambda: Connection(self) if encryption is None else TlsDoor(self, encryption),
                sock=listener,
                backlog=_MOST_PENDING,
            )
            for listener in listeners(config.host, config.port, self.spare, _MOST_PENDING)
        ]
        self.peers.configure(config.peers)
        if config.archive is not None and config.store is not None:
            self.archiving = Archiving(config.archive, config.store.path, self._archived, self._log)
        self._plan_round()
        self.is_ready = True

    @property
    def most_connections(self) -> int:
        """How many connections parties and servers may open."""
        wanted = self.config.connections.wanted
        return wanted if self.most_files is None else min(wanted, self.most_files)

    @property
    def is_overrun(self) -> bool:
        """Whether there are so many connections more than there may be that further ones do not get a reason."""
        refused = _MOST_REFUSED if self.most_files is None else min(_MOST_REFUSED, self.most_files // 2)
        return len(self._connections) + len(self._admissions) > self.most_connections + refused

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listeners[0].sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Handle what has come in, say goodbye to all, and end when all is written, or does not get through."""
        self.is_ready, self._is_stopping = False, True
        for listener in self._listeners:
            listener.close()
        if self._round is not None:
            self._round.cancel()
        for task in self._admissions:
            task.cancel()
        self.peers.stop()
        self.queries.stop()
        await self._finish_turns()
        for connection in list(self._connections):
            connection.close(Code.STOPPING, "the server stops")
        try:
            async with asyncio.timeout(self.config.connections.drain_seconds):
                while self._connections:
                    self._all_gone.clear()
                    await self._all_gone.wait()
        except TimeoutError:
            self._abort_all()
        self.backlog.close()
        self.spare.close()
        self.credentials.close()
        await self._finish_turns()  # with what became of connections
        self.driver.finish()
        if self.archiving is not None:
            await self.archiving.stop()
        if self.storage is not None:
            await self.storage.close(self.config.connections.drain_seconds)

    async def _finish_turns(self) -> None:
        """Handle what has come in, and wait until it is on disk, or never will be."""
        self.driver.stop()
        if self.storage is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.config.connections.drain_seconds):
                    await self.storage.settled()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    # -- who comes in --------------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """Somebody has connected."""
        self.counts.accepted_connections += not connection.is_dialed
        self._connections.add(connection)
        if self.is_overrun and not connection.is_dialed:
            connection.abort()
        elif len(self._connections) > self.most_connections and not connection.is_dialed:
            connection.close(Code.FULL, "there are as many connections as there may be")
        elif self._is_stopping:  # it was accepted just before
            connection.close(Code.STOPPING, "the server stops")

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Let somebody in, or not."""
        known = [version for version in VERSIONS if version in hello.versions]
        if not known:
            spoken = " and ".join(map(str, sorted(VERSIONS)))
            raise RefusedError(Code.VERSION, f"this server speaks versions {spoken} of the protocol")
        connection.version = known[0]
        if hello.role not in ("party", "server", "observer") or not 0 < len(hello.name.encode()) <= MOST_NAME_BYTES:
            text = "a hello has the role party, server or observer, and a name of 1 to 1,024 bytes"
            raise RefusedError(Code.NAME, text)
        if hello.role == "observer" and hello.durable is not None:
            raise RefusedError(Code.HELLO, "an observer looks at the log of its party; it gets no deliveries")
        if hello.role == "server" and hello.name == self.config.server:
            raise RefusedError(Code.NAME, "that is the name of this server")
        if self.storage is None and (hello.durable is not None or hello.mode not in (None, Mode.MEMORY)):
            raise RefusedError(
                Code.NO_STORE, "this server has no store: nobody is durable here, and nothing is written"
            )
        if self.config.is_open:
            self._let_in(connection)
            return
        self.run(self._check(connection, hello))

    def run(self, admission: Coroutine[Any, Any, None]) -> None:
        """Let an admission take its time; it ends with the server."""
        task = self.loop.create_task(admission)
        self._admissions.add(task)
        task.add_done_callback(self._admissions.discard)

    async def _check(self, connection: Connection, hello: Hello) -> None:
        try:
            await self.credentials.check(hello.role, hello.name, hello.token, connection.address)
            connection.credential = self.credentials.expected(hello.role, hello.name)
            if not connection.is_closing:
                self._let_in(connection)
        except RefusedError as error:
            connection.close(error.code, str(error))
        except Exception as error:  # noqa: BLE001 (else the connection would wait for ever)
            self.fault("admission", error)
            connection.fail()

    def _let_in(self, connection: Connection) -> None:
        name = connection.name
        if connection.role == "server":
            check_target(connection.agent, self.config.server)
            connection.start = start_of(connection.agent)
            self.peers.admit(connection)
            return
        if connection.role == "observer":
            self.driver.observers[connection.serial] = connection
            connection.welcome()
            self._log.debug("observer-connected", party=brief(name))
            return
        older = self.driver.parties.get(name)
        if isinstance(older, Connection):
            older.close(Code.REPLACED, f"{name} has connected again")
        self.driver.parties[name] = connection
        self.absences.end(name)
        connection.welcome()
        self.driver.give(_attach(connection))
        self._log.debug("party-connected", party=brief(name))

    # -- who goes ------------------------------------------------------------------------------------------------------

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        self.driver.observers.pop(connection.serial, None)
        known = self.driver.parties if connection.role == "party" else self.driver.peers
        if connection.name and known.get(connection.name) is connection:
            del known[connection.name]
            if connection.role == "party":
                self._left_alone(connection)
            else:
                self.peers.lost(connection)
                self.queries.lost(connection)
        if not self._connections:
            self._all_gone.set()

    def _left_alone(self, connection: Connection) -> None:
        """A party is not here any more; one that is durable is waited for as long as its lease says."""
        if connection.name in self.driver.node.logs:
            self.driver.give(ports.Detach(connection.name, connection.serial))
        else:
            self.absences.note(connection.name, self.loop.time())

    def closed(self, connection: Connection, code: Code, text: str) -> None:
        """A connection was closed from here."""
        self.counts.refused(code.value)
        if self.driver.peers.get(connection.name) is connection:
            self.peers.note_end(connection.name, connection.reason)
        is_ours = code in (Code.STOPPING, Code.REPLACED)
        self.reports.say(
            "debug" if is_ours else "warning", "connection-closed",
            code=code.value, reason=text, name=brief(connection.name), address=connection.address,
        )  # fmt: skip

    def turned_away(self, address: str, reason: str) -> None:
        """A connection came to nothing before it was one."""
        self.counts.refused(Code.TLS.value)
        self.reports.warn("connection-closed", code=Code.TLS.value, reason=reason, address=address)

    # -- what is looked at now and then --------------------------------------------------------------------------------

    def _plan_round(self) -> None:
        self._round_due = self.loop.time() + _ROUND_SECONDS
        self._round = self.loop.call_at(self._round_due, self._go_round)

    def _go_round(self) -> None:
        try:
            self._look_round(self.loop.time())
        except Exception as error:  # noqa: BLE001 (the next round has to come)
            self.fault("round", error)
        self._plan_round()

    def _look_round(self, now: float) -> None:
        self.counts.latest_lag = now - self._round_due
        self.counts.lag = max(self.counts.lag, self.counts.latest_lag)
        self.reports.finish(now)
        refused = self.spare.to_report(now)
        if refused:
            advice = "there are no file descriptors left; raise the limit of open files, or lower connections.most"
            self._log.warning("connections-refused", count=refused, advice=advice)
        if now >= self._look_due:
            self._look_due = now + self.config.connections.ping_seconds / 8
            self._look_after_connections(now)
        self.peers.retry(now)
        if self.storage is not None:
            self._look_at_storage(self.storage)
        forget = now - self.config.connections.forget_seconds
        for party in self.absences.over(forget, self.config.connections.wanted):
            self._forget(party)

    def _look_after_connections(self, now: float) -> None:
        seconds = self.config.connections.ping_seconds
        for connection in list(self._connections):
            if not connection.is_open or connection.is_closing or connection.is_held_up:
                continue
            if connection.began and connection.began < now - 2 * seconds:
                connection.close(Code.FRAME, "a frame that does not end")
            elif connection.heard < now - 2 * seconds:
                connection.close(Code.SILENT, f"nothing came for {2 * seconds:g} seconds")
            elif connection.heard < now - seconds and connection.asked < connection.heard:
                connection.asked = now
                connection.say(control.Ping(0))

    def left(self, connection: Connection) -> None:
        """A party says that it will not come back: that comes after all that it has said before."""
        self.driver.give(ports.Request(connection.name, 0, ports.Leave()), connection)

    def _forget(self, party: str) -> None:
        """A party does not come back: nothing is for it any more."""
        self.driver.give(ports.Request(party, 0, ports.Leave()))

    # -- what the node says --------------------------------------------------------------------------------------------

    def _event(self, event: LinkUp | LinkDown | LinkRefused | Unsendable | LeaseEnded) -> None:
        match event:
            case LinkUp(peer):
                self.peers.up(peer)
                self.reports.info("link-up", peer=peer)
            case LinkDown(peer, reason, discarded):
                self.peers.note(peer, reason or "the link has ended")
                self.counts.name(self.counts.discarded, peer, discarded)
                self.reports.warn("link-down", peer=peer, reason=reason, discarded=discarded)
            case LinkRefused(peer, reason):
                self.peers.refused(peer, reason)
                self.reports.warn("link-refused", peer=peer, reason=reason)
            case Unsendable(peer, id, reason):
                self._say_unsendable(peer, str(id), reason)
            case LeaseEnded():
                self._say_lease_ended(event)

    def _say_lease_ended(self, ended: LeaseEnded) -> None:
        self.reports.warn(
            "lease-ended", party=brief(ended.party), lease_seconds=ended.lease / 1e6, log=ended.log,
            dropped=ended.lost, dropped_bytes=ended.bytes, letters=ended.letters, subscriptions=ended.filters,
        )  # fmt: skip

    def _say_unsendable(self, peer: str, id: str, reason: str) -> None:
        """Log that a peer cannot take a publication, once a minute for each link."""
        now = self.loop.time()
        if self._letters_said.get(peer, -_LETTERS_SECONDS) > now - _LETTERS_SECONDS:
            return
        if len(self._letters_said) >= _MOST_LETTERS_SAID:
            self._letters_said.clear()
        self._letters_said[peer] = now
        total = self.driver.node.peer_limits.letters[peer].next
        advice = f"palio letters list --link {peer}"
        self._log.warning("link-letter", peer=peer, notification=id, reason=reason, letters=total, advice=advice)

    def fault(self, where: str, error: Exception) -> None:
        """A fault of the server that concerns one connection, or one question."""
        self._failed(Fault(where, stack_of(error)))

    def _failed(self, fault: Fault) -> None:
        self.counts.faults += 1
        self.reports.say("critical", "fault", where=fault.where, stack=fault.stack)

    def _broken(self, error: Exception) -> None:
        """The state of the node may be wrong: nothing is acknowledged any more, and the server stops."""
        self.counts.faults += 1
        self._log.critical(
            "broken", stack=stack_of(error), advice="the server stops, because its state may be wrong; start it again"
        )
        self._give_up("its state may be wrong after a fault")

    def _give_up(self, reason: str) -> None:
        self.is_ready = False
        self.failure = self.failure or reason
        self.failed.set()

    # -- what changes while it runs ------------------------------------------------------------------------------------

    def reload(self, config: Config) -> list[str]:
        """Go on with another configuration; the keys that differ and need a restart."""
        self.config, fixed = merged(self.config, config)
        self._take_over(self.config)
        return fixed

    def _take_over(self, config: Config) -> None:
        if self._encryption is not None and config.tls is not None:
            self._encryption.load_cert_chain(config.tls.certificate, config.tls.key)  # perhaps renewed
        node = self.driver.node
        node.settings = node.settings._replace(guard=config.guard, filters_per_party=config.filters_per_party)
        self.credentials.config = config
        self.backlog.most, self.backlog.patience = config.connections.waiting_bytes, config.slow.seconds
        self.unfinished.most = config.connections.unfinished_bytes
        self.peers.configure(config.peers)
        for connection in list(self._connections):
            if connection.is_open and not connection.is_dialed and not config.is_open:
                expected = self.credentials.expected(connection.role, connection.name)
                if expected is None or expected != connection.credential:
                    connection.close(Code.TOKEN, "the token does not count any more")


def _attach(connection: Connection) -> ports.Attach:
    durable = connection.durable
    if durable is None:
        return ports.Attach(connection.name)
    keep = Keep(durable.count, durable.bytes, durable.age, durable.lease, durable.attempts, durable.window)
    return ports.Attach(connection.name, keep, connection.serial, durable.log, durable.after)
