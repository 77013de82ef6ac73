"""Judges the hostile campaign: the ledger of the innocent load, its latency, and the bounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes.hostile_fleet import MEMORY_MIB
from tests.processes.hostile_load import DURABLE, PLAIN, PUBLISHERS, WISH
from tests.processes.kill_judge import KINDS, Judge
from tests.processes.kill_ledger import Follower

P99_MS = 50.0
P99_FACTOR = 3.0
"""The latency of the innocent load may be that, or so many times that without attacks, whatever is more."""
_MOST_NAMED = 5


class Sample(NamedTuple):
    """A delivery."""

    due: float
    """When its publication was due."""
    milliseconds: float
    subscriber: str


class Visit(NamedTuple):
    """An innocent client has connected with its token and published something, or could not."""

    began: float
    server: str
    milliseconds: float
    error: str


class Break(NamedTuple):
    """An innocent client has lost its connection."""

    moment: float
    text: str


class Span(NamedTuple):
    """An attack, and when it was made."""

    name: str
    began: float
    ended: float


class Figures(NamedTuple):
    """The result of a campaign."""

    attacks: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    twice: int = 0
    disordered: int = 0
    p99_ms: float = 0.0
    p99_ms_alone: float = 0.0
    rss_mib: int = 0
    most_ms: float = 0.0
    log_mib: float = 0.0
    records: int = 0
    visits: int = 0
    turned_away: int = 0
    disconnected: int = 0
    """How often innocent clients lost their connections."""
    unhealthy: int = 0
    """Health checks that failed."""
    wake_ms: float = 0.0
    """The p99 of the delay with which the machine woke a process that did nothing else, beside attacks."""
    wake_ms_alone: float = 0.0
    cpu_attackers: float = 0.0
    """Processors that attackers used, on the average."""
    cpu_busy: float = 0.0
    """Processors that were kept busy beside the load alone."""


def p99(samples: Iterable[float]) -> float:
    """The 99th percentile: 99 of 100 are not above it.

    >>> p99(range(1, 201)), p99([])
    (198, 0.0)
    """
    found = sorted(samples)
    return found[math.ceil(0.99 * len(found)) - 1] if found else 0.0


def within(samples: Iterable[Sample], began: float, ended: float) -> list[float]:
    """The latencies of publications that were due in a span of time."""
    return [each.milliseconds for each in samples if began <= each.due < ended]


def by_attack(samples: Sequence[Sample], spans: Iterable[Span]) -> list[tuple[str, int, float]]:
    """For each kind of attack, how often it was made and the p99 while it was; the worst ones first.

    Several attacks are made at once, so one that does no harm may be listed with another one that does.
    """
    found: dict[str, list[list[float]]] = {}
    for span in spans:
        found.setdefault(span.name, []).append(within(samples, span.began, span.ended))
    rows = [(name, len(each), p99(ms for one in each for ms in one)) for name, each in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def read_lines(path: Path) -> list[list[Any]]:
    """The lines of a notebook; one that is not whole does not count."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(each) for each in text[: text.rfind("\n") + 1].splitlines()]


def read_breaks(folder: Path) -> list[Break]:
    """The lost connections of a campaign."""
    return [Break(*each) for each in read_lines(folder / "breaks.jsonl")]


def read_wakes(folder: Path) -> list[Sample]:
    """How late the machine woke a process that did nothing else."""
    return [Sample(*each) for each in read_lines(folder / "wakes.jsonl")]


class Samples:
    """Reads the latencies of a campaign as they come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "latencies.jsonl"
        self._place = 0
        self._samples: list[Sample] = []

    def read(self) -> list[Sample]:
        """All until now."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._place)
                data = file.read()
            end = data.rfind(b"\n") + 1
            self._place += end
            self._samples += [Sample(*json.loads(each)) for each in data[:end].splitlines()]
        return self._samples


def read_visits(folder: Path) -> list[Visit]:
    """The visits of a campaign."""
    return [Visit(*each) for each in read_lines(folder / "visits.jsonl")]


