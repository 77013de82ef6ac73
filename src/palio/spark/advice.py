"""Advice about filters that are read, and still cannot match as they were meant."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection

from palio.errors import brief
from palio.spark.filters import FilterSet

_LOG = logging.getLogger("palio.spark")
_SHOWN = 5


def missing_attributes(mentioned: Collection[str], columns: Collection[str]) -> dict[str, str | None]:
    """Names in filters that no column has, each with the column that was perhaps meant.

    >>> missing_attributes({"level", "Room", "x"}, ["level", "room"])
    {'Room': 'room', 'x': None}
    """
    found = {}
    for name in sorted(set(mentioned) - set(columns)):
        same = [column for column in columns if column.lower() == name.lower()]
        close = same or difflib.get_close_matches(name, columns, n=1)
        found[name] = close[0] if close else None
    return found


def warn_of_missing(made: FilterSet, columns: Collection[str]) -> None:
    """Say once for a set of filters which attributes no column has."""
    missing = missing_attributes(made.attributes - made.known_missing, columns)
    if not missing:
        return
    made.known_missing |= missing.keys()
    shown = [f"{brief(name)} (perhaps {brief(near)}?)" if near else brief(name) for name, near in missing.items()]
    more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    _LOG.warning("attributes that filters mention and no column has: %s%s", ", ".join(shown[:_SHOWN]), more)
