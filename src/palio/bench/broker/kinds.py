"""The brokers that are measured: how each is started, subscribed to and published to.

Filters and notifications are Palio's; brokers that know topics only get one topic, and RabbitMQ what its headers
exchange can say. All get the same payloads, by connections of their own protocols.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from palio.bench.broker import amqp
from palio.bench.broker.processes import HOST, BrokerError, Running, exactly, find, free_port
from palio.codec import control, frames, msgpack
from palio.codec.control import VERSION, Answer, Ask, Hello, Welcome
from palio.model import Filter, Notification

TOPIC = "bench"
_PATIENCE = 60.0
_AT_ONCE = 100
"""Subscriptions that are asked for before their answers are read."""


class Broker(ABC):
    """A kind of broker."""

    name: str
    protocol: str
    """As the load generator calls it."""
    has_filters = False
    """Whether it looks at contents, and not only at topics."""
    has_idle = True

    @abstractmethod
    def missing(self) -> str | None:
        """Why it cannot be measured here; nothing if it can."""

    @abstractmethod
    def version(self) -> str:
        """Of the program that is there."""

    @abstractmethod
    def start(self, running: Running) -> None:
        """Start its processes."""

    @abstractmethod
    def connect(self, port: int, name: str) -> socket.socket:
        """A connection that was let in."""

    @abstractmethod
    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:
        """Subscribe: filter by filter, one party after the other, for so long at most; how many it was."""

    @abstractmethod
    def publication(self, notification: Notification) -> bytes:
        """What a publisher sends."""

    def understood(self, each: Filter) -> Filter:
        """What the broker can be told of a filter."""
        return each

    def leave(self, parties: Sequence[socket.socket]) -> None:  # noqa: B027 (most have nothing to do)
        """Cancel everything; at most brokers that goes with the connection."""


def _dial(port: int) -> socket.socket:
    made = socket.create_connection((HOST, port), timeout=_PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _line(stream: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        line += exactly(stream, 1)
    return bytes(line)


def _said_by(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)  # noqa: S603
    return (done.stdout or done.stderr).strip().partition("\n")[0]


class Palio(Broker):
    """``palio serve``."""

    name, protocol, has_filters = "palio", "palio", True

    def missing(self) -> str | None:
        """It needs the libraries of servers."""
        return None if find_spec("structlog") else "palio serve needs the extra palio[server]"

    def version(self) -> str:
        """This one."""
        from palio import __version__  # noqa: PLC0415

        return __version__

    def start(self, running: Running) -> None:
        """As anybody would."""
        path = running.folder / "palio.toml"
        path.write_text(
            f'server = "bench"\nport = {running.port}\n'
            "[connections]\nping_seconds = 600.0\n"  # the generator does not answer
        )
        running.start([sys.executable, "-m", "palio", "serve", "--config", str(path)])
        running.wait()

    def connect(self, port: int, name: str) -> socket.socket:
        """Hello and welcome."""
        stream = _dial(port)
        stream.sendall(control.encode(Hello((VERSION,), "party", name)))
        answer = self._next(stream)
        if not isinstance(answer, Welcome):
            raise BrokerError(f"no welcome but {answer}")
        return stream

    def _next(self, stream: socket.socket) -> control.Control:
        head = exactly(stream, frames.HEADER)
        return control.decode(head[4], exactly(stream, int.from_bytes(head[:4], "big") - 1))

    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:
        """Ask, and read the answers."""
        end = time.monotonic() + seconds
        done = 0
        while done < len(filters) and (not done or time.monotonic() < end):
            some = filters[done : done + _AT_ONCE]
            asked = [parties[(done + i) % len(parties)] for i in range(len(some))]
            for party, each in zip(asked, some, strict=True):
                self._ask(party, "subscribe", each)
            for party in asked:
                self._answered(party)
            done += len(some)
        return done

    def leave(self, parties: Sequence[socket.socket]) -> None:
        """What a party has subscribed to stays here when it is gone."""
        for party in parties:
            self._ask(party, "unsubscribe", Filter())
        for party in parties:
            self._answered(party)

    def _ask(self, party: socket.socket, operation: str, subject: Filter) -> None:
        party.sendall(control.encode(Ask(1, operation, "filter", msgspec.Raw(msgpack.encode(subject)))))

    def _answered(self, party: socket.socket) -> None:
        answer = self._next(party)
        if not isinstance(answer, Answer) or answer.code:
            raise BrokerError(f"palio does not do what it was asked for: {answer}")

    def publication(self, notification: Notification) -> bytes:
        """Without a number: no answer is wanted."""
        return frames.publish(notification)


class Copy(Palio):
    """No broker: a process that writes what the publisher sends to all others; it shows what the generator can do."""

    name, protocol, has_filters, has_idle = "copy", "copy", False, False

    def missing(self) -> str | None:
        """Never."""
        return None

    def start(self, running: Running) -> None:
        """It is a part of this benchmark."""
        running.start([sys.executable, "-m", "palio.bench.broker.copying", str(running.port)])
        running.wait()

    def connect(self, port: int, name: str) -> socket.socket:
        """Says by a byte whether it publishes."""
        stream = _dial(port)
        stream.sendall(b"p" if name == "publisher" else b"s")
        return stream

    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:  # noqa: ARG002
        """All get everything."""
        for party in parties:
            exactly(party, 1)
        return len(filters)

    def leave(self, parties: Sequence[socket.socket]) -> None:
        """Whoever closes the connection has left."""


class Mosquitto(Broker):
    """MQTT 3.1.1, quality of service 0."""

    name, protocol = "mosquitto", "mqtt"

    def missing(self) -> str | None:
        """It may not be installed."""
        return None if find("mosquitto") else "mosquitto is not installed"

    def version(self) -> str:
        """As it says."""
        return _said_by([find("mosquitto") or "mosquitto", "-h"]).removeprefix("mosquitto version ")

    def start(self, running: Running) -> None:
        """Nothing is kept on disk, and nothing is dropped."""
        path = running.folder / "mosquitto.conf"
        path.write_text(
            f"listener {running.port} {HOST}\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n"
            "set_tcp_nodelay true\nlog_type error\nlog_dest stderr\n"
        )
        path.chmod(0o644)
        running.start([find("mosquitto") or "mosquitto", "-c", str(path)])
        running.wait()

    def connect(self, port: int, name: str) -> socket.socket:
        """Without keep-alive."""
        stream = _dial(port)
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + _text16(name)
        stream.sendall(bytes([0x10]) + _length(len(body)) + body)
        if exactly(stream, 4) != b"\x20\x02\x00\x00":
            raise BrokerError("mosquitto does not let us in")
        return stream

    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:  # noqa: ARG002
        """All to the one topic."""
        body = b"\x00\x01" + _text16(TOPIC) + b"\x00"
        for party in parties:
            party.sendall(bytes([0x82]) + _length(len(body)) + body)
            if exactly(party, 5) != b"\x90\x03\x00\x01\x00":
                raise BrokerError("mosquitto does not subscribe us")
        return len(filters)

    def publication(self, notification: Notification) -> bytes:
        """Topic and payload."""
        body = _text16(TOPIC) + payload_of(notification)
        return bytes([0x30]) + _length(len(body)) + body


def _text16(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _length(size: int) -> bytes:
    """A number as MQTT writes it: seven bits a byte."""
    found = bytearray()
    while size > 0x7F:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*found, size])


def payload_of(notification: Notification) -> bytes:
    """The payload alone."""
    assert notification.payload is not None
    return notification.payload.data


class Nats(Broker):
    """NATS, without acknowledgements."""

    name, protocol = "nats", "nats"

    def missing(self) -> str | None:
        """It may not be installed."""
        return None if find("nats-server") else "nats-server is not installed"

    def version(self) -> str:
        """As it says."""
        return _said_by([find("nats-server") or "nats-server", "--version"]).removeprefix("nats-server: v")

    def start(self, running: Running) -> None:
        """Nobody is pinged while a case runs, for the generator does not answer."""
        path = running.folder / "nats.conf"
        path.write_text(f'host: "{HOST}"\nport: {running.port}\nping_interval: "10m"\n')
        running.start([find("nats-server") or "nats-server", "-c", str(path)])
        running.wait()

    def connect(self, port: int, name: str) -> socket.socket:
        """Until the first ping is answered."""
        stream = _dial(port)
        if not _line(stream).startswith(b"INFO "):
            raise BrokerError("that is no NATS server")
        options = msgspec.json.encode({"verbose": False, "pedantic": False, "name": name})
        stream.sendall(b"CONNECT " + options + b"\r\n")
        self._ping(stream)
        return stream

    def _ping(self, stream: socket.socket) -> None:
        stream.sendall(b"PING\r\n")
        while (line := _line(stream)) != b"PONG\r\n":
            if line == b"PING\r\n":
                stream.sendall(b"PONG\r\n")
            elif not line.startswith(b"INFO"):
                raise BrokerError(f"nats-server says {line!r}")

    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:  # noqa: ARG002
        """All to the one subject."""
        for party in parties:
            party.sendall(f"SUB {TOPIC} 1\r\n".encode())
            self._ping(party)
        return len(filters)

    def publication(self, notification: Notification) -> bytes:
        """Subject, length and payload."""
        payload = payload_of(notification)
        return f"PUB {TOPIC} {len(payload)}\r\n".encode() + payload + b"\r\n"


class RabbitMq(Broker):
    """A headers exchange; each party has a queue and a consumer without acknowledgements."""

    name, protocol, has_filters = "rabbitmq", "amqp", True

    def missing(self) -> str | None:
        """It may not be installed; its name server is needed, too."""
        if not find("rabbitmq-server", _RABBITMQ) or not find("epmd"):
            return "rabbitmq-server is not installed"
        return None

    def version(self) -> str:
        """Of what lies beside the program; asking it would start a virtual machine."""
        folders = Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")
        return next((each.name.removeprefix("rabbitmq_server-") for each in folders), "unknown")

    def start(self, running: Running) -> None:
        """With a name server of its own, which would otherwise stay behind."""
        folder, names = running.folder, free_port()
        environment = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"palio-bench-{os.getpid()}@localhost",
            "RABBITMQ_NODE_PORT": str(running.port),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        (folder / "rabbitmq.conf").write_text("log.console.level = error\nheartbeat = 0\n")
        (folder / "plugins").write_text("[].")
        (folder / "environment").write_text("")
        running.start([find("epmd") or "epmd", "-port", str(names), "-address", HOST], environment)
        running.start([find("rabbitmq-server", _RABBITMQ) or "rabbitmq-server"], environment)
        running.wait()

    def connect(self, port: int, name: str) -> socket.socket:
        """With one channel."""
        stream = _dial(port)
        amqp.open_channel(stream, name)
        return stream

    def subscribe(self, parties: Sequence[socket.socket], filters: Sequence[Filter], seconds: float) -> int:
        """Each party has a queue; a filter is a binding."""
        end = time.monotonic() + seconds
        queues = [amqp.consume(party) for party in parties]
        done = 0
        while done < len(filters) and (not done or time.monotonic() < end):
            some = [(done + i) % len(parties) for i in range(min(_AT_ONCE, len(filters) - done))]
            for i, at in enumerate(some):
                equal = {constraint.name: str(constraint.value) for constraint in filters[done + i]}
                amqp.bind(parties[at], queues[at], equal)
            for at in some:
                amqp.bound(parties[at])
            done += len(some)
        return done

    def publication(self, notification: Notification) -> bytes:
        """Attributes are headers."""
        return amqp.publication({name: str(value) for name, value in notification.items()}, payload_of(notification))

    def understood(self, each: Filter) -> Filter:
        """Equalities; it knows no ranges."""
        return Filter([constraint for constraint in each if constraint.operator == "="])


_RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""Not the script around it, which changes the user."""
KINDS: tuple[Broker, ...] = (Palio(), Mosquitto(), Nats(), RabbitMq(), Copy())
