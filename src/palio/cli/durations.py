"""Times and durations as they are typed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


class TimeOrDuration(click.ParamType[datetime | timedelta]):
    """A time, or a duration.

    >>> TimeOrDuration().convert("10m", None, None)
    datetime.timedelta(seconds=600)
    >>> TimeOrDuration().convert("2026-11-16T09:30Z", None, None)
    datetime.datetime(2026, 11, 16, 9, 30, tzinfo=datetime.timezone.utc)
    """

    name = "time"

    def convert(
        self, value: str | datetime | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        """Read it; a time without a time zone is in UTC."""
        if isinstance(value, datetime | timedelta):
            return value
        found = _DURATION.fullmatch(value)
        try:
            if found is not None:
                return timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
            time = datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a duration, such as 90s, 10m, 2h or 7d, nor a time", param, ctx)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time
