"""Means with what is known of their error: 95 % confidence intervals over runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from palio.errors import CallerError

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Quantiles of Student's distribution for 1, 2, … degrees of freedom; above those the last but a little."""
_MANY = 2.0


class TooFewPointsError(CallerError):
    """There is not enough to estimate something from."""


class Estimate(NamedTuple):
    """A mean, and between which bounds it is with a probability of 95 %.

    >>> estimate([1.0, 2.0, 3.0])
    2.00 [-0.48, 4.48]
    >>> estimate([5.0])
    5.00
    """

    mean: float
    low: float
    high: float

    def __repr__(self) -> str:
        if self.low == self.high:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def estimate(values: Iterable[float]) -> Estimate:
    """The mean of runs; of one run there is no interval."""
    given = list(values)
    if not given:
        raise CallerError("there is no run to take the mean of")
    mean = fmean(given)
    if len(given) == 1:
        return Estimate(mean, mean, mean)
    freedom = len(given) - 1
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _MANY
    half = quantile * stdev(given) / sqrt(len(given))
    return Estimate(mean, mean - half, mean + half)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent by which y grows with x: the slope of the line through the logarithms, by least squares.

    What is not above zero has no logarithm, and does not count.

    >>> round(slope([(1, 3), (10, 30), (100, 300), (1000, 0)]), 6)
    1.0
    """
    logs = [(log(x), log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        raise TooFewPointsError("a slope needs two points at least that are above zero")
    middle_x, middle_y = fmean(x for x, _ in logs), fmean(y for _, y in logs)
    spread = sum((x - middle_x) ** 2 for x, _ in logs)
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / spread


def variation(values: Sequence[float]) -> float:
    """The deviation relative to the mean.

    >>> variation([1.0, 3.0])
    0.7071067811865476
    """
    mean = fmean(values)
    return stdev(values) / mean if mean and len(values) > 1 else 0.0
