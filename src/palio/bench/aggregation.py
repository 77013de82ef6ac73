"""How fast Spark makes the lab's tables of long traces, beside duckdb on the same files with as many threads.

A few runs are played and their traces written out again and again, as other runs: playing all of them would take an
hour. Both engines must say the same before anything is measured: all rows of one run of each architecture, and of the
whole table the number of rows and the sums of all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from palio.errors import CallerError, InternalError
from palio.lab import metrics, networks
from palio.lab.siena_claims import ARCHITECTURES
from palio.lab.study import Experiment, Run, Setting
from palio.lab.sweep import Sweep, traces_table
from palio.lab.work import ROWS, number_of, trace_file

if TYPE_CHECKING:  # it is not needed for anything else
    import duckdb

_SETTINGS = tuple(Setting(each, 10, 1_000) for each in ARCHITECTURES)
"""Of the runs that are played: each has some 180,000 messages."""
_ROUNDING = 1e-9
"""By which figures may differ, as a share of them: the engines add up in different order."""

_COSTS = (
    "count(cost) messages, sum(cost)::bigint cost, min(cost) least_cost, avg(cost) mean_cost, "
    "stddev_pop(cost) cost_deviation, max(cost) highest_cost"
)
_PER_SITE = f"""
    select run, site, {_COSTS} from (
        select run, source_site site, cost from traces
        union all select run, destination_site, cost from traces where source_site <> destination_site
    ) group by run, site
"""
_PER_SERVICE = f"""
    select run, service_id, min_by(type, message_id) kind, {_COSTS}, max(arrival) - min(departure) delay
    from traces group by run, service_id
"""
_FIGURES = f"""
    with by_service as (
        select run, sum(messages)::double messages, sum(cost)::double cost, count(*)::double services,
            sum(cost) / count(*) service_cost,
            coalesce(avg(cost) filter (kind = 'subscribe'), 0) subscription_cost,
            coalesce(avg(cost) filter (kind = 'publish'), 0) notification_cost,
            coalesce(avg(delay) filter (kind = 'subscribe'), 0) subscription_delay,
            coalesce(avg(delay) filter (kind = 'publish'), 0) publication_delay,
            avg(delay) mean_delay, max(delay)::double longest_delay
        from ({_PER_SERVICE}) group by run
    ), loads as (
        select run, sum(cost) / $sites mean, sum(cost * cost) / $sites square from ({_PER_SITE}) group by run
    )
    select by_service.*,
        case when mean > 0 then sqrt(greatest(square - mean * mean, 0)) / mean else 0 end site_variation
    from by_service join loads using (run)
"""


class Table(NamedTuple):
    """One of the lab's tables, in both languages."""

    name: str
    spark: Callable[[DataFrame], DataFrame]
    sql: str
    """With ``$sites`` for the number of sites."""


class Traces(NamedTuple):
    """What is aggregated."""

    folder: str
    some_runs: tuple[int, ...]
    """One of each architecture."""
    runs: int
    rows: int
    sites: int


class Timed(NamedTuple):
    """A table by both engines."""

    groups: int
    spark_seconds: float
    duckdb_seconds: float


def tables(sites: int) -> list[Table]:
    """All of them."""
    return [
        Table("totals", metrics.totals, f"select run, {_COSTS} from traces group by run"),
        Table("per_type", metrics.per_type, f"select run, type, {_COSTS} from traces group by run, type"),
        Table("per_site", metrics.per_site, _PER_SITE),
        Table(
            "per_link",
            metrics.per_link,
            f"""select run, least(source_site, destination_site) one, greatest(source_site, destination_site) other,
            {_COSTS} from traces where source_site <> destination_site group by all""",
        ),
        Table("per_service", metrics.per_service, _PER_SERVICE),
        Table("figures", partial(metrics.figures, sites=sites), _FIGURES.replace("$sites", str(sites))),
    ]


