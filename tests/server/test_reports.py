"""Lines of the log that others can bring about: the first ones, then counts."""

from __future__ import annotations

from typing import Any

from palio.server.reports import INTERVAL_SECONDS, LONGEST_SECONDS, MOST_SAID, REPEAT_SECONDS, RepeatedFailures, Reports


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    info = warning


def test_the_first_ones_are_logged_and_the_others_counted() -> None:
    log, now = Log(), [0.0]
    reports = Reports(log, lambda: now[0])  # type: ignore[arg-type]
    for number in range(MOST_SAID):
        reports.warn("peer-lost", peer=number)
    assert [fields["peer"] for _, fields in log.lines] == [*range(MOST_SAID)]
    reports.finish(INTERVAL_SECONDS)
    assert len(log.lines) == MOST_SAID  # there is nothing to count
    for _ in range(3):
        reports.warn("peer-lost")
    reports.finish(INTERVAL_SECONDS - 0.1)
    assert len(log.lines) == MOST_SAID
    now[0] = INTERVAL_SECONDS
    reports.finish(now[0])
    assert log.lines[MOST_SAID:] == [("peers-lost", {"more": 3})]


def test_a_flood_makes_fewer_and_fewer_lines_and_a_quiet_time_ends_that() -> None:
    log, now = Log(), [0.0]
    reports = Reports(log, lambda: now[0])  # type: ignore[arg-type]
    for _ in range(36_000):  # an hour
        for _ in range(3):
            reports.warn("connection-closed")
        now[0] += 0.1
        reports.finish(now[0])
    assert len(log.lines) < 11 * (3_600 / LONGEST_SECONDS + 12)
    said = sum(fields.get("more", 1) for _, fields in log.lines)
    now[0] += 2 * LONGEST_SECONDS
    reports.finish(now[0])
    assert said + log.lines[-1][1]["more"] == 108_000  # each counts
    for _ in range(2):
        now[0] += 2 * LONGEST_SECONDS
        log.lines.clear()
        reports.warn("connection-closed", reason="again")
        assert log.lines == [("connection-closed", {"reason": "again"})]


def test_the_same_failure_is_logged_once_a_minute() -> None:
    """A peer that is away for a day cost a line for each attempt, every five seconds."""
    log, now = Log(), [0.0]
    failures = RepeatedFailures(log, lambda: now[0])  # type: ignore[arg-type]
    for _ in range(13):
        failures.note("peer-not-connected", "rome", "refused", retry_seconds=5.0)
        now[0] += REPEAT_SECONDS / 12
    fields = {"peer": "rome", "reason": "refused", "retry_seconds": 5.0}
    assert log.lines == [("peer-not-connected", fields), ("peer-not-connected", {**fields, "attempts": 12})]
    failures.note("peer-not-connected", "rome", "no route", retry_seconds=5.0)
    failures.note("peer-not-connected", "bari", "refused", retry_seconds=5.0)
    assert [fields["reason"] for _, fields in log.lines[2:]] == ["no route", "refused"]
    failures.forget("bari")
    failures.note("peer-not-connected", "bari", "refused", retry_seconds=5.0)
    assert len(log.lines) == 5
