"""``palio match`` as its users run it."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from rich.console import Console

from palio import Filter, Notification, codec, spark
from palio.cli.main import palio
from palio.cli.progress import WATCHER, JobProgress
from palio.cli.spark_session import running
from tests.spark.local import expected_ids

DATA = Path(__file__).parents[2] / "examples" / "data"
EVENTS, FILTERS = DATA / "events.parquet", DATA / "filters.txt"
BROKEN = 'event = "alarm" and level => 3'

pytestmark = pytest.mark.usefixtures("session")  # the command finds it and uses it


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(palio, ["match", *map(str, arguments)])


def summary_of(*arguments: str | Path) -> dict[str, Any]:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


# -- the example -------------------------------------------------------------------------------------------------------


def unreadable_names(event: dict[str, Any]) -> set[str]:
    return {name for name, value in event.items() if isinstance(value, float) and math.isnan(value)}


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    rows = pq.read_table(EVENTS).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.fixture(scope="module")
def filters() -> dict[int, str]:
    lines = enumerate(FILTERS.read_text().splitlines(), 1)
    return {number: line for number, line in lines if line and not line.startswith("#") and line != BROKEN}


@pytest.fixture(scope="module")
def expected(events: list[dict[str, Any]], filters: dict[int, str]) -> dict[int, list[int]]:
    """For each event which filters match: what the model says, of filters that look at nothing unreadable."""
    bad = [unreadable_names(event) for event in events]
    readable = [
        {name: value for name, value in event.items() if name not in names}
        for event, names in zip(events, bad, strict=True)
    ]
    found = expected_ids(list(filters.items()), map(Notification, readable))
    looked_at = {
        id: {constraint.name for part in Filter.parse_union(text) for constraint in part}
        for id, text in filters.items()
    }
    return {
        event["event_id"]: [id for id in ids if not looked_at[id] & names]  # type: ignore[misc,index]
        for event, ids, names in zip(events, found, bad, strict=True)
    }


@pytest.fixture(scope="module")
def poisoned(events: list[dict[str, Any]]) -> list[int]:
    return sorted(event["event_id"] for event in events if unreadable_names(event))


@pytest.fixture(scope="module")
def totals(expected: dict[int, list[int]]) -> Counter[int]:
    return Counter(id for ids in expected.values() for id in ids)


def rows_of(path: Path | str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.fixture(scope="module")
def narrow(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return summary_of("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path_factory.mktemp("narrow") / "out")


def test_deliveries_are_what_the_model_says(narrow: dict[str, Any], expected: dict[int, list[int]]) -> None:
    table = pq.read_table(narrow["places"]["deliveries"])
    assert table.column_names == ["event_id", "filter"]
    found = sorted(zip(*table.to_pydict().values(), strict=True))
    assert found == sorted((event, id) for event, ids in expected.items() for id in ids)


def test_summary_of_the_events(
    narrow: dict[str, Any], events: list[dict[str, Any]], expected: dict[int, list[int]], poisoned: list[int]
) -> None:
    unreadable = len(poisoned)
    assert 0 < unreadable < 50
    reason = "column 'temperature': float that is NaN or infinite; make it null"
    assert narrow["events"] == {
        "read": len(events),
        "matching_nothing": sum(not ids for ids in expected.values()),
        "unreadable": unreadable,
        "unreadable_reasons": [{"reason": reason, "count": unreadable}],
        "skipped": 0,
        "first_skipped": [],
    }


def test_summary_of_the_filters(narrow: dict[str, Any], filters: dict[int, str], totals: Counter[int]) -> None:
    told = narrow["filters"]
    top = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert told["matching_most"] == [{"id": id, "text": filters[id], "count": count} for id, count in top]
    assert (told["read"], told["rejected"]) == (len(filters), 1)
    assert told["matching_nothing"] == len(filters) - len(totals) > 0
    (reject,) = told["first_rejected"]
    assert (reject["text"], reject["line"], reject["column"]) == (BROKEN, 1, 28)
    assert FILTERS.read_text().splitlines()[reject["id"] - 1] == BROKEN
    assert reject["reason"].startswith("line 1, column 28: unexpected '>'")
    assert narrow["unknown_attributes"] == [{"name": "temprature", "perhaps": "temperature"}]
    assert narrow["deliveries"] == totals.total()
    assert set(narrow["seconds"]) == {"filters", "match", "count"}


def test_rejects_are_written_beside_the_results(narrow: dict[str, Any], poisoned: list[int]) -> None:
    places = narrow["places"]
    assert places["rejected_filters"] == f"{places['deliveries']}.rejects/filters"
    assert places["unreadable_events"] == f"{places['deliveries']}.rejects/events"
    assert [row["text"] for row in rows_of(places["rejected_filters"])] == [BROKEN]
    unreadable = rows_of(places["unreadable_events"])
    assert set(unreadable[0]) == {"event_id", "problem"}
    assert sorted(row["event_id"] for row in unreadable) == poisoned


def test_wide(tmp_path: Path, narrow: dict[str, Any], expected: dict[int, list[int]], poisoned: list[int]) -> None:
    told = summary_of("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--result", "wide")
    for figures in ("events", "filters", "deliveries", "unknown_attributes"):
        assert told[figures] == narrow[figures]
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == [*pq.read_schema(EVENTS).names, "filters"]
    assert {row["event_id"]: sorted(row["filters"]) for row in table.to_pylist()} == expected
    unreadable = rows_of(tmp_path / "out.rejects" / "events")
    assert {row["origin"] for row in unreadable} == {"building-c"}
    assert sorted(row["event_id"] for row in unreadable) == poisoned


def test_counts(tmp_path: Path, narrow: dict[str, Any], totals: Counter[int]) -> None:
    told = summary_of("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--result", "counts")
    assert told["events"] == narrow["events"] | {"matching_nothing": None}
    for figures in ("filters", "deliveries", "unknown_attributes"):
        assert told[figures] == narrow[figures]
    assert {row["filter"]: row["count"] for row in rows_of(tmp_path / "out")} == totals
    (unreadable,) = rows_of(tmp_path / "out.rejects" / "events")
    assert unreadable["count"] == narrow["events"]["unreadable"]


def test_for_people(tmp_path: Path, narrow: dict[str, Any]) -> None:
    result = invoke("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    shown = [line.rstrip() for line in result.stdout.splitlines()]
    assert shown[0] == f"Events      20,000  {narrow['events']['matching_nothing']} match no filter, 16 unreadable"
    assert shown[1] == "Filters         58  2 match no event, 1 more rejected"
    assert shown[2] == f"Deliveries  {narrow['deliveries']:,}"
    mark = shown.index("    " + BROKEN) + 1
    assert shown[mark] == "    " + " " * 27 + "^"
    assert "  temprature (perhaps temperature?)" in shown
    assert f"Deliveries are in {tmp_path}/out" in shown
    assert f"Rejected filters are in {tmp_path}/out.rejects/filters" in shown


def test_the_data_can_be_made_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DATA.parent / "make-data", tmp_path], check=True, timeout=60)
    made, kept = pq.read_table(tmp_path / "events.parquet"), pq.read_table(EVENTS)
    assert made.schema.equals(kept.schema)
    assert list(map(repr, made.to_pylist())) == list(map(repr, kept.to_pylist()))  # NaN equals nothing, not even NaN
    assert (tmp_path / "filters.txt").read_text() == FILTERS.read_text()


# -- other inputs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A file of filters none of which is rejected."""
    path = tmp_path / "few.txt"
    path.write_text('level > 3\nat >= 2026-07-02T12:00:00Z\nday = "2026-07-02"\n')
    return path


