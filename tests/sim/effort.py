"""How many histories each test of a suite plays: some in ``make test``, one in ``make check``, many in a soak."""

from __future__ import annotations

from hypothesis import settings

_TIMES = {"check": 0, "soak": 20}


def seeds(count: int) -> range:
    """The seeds of the histories, ``count`` of them in ``make test``."""
    return range(max(1, count * _TIMES.get(settings.get_current_profile_name(), 1)))
