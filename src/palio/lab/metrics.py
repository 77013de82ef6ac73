"""Metrics as Spark SQL over traces: tables that can be asked further questions.

All take a table of messages with the fields of the thesis (:func:`palio.lab.sweep.traces_table`), and give a table with
a row for each run and, of what messages are grouped by, each group.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_REQUESTS = ("publish", "subscribe", "unsubscribe", "advertise", "unadvertise")
"""The types of messages with which services begin."""


def _costs() -> list[Column]:
    """How many messages of a group there are, and what they cost."""
    cost = f.col("cost")
    return [
        f.count(cost).alias("messages"),
        f.sum(cost).alias("cost"),
        f.min(cost).alias("least_cost"),
        f.avg(cost).alias("mean_cost"),
        f.stddev_pop(cost).alias("cost_deviation"),
        f.max(cost).alias("highest_cost"),
    ]


def totals(traces: DataFrame) -> DataFrame:
    """All messages of a run."""
    return traces.groupBy("run").agg(*_costs())


def per_type(traces: DataFrame) -> DataFrame:
    """By type of message."""
    return traces.groupBy("run", "type").agg(*_costs())


def per_site(traces: DataFrame) -> DataFrame:
    """By site that sends or gets them; what stays within a site counts once."""
    sent = traces.select("run", f.col("source_site").alias("site"), "cost")
    got = traces.where("source_site <> destination_site").select("run", f.col("destination_site").alias("site"), "cost")
    return sent.unionAll(got).groupBy("run", "site").agg(*_costs())


def per_link(traces: DataFrame) -> DataFrame:
    """By the two sites between which they go, whichever way; what stays within a site is on no link."""
    ends = [f.col("source_site"), f.col("destination_site")]
    between = traces.where("source_site <> destination_site")
    return between.groupBy("run", f.least(*ends).alias("one"), f.greatest(*ends).alias("other")).agg(*_costs())


def per_service(traces: DataFrame) -> DataFrame:
    """By the request from which they follow; with its kind, and the time from first departure to last arrival."""
    codes = f.lit(0)
    for code, kind in enumerate(_REQUESTS, 1):
        codes = f.when(f.col("type") == kind, code).otherwise(codes)
    # the type of the first message; in one number, as aggregating texts would make Spark sort all messages
    first = f.min(f.col("message_id") * 8 + codes)
    return (
        traces.groupBy("run", "service_id")
        .agg(first.alias("first"), *_costs(), (f.max("arrival") - f.min("departure")).alias("delay"))
        .select(
            "run",
            "service_id",
            f.array(*map(f.lit, ("", *_REQUESTS)))[(f.col("first") % 8).cast("int")].alias("kind"),
            "messages",
            "cost",
            "least_cost",
            "mean_cost",
            "cost_deviation",
            "highest_cost",
            "delay",
        )
    )


def figures(traces: DataFrame, sites: int) -> DataFrame:
    """The metrics of :mod:`palio.lab.tally`, a row a run; ``sites`` counts also those without messages."""
    services = per_service(traces)
    of_kind = {
        "subscription_cost": ("subscribe", "cost"),
        "notification_cost": ("publish", "cost"),
        "subscription_delay": ("subscribe", "delay"),
        "publication_delay": ("publish", "delay"),
    }
    means = [
        f.coalesce(f.avg(f.when(f.col("kind") == kind, f.col(what))), f.lit(0.0)).alias(name)
        for name, (kind, what) in of_kind.items()
    ]
    by_service = services.groupBy("run").agg(
        f.sum("messages").cast("double").alias("messages"),
        f.sum("cost").cast("double").alias("cost"),
        f.count("*").cast("double").alias("services"),
        (f.sum("cost") / f.count("*")).alias("service_cost"),
        *means,
        f.avg("delay").alias("mean_delay"),
        f.max("delay").cast("double").alias("longest_delay"),
    )
    loads = (
        per_site(traces)
        .groupBy("run")
        .agg((f.sum("cost") / sites).alias("mean"), (f.sum(f.col("cost") * f.col("cost")) / sites).alias("square"))
    )
    mean, square = f.col("mean"), f.col("square")
    deviation = f.sqrt(f.greatest(square - mean * mean, f.lit(0.0)))
    variation = f.when(mean > 0, deviation / mean).otherwise(0.0)
    return by_service.join(loads.select("run", variation.alias("site_variation")), "run")
