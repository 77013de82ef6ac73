"""Traces: an entry for every message, with the fields that the papers' studies are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random

import msgspec

from palio.link.frames import Data, Frame
from palio.link.session import LinkSettings
from palio.node.node import NodeSettings
from palio.node.ports import Deliver, DeliverSequence, FromPeer, Input, Operation, Output, Request
from palio.routing.messages import (
    Accepted,
    Advertise,
    Continue,
    Delegate,
    Element,
    Message,
    Publish,
    Recall,
    Release,
    Returned,
    Stamp,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from palio.sim.engine.cluster import Cluster
from palio.sim.engine.sites import Sites

_TYPES: dict[type[Message], str] = {
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Advertise: "advertise",
    Unadvertise: "unadvertise",
    Publish: "notification",
    Element: "element",
    **dict.fromkeys((Delegate, Accepted, Continue, Recall, Returned, Release), "monitor"),
}
"""Messages that the papers count, and those about patterns that one server watches for another; what servers do to keep
their links is not among them."""


class TraceEntry(msgspec.Struct, frozen=True, gc=False):
    """One message between two objects: parties and servers."""

    type: str
    message_id: int
    service_id: int
    """The message id of the request that this message follows from."""
    source_object: str
    source_site: str
    destination_object: str
    destination_site: str
    departure: int
    arrival: int
    cost: int


class TracedCluster(Cluster):
    """A cluster of servers and parties at sites, whose messages are written down.

    Each frame carries one message, so that whatever a server sends follows from the one message that came.
    """

    def __init__(
        self,
        sites: Sites,
        places: Mapping[str, str],
        random: Random,
        record: Callable[[TraceEntry], object] | None = None,
    ) -> None:
        super().__init__(random, self._way_latency)
        self._sites = sites
        self._places = dict(places)
        """The site of each server and party."""
        self.trace: list[TraceEntry] = []
        """All messages, unless somebody else records them."""
        self._record = self.trace.append if record is None else record
        self._messages = 0
        self._service = -1
        self._services: dict[tuple[Stamp, str, int], int] = {}
        """The service of each message between servers, by link, sender and number."""
        self._requests = 0

    def start(self, settings: NodeSettings, inputs: Iterable[Input] = ()) -> None:
        """A server begins."""
        super().start(settings._replace(link=_one_by_one(settings.link)), inputs)

    def place(self, party: str, site: str) -> None:
        """A party is at a site."""
        self._places[party] = site

    def request(self, party: str, server: str, operation: Operation) -> None:
        """A party sends a request to its access point: a service begins."""
        number, self._requests = self._requests, self._requests + 1
        kind = type(operation).__name__.lower()
        service = self._messages
        arrival = self._write(kind, service, party, server)

        def arrive() -> None:
            self._service = service
            self.give(server, (Request(party, number, operation),))

        self.scheduler.at(arrival, arrive)

    def _arrive(self, source: str, target: str, frame: Frame) -> None:
        if isinstance(frame, Data) and frame.messages:
            self._service = self._services.get((frame.session, source, frame.first), -1)
        else:
            self._service = -1
        if target in self.nodes:
            self.give(target, (FromPeer(source, frame),))

    def _take(self, server: str, output: Output) -> None:
        super()._take(server, output)
        if isinstance(output, Deliver):
            for party in output.parties:
                self._write("notification", self._service, server, party)
        elif isinstance(output, DeliverSequence):
            self._write("sequence", self._service, server, output.party)

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:
        super()._sent(server, peer, number, stamp, message)
        kind = _TYPES.get(type(message))
        if kind is not None:
            self._services[stamp, server, number] = self._service
            self._write(kind, self._service, server, peer)

    def _write(self, kind: str, service: int, source: str, target: str) -> int:
        """Write an entry; when the message arrives."""
        here, there = self._places[source], self._places[target]
        way = self._sites.way(here, there)
        now = self.scheduler.now
        arrival = now + way.latency
        number, self._messages = self._messages, self._messages + 1
        self._record(TraceEntry(kind, number, service, source, here, target, there, now, arrival, way.cost))
        return arrival

    def _way_latency(self, source: str, target: str) -> int:
        return self._sites.way(self._places[source], self._places[target]).latency


def _one_by_one(settings: LinkSettings) -> LinkSettings:
    return msgspec.structs.replace(settings, frame=1, window=1 << 30)
