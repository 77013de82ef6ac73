"""Sequences on tables and streams are those of one monitor over the sorted events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from palio import Notification, spark
from palio.errors import CallerError, UnsupportedColumnError
from palio.matching import Monitor
from palio.model.pattern import Pattern

START = datetime(2026, 7, 2, tzinfo=UTC)
SCHEMA = "published timestamp, origin string, sequence long, x double, y string, event_id long"
PATTERNS = [
    (1, "x = 1 then x = 2"),
    (2, "x = 1 then x = 1 then x = 3"),
    (3, 'y = "a"'),
    (4, 'x any then y = "b" then x < 2 then y any'),
    (5, "x = 99 then x = 1"),
    (6, 'x = 1 and y = "a" then x = 1 and y = "a"'),
]
Event = tuple[datetime, str, int, float | None, str | None, int]
Sequences = list[tuple[int, tuple[int, ...]]]


def some_events(count: int, seed: int) -> list[Event]:
    """In no order; many at the same time, from two origins."""
    random = Random(seed)
    events: list[Event] = []
    for i in range(count):
        time = START + timedelta(microseconds=random.randrange(count // 3) * 250)
        x, y = random.choice([1.0, 2.0, 3.0, None]), random.choice(["a", "b", None])
        events.append((time, random.choice(["milan", "rome"]), i, x, y, 1000 + i))
    random.shuffle(events)
    return events


def by_one_monitor(events: Iterable[Event], patterns: Iterable[tuple[int, str]] = PATTERNS) -> Sequences:
    """A notification has the event's number beside what filters look at."""
    found: Sequences = []
    for id, text in patterns:
        monitor = Monitor(Pattern.parse(text))
        for event in sorted(events, key=lambda event: event[:3]):
            content = {name: value for name, value in (("x", event[3]), ("y", event[4])) if value is not None}
            sequence = monitor.feed(Notification(content | {"number": event[5]}))
            if sequence is not None:
                found.append((id, tuple(int(each["number"]) for each in sequence)))  # type: ignore[arg-type]
    return sorted(found)


def told(result: DataFrame) -> Sequences:
    return sorted((row["pattern"], tuple(each["event_id"] for each in row["elements"])) for row in result.collect())


@pytest.fixture(scope="module")
def patterns(session: SparkSession) -> spark.PatternSet:
    return spark.prepare_patterns(session.createDataFrame(PATTERNS, "id int, text string"))


@pytest.mark.parametrize("count", [3, 40, 400])
def test_a_table(session: SparkSession, patterns: spark.PatternSet, count: int) -> None:
    events = some_events(count, count)
    table = session.createDataFrame(events, SCHEMA).repartition(4)
    result = spark.match_patterns(table, patterns, key=["event_id"])
    assert told(result) == by_one_monitor(events)
    element = "struct<published:timestamp,origin:string,sequence:bigint,event_id:bigint>"
    assert result.schema.simpleString() == f"struct<pattern:int,elements:array<{element}>>"


def test_elements_say_when_and_where(session: SparkSession, patterns: spark.PatternSet) -> None:
    time = datetime(2026, 7, 2, 12, 0, 0, 123456, tzinfo=UTC)
    events = [(time, "milan", 7, None, "a", 1)]
    (row,) = spark.match_patterns(session.createDataFrame(events, SCHEMA), patterns).collect()
    (element,) = row["elements"]
    assert element["published"].astimezone(UTC) == time
    assert (row["pattern"], element["origin"], element["sequence"]) == (3, "milan", 7)


def test_events_are_told_apart_whatever_collation_their_columns_have(session: SparkSession) -> None:
    """The collation says that all of them have one origin; then the order would be that of the numbers alone."""
    events = [(START, origin, i, x, None, i) for origin, i, x in [("b", 1, 2.0), ("A", 2, 1.0), ("B", 2, 2.0)]]
    events += [(START, origin, i, x, None, i) for origin, i, x in [("a", 3, 1.0), ("a", 1, 3.0)]]
    table = session.createDataFrame(events, SCHEMA).withColumn("origin", sql.expr("origin collate UTF8_LCASE"))
    patterns = [(1, "x = 1 then x = 2"), (2, "x = 2 then x = 3"), (3, "x = 3 then x = 1")]
    made = session.createDataFrame(patterns, "id int, text string")
    assert told(spark.match_patterns(table, made, key=["event_id"])) == by_one_monitor(events, patterns)


def test_a_pattern_that_is_printed_longer_than_texts_may_be(session: SparkSession) -> None:
    controls = " and ".join(f's{i} != "{chr(1) * 1000}"' for i in range(60))
    table = session.createDataFrame([(1, f"{controls} then y = 1"), (2, 'y = "a"')], "id long, text string")
    events = session.createDataFrame([(START, "milan", 7, None, "a", 1)], SCHEMA)
    assert [row["pattern"] for row in spark.match_patterns(events, table).collect()] == [2]


def test_events_without_a_place_in_the_order_are_left_out(session: SparkSession, patterns: spark.PatternSet) -> None:
    events = session.createDataFrame(
        [(None, "milan", 1, 1.0, "a", 1), (START, None, 1, 1.0, "a", 2), (START, "milan", 1, 1.0, "a", 3)], SCHEMA
    )
    not_utf8 = sql.expr("if(event_id = 2, cast(X'6DFF' as string), origin)")
    events = events.union(events.where("event_id = 2").withColumn("origin", not_utf8))
    for problems in (False, True):
        assert told(spark.match_patterns(events, patterns, key=["event_id"], problems=problems)) == [(3, (3,))]


