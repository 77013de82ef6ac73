"""Matching on Spark: large sets of filters against large tables and streams of events.

>>> from palio import spark                                                         # doctest: +SKIP
>>> session = spark.session()                                                       # doctest: +SKIP
>>> filters = spark.read_filters(session, "filters.txt")                            # doctest: +SKIP
>>> spark.match(session.read.parquet("events"), filters, key="event_id").show()     # doctest: +SKIP

Needs the extra ``palio[spark]`` and a Java runtime; ``docs/spark.md`` tells how it works and what each type means.
"""

from palio.spark.filters import FilterSet, prepare, read_filters
from palio.spark.matching import match
from palio.spark.session import session

__all__ = ["FilterSet", "match", "prepare", "read_filters", "session"]
