"""What it spares to watch patterns upstream, and what it costs.

Servers stand on a random tree. Notifications of three kinds, a, b and c, come in random order from one server, or a and
b from one and c from another, far away. Parties wait for sequences of them, anywhere in the tree or on the way between
the two. The same stream is played with all
monitors at the parties' servers, with whole patterns left to their only provider, and with groups left to neighbours as
well. One monitor that sees everything says how many sequences there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from palio.bench.report import Figure
from palio.model import Advertisement, Notification, Pattern
from palio.node import ports
from palio.node.node import NodeSettings
from palio.node.settings import Delegation
from palio.routing.messages import Element, Message, Publish, Stamp
from palio.routing.paths import Graph
from palio.sim.engine.cluster import Cluster

KEYS = ("delegation", "patterns", "control", "carried", "carried_share", "found_share")
_SERVERS = 50
_PARTIES = 200
_PUBLICATIONS = 1_000
_LATENCY = 10_000
_PACE = 250_000
"""Microseconds between two publications: so long that none overtakes another."""
_PATTERNS = ("a b", "a b a", "b c", "a b c", "c a b")
_SOURCES = {"one source": ("abc",), "two sources": ("ab", "c"), "between two sources": ("ab", "c")}


class _Counting(Cluster):
    """Counts the messages between servers."""

    def __init__(self, random: Random, latency: Callable[[str, str], int]) -> None:
        super().__init__(random, latency)
        self.kinds: Counter[str] = Counter()

    def _sent(self, server: str, peer: str, number: int, stamp: Stamp, message: Message) -> None:
        super()._sent(server, peer, number, stamp, message)
        self.kinds["notifications" if isinstance(message, Publish | Element) else "control"] += 1


def rows(progress: Callable[[str], None]) -> Iterator[dict[str, Figure]]:
    """Measure all ways of delegation, for one source and for two; ratios are to what there is without any."""
    for name, sources in _SOURCES.items():
        without: int | None = None
        for delegation in Delegation:
            progress(f"patterns, {name}, delegation: {delegation.value}")
            cluster, expected = _play(sources, delegation, is_between=name.startswith("between"))
            carried = cluster.kinds["notifications"]
            without = carried if without is None else without
            yield {
                "population": name,
                "delegation": delegation.value,
                "patterns": _PARTIES,
                "control": cluster.kinds["control"],
                "carried": carried,
                "carried_share": carried / without,
                "found_share": len(cluster.sequences) / expected,
            }


def _play(sources: tuple[str, ...], delegation: Delegation, *, is_between: bool) -> tuple[_Counting, int]:
    """The network after the stream, and how many sequences one monitor finds."""
    random = Random("delegation")
    cluster = _Counting(random, lambda _source, _target: _LATENCY)
    path = _longest_path(_build(cluster, random, delegation))
    servers = path[1:-1] if is_between else list(cluster.nodes)
    at = {kind: server for kinds, server in zip(sources, (path[0], path[-1]), strict=False) for kind in kinds}
    for server in dict.fromkeys(at.values()):
        offer = "; ".join(f'kind = "{kind}"' for kind, source in at.items() if source == server)
        cluster.give(server, [ports.Request("source", 0, ports.Advertise(Advertisement.parse(offer)))])
    cluster.settle()
    wanted = [random.choice(_PATTERNS).split() for _ in range(_PARTIES)]
    for number, kinds in enumerate(wanted):
        pattern = Pattern.parse(" then ".join(f'kind = "{kind}"' for kind in kinds))
        cluster.give(random.choice(servers), [ports.Request(f"p{number}", 0, ports.Subscribe(pattern))])
    cluster.settle()
    cluster.kinds["notifications"] = 0
    stream = random.choices("abc", k=_PUBLICATIONS)
    for number, kind in enumerate(stream, 1):
        request = ports.Request("source", number, ports.Publish(Notification(kind=kind)))
        cluster.scheduler.at(cluster.scheduler.now + number * _PACE, partial(cluster.give, at[kind], [request]))
    cluster.settle()
    return cluster, sum(_sequences(kinds, stream) for kinds in wanted)


def _build(cluster: Cluster, random: Random, delegation: Delegation) -> Graph:
    links = []
    for number in range(_SERVERS):
        cluster.start(NodeSettings(f"s{number}", "aa", delegation=delegation))
        if number:
            links.append((f"s{number}", f"s{random.randrange(number)}", 1))
            cluster.give(f"s{number}", [ports.Connect(links[-1][1])])
            cluster.settle()
    return Graph(links)


def _longest_path(graph: Graph) -> list[str]:
    end = list(graph.tree("s0").distances)[-1]
    tree = graph.tree(end)
    path = [list(tree.distances)[-1]]
    while path[-1] != end:
        path.append(tree.parents[path[-1]])
    return path


def _sequences(kinds: list[str], stream: list[str]) -> int:
    """How many times kinds follow each other in a stream, as one monitor sees it."""
    found = position = 0
    for each in stream:
        if each == kinds[position]:
            position = (position + 1) % len(kinds)
            found += position == 0
    return found
