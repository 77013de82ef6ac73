"""What every benchmark prints: the machine it ran on, and a table or JSON of its results."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec.json

Figure = str | int | float | None


class Report(NamedTuple):
    """Results of one benchmark; every row has the same keys."""

    benchmark: str
    results: Sequence[dict[str, Figure]]
    notes: Sequence[str] = ()
    """What was left out, and why."""

    def to_json(self) -> bytes:
        """``{"benchmark", "machine", "results": [...]}``, indented; with "notes", if there are any."""
        document = {"benchmark": self.benchmark, "machine": machine(), "results": list(self.results)}
        if self.notes:
            document["notes"] = list(self.notes)
        return msgspec.json.format(msgspec.json.encode(document), indent=2)


def machine() -> dict[str, Figure]:
    """Cores, memory, processor, Python and date: without them a figure says nothing.

    >>> sorted(machine())
    ['cores', 'cpu', 'date', 'memory_gib', 'python', 'system']
    """
    return {
        "cores": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def format_figure(figure: Figure) -> str:
    """A figure for people: thousands separated, three digits that mean something; empty where there is none.

    >>> format_figure(1234567.8), format_figure(0.012345), format_figure("parse")
    ('1,234,568', '0.0123', 'parse')
    """
    if figure is None:
        return ""
    if isinstance(figure, str):
        return figure
    if isinstance(figure, int) or abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.3g}"