def write_traces(spark: SparkSession, folder: str, rows: int) -> Traces:
    """At least so many messages of runs, where and as sweeps leave them."""
    _, network = networks.named(networks.USUAL_NETWORK)
    played = Sweep((Experiment("siena", _SETTINGS, 1),), network, folder, rows)
    swept = played.run(spark)
    if swept.failed:
        raise InternalError(f"{swept.failed[0].run}: {swept.failed[0].problem}")
    first = list(played.experiments[0].runs())
    sizes = {run: pq.read_metadata(trace_file(folder, run)).num_rows for run in first}
    total = sum(sizes.values())
    repetitions = -(-rows // total)
    for run in first:
        trace = pq.read_table(trace_file(folder, run), partitioning=None)
        for number in range(1, repetitions):
            _write_again(trace, number, folder, run._replace(repetition=number))
    some = tuple(number_of(run.name) for run in first)
    return Traces(folder, some, repetitions * len(first), repetitions * total, len(network.names))


def _write_again(trace: pa.Table, number: int, folder: str, run: Run) -> None:
    """The same messages as those of another run: later, and with other ids."""
    for name in ("message_id", "service_id", "departure", "arrival"):
        shifted = pc.add(trace[name], number * trace.num_rows)
        trace = trace.set_column(trace.schema.get_field_index(name), name, shifted)
    trace = trace.set_column(0, "run", pa.array([number_of(run.name)] * trace.num_rows))
    pq.write_table(trace, trace_file(folder, run), compression="zstd", row_group_size=ROWS)


def open_duckdb(threads: int) -> duckdb.DuckDBPyConnection:
    """An empty database."""
    try:
        import duckdb  # noqa: PLC0415 - nothing else needs it
    except ModuleNotFoundError as error:
        raise CallerError(
            "aggregation is compared with duckdb, which is not installed; pip install duckdb, or palio[dev]"
        ) from error
    return duckdb.connect(config={"threads": threads})


def compare(
    spark: SparkSession, database: duckdb.DuckDBPyConnection, traces: Traces, table: Table, rounds: int
) -> Timed:
    """See that both engines make the same table, and how long they take; the best round counts."""
    rows = traces_table(spark, traces.folder)
    names = ", ".join(map(str, traces.some_runs))
    _view(database, traces, f"where run in ({names})")
    _check_part(rows.where(f.col("run").isin(*traces.some_runs)), database, table)
    _view(database, traces)
    groups = _check_whole(rows, database, table)

    def on_spark() -> None:
        table.spark(rows).write.format("noop").mode("overwrite").save()

    def on_duckdb() -> None:
        for _ in database.sql(table.sql).to_arrow_reader():
            pass

    return Timed(groups, _best(on_spark, rounds), _best(on_duckdb, rounds))


def _view(database: duckdb.DuckDBPyConnection, traces: Traces, where: str = "") -> None:
    """Let the table ``traces`` be what is in the files, which are read whenever it is asked."""
    files = _quoted(str(Path(traces.folder) / "traces" / "*" / "*.parquet"))
    read = f"from read_parquet({files}, hive_partitioning = false) {where}"
    database.sql(f"create or replace view traces as {read}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _best(operation: Callable[[], None], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        begin = perf_counter()
        operation()
        taken.append(perf_counter() - begin)
    return min(taken)


def _check_part(rows: DataFrame, database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Compare all rows."""
    mine = table.spark(rows).toArrow()
    other = database.sql(table.sql).to_arrow_table()
    if set(mine.column_names) != set(other.column_names):
        raise InternalError(f"{table.name}: Spark has {mine.column_names}, duckdb {other.column_names}")
    keys = [(name, "ascending") for name in mine.column_names if not pa.types.is_floating(mine[name].type)]
    mine, other = mine.sort_by(keys), other.select(mine.column_names).sort_by(keys)
    if mine.num_rows != other.num_rows or not all(map(_is_same, mine.columns, other.columns)):
        raise InternalError(f"{table.name}: Spark and duckdb do not agree")


def _is_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(one.type):
        return bool(one.cast(other.type).equals(other))
    bound = pc.multiply(pc.abs(one), _ROUNDING)
    return bool(pc.all(pc.less_equal(pc.abs(pc.subtract(one, other)), bound)).as_py())


def _check_whole(rows: DataFrame, database: duckdb.DuckDBPyConnection, table: Table) -> int:
    """Compare the sums of all columns, and tell how many rows there are."""
    made = table.spark(rows)
    numbers = [name for name, kind in made.dtypes if kind != "string"]
    sums = [f.sum(f.col(name).cast("double")) for name in numbers]
    mine = made.agg(f.count("*"), *sums).collect()[0]
    summed = "".join(f", sum({name}::double)" for name in numbers)
    other = database.sql(f"select count(*){summed} from ({table.sql})").fetchall()[0]
    for name, one, two in zip(["rows", *numbers], mine, other, strict=True):
        if abs(one - two) > _ROUNDING * abs(one):
            raise InternalError(f"{table.name}: the {name} are {one} for Spark and {two} for duckdb")
    return int(mine[0])