LINES = [
    '{"id": 1, "level": 5, "at": "2026-07-02T14:00:00.5+02:00", "day": "2026-07-02"}',
    '{"id": 2, "level": 2, "at": "2026-07-02T13:59:59+02:00", "day": "2026-07-03"}',
    '{"id": 3, "at": "2026-07-02T23:00:00Z"}',
]
TABLE = [
    "id,level,at,day",
    *(",".join(str(json.loads(line).get(n, "")) for n in ("id", "level", "at", "day")) for line in LINES),
]


@pytest.mark.parametrize(("name", "lines"), [("events.jsonl", LINES), ("events.csv", TABLE)])
def test_types_of_text_are_found_out(tmp_path: Path, few: Path, name: str, lines: list[str]) -> None:
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    told = summary_of("--events", tmp_path / name, "--filters", few, "--out", tmp_path / "out")
    assert sorted((row["id"], row["filter"]) for row in rows_of(tmp_path / "out")) == [(1, 1), (1, 2), (1, 3), (3, 2)]
    assert told["events"]["matching_nothing"] == 1
    assert told["places"]["rejected_filters"] is told["places"]["unreadable_events"] is None
    assert not (tmp_path / "out.rejects").exists()


def test_lines_that_are_no_json(tmp_path: Path, few: Path) -> None:
    (tmp_path / "events.json").write_text('{"id": 1, "level": 4}\n{"id": \n')
    told = summary_of("--events", tmp_path / "events.json", "--filters", few, "--out", tmp_path / "out")
    assert [row["id"] for row in rows_of(tmp_path / "out")] == [1]
    assert (told["events"]["read"], told["events"]["skipped"]) == (1, 1)
    (line,) = rows_of(tmp_path / "out.rejects" / "skipped")
    assert (Path(line["file"]).name, line["record"], line["problem"]) == ("events.json", '{"id": ', "no JSON object")


