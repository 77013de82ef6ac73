"""From every pair of states that the two ends of a link can reach, the link comes up or both ends say why not."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import pytest

from palio.link.states import IMPOSSIBLE, TRANSITIONS, Action, Event, Next, State, diagram, table
from tests.link.exploration import (
    MESSAGES,
    NOTHING,
    Pair,
    Settled,
    canonical,
    fair_steps,
    forget_steps,
    reconnected,
    settled,
    steps,
)

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
FLOOR = 80_000 if IS_LONG else 20_000
"""At least so many pairs are explored; otherwise the exploration has lost something."""


def is_small(pair: Pair) -> bool:
    """Whether one end closes one session at most, or, in `make soak SOAK=states`, each end does so.

    More of them only repeat what one does.
    """
    closing = [len(end.closing) for end in pair]
    return max(closing) <= 1 if IS_LONG else sum(closing) <= 1


def has_no_closing(pair: Pair) -> bool:
    return not any(end.closing for end in pair)


Found = dict[Pair, tuple[Pair, object] | None]
"""Pairs that can be reached, each with the pair before it and what happened there."""


def reachable(is_small: Callable[[Pair], bool]) -> Found:
    forget_steps()
    start = NOTHING, NOTHING
    found: Found = {start: None}
    seen: set[Pair] = set()
    waiting = deque([start])
    while waiting:
        pair = waiting.popleft()
        for what, after in steps(pair):
            if after in seen or not is_small(after):
                continue
            seen.add(after)
            named = canonical(after)
            if named not in found:
                found[named] = pair, what
                waiting.append(named)
    return found


def story(found: Found, pair: Pair) -> str:
    lines = []
    before = found[pair]
    while before is not None:
        lines.append(str(before[1]))
        before = found[before[0]]
    return "\n".join(reversed(lines))


@pytest.mark.slow
def test_from_every_pair_the_link_comes_up_or_both_say_why_not() -> None:
    found = reachable(is_small)
    states = {(one.state, other.state) for one, other in found}
    print(f"{len(found):,} pairs of ends, {len(states)} pairs of states")
    assert len(found) > FLOOR
    assert states == set(product(State, State)), "some states are never reached together"
    judge_all(found)


REFUSALS = ((False, False), (False, True), (True, False))
"""Whether milan refuses the link, and whether rome does."""


def judge_all(found: Found) -> None:
    for pair, refuses in product(found, REFUSALS):
        end = settled(pair, refuses)
        problem = problem_with(pair, end, refuses)
        assert problem is None, f"{problem}\n{story(found, pair)}\n{pair}\n{end}"


@pytest.mark.slow
def test_the_link_comes_up_in_whatever_order_frames_get_through() -> None:
    """It begins with pairs that close no session: the steps of the ends lead from there to those that do."""
    found = reachable(has_no_closing)
    assert len(found) > 1_500
    for refuses in REFUSALS:
        stuck = never_good(found, refuses)
        assert not stuck, f"{len(stuck)} pairs, for instance {stuck[0]}"


def never_good(found: Iterable[Pair], refuses: tuple[bool, bool]) -> list[Pair]:
    """The pairs from which the ends, by themselves, cannot get to a link that is up, or to a refusal that both know.

    If there is no such pair, no order of frames leads astray, as long as frames get through now and then.
    """
    waiting = list(dict.fromkeys(reconnected(pair, refuses) for pair in found))
    before: dict[Pair, list[Pair]] = {pair: [] for pair in waiting}
    while waiting:
        pair = waiting.pop()
        for after in fair_steps(pair, refuses):
            if after not in before:
                before[after] = []
                waiting.append(after)
            before[after].append(pair)
    good = dict.fromkeys(pair for pair in before if is_good(pair, refuses))
    waiting = list(good)
    while waiting:
        for pair in before[waiting.pop()]:
            if pair not in good:
                good[pair] = None
                waiting.append(pair)
    return [pair for pair in before if pair not in good]


def is_good(pair: Pair, refuses: tuple[bool, bool]) -> bool:
    """Whether the link is up at both ends, or nothing is left to do about it."""
    return _rest_problem(pair, refuses) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "event", "wrong"),
    [
        (State.ANSWERING, Event.CLOSE, Next(State.ANSWERING, (Action.REPLY_CLOSED,))),
        (State.UP, Event.CLOSE, Next(State.IDLE, (Action.REPLY_CLOSED, Action.FORGET))),
        (State.DOUBTED, Event.CLOSE, Next(State.DOUBTED, (Action.REPLY_CLOSED,))),
        (State.DOUBTED, Event.KNOWN, Next(State.DOUBTED)),
        (State.DOUBTED, Event.PROBE, Next(State.DOUBTED)),
        (State.ASKING, Event.ACCEPT, Next(State.ASKING)),
        (State.ASKING, Event.REFUSE, Next(State.IDLE, (Action.FORGET,))),
        (State.IDLE, Event.PROBE_OTHER, Next(State.IDLE)),
        (State.UP, Event.DOUBT, Next(State.UP)),
        (State.DOUBTED, Event.KNOWN_ELSE, Next(State.UP, (Action.TRUST,))),
    ],
)
def test_a_wrong_row_is_found(state: State, event: Event, wrong: Next, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSITIONS, (state, event), wrong)
    found = reachable(has_no_closing)
    with pytest.raises(AssertionError):
        judge_all(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "event", "wrong"),
    [
        (State.UP, Event.ACCEPT_AGAIN, Next(State.UP)),
        (State.UP, Event.CLOSE_ENDED, Next(State.UP, (Action.REPLY_CLOSED,))),
    ],
)
def test_a_wrong_row_that_needs_an_unusual_order_of_frames_is_found(
    state: State, event: Event, wrong: Next, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRANSITIONS, (state, event), wrong)
    found = reachable(has_no_closing)
    judge_all(found)  # does not notice
    assert never_good(found, (False, True))


def problem_with(before: Pair, settled: Settled, refuses: tuple[bool, bool]) -> str | None:
    if [end.is_wanted for end in before] != [end.is_wanted for end in settled.pair]:
        return "an end has given up its wish, or has got one"
    problem = _rest_problem(settled.pair, refuses)
    if problem is not None:
        return problem
    if settled.pair[0].link is not None:
        is_delivered = [settled.received[1], settled.received[0]] == [[message] for message in MESSAGES]
        return None if is_delivered else "the link is up, and does not carry messages"
    if any(end.is_wanted and not reason for end, reason in zip(settled.pair, settled.reasons, strict=True)):
        return "an end that wants the link does not know why there is none"
    return None


def _rest_problem(pair: Pair, refuses: tuple[bool, bool]) -> str | None:
    one, other = pair
    if one.link != other.link:
        return "the ends do not mean the same link"
    if one.closing or other.closing:
        return "the end of a session is never known"
    if one.link is not None:
        if one.talked != other.talked:
            return "the ends do not agree about the messages"
        return None if one.state is other.state is State.UP else "the link is there, and not up"
    for mine, theirs in ((one, other), (other, one)):
        if mine.state is not (State.REFUSED if mine.is_wanted else State.IDLE):
            return "an end goes on for ever"
        if mine.is_wanted and not (theirs.is_barred or any(refuses)):
            return "a wanted link is not tried again"
    return None
