#!/usr/bin/env python3
"""What a study's traces say beyond its metrics: of which messages the cost of a run consists, as parties grow.

    .venv/bin/python examples/lab_figure.py build/lab-example

Loads the traces in that folder with Spark; if there are none, plays a few runs first and keeps theirs (a minute or so).
Traces of a study of your own come from ``palio lab run --traces``. Writes ``figure.png`` next to them. Needs Spark, a
Java runtime and matplotlib (``make setup`` has the first and the last).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from palio import spark
from palio.lab import metrics, networks
from palio.lab.study import Experiment, Setting
from palio.lab.sweep import Sweep, runs_table, traces_table

PARTIES = (1, 3, 10, 30, 100, 300)
NAMES = {"hs": "hierarchy (hs)", "as": "peers (as)", "aa": "peers that advertise (aa)"}
"""Architectures that are shown, if there are traces of them."""
COLOURS = {
    "subscribe": "#0072b2",
    "unsubscribe": "#56b4e9",
    "advertise": "#d55e00",
    "unadvertise": "#e69f00",
    "publish": "#999999",
    "notification": "#009e73",
}
"""By type of message, from the bottom to the top: what keeps tables, then what is carried."""


class Part(NamedTuple):
    """A type of message in runs of one architecture and so many parties."""

    architecture: str
    parties: int
    type: str
    share: float
    """Of what all messages of a run cost, in the mean of runs."""


def play(session: SparkSession, folder: Path, parties: tuple[int, ...]) -> None:
    """A small study: ten objects, more and more parties, every message kept."""
    settings = tuple(
        Setting(architecture, 10, some, object_cycles=2, party_cycles=3) for architecture in NAMES for some in parties
    )
    _, network = networks.named(networks.USUAL_NETWORK)
    sweep = Sweep((Experiment("example", settings, 2),), network, str(folder), longest_trace=1_000_000)
    swept = sweep.run(
        session, lambda standing: print(f"\r{standing.done} of {standing.runs} runs ", end="", flush=True)
    )
    print()
    for failed in swept.failed:
        print(f"failed: {failed.run}: {failed.problem}")


def parts(traces: DataFrame, runs: DataFrame) -> list[Part]:
    """Ask for the cost of each type of message, as a share of its run; and the mean of runs that are alike.

    A type that some run does not have costs nothing there: the mean is over all runs of its setting.
    """
    costs = metrics.per_type(traces).select("run", "type", "cost")
    totals = metrics.totals(traces).select("run", f.col("cost").alias("total")).where("total > 0")
    known = runs.select("run", "architecture", "parties").join(totals, "run")
    alike = known.groupBy("architecture", "parties").agg(f.count("*").alias("runs"))
    shares = (
        costs.join(known, "run")
        .groupBy("architecture", "parties", "type")
        .agg(f.sum(f.col("cost") / f.col("total")).alias("sum"))
        .join(alike, ["architecture", "parties"])
        .select("architecture", "parties", "type", (f.col("sum") / f.col("runs")).alias("share"))
    )
    return [Part(*row) for row in shares.orderBy("architecture", "parties", "type").collect()]


def draw(axes: Axes, architecture: str, found: list[Part]) -> None:
    """Shares on top of each other, over parties; of all types that cost anything anywhere."""
    mine = {(part.parties, part.type): part.share for part in found if part.architecture == architecture}
    parties = sorted({number for number, _ in mine})
    kinds = [kind for kind in COLOURS if any(part.type == kind and part.share for part in found)]
    layers = [[100 * mine.get((number, kind), 0.0) for number in parties] for kind in kinds]
    colours = [COLOURS[kind] for kind in kinds]
    axes.stackplot(parties, layers, colors=colours, labels=kinds, edgecolor="white", lw=0.5)
    axes.set_title(NAMES[architecture], fontsize=11)
    axes.set_xscale("log")
    axes.set_xticks(parties, [f"{number:,}" for number in parties])
    axes.minorticks_off()
    axes.margins(x=0)
    axes.set_ylim(0, 100)
    axes.set_xlabel("parties")


def main() -> None:
    """Load or play, ask, draw."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("folder", type=Path, help="where a study left its traces, or where to leave some")
    arguments.add_argument("--parties", type=int, nargs="+", default=PARTIES, help="in the runs that are played")
    given = arguments.parse_args()
    session = spark.session("local[*]")
    if not any(given.folder.glob("traces/*/*.parquet")):
        play(session, given.folder, tuple(given.parties))
    found = parts(traces_table(session, given.folder), runs_table(session, given.folder))
    session.stop()
    shown = [name for name in NAMES if any(part.architecture == name for part in found)]
    if not shown:
        raise SystemExit(f"{given.folder} has no traces of {', '.join(NAMES)}")
    figure, places = plt.subplots(1, len(shown), figsize=(1.5 + 3.4 * len(shown), 3.8), sharey=True, squeeze=False)
    for axes, architecture in zip(places[0], shown, strict=True):
        draw(axes, architecture, found)
    places[0][0].set_ylabel("share of the cost of all messages, %")
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right center", frameon=False)
    figure.set_layout_engine("constrained", w_pad=0.12)  # else the last number of one is at the first of the next
    figure.savefig(given.folder / "figure.png", dpi=150)
    print(f"{given.folder / 'figure.png'}: {len(found)} shares")


if __name__ == "__main__":
    main()
