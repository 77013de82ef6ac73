"""From every pair of states that the two ends of a link can reach, the link comes up or both ends say why not."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from palio.link.states import IMPOSSIBLE, TRANSITIONS, Action, Event, Next, State, diagram, table
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


IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def is_small(pair: Pair) -> bool:
    """Whether one end closes one session at most, or, in `make soak SOAK=states`, each end does so.

    More of them only repeat what one does.
    """
    closing = [len(end.closing) for end in pair]
    return max(closing) <= 1 if IS_LONG else sum(closing) <= 1


Found = dict[Pair, tuple[Pair, str] | None]
"""Pairs that can be reached, each with the pair before it and what happened there."""


def reachable(is_small: Callable[[Pair], bool]) -> Found:
    start = NOTHING, NOTHING
    found: Found = {start: None}
    waiting = deque([start])
    while waiting:
        pair = waiting.popleft()
        for place in (0, 1):
            for what, after in steps(pair, place):
                if after not in found and is_small(after):
                    found[after] = pair, what
                    waiting.append(after)
    return found


def story(found: Found, pair: Pair) -> str:
    lines = []
    before = found[pair]
    while before is not None:
        lines.append(before[1])
        before = found[before[0]]
    return "\n".join(reversed(lines))


def test_from_every_pair_the_link_comes_up_or_both_say_why_not() -> None:
    found = reachable(is_small)
    assert len(found) > 1_000
    judge_all(found)


def judge_all(found: Found) -> None:
    for pair, refuses in product(found, ((False, False), (False, True), (True, False))):
        problem = problem_with(settled(pair, refuses), refuses)
        assert problem is None, f"{problem}\n{story(found, pair)}\n{pair}\n{settled(pair, refuses)}"


@pytest.mark.parametrize(
    ("state", "event", "wrong"),
    [
        (State.ANSWERING, Event.CLOSE, Next(State.ANSWERING, (Action.REPLY_CLOSED,))),
        (State.UP, Event.CLOSE, Next(State.IDLE, (Action.REPLY_CLOSED, Action.FORGET))),
        (State.DOUBTED, Event.CLOSE, Next(State.DOUBTED, (Action.REPLY_CLOSED,))),
        (State.DOUBTED, Event.KNOWN, Next(State.DOUBTED)),
        (State.DOUBTED, Event.PROBE, Next(State.DOUBTED)),
        (State.ASKING, Event.ACCEPT, Next(State.ASKING)),
    ],
)
def test_a_wrong_row_is_found(state: State, event: Event, wrong: Next, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSITIONS, (state, event), wrong)
    found = reachable(lambda pair: not any(end.closing for end in pair))
    with pytest.raises(AssertionError):
        judge_all(found)


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
