"""Figures as data: what a plot shows of some results, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from palio.errors import InternalError
from palio.lab.estimates import Estimate, estimate
from palio.lab.study import WORST_SITE, Bars, Curve, MissingRunsError, Plot, Results, Scale


class Point(NamedTuple):
    """A mean over runs, with the ends of its error bar."""

    x: float
    mean: float
    low: float
    high: float


class Series(NamedTuple):
    """A line with its points, from left to right."""

    label: str
    style: int
    points: tuple[Point, ...]


class Figure(NamedTuple):
    """All that is drawn."""

    name: str
    title: str
    x_label: str
    y_label: str
    x_scale: Scale
    y_scale: Scale
    bars: Bars
    series: tuple[Series, ...]

    def document(self) -> dict[str, Any]:
        """As it is stored beside the drawing."""
        lines = [{"label": each.label, "points": [point._asdict() for point in each.points]} for each in self.series]
        return self._asdict() | {"series": lines}


def figure_of(plot: Plot, results: Results) -> Figure:
    """What a plot shows of results: all of its curves and points that the grid has, and at least one.

    >>> from palio.lab.study import Measured, Run, Setting
    >>> runs = [Run("e", Setting("as", 1, parties), number) for parties in (1, 10) for number in (0, 1)]
    >>> results = Results(Measured(run, {"cost": float(run.repetition)}, {}) for run in runs)
    >>> curves = (Curve("as", 0, {"architecture": "as"}), Curve("hs", 1, {"architecture": "hs"}))
    >>> figure = figure_of(Plot("cost", "What all costs", "", "e", "cost", curves, "cost", bars="deviation"), results)
    >>> [(each.label, [(point.x, point.mean) for point in each.points]) for each in figure.series]
    [('as', [(1, 0.5), (10, 0.5)])]
    """
    places = [x for x in results.settings(plot.experiment, plot.x) if plot.most is None or x <= plot.most]
    lines = [Series(curve.label, curve.style, _points(plot, curve, places, results)) for curve in plot.curves]
    shown = tuple(line for line in lines if line.points)
    if not shown:
        raise MissingRunsError(f"{plot.name}: there is no run to draw")
    return Figure(plot.name, plot.title, plot.x_label, plot.y_label, plot.x_scale, plot.y_scale, plot.bars, shown)


def _points(plot: Plot, curve: Curve, places: Sequence[int], results: Results) -> tuple[Point, ...]:
    found = []
    for x in places:
        where = {**plot.where, **curve.where, plot.x: x}
        try:
            values = _values(plot, where, results)
        except MissingRunsError:
            continue
        spread = _deviation(values) if plot.bars == "deviation" else estimate(values)
        if plot.y_scale == "linear" or spread.mean > 0:  # what is not above zero has no place on a logarithmic axis
            found.append(Point(x, *spread))
    return tuple(found)


def _values(plot: Plot, where: dict[str, object], results: Results) -> list[float]:
    settings = {each.run.setting for each in results.select(plot.experiment, **where)}
    if len(settings) > 1:
        raise InternalError(f"plot {plot.name}: a point would be the mean of different settings, {where}")
    if plot.metric == WORST_SITE:
        return results.worst_site(plot.experiment, **where)
    return results.values(plot.experiment, plot.metric, **where)


def _deviation(values: Sequence[float]) -> Estimate:
    mean = fmean(values)
    half = stdev(values) if len(values) > 1 else 0.0
    return Estimate(mean, mean - half, mean + half)
