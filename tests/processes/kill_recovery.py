"""How long servers that were killed take to come back, from what they say in their logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from statistics import quantiles
from typing import Any

Said = Mapping[str, Any]
"""A line of a server's log."""


def reconnections(logs: Mapping[str, Iterable[Said]]) -> Iterator[float]:
    """Seconds from when both ends of a link listened until they were connected, for each time that one had started.

    >>> def said(second, event, **more):
    ...     return {"timestamp": f"2026-01-01T00:00:{second:02}Z", "event": event, **more}
    >>> a = [said(0, "listening"), said(5, "peer-connected", peer="b"), said(9, "peer-connected", peer="b")]
    >>> b = [said(2, "listening"), said(8, "listening")]
    >>> list(reconnections({"a": a, "b": b}))
    [3.0, 1.0]
    """
    known = {name: list(lines) for name, lines in logs.items()}
    starts = {name: [_time(each) for each in lines if each["event"] == "listening"] for name, lines in known.items()}
    for name, lines in known.items():
        for place, each in enumerate(lines):
            if each["event"] == "peer-connected":
                connected, peer = _time(each), each["peer"]
                began = max(start for end in (name, peer) for start in starts[end] if start <= connected)
                if not any(
                    other["event"] in ("peer-connected", "peer-lost") and other["peer"] == peer
                    for other in lines[:place]
                    if _time(other) >= began
                ):
                    yield (connected - began).total_seconds()


def _time(line: Said) -> datetime:
    return datetime.fromisoformat(line["timestamp"])


def spread_of(seconds: Iterable[float]) -> str:
    """In words, for people.

    >>> spread_of([1.0, 2.0, 3.0])
    'median 2.00 s, 9 of 10 below 2.80 s, at most 3.00 s'
    """
    known = list(seconds)
    if len(known) < 2:
        return "too few to tell"
    tenths = quantiles(known, n=10, method="inclusive")
    return f"median {tenths[4]:.2f} s, 9 of 10 below {tenths[8]:.2f} s, at most {max(known):.2f} s"
