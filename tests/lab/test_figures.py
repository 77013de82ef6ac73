"""Figures: what a plot shows of results, and how that is drawn."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from statistics import fmean, stdev
from xml.etree import ElementTree

import pytest
from matplotlib import rcParams
from matplotlib.container import ErrorbarContainer

from palio.errors import CallerError, InternalError
from palio.lab.drawing import draw, png, svg
from palio.lab.estimates import estimate
from palio.lab.figures import Figure, Point, Series, figure_of
from palio.lab.siena import PARTIES as PARTIES_OF_ALL
from palio.lab.siena import STUDIES, experiments
from palio.lab.siena_plots import DELAY_PLOTS
from palio.lab.study import WORST_SITE, Curve, Experiment, Measured, MissingRunsError, Plot, Results, Run, Setting
from palio.lab.tally import METRICS

AS, HS = (Curve(name, style, {"architecture": name}) for style, name in enumerate(("as", "hs")))
PLOT = Plot("some", "Some title", "thesis, figure 5.6", "e", "cost", (AS, HS), "total cost", {"objects": 1})
PARTIES = (1, 10, 100)
COSTS = {"as": (1.0, 2.0, 6.0), "hs": (10.0, 20.0, 60.0)}
"""Of three repetitions with one party; with more parties, as much more."""


def results(*architectures: str) -> Results:
    measured = []
    for name in architectures:
        for parties in PARTIES:
            for number, cost in enumerate(COSTS[name]):
                run = Run("e", Setting(name, 1, parties), number)
                sites = {"s0": float(number), "s1": 2.0 if number else 0.0}
                measured.append(Measured(run, {"cost": cost * parties}, sites))
    return Results(measured)


FIGURE = figure_of(PLOT, results("as", "hs"))


def test_a_figure_has_means_and_intervals_of_every_curve() -> None:
    assert (FIGURE.name, FIGURE.title) == ("some", "Some title")
    assert (FIGURE.x_label, FIGURE.y_label) == ("interested parties", "total cost")
    assert (FIGURE.x_scale, FIGURE.y_scale) == ("log", "linear")
    assert [(each.label, each.style) for each in FIGURE.series] == [("as", 0), ("hs", 1)]
    for series in FIGURE.series:
        expected = [estimate(cost * parties for cost in COSTS[series.label]) for parties in PARTIES]
        assert series.points == tuple(Point(x, *found) for x, found in zip(PARTIES, expected, strict=True))


def test_bars_can_be_deviations() -> None:
    point = figure_of(PLOT._replace(bars="deviation"), results("as")).series[0].points[0]
    assert point == Point(1, fmean(COSTS["as"]), 3 - stdev(COSTS["as"]), 3 + stdev(COSTS["as"]))


def test_only_what_the_grid_has_is_shown() -> None:
    alone = figure_of(PLOT, results("as"))
    assert [each.label for each in alone.series] == ["as"]
    below = figure_of(PLOT._replace(most=10), results("as"))
    assert [point.x for point in below.series[0].points] == [1, 10]
    with pytest.raises(MissingRunsError, match="some: there is no run to draw"):
        figure_of(PLOT._replace(where={"objects": 1_000}), results("as"))
    with pytest.raises(MissingRunsError):
        figure_of(PLOT._replace(experiment="other"), results("as"))


def test_the_worst_site_is_the_one_with_the_largest_mean() -> None:
    points = figure_of(PLOT._replace(metric=WORST_SITE), results("as")).series[0].points
    assert points[0] == Point(1, *estimate([0.0, 2.0, 2.0]))


def test_what_is_zero_is_not_on_a_logarithmic_axis() -> None:
    measured = [
        Measured(Run("e", Setting("as", 1, parties), 0), {"cost": float(parties - 1)}, {}) for parties in PARTIES
    ]
    drawn = {scale: figure_of(PLOT._replace(y_scale=scale), Results(measured)) for scale in ("linear", "log")}
    assert [point.x for point in drawn["linear"].series[0].points] == [1, 10, 100]
    assert [point.x for point in drawn["log"].series[0].points] == [10, 100]
    assert draw(drawn["log"]).axes[0].get_yscale() == "log"


def test_different_settings_are_not_mixed() -> None:
    with pytest.raises(InternalError, match="different settings"):
        figure_of(PLOT._replace(curves=(Curve("all", 0, {}),)), results("as", "hs"))


# -- drawn -------------------------------------------------------------------------------------------------------------


def test_a_drawing_has_the_axes_lines_and_bars_of_its_figure() -> None:
    canvas = draw(FIGURE)
    (axes,) = canvas.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("interested parties", "total cost")
    assert axes.get_title(loc="left") == "Some title"
    containers = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    assert len(containers) == 2
    for container, series in zip(containers, FIGURE.series, strict=True):
        line, caps, (bars,) = container.lines
        assert line.get_xydata().tolist() == [[point.x, point.mean] for point in series.points]
        assert [cap.get_ydata().tolist() for cap in caps] == [
            pytest.approx([point.low for point in series.points]),
            pytest.approx([point.high for point in series.points]),
        ]
        ends = [end for segment in bars.get_segments() for end in segment.tolist()]
        wanted = [[point.x, end] for point in series.points for end in (point.low, point.high)]
        assert ends == [pytest.approx(each) for each in wanted]
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == ["as", "hs"]
    looks = {(each.lines[0].get_color(), each.lines[0].get_marker()) for each in containers}
    assert len(looks) == 2
    low, high = axes.get_ylim()
    assert low < 0 < high
    assert abs(low) < 0.05 * high


def test_scales_and_numbers_of_axes() -> None:
    other = draw(FIGURE._replace(x_scale="linear", y_scale="log")).axes[0]
    assert (other.get_xscale(), other.get_yscale()) == ("linear", "log")
    assert other.get_ylim()[0] > 0
    canvas = draw(FIGURE)
    canvas.draw_without_rendering()
    labels = [label.get_text() for label in canvas.axes[0].get_xticklabels()]
    assert {"1", "10", "100"} <= set(labels)
    wide = FIGURE._replace(y_scale="log", series=(Series("as", 0, (Point(1, 1, 1, 1), Point(10_000, 1e6, 1e6, 1e6))),))
    assert {"1", "1,000", "1,000,000"} <= _y_labels(wide)
    assert "20" not in _y_labels(wide)
    short = FIGURE._replace(y_scale="log", series=(Series("as", 0, (Point(1, 9, 9, 9), Point(10, 60, 60, 60))),))
    assert {"10", "20", "50"} <= _y_labels(short)


def _y_labels(figure: Figure) -> set[str]:
    canvas = draw(figure)
    canvas.draw_without_rendering()
    return {label.get_text() for label in canvas.axes[0].get_yticklabels()}


def test_a_style_looks_the_same_in_all_figures() -> None:
    def colour(figure: Figure) -> object:
        return draw(figure).axes[0].get_lines()[0].get_color()

    alone = figure_of(PLOT, results("hs"))
    assert colour(alone) != colour(figure_of(PLOT, results("as")))
    assert colour(alone) == draw(FIGURE).axes[0].containers[1].lines[0].get_color()


def test_nothing_is_cut_off() -> None:
    for plot in (plot for study in STUDIES for plot in study.plots):
        labels = tuple(Series(curve.label, curve.style, FIGURE.series[0].points) for curve in plot.curves)
        canvas = draw(FIGURE._replace(title=plot.title, y_label=plot.y_label, series=labels))
        box = canvas.get_tightbbox()
        assert box.x0 >= 0, plot.name
        assert box.y0 >= 0, plot.name
        assert box.x1 <= canvas.get_figwidth(), plot.name
        assert box.y1 <= canvas.get_figheight(), plot.name


def test_svg_is_always_the_same_and_has_text() -> None:
    text = svg(FIGURE)
    assert text == svg(FIGURE)
    root = ElementTree.fromstring(text)
    words = {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Some title", "interested parties", "total cost", "as", "hs"} <= words
    assert "metadata" not in text
    assert "<image" not in text


def test_several_drawings_fit_into_one_page() -> None:
    one, other = (re.findall(r' id="([^"]+)"', svg(FIGURE._replace(name=name))) for name in ("one", "other"))
    assert len(one) == len(set(one)) > 10
    assert not set(one) & set(other)
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg(FIGURE._replace(name="one"))))
    assert used
    assert used <= set(one)


def test_text_is_escaped_and_never_mathematics() -> None:
    text = svg(FIGURE._replace(title='<script> & $x^2$ id="a"'))
    assert "&lt;script&gt; &amp; $x^2$" in text
    assert "<script" not in text


def test_png() -> None:
    assert png(FIGURE).startswith(b"\x89PNG")
    assert png(FIGURE) == png(FIGURE)


def test_drawing_leaves_no_settings_behind() -> None:
    before = dict(rcParams)
    svg(FIGURE)
    draw(FIGURE)
    assert dict(rcParams) == before


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "palio.lab.drawing")
    with pytest.raises(CallerError, match=r"'matplotlib' is not installed; install Palio with the extra palio\[lab\]"):
        import_module("palio.lab.drawing")


# -- the plots of the wide-area studies --------------------------------------------------------------------------------


PLOTS = {plot.name: plot for study in STUDIES for plot in study.plots}


def made_up(*grids: Experiment) -> Results:
    """Runs of which every figure is 1."""
    metrics = dict.fromkeys([*METRICS, "publication_delay"], 1.0)
    return Results(Measured(run, metrics, {"s0": 1.0}) for grid in grids for run in grid.runs())


def test_the_full_grid_has_the_runs_of_every_plot() -> None:
    grids = experiments(quick=False)
    everything = made_up(*(grid._replace(repetitions=2) for grid in grids))
    assert len(PLOTS) == sum(len(study.plots) for study in STUDIES)
    for study in STUDIES:
        for plot in study.plots:
            assert plot.experiment in study.experiments
            figure = figure_of(plot, everything)
            assert [each.label for each in figure.series] == [curve.label for curve in plot.curves]
            assert len({len(each.points) for each in figure.series}) == 1
            assert len(figure.series[0].points) >= 3
            assert all(point[1:] == (1.0, 1.0, 1.0) for each in figure.series for point in each.points)


def test_the_quick_grid_lacks_what_has_a_thousand_objects() -> None:
    some = made_up(*experiments(quick=True))
    missing = []
    for plot in PLOTS.values():
        try:
            figure_of(plot, some)
        except MissingRunsError:
            missing.append(plot.name)
    assert missing == [name for name in PLOTS if name.endswith("-1000")]
    assert len(missing) == 7


@pytest.mark.parametrize(
    ("name", "labels", "places", "scales"),
    [
        ("total-cost-centralized", "ce hs as aa", PARTIES_OF_ALL, ("log", "linear")),
        ("total-cost-1", "hs as aa", PARTIES_OF_ALL, ("log", "linear")),
        ("total-cost-sparse-10", "hs as aa", (1, 2, 5, 10, 20, 50, 100), ("linear", "linear")),
        ("total-cost-aa", "1 10 100 1,000", PARTIES_OF_ALL, ("log", "log")),
        ("worst-site-1000", "hs as", PARTIES_OF_ALL, ("log", "linear")),
        ("service-cost-100", "ce hs as aa", PARTIES_OF_ALL, ("log", "linear")),
        ("notification-cost-no-party", "hs as", (10, 100, 1_000), ("log", "linear")),
        ("notification-cost-one-notification", "hs as", (10, 100, 1_000), ("log", "linear")),
    ],
)
def test_plots_have_the_form_of_the_originals(
    name: str, labels: str, places: tuple[int, ...], scales: tuple[str, str]
) -> None:
    figure = figure_of(PLOTS[name], made_up(*experiments(quick=False)))
    assert [re.split("[: ]", each.label)[0] for each in figure.series] == labels.split()
    assert tuple(point.x for point in figure.series[0].points) == places
    assert (figure.x_scale, figure.y_scale) == scales
    assert PLOTS[name].original


def test_every_figure_of_the_thesis_has_a_plot() -> None:
    originals = " ".join(plot.original for plot in PLOTS.values())
    assert [number for number in range(6, 18) if f"5.{number}" not in originals] == []


def test_plots_of_delays() -> None:
    settings = tuple(Setting(name, objects, 10) for name in ("ce", "as") for objects in (1, 100))
    some = made_up(Experiment("siena", settings, 2))
    assert [plot.where["objects"] for plot in DELAY_PLOTS] == [1, 10, 100, 1_000]
    figure = figure_of(DELAY_PLOTS[0], some)
    assert [each.label[:2] for each in figure.series] == ["ce", "as"]
    assert figure.series[0].points == (Point(10, 1.0, 1.0, 1.0),)
