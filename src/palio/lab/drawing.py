"""Figures drawn with matplotlib: the only module that knows it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from io import BytesIO
from math import log10
from typing import Literal

from palio.errors import CallerError
from palio.lab.figures import Figure, Series


class MissingLibraryError(CallerError):
    """Something that is to be used is not installed."""


try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
except ModuleNotFoundError as error:
    raise MissingLibraryError(
        f"figures need matplotlib, and {error.name!r} is not installed; install Palio with the extra palio[lab]"
    ) from error

_INCHES = (6.4, 4.4)
_DOTS = 150
_INK, _PALE = "#222222", "#d9d9d9"
_STYLES = (("#d55e00", "s", "-"), ("#0072b2", "o", "-"), ("#009e73", "^", "-"), ("#cc79a7", "x", "--"))
"""Colours that people with any kind of colour blindness can tell apart (Okabe and Ito), markers and lines. The last
lets another that it lies on show.
"""
_BELOW = -0.03
"""How much of a linear axis is below zero."""
_SHORT = 3
"""Powers of ten up to which a logarithmic axis has numbers between them."""
_NOTHING = {"Creator": None, "Date": None, "Format": None, "Type": None}


def _look() -> AbstractContextManager[None]:
    """Settings that matplotlib takes from nowhere else; they are as before in the end."""
    return rc_context(
        {
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": "palio",  # the same figure gives the same bytes
            "text.parse_math": False,  # a dollar is a dollar
            "font.family": "sans-serif",
            "font.size": 11.0,
            "text.color": _INK,
            "axes.edgecolor": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
        }
    )


def draw(figure: Figure) -> Canvas:
    """A figure as matplotlib has it."""
    with _look():
        return _draw(figure)


def _draw(figure: Figure) -> Canvas:
    canvas = Canvas(figsize=_INCHES, layout="constrained")
    axes = canvas.add_subplot()
    axes.set_title(figure.title, fontsize="medium", loc="left")
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.set_axisbelow(True)
    axes.grid(color=_PALE, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xscale(figure.x_scale)
    axes.set_yscale(figure.y_scale)
    for series in figure.series:
        _draw_series(axes, series)
    _scale(axes, figure)
    canvas.legend(loc="outside lower center", ncols=2, frameon=False)
    return canvas


def _draw_series(axes: Axes, series: Series) -> None:
    colour, marker, line = _STYLES[series.style % len(_STYLES)]
    points = series.points
    axes.errorbar(
        [point.x for point in points],
        [point.mean for point in points],
        yerr=[[point.mean - point.low for point in points], [point.high - point.mean for point in points]],
        label=series.label,
        color=colour,
        marker=marker,
        linestyle=line,
        markersize=5,
        linewidth=1.6,
        elinewidth=1.1,
        capsize=3.5,
        capthick=1.1,
    )


def _scale(axes: Axes, figure: Figure) -> None:
    numbers = FuncFormatter(lambda value, _: f"{value:,.10g}")
    axes.xaxis.set_major_formatter(numbers)
    axes.yaxis.set_major_formatter(numbers)
    if figure.x_scale == "log":
        axes.xaxis.set_minor_formatter(NullFormatter())
    if figure.y_scale == "log":
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if log10(high / low) < _SHORT else (1,)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        # From zero on, as a part of an axis makes small differences look large; and a little below, or what is zero
        # would be hidden by the axis.
        top = axes.get_ylim()[1]
        axes.set_ylim(_BELOW * top, top)


def svg(figure: Figure) -> str:
    """As SVG. All its identifiers begin with the figure's name, so that several can be in one page."""
    text = _print(figure, "svg").decode()
    text = re.sub(r'(<[^<>]* id=")', rf"\g<1>{figure.name}-", text)
    return re.sub(r'(url\(#|xlink:href="#)', rf"\g<1>{figure.name}-", text)


def png(figure: Figure) -> bytes:
    """As PNG."""
    return _print(figure, "png")


def _print(figure: Figure, form: Literal["svg", "png"]) -> bytes:
    buffer = BytesIO()
    with _look():
        metadata = _NOTHING if form == "svg" else {"Software": None}
        _draw(figure).savefig(buffer, format=form, dpi=_DOTS, metadata=metadata)
    return buffer.getvalue()
