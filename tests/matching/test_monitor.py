"""Monitors, against what the rule says in its own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Notification
from palio.errors import CallerError
from palio.matching import Monitor
from palio.matching.monitor import Sequence
from palio.model.pattern import Pattern

LETTERS = "abc"


def by_the_rule(pattern: str, events: list[str]) -> list[list[int]]:
    """Places of the elements: each is the first one after the element before it that matches, and so on from there."""
    found, begin = [], 0
    while True:
        places: list[int] = []
        for letters in pattern.split("."):
            after = places[-1] + 1 if places else begin
            place = next((i for i in range(after, len(events)) if events[i] in letters), None)
            if place is None:
                return found
            places.append(place)
        found.append(places)
        begin = places[-1] + 1


@given(
    st.lists(st.text(LETTERS, min_size=1, max_size=2), min_size=1, max_size=4).map(".".join),
    st.lists(st.sampled_from(LETTERS), max_size=30),
)
def test_sequences_are_those_of_the_rule(pattern: str, events: list[str]) -> None:
    """A position admits one or two letters, so that some events fit several."""
    filters = [Filter.parse(f'x >= "{min(letters)}" and x <= "{max(letters)}"') for letters in pattern.split(".")]
    spread = ".".join(
        "".join(each for each in LETTERS if min(part) <= each <= max(part)) for part in pattern.split(".")
    )
    monitor = Monitor(Pattern(filters))
    notifications = [Notification(x=letter, n=i) for i, letter in enumerate(events)]
    found = [sequence for event in notifications if (sequence := monitor.feed(event)) is not None]
    assert [[event["n"] for event in sequence] for sequence in found] == by_the_rule(spread, events)


def test_a_sequence_can_go_on_where_another_process_left_it() -> None:
    first = Sequence[str](3)
    first.offer({0}, "a")
    second = Sequence(3, first.taken)
    assert second.waiting == 1
    assert second.offer({1, 2}, "b") is None
    assert second.offer({0, 2}, "c") == ("a", "b", "c")
    assert second.taken == []


@pytest.mark.parametrize(("length", "taken"), [(0, []), (1, ["a"]), (2, ["a", "b", "c"]), (True, []), ("2", [])])
def test_what_is_no_beginning(length: int, taken: list[str]) -> None:
    with pytest.raises(CallerError):
        Sequence(length, taken)


def test_a_monitor_needs_a_pattern() -> None:
    with pytest.raises(CallerError):
        Monitor(Filter.parse("x = 1"))  # type: ignore[arg-type]
