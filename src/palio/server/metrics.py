"""Figures of a running server: counted plainly where things happen, and put into Prometheus' form when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from palio.server.status import backlog_seconds

if TYPE_CHECKING:
    from palio.node.party_log import PartyLog
    from palio.server.server import Server
    from palio.server.storage import Storage

_MOST_NAMES = 100
"""Parties that one metric names: slow consumers, and durable parties for which most waits. All others are counted
together."""
OTHERS = "(others)"


class Counts:
    """What has happened since the server began."""

    __slots__ = (
        "accepted_connections",
        "bytes_in",
        "bytes_out",
        "discarded",
        "disconnected",
        "dropped",
        "faults",
        "lag",
        "latest_lag",
        "refusals",
    )

    def __init__(self) -> None:
        self.accepted_connections = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.refusals: Counter[str] = Counter()
        """Connections closed and requests refused, by code."""
        self.dropped: Counter[str] = Counter()
        """Deliveries that were dropped, by party."""
        self.disconnected: Counter[str] = Counter()
        """How often each party was disconnected because it was slow."""
        self.discarded: Counter[str] = Counter()
        """Publications that waited for a peer when its link ended."""
        self.faults = 0
        self.lag = 0.0
        """Seconds that the loop was late at worst since somebody looked."""
        self.latest_lag = 0.0
        """The same, in the last round."""

    def refused(self, code: str) -> None:
        """Something was refused."""
        self.refusals[code] += 1

    @staticmethod
    def name(counter: Counter[str], name: str, count: int) -> None:
        """Count something of a party; of too many parties together.

        >>> counter = Counter()
        >>> Counts.name(counter, "eva", 3)
        >>> counter
        Counter({'eva': 3})
        """
        counter[name if name in counter or len(counter) < _MOST_NAMES else OTHERS] += count


class ServerCollector(Collector):
    """Reads the figures of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """All figures, as they are now."""
        yield from self._connections()
        yield from self._node()
        if self._server.storage is not None:
            yield from self._store(self._server.storage)
            yield from self._archive(self._server.storage)

    def _connections(self) -> Iterator[Metric]:
        server, counts, driver = self._server, self._server.counts, self._server.driver
        here = {"party": len(driver.parties), "server": len(driver.peers), "observer": len(driver.observers)}
        yield _labelled(GaugeMetricFamily, "palio_connections", "Open connections by role.", "role", here.items())
        yield CounterMetricFamily(
            "palio_connections_accepted", "Accepted TCP connections.", counts.accepted_connections
        )
        yield CounterMetricFamily(
            "palio_connections_without_files",
            "Connections refused because no file descriptors were left.",
            server.spare.refused,
        )
        yield GaugeMetricFamily(
            "palio_unfinished_bytes", "Bytes of frames that have not arrived completely.", server.unfinished.bytes
        )
        yield CounterMetricFamily("palio_received_bytes", "Bytes received on all connections.", counts.bytes_in)
        yield CounterMetricFamily("palio_sent_bytes", "Bytes written to connections.", counts.bytes_out)
        yield _labelled(
            CounterMetricFamily, "palio_refusals", "Connections closed and requests refused, by error code.", "code",
            counts.refusals.items(),
        )  # fmt: skip
        backlog = server.backlog
        yield GaugeMetricFamily("palio_waiting_bytes", "Bytes queued for connections.", backlog.bytes)
        yield CounterMetricFamily("palio_publisher_pauses", "Times publishers were paused.", backlog.pauses)
        slow = {name: 1 for name, each in driver.parties.items() if each.is_slow}
        yield _labelled(
            GaugeMetricFamily, "palio_slow_consumers", "1 for each party whose deliveries are being dropped.", "party",
            list(slow.items())[:_MOST_NAMES],
        )  # fmt: skip
        yield _labelled(
            CounterMetricFamily, "palio_dropped_deliveries", "Deliveries dropped because the party was slow.", "party",
            counts.dropped.items(),
        )  # fmt: skip
        yield _labelled(
            CounterMetricFamily, "palio_slow_disconnects", "Connections closed because the reader was slow.", "party",
            counts.disconnected.items(),
        )  # fmt: skip

    def _node(self) -> Iterator[Metric]:
        counts, driver = self._server.counts, self._server.driver
        node = driver.node
        yield CounterMetricFamily("palio_publications", "Publications accepted from clients.", driver.publications)
        yield CounterMetricFamily(
            "palio_deliveries", "Deliveries to parties, including dropped ones.", driver.deliveries
        )
        yield CounterMetricFamily("palio_turns", "Batches of input handled.", driver.turns)
        yield CounterMetricFamily("palio_turn_seconds", "Seconds spent handling batches of input.", driver.seconds)
        allowance = node.allowance
        yield CounterMetricFamily(
            "palio_comparisons", "Comparisons of filters that were made ahead of changes.", allowance.total
        )
        yield GaugeMetricFamily("palio_turn_comparisons_max", "Most of these comparisons in one turn.", allowance.most)
        yield CounterMetricFamily("palio_faults", "Internal errors of the server.", counts.faults)
        yield GaugeMetricFamily(
            "palio_subscriptions", "Filters of clients and peers in the routing table.", len(node.router.subscriptions)
        )
        yield GaugeMetricFamily(
            "palio_advertisements", "Advertisements of clients and peers.", len(node.router.advertisements)
        )
        yield GaugeMetricFamily("palio_keys", "Idempotency keys in memory.", node.keys.count)
        yield GaugeMetricFamily("palio_keys_bytes", "Bytes accounted to these keys.", node.keys.bytes)
        yield CounterMetricFamily(
            "palio_keys_evicted", "Keys forgotten early because a limit was reached.", node.keys.evicted
        )
        yield from self._links()
        lag, counts.lag = counts.lag, 0.0
        yield GaugeMetricFamily("palio_loop_lag_seconds", "Longest delay of the event loop since the last scrape.", lag)

    def _links(self) -> Iterator[Metric]:
        peers, links = self._server.peers, self._server.driver.node.links
        waiting = {name: links.status(name).backlog for name in peers.names}
        figures = (
            (
                "palio_link_up",
                "1 if the link to the peer is up, else 0.",
                {name: int(peers.is_up(name)) for name in waiting},
            ),
            (
                "palio_link_backlog_messages",
                "Messages the peer has not acknowledged.",
                {n: b.messages for n, b in waiting.items()},
            ),
            ("palio_link_backlog_bytes", "Bytes of these messages.", {n: b.bytes for n, b in waiting.items()}),
            (
                "palio_link_backlog_seconds",
                "Age of the oldest of these messages in seconds.",
                {name: backlog_seconds(self._server, name) for name in waiting},
            ),
        )
        for name, text, values in figures:
            yield _labelled(GaugeMetricFamily, name, text, "peer", values.items())
        yield _labelled(
            CounterMetricFamily, "palio_link_discarded_publications", "Publications discarded when their link ended.",
            "peer", self._server.counts.discarded.items(),
        )  # fmt: skip
        yield _labelled(
            CounterMetricFamily, "palio_link_letters", "Publications that the peer cannot accept.", "peer",
            self._server.driver.node.peer_limits.letters.totals().items(),
        )  # fmt: skip

    def _store(self, storage: Storage) -> Iterator[Metric]:
        figures, logs = storage.figures, self._server.driver.node.logs
        yield GaugeMetricFamily("palio_store_bytes", "Size of the store's files in bytes.", storage.store.size)
        yield GaugeMetricFamily("palio_store_free_bytes", "Free bytes on the disk of the store.", storage.store.free)
        yield GaugeMetricFamily(
            "palio_store_reusable_bytes", "Free bytes inside the store's file.", storage.store.reusable
        )
        yield GaugeMetricFamily("palio_store_waiting_bytes", "Bytes queued for the disk.", storage.waiting_bytes)
        yield GaugeMetricFamily(
            "palio_store_full", "1 if publications are refused for lack of disk space.", int(storage.is_full)
        )
        yield GaugeMetricFamily(
            "palio_store_damage", "Damaged records and entries that were found.", len(storage.store.damage)
        )
        aside = storage.quarantine
        yield GaugeMetricFamily("palio_store_quarantined", "Records in quarantine.", aside.count)
        yield CounterMetricFamily(
            "palio_store_quarantine_dropped", "Records lost because the quarantine was full.", aside.dropped
        )
        yield CounterMetricFamily("palio_store_commits", "Commits to the store.", figures.commits)
        yield CounterMetricFamily("palio_store_written_bytes", "Bytes written by commits.", figures.bytes)
        yield GaugeMetricFamily(
            "palio_store_longest_commit_seconds", "Duration of the longest commit in seconds.", figures.longest_seconds
        )
        yield GaugeMetricFamily("palio_durable_parties", "Durable parties.", len(list(logs)))
        waiting = sum(log.waiting for log in logs)
        yield GaugeMetricFamily(
            "palio_durable_waiting", "Deliveries that durable parties have not acknowledged.", waiting
        )
        leases = self._server.driver.node.reading.leases
        yield from self._lag(logs)
        fallen = {
            "dropped": logs.ended_dropped + sum(log.dropped for log in logs),
            "expired": logs.ended_expired + sum(log.expired for log in logs),
            "lease": leases.lost,
        }
        yield _labelled(
            CounterMetricFamily,
            "palio_durable_lost",
            "Deliveries removed from logs before they were acknowledged.",
            "why",
            fallen.items(),
        )
        yield CounterMetricFamily(
            "palio_durable_leases_ended", "Durable parties that lost their log because their lease ended.", leases.count
        )

    def _archive(self, storage: Storage) -> Iterator[Metric]:
        archiving, store = self._server.archiving, storage.store
        if archiving is None:
            return
        behind = store.next - max(archiving.position, store.first)
        yield GaugeMetricFamily("palio_archive_behind_entries", "Log entries that are not archived yet.", behind)
        yield GaugeMetricFamily(
            "palio_archive_failing", "1 if the archiver cannot write.", int(bool(archiving.problem))
        )

    def _lag(self, logs: Iterable[PartyLog]) -> Iterator[Metric]:
        """What waits for durable parties: one by one for those for which most waits, and for all others together."""
        now, waiting = self._server.driver.now, [log for log in logs if log.waiting]
        named = nlargest(_MOST_NAMES, waiting, key=lambda each: each.waiting)
        chosen = set(named)
        groups = [(log.name, [log]) for log in named]
        others = [log for log in waiting if log not in chosen]
        if others:
            groups.append((OTHERS, others))
        figures: tuple[tuple[str, str, Callable[[list[PartyLog]], float]], ...] = (
            ("messages", "Deliveries the party has not acknowledged.", lambda each: sum(log.waiting for log in each)),
            ("bytes", "Bytes of these deliveries.", lambda each: sum(log.waiting_bytes for log in each)),
            (
                "seconds",
                "Age of the oldest of these deliveries in seconds.",
                lambda each: max(log.oldest(now) for log in each) / 1e6,
            ),
        )
        for name, text, figure in figures:
            values = [(party, figure(members)) for party, members in groups]
            yield _labelled(GaugeMetricFamily, f"palio_durable_lag_{name}", text, "party", values)


def _labelled(
    cls: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Iterable[tuple[str, float]],
) -> Metric:
    family = cls(name, text, labels=[label])
    for value, figure in values:
        family.add_metric([value], figure)
    return family


class Metrics:
    """The figures of a server as text."""

    def __init__(self, server: Server) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ServerCollector(server))

    def text(self) -> bytes:
        """In the form that Prometheus reads."""
        return generate_latest(self._registry)
