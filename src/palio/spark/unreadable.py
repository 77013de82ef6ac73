"""Values that cannot be read: counted by column in the driver, while jobs run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from pyspark import Accumulator, AccumulatorParam, SparkContext

_LOG = logging.getLogger("palio.spark")

UnreadableCounter = Accumulator[Counter[str]]
"""What tasks add to: how many values of which columns cannot be read."""


class _Sums(AccumulatorParam[Counter[str]]):
    """Adds up counts by column."""

    def zero(self, value: Counter[str]) -> Counter[str]:  # noqa: ARG002 (the interface of Spark)
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802 (so Spark calls it)
        value1.update(value2)
        return value1


class _LoggedSums(_Sums):
    """The same; in the driver, the first ones are logged."""

    def __init__(self) -> None:
        self._is_logged = False

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802 (so Spark calls it)
        if value2 and not self._is_logged:
            self._is_logged = True
            _LOG.warning(
                "values that cannot be read, so far: %s; filters that mention these columns do not match such events. "
                "FilterSet.unreadable counts them, problems=True gives their keys and the reasons",
                ", ".join(f"{count:,} in column {name!r}" for name, count in sorted(value2.items())),
            )
        return super().addInPlace(value1, value2)

    def __reduce__(self) -> tuple[type[_Sums], tuple[()]]:
        """Workers add, and do not log."""
        return _Sums, ()


class UnreadableCounts:
    """How many values could not be read by the jobs of a set of filters, by column."""

    def __init__(self, context: SparkContext) -> None:
        self.logged: UnreadableCounter = context.accumulator(Counter(), _LoggedSums())
        """For results without problems: the first counts are logged."""
        self.told: UnreadableCounter = context.accumulator(Counter(), _Sums())
        """For results that have the problems."""

    def total(self) -> Counter[str]:
        """By all jobs so far."""
        return self.logged.value + self.told.value


def count_into(counter: UnreadableCounter | None, columns: Iterable[str]) -> None:
    """Add the columns of values that cannot be read."""
    found = Counter(columns)
    if counter is not None and found:
        counter.add(found)