def test_values_that_cannot_be_read_fail_what_looks_at_them(session: SparkSession, patterns: spark.PatternSet) -> None:
    events = [
        (START, "milan", 1, 1.0, None, 1),
        (START, "milan", 2, float("nan"), "a", 2),
        (START, "milan", 3, 2.0, None, 3),
    ]
    table = session.createDataFrame(events, SCHEMA)
    for problems in (False, True):
        found = spark.match_patterns(table, patterns, key=["event_id"], problems=problems)
        assert told(found) == [(1, (1, 3)), (3, (2,))]
    assert patterns.filters.unreadable["x"] >= 2


def test_patterns_that_cannot_be_read_are_listed(session: SparkSession) -> None:
    table = session.createDataFrame([(1, "x = 1 then"), (2, "x = 1 then x = 2"), (3, None)], "id long, text string")
    made = spark.prepare_patterns(table)
    rejects = {row["id"]: row for row in made.rejects.collect()}
    assert set(rejects) == {1, 3}
    assert rejects[1]["text"] == "x = 1 then"
    assert rejects[1]["line"] == 1
    assert rejects[3]["reason"] == "the text is null"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "published"}, "lists of columns"),
        ({"order": []}, "lists of columns"),
        ({"key": "event_id"}, "lists of columns"),
        ({"order": ["missing"]}, "order: the events have no column 'missing'"),
        ({"key": ["missing"]}, "key: the events have no column 'missing'"),
        ({"order": ["origin"]}, "must be a timestamp, not string"),
        ({"order": ["published", "d"]}, "'d' of type double"),
    ],
)
def test_orders_that_are_none(
    session: SparkSession, patterns: spark.PatternSet, options: dict[str, object], message: str
) -> None:
    events = session.createDataFrame([], SCHEMA + ", d double")
    with pytest.raises((CallerError, UnsupportedColumnError), match=message):
        spark.match_patterns(events, patterns, **options)  # type: ignore[arg-type]


# -- streams -----------------------------------------------------------------------------------------------------------


class Feed:
    """A stream of files, written batch by batch, whose sequences go to Parquet."""

    def __init__(self, session: SparkSession, patterns: spark.PatternSet, folder: Path, delay: str) -> None:
        self.session, self.folder = session, folder
        (folder / "events").mkdir()
        self.patterns, self.delay, self.batches = patterns, delay, 0
        self.dropped = 0
        self.counted: Counter[str] = Counter()

    def put(self, events: Sequence[tuple[object, ...]]) -> None:
        table = self.session.createDataFrame(events, SCHEMA).coalesce(1)
        table.write.mode("append").parquet(str(self.folder / "events"))

    def run(self) -> None:
        events = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        stream = events.parquet(str(self.folder / "events"))
        result = spark.match_patterns(stream, self.patterns, key=["event_id"], delay=self.delay, problems=True)
        writer = result.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).format("parquet").start(str(self.folder / "out"))
        query.awaitTermination(120)
        self.dropped += dropped_rows(query)
        for progress in query.recentProgress:
            metrics = progress.observedMetrics.get("palio_patterns")
            self.counted.update(metrics.asDict() if metrics else {})

    def told(self) -> Sequences:
        return told(self.session.read.parquet(str(self.folder / "out")))


def dropped_rows(query: StreamingQuery) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def far_later(seconds: int) -> Event:
    """An event that matches nothing but lets time go on."""
    return (START + timedelta(seconds=seconds), "milan", 0, None, None, -1)


def test_a_stream_gives_what_a_table_gives_however_events_are_spread_over_batches(
    session: SparkSession, patterns: spark.PatternSet, tmp_path: Path
) -> None:
    events = some_events(240, 9)
    feed = Feed(session, patterns, tmp_path, "1 minute")
    for begin in range(0, len(events), 60):
        feed.put(events[begin : begin + 60])
    feed.run()
    feed.put([far_later(600)])
    feed.run()  # goes on from the checkpoint
    feed.put([far_later(1200)])
    feed.run()
    assert feed.told() == by_one_monitor(events)
    assert feed.dropped == 0


def test_what_comes_too_late_is_dropped_and_counted(
    session: SparkSession, patterns: spark.PatternSet, tmp_path: Path
) -> None:
    def at(second: int, x: float, number: int) -> Event:
        return (START + timedelta(seconds=second), "milan", number, float(x), None, number)

    feed = Feed(session, patterns, tmp_path, "10 seconds")
    feed.put([at(0, 1, 1), at(100, 1, 2)])
    feed.run()
    feed.put([at(50, 2, 3), at(95, 2, 4), at(101, 2, 5)])  # the first is too late, the second is not
    feed.run()
    feed.put([far_later(600)])
    feed.run()
    feed.put([far_later(1200)])
    feed.run()
    in_time = [at(0, 1, 1), at(100, 1, 2), at(95, 2, 4), at(101, 2, 5)]
    assert feed.told() == by_one_monitor(in_time)
    assert feed.dropped >= 1


def test_a_poisoned_record_does_not_end_the_stream(
    session: SparkSession, patterns: spark.PatternSet, tmp_path: Path
) -> None:
    feed = Feed(session, patterns, tmp_path, "10 seconds")
    good = [(START, "milan", 1, 1.0, None, 1), (START, "milan", 3, 2.0, None, 3)]
    feed.put([*good, (START, "milan", 2, float("nan"), "a", 2)])
    feed.put([(None, "milan", 4, 1.0, "a", 4), (START, None, 5, 1.0, "a", 5), (START, None, 6, None, None, 6)])
    feed.run()
    feed.put([far_later(600)])
    feed.run()
    feed.put([far_later(1200)])
    feed.run()
    assert feed.told() == [(1, (1, 3)), (3, (2,))]  # the third pattern looks at y alone
    assert feed.counted["unreadable"] == 1
    assert feed.counted["incomplete"] > 0  # pairs of an event and a filter
