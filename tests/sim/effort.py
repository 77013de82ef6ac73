"""How many histories each test of a suite plays: all that are given, or the first one in ``make check``."""

from __future__ import annotations

from hypothesis import settings

IS_SHORT = settings.get_current_profile_name() == "check"


def seeds(count: int) -> range:
    """The seeds of the histories."""
    return range(1 if IS_SHORT else count)
