"""How fast events are matched on Spark: beside one process without Spark, a mere pass through Python, and a SQL join.

- *palio-spark*: ``palio.spark.match`` with counts as result, over Parquet files on disk. The whole query counts:
  planning, reading, the way to Python, matching, adding up. Not counted is what is done once for a set of filters
  (figures of its own: ``prepare_seconds`` and its parts, ``open_milliseconds``), nor the start of the workers.
- *palio-process*: ``FilterIndex.tally`` over record batches of the same files, in one thread and without Spark. Only
  matching counts: it is the rate that Spark could have on each core if all the rest were free. ``read_seconds`` tells
  what reading the files took.
- *pass-through*: Spark hands the same columns to Python, where rows are counted and nothing else is done.
- *sql-join*: what Spark can do without Palio, see :mod:`palio.bench.spark.joins`. Not counted is what the query takes
  for next to no events: building the hash table of the filters, which Spark does for every query, corresponds to
  preparing a set of filters. That favours the join.

- *folder-stream*: ``palio.spark.match_stream`` over an ``EventFolder`` of many small files, beside the same over
  Spark's own stream of these files; see :mod:`palio.bench.spark.folders`.

Two workloads are other things: *unions* compares ``palio.spark.match`` with itself, see
:mod:`palio.bench.spark.unions`; *archives* measures how long it takes to open an archive with many column sets, see
:mod:`palio.bench.spark.archives`.

Before anything is measured, all engines must count the same for every filter on a sample of the events.
"""

from palio.bench.spark.engines import Pace
from palio.bench.spark.runs import ENGINES, LARGE, QUICK, SIZES, USUAL, WORKLOAD_NAMES, run

__all__ = ["ENGINES", "LARGE", "QUICK", "SIZES", "USUAL", "WORKLOAD_NAMES", "Pace", "run"]
