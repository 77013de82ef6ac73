"""Matching on Spark: large sets of filters against large tables and streams of events.

``spark.match(events, filters, key="event_id")`` is a table of events and the filters that match them.

Needs the extra ``palio[spark]`` and a Java runtime; ``docs/spark.md`` tells how it works and what each type means.
"""

from palio.spark.archive import Archive
from palio.spark.event_folder import EventFolder, SkippedFile
from palio.spark.filters import FilterSet, prepare, read_filters
from palio.spark.matching import Result, match
from palio.spark.patterns import PatternSet, match_patterns, prepare_patterns
from palio.spark.query import MatchQuery, MatchTotals
from palio.spark.results import MatchedBatch
from palio.spark.session import session
from palio.spark.stream import match_stream
from palio.spark.versions import FilterDirectory, FilterFile, FilterSource, FilterTable

__all__ = [
    "Archive",
    "EventFolder",
    "FilterDirectory",
    "FilterFile",
    "FilterSet",
    "FilterSource",
    "FilterTable",
    "MatchQuery",
    "MatchTotals",
    "MatchedBatch",
    "PatternSet",
    "Result",
    "SkippedFile",
    "match",
    "match_patterns",
    "match_stream",
    "prepare",
    "prepare_patterns",
    "read_filters",
    "session",
]