def test_bodies(tmp_path: Path, few: Path) -> None:
    bodies = [codec.msgpack.encode(Notification(level=level)) for level in (5, 2, 9)]
    pq.write_table(pa.table({"n": [1, 2, 3, 4], "body": [*bodies, b"nonsense"]}), tmp_path / "events")
    arguments = ["--events", tmp_path / "events", "--format", "parquet", "--filters", few, "--key", "n"]
    told = summary_of(*arguments, "--out", tmp_path / "out", "--bodies", "body")
    assert sorted(row["n"] for row in rows_of(tmp_path / "out")) == [1, 3]
    assert told["unknown_attributes"] == []
    assert told["events"]["unreadable"] == 1
    problem = refused(*arguments, "--out", tmp_path / "other", "--bodies", "corpse")
    assert problem == "bodies: the events have no column 'corpse'; they have n, body"


def test_several_keys_and_a_table_of_filters(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b", "a", "c", "c"], "text": ["x = 1", "x = ", "x = 2", "x = 3", "x ="]})
    pq.write_table(table, tmp_path / "filters.parquet")
    pq.write_table(pa.table({"k.1": [1, 1, 2], "k 2": ["p", "q", "p"], "x": [1, 2, 5]}), tmp_path / "events.parquet")
    arguments = ["--events", tmp_path / "events.parquet", "--filters", tmp_path / "filters.parquet"]
    told = summary_of(*arguments, "--out", tmp_path / "out", "--key", "k.1", "--key", "k 2")
    assert sorted(tuple(row.values()) for row in rows_of(tmp_path / "out")) == [(1, "p", "a"), (1, "q", "a")]
    assert told["events"]["matching_nothing"] == 1
    assert (told["filters"]["read"], told["filters"]["rejected"], told["filters"]["matching_nothing"]) == (2, 2, 1)
    (most,) = told["filters"]["matching_most"]
    assert (most["id"], most["count"]) == ("a", 2)
    assert set(most["text"].split(" or ")) == {"x = 1", "x = 2"}


def test_overwriting_takes_old_rejects_away(tmp_path: Path, few: Path) -> None:
    (tmp_path / "events.jsonl").write_text("\n".join(LINES))
    bad = tmp_path / "bad.txt"
    bad.write_text("level >\n")
    arguments = ["--events", tmp_path / "events.jsonl", "--out", tmp_path / "out"]
    assert summary_of(*arguments, "--filters", bad)["deliveries"] == 0
    assert (tmp_path / "out.rejects" / "filters").is_dir()
    assert "is not empty" in refused(*arguments, "--filters", few)
    assert summary_of(*arguments, "--filters", few, "--overwrite")["deliveries"] == 4
    assert len(rows_of(tmp_path / "out")) == 4
    assert not (tmp_path / "out.rejects").exists()


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_key_that_is_none(tmp_path: Path) -> None:
    told = refused("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--key", "id")
    assert told.startswith("--key: the events have no column 'id'; they have event_id, published,")


@pytest.mark.parametrize("columns", [["x", "y"], ["id", "key"]])
def test_no_key_that_is_usual(tmp_path: Path, few: Path, columns: list[str]) -> None:
    pq.write_table(pa.table({name: [1] for name in columns}), tmp_path / "events.parquet")
    told = refused("--events", tmp_path / "events.parquet", "--filters", few, "--out", tmp_path / "out")
    assert told == f"--key: say which column tells events apart; there are {', '.join(columns)}"


def test_fail_fast(tmp_path: Path) -> None:
    told = refused("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--fail-fast")
    assert told.startswith("filter 93: line 1, column 28: unexpected '>'")
    assert not (tmp_path / "out").exists()


def test_what_spark_cannot_read(tmp_path: Path) -> None:
    arguments = ["--filters", FILTERS, "--out", tmp_path / "out", "--format", "parquet"]
    assert "is not a Parquet file" in refused("--events", FILTERS, *arguments)
    pattern = tmp_path / "*.parquet"
    assert refused("--events", pattern, *arguments) == f"Path does not exist: file:{pattern}."


# -- progress ----------------------------------------------------------------------------------------------------------


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == WATCHER]


