"""From every pair of states that the two ends of a link can reach, the link comes up or both ends say why not."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from palio.link.states import IMPOSSIBLE, TRANSITIONS, Action, Event, State, diagram, table
from tests.link.exploration import NOTHING, Pair, settled, steps

DOCS = Path(__file__).parents[2] / "docs" / "links.md"


def test_every_state_and_event_has_a_row_or_a_reason_why_not() -> None:
    for state in State:
        for event in Event:
            assert (state, event) in TRANSITIONS or event in IMPOSSIBLE, (state, event)


def test_every_action_is_used_and_every_state_reached() -> None:
    assert {action for row in TRANSITIONS.values() for action in row.actions} == set(Action)
    assert {row.state for row in TRANSITIONS.values()} == set(State)


def test_the_documentation_shows_the_table() -> None:
    text = DOCS.read_text()
    assert diagram() in text, "python -m palio.link.states prints the diagram and the table for docs/links.md"
    assert table() in text


MOST_CLOSING = 1
"""Sessions that one end closes at the same time; more of them only repeat what one does."""


def is_small(pair: Pair) -> bool:
    return all(len(end.closing) <= MOST_CLOSING for end in pair)


@pytest.fixture(scope="module")
def found() -> dict[Pair, tuple[Pair, str] | None]:
    """All pairs that can be reached, each with the pair before it and what happened there."""
    start = NOTHING, NOTHING
    found: dict[Pair, tuple[Pair, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        pair = waiting.popleft()
        for place in (0, 1):
            for what, after in steps(pair, place):
                if after not in found and is_small(after):
                    found[after] = pair, what
                    waiting.append(after)
    return found


def story(found: dict[Pair, tuple[Pair, str] | None], pair: Pair) -> str:
    lines = []
    before = found[pair]
    while before is not None:
        lines.append(before[1])
        before = found[before[0]]
    return "\n".join(reversed(lines))


def test_from_every_pair_the_link_comes_up_or_both_say_why_not(found: dict[Pair, tuple[Pair, str] | None]) -> None:
    assert len(found) > 300
    for pair in found:
        for refuses in ((False, False), (False, True), (True, False)):
            problem = problem_with(settled(pair, refuses), refuses)
            assert problem is None, f"{problem}\n{story(found, pair)}\n{pair}\n{settled(pair, refuses)}"


def problem_with(ends: Pair, refuses: tuple[bool, bool]) -> str | None:
    one, other = ends
    if one.link != other.link:
        return "the ends do not mean the same link"
    if one.closing or other.closing:
        return "the end of a session is never known"
    if one.link is not None:
        return None if one.state is other.state is State.UP else "the link is there, and not up"
    for mine, theirs in ((one, other), (other, one)):
        if mine.state is not (State.REFUSED if mine.is_wanted else State.IDLE):
            return "an end goes on for ever"
        if mine.is_wanted and not (theirs.is_barred or any(refuses)):
            return "a wanted link is not tried again"
    return None
