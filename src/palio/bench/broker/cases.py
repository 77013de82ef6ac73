"""What is measured: who subscribes to what, and what is published, with how many deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from palio.bench.broker.kinds import TOPIC, Broker
from palio.bench.workloads import WORKLOADS
from palio.matching import FilterIndex
from palio.model import Filter, Notification

PAYLOAD_BYTES = 100
_PUBLICATIONS = 5000
"""Different ones; they are sent again and again."""


class Case(NamedTuple):
    """One publisher, and parties with filters: filter by filter, one party after the other."""

    name: str
    parties: int
    filters: list[Filter]
    publications: list[Notification]
    in_flight: int
    """Messages whose deliveries may be on their way, at most."""
    looks_at_content: bool = False


class Traffic(NamedTuple):
    """The publications of a case as a broker gets them."""

    block: bytes
    ends: list[int]
    """Where each publication ends."""
    deliveries: list[int]
    """How many parties get each."""


def fan_out(parties: int, in_flight: int) -> Case:
    """All parties get everything."""
    block = [Notification(topic=TOPIC).with_payload(payload) for payload in _payloads()]
    wanted = [Filter.parse(f'topic = "{TOPIC}"')] * parties
    return Case(f"1:{parties}", parties, wanted, block, in_flight)


def match_heavy(filters: int, parties: int, in_flight: int) -> Case:
    """Filters of the workload W1, of which few match an event, shared out among parties."""
    w1 = WORKLOADS["W1"]
    events = w1.events(_PUBLICATIONS, size=filters)
    block = [event.with_payload(payload) for event, payload in zip(events, _payloads(), strict=True)]
    return Case("filters", parties, w1.filters(filters), block, in_flight, looks_at_content=True)


def _payloads() -> list[bytes]:
    random = Random("payloads")  # noqa: S311 (no secrets)
    return [random.randbytes(PAYLOAD_BYTES) for _ in range(_PUBLICATIONS)]


def traffic(case: Case, broker: Broker, filters: Sequence[Filter]) -> Traffic:
    """What is sent to a broker at which these filters of a case are known; it ends with something that is delivered."""
    index = FilterIndex(filters)
    counts = [len({id % case.parties for id in index.match(each)}) for each in case.publications]
    last = max((i for i, count in enumerate(counts) if count), default=0)
    encoded = [broker.publication(each) for each in case.publications[: last + 1]]
    ends, end = [], 0
    for each in encoded:
        end += len(each)
        ends.append(end)
    return Traffic(b"".join(encoded), ends, counts[: last + 1])