def wait_for(path: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hold a task up until there is a file."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    yield from batches


def test_progress_on_a_terminal(session: SparkSession, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    slow = session.range(0, 2, 1, 2).mapInArrow(partial(wait_for, tmp_path / "go"), "id long")
    with ThreadPoolExecutor(1) as pool, JobProgress("Starting", console) as progress:
        progress.watch(session.sparkContext)
        progress.step("Matching")
        counted = pool.submit(slow.count)
        assert isinstance(console.file, io.StringIO)
        deadline = time.monotonic() + 60
        while "0 of 2 tasks" not in console.file.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
        (tmp_path / "go").touch()
        assert counted.result() == 2
    assert "Matching" in console.file.getvalue()
    assert "0 of 2 tasks" in console.file.getvalue()
    assert watchers() == []


def test_progress_ends_with_an_error(session: SparkSession) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(KeyboardInterrupt), JobProgress("Starting", console) as progress:  # noqa: PT012
        progress.watch(session.sparkContext)
        assert len(watchers()) == 1
        raise KeyboardInterrupt
    assert watchers() == []


def test_no_progress_elsewhere(session: SparkSession) -> None:
    console = Console(file=io.StringIO())
    with JobProgress("Starting", console) as progress:
        progress.watch(session.sparkContext)
        assert watchers() == []
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_session_that_was_there_stays(session: SparkSession) -> None:
    with running("local[2]") as used:
        assert used is session
    assert session.range(3).count() == 3


def test_a_session_of_our_own_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Mock()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark, "session", lambda master: started)
    with pytest.raises(KeyboardInterrupt), running("local[2]") as used:  # noqa: PT012
        assert used is started
        started.stop.assert_not_called()
        raise KeyboardInterrupt
    started.stop.assert_called_once_with()


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_where_it_was(session: SparkSession, tmp_path: Path, few: Path) -> None:
    incoming, out = tmp_path / "incoming", tmp_path / "out"
    incoming.mkdir()
    arguments = ("--stream", "--events", incoming, "--format", "json", "--filters", few, "--out", out)
    arguments += ("--checkpoint", tmp_path / "state", "--key", "id")
    (incoming / "1.json").write_text('{"id": 1, "level": 5}\n{"id": 2, "level": 1}\n', encoding="utf-8")
    first = summary_of(*arguments)
    (incoming / "2.json").write_text('{"id": 3, "level": 9}\n', encoding="utf-8")
    second = summary_of(*arguments)
    assert [(told["batches"], told["events"]) for told in (first, second)] == [(1, 2), (1, 1)]
    found = session.read.parquet(str(out / "deliveries")).collect()
    assert first["deliveries"] + second["deliveries"] == len(found) > 0
    assert len({(row["id"], row["filter"]) for row in found}) == len(found)
    nothing = invoke(*arguments)
    assert nothing.exit_code == 0
    assert "Batches" in nothing.stdout


def test_streams_that_cannot_be(session: SparkSession, tmp_path: Path, few: Path) -> None:
    common = ("--filters", few, "--out", tmp_path / "out")
    assert "--checkpoint" in refused("--stream", "--events", tmp_path, *common)
    assert "say --stream" in refused("--events", EVENTS, *common, "--every", "1 second")
    state = ("--checkpoint", tmp_path / "state")
    assert "no folder" in refused("--stream", "--events", EVENTS, *common, *state)