class LedgerJudge:
    """Reads the ledgers of publishers and subscribers as they grow."""

    def __init__(self, folder: Path) -> None:
        parties = dict.fromkeys((*DURABLE, *PLAIN), (WISH, KINDS["acknowledging"]))
        self._judge = Judge(PUBLISHERS, parties)
        self._followers = {name: Follower(folder / f"{name}.ledger") for name in (*PUBLISHERS, *parties)}

    def read(self) -> int:
        """Read what is new; how many lines."""
        return sum(self._judge.take(name, follower.news()) for name, follower in self._followers.items())

    def has_all_come(self) -> bool:
        """Whether every subscriber has got the last publication of every publisher."""
        return self._judge.has_all_come()

    def judge(self, figures: Figures) -> tuple[Figures, list[str]]:
        """The figures with the counts of the ledger, and what is wrong with it."""
        verdict = self._judge.verdict()
        counts = {name: getattr(verdict, name) for name in ("acknowledged", "delivered", "lost", "twice", "disordered")}
        return figures._replace(**counts), [*verdict.problems]


def broken_bounds(figures: Figures, rows: Iterable[tuple[str, int, float]] = ()) -> list[str]:
    """The bounds that were not kept.

    >>> broken_bounds(Figures(p99_ms=90.0, p99_ms_alone=10.0))
    ['p99: 90 ms with attacks, 10 ms alone; the bound is 50 ms']
    >>> broken_bounds(Figures(p99_ms=90.0, p99_ms_alone=30.0))
    []
    """
    found = []
    bound = max(P99_MS, P99_FACTOR * figures.p99_ms_alone)
    if figures.p99_ms > bound:
        worst = ", ".join(f"{name} {ms:.0f} ms" for name, _, ms in [*rows][:5] if ms > bound)
        found.append(
            f"p99: {figures.p99_ms:.0f} ms with attacks, {figures.p99_ms_alone:.0f} ms alone; the bound is "
            f"{bound:.0f} ms" + (f"; worst while these were made: {worst}" if worst else "")
        )
    if figures.rss_mib > MEMORY_MIB:
        found.append(f"memory: {figures.rss_mib} MiB; the bound is {MEMORY_MIB} MiB")
    return found


class Trouble(NamedTuple):
    """Something that went wrong, and the attacks that were being made."""

    text: str
    during: tuple[str, ...] = ()


def unserved(visits: Iterable[Visit], breaks: Iterable[Break], spans: Sequence[Span]) -> list[Trouble]:
    """Innocent clients that could not connect or lost their connections."""
    return [
        *(
            Trouble(f"an innocent client was turned away at {each.server}: {each.error}", during(each.began, spans))
            for each in visits
            if each.error
        ),
        *(
            Trouble(f"an innocent client lost its connection: {each.text}", during(each.moment, spans))
            for each in breaks
        ),
    ]


def during(moment: float, spans: Iterable[Span]) -> tuple[str, ...]:
    """The attacks that were made at a moment.

    >>> during(1.5, [Span("flood", 1.0, 2.0), Span("twins", 3.0, 4.0)])
    ('flood',)
    """
    return tuple(each.name for each in spans if each.began <= moment <= each.ended + 1)


def told(troubles: Iterable[Trouble]) -> list[str]:
    """Each trouble once, with how often it happened and the attacks that were made most often meanwhile.

    >>> told([Trouble("a", ("flood", "twins")), Trouble("b"), Trouble("a", ("flood",))])
    ['a (2 times; during flood 2, twins 1)', 'b']
    """
    times: Counter[str] = Counter()
    attacks: dict[str, Counter[str]] = {}
    for each in troubles:
        times[each.text] += 1
        attacks.setdefault(each.text, Counter()).update(each.during)
    found = []
    for text, count in times.items():
        more = [f"{count} times"] if count > 1 else []
        names = ", ".join(f"{name} {number}" for name, number in attacks[text].most_common(_MOST_NAMED))
        more += [f"during {names}"] if names else []
        found.append(f"{text} ({'; '.join(more)})" if more else text)
    return found
