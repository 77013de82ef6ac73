"""Two servers whose parties say the same in other words, over restarts: all is as if it were said once, plainly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Advertisement, Filter, Pattern
from palio.codec import msgpack
from palio.node import ports, records
from palio.node.fitting import Records
from palio.node.loading import load
from palio.node.ports import Connect, LinkDown, Reply, Request
from palio.node.watches import Commission
from palio.routing.border import Gateway
from palio.routing.messages import Subscribe
from palio.routing.router import Role
from tests.node.durable import Durable, of_kind
from tests.node.test_reconfigured import Net

Subject = Filter | Advertisement | Pattern

FILTERS = (
    ("x > 5 and y any", "y any and x > 5.0", "x > 5 and y any and x > 4 and x any", "number x > 5; y any",
     "y any and x >= 5 and x != 5",
     "y any and not (x <= 5 or x absent or string x any or boolean x any or bytes x any or time x any)"),
    ("integer x = 4", "integer x > 3 and integer x < 5", "integer x >= 3.5 and integer x <= 4.5", "integer x = 4.0"),
    ("x = 5", "x in (5, 5.0)", "x >= 5 and x <= 5.0", "x = 5 and x any", "x = 5 and x != 6 and x < 7"),
    ("integer x = 5", "x = 5 and integer x any", "integer x any and integer x >= 5 and x <= 5"),
    ("float x = 5", "float x = 5.0", "x = 5 and float x any"),
    ('s >* "ab" and s *< "yz"', 's *< "yz" and s >* "ab"', 's *< "yz" and s >* "a" and s >* "ab" and s any'),
    ('s >* "ab"', 's >= "ab" and s < "ac"', 's >* "ab" and s >* "a"', 's any and s >* "ab" and s < "b"'),
    ("t > 2026-01-01T00:00:00Z", "t > 2026-01-01T02:00:00+02:00", "time t > 2025-12-31T19:00:00.000000-05:00"),
    ('b >= b"a"', 'b >= b"\\x61"', "bytes b >= 61", 'b > b"" and b >= b"a"'),
    ('s = "\u00e9"', 's = "\\u00e9"', 's >= "\u00e9" and s <= "\u00e9"'),
    ('s = "e\u0301"', 's = "e\\u0301"', 's any and s = "e\u0301"'),
    ("f = true", "f > false", "f != false", "boolean f >= true"),
    ("x absent and y > 1", "y > 1.0 and x absent", "not x any and y > 1"),
    ("x any", "x any and x any", "not x absent"),
    ("number x any", "x > 0 and number x any or x <= 0", "number x any and x any"),
    ("true", "", "x any or x absent"),
    ("integer x > 9223372036854775807", "x > 5 and x < 5", 'x = 5 and x = "a"', "false"),
)  # fmt: skip
"""Filters in groups that mean the same. The last group has what nothing can match, which is refused."""

ADVERTISEMENTS = (
    ("x any; y any", "y any; x any", "x any; y any; x > 3", 'x any and y any and x = "a"'),
    ("x > 3; y any", "y any; x > 3.0; x > 5", "x = 7; y any; x > 3; x = 9.5"),
    ("x in (1, 2)", "x = 1; x = 2", "x = 2.0; x = 1", "x = 1; x = 1.0; x = 2"),
    ("t > 2026-01-01T00:00:00Z", "t > 2026-01-01T01:00:00+01:00; t = 2027-01-01T00:00:00Z"),
    ('s >* "ab"', 's >* "ab"; s >* "abc"', 's = "abd"; s >* "ab"'),
    ('s = "\u00e9"', 's = "\\u00e9"', 's = "\u00e9"; s = "\u00e9"'),
    ('s = "e\u0301"', 's any and s = "e\u0301"'.replace("s any and ", "")),
    ("b any", 'b any; b > b"x"', "b any; b any"),
)  # fmt: skip

WORDS = ("x < 100 and x > 0", "x > 0.0 and x < 100.0", "x > 0 and x any and x < 100 and x < 101")
"""The filter of a gateway."""

PATTERNS = tuple(
    tuple(f"{one} then {two}" for one, two in zip(FILTERS[first][:3], reversed(FILTERS[second][:3]), strict=False))
    for first, second in ((0, 2), (2, 0), (3, 7), (9, 10), (10, 9), (1, 1))
)


def union(text: str) -> tuple[Filter, ...]:
    """The members of a union; what is covered by others is none."""
    return Filter.parse_union(text)


@pytest.mark.parametrize("group", FILTERS[:-1])
def test_groups_of_filters_are_equal(group: tuple[str, ...]) -> None:
    forms = {
        tuple(sorted(msgpack.encode(each.canonical()) for each in union(text)))
        for text in group
        if len(union(text)) == 1
    }
    assert len(forms) == 1, group


def test_groups_of_advertisements_are_equal_and_groups_are_not() -> None:
    forms = [{msgpack.encode(Advertisement.parse(text).canonical()) for text in group} for group in ADVERTISEMENTS]
    assert [len(each) for each in forms] == [1] * len(ADVERTISEMENTS)
    assert len(set.union(*forms)) == len(ADVERTISEMENTS)


class Step(NamedTuple):
    """What a party asks for, or the restart of a server."""

    server: str
    party: str
    do: str
    kind: int
    """Filters, advertisements, patterns."""
    group: int
    words: int

    def subjects(self) -> list[Subject]:
        """What it says; a filter may be a union."""
        groups: tuple[tuple[str, ...], ...] = (FILTERS, ADVERTISEMENTS, PATTERNS)[self.kind]
        group = groups[self.group % len(groups)]
        text = group[self.words % len(group)]
        if self.kind == 0:
            return list(union(text))
        return [Advertisement.parse(text) if self.kind == 1 else Pattern.parse(text)]


class Held:
    """What a party holds, by the simplest means."""

    def __init__(self) -> None:
        self.subjects: list[Subject] = []
        self.questions: list[Subject] = []

    def do(self, do: str, subject: Subject) -> None:
        alike: list[Any] = [each for each in self.subjects if type(each) is type(subject)]
        other: Any = subject
        match do:
            case "begin":
                if any(each.covers(other) for each in alike):
                    return
                self.subjects = [
                    each for each in self.subjects if each not in [one for one in alike if other.covers(one)]
                ]
                self.subjects.append(subject)
            case "end":
                self.subjects = [
                    each for each in self.subjects if each not in [one for one in alike if other.covers(one)]
                ]
            case "ask" if subject not in self.questions:
                self.questions.append(subject)
            case "ask no more":
                self.questions = [each for each in self.questions if each != subject]


def operation(do: str, subject: Subject) -> ports.Operation:
    match do, subject:
        case "begin", Advertisement():
            return ports.Advertise(subject)
        case "end", Advertisement():
            return ports.Unadvertise(subject)
        case "begin", _:
            return ports.Subscribe(subject)  # type: ignore[arg-type]
        case "end", _:
            return ports.Unsubscribe(subject)  # type: ignore[arg-type]
        case "ask", _:
            return ports.Watch(subject)  # type: ignore[arg-type]
    return ports.Unwatch(subject)  # type: ignore[arg-type]


class Pair:
    """Two servers that are neighbours, and what their parties hold."""

    def __init__(self, kind: str) -> None:
        architecture = "as" if kind == "gateway" else kind
        gateways = (
            [{"rome": Gateway(Filter.parse(WORDS[0]), Filter.parse(WORDS[0]))}, {"milan": Gateway()}]
            if kind == "gateway"
            else [{}, {}]
        )
        self.net = Net(
            milan=Durable(server="milan", architecture=architecture, gateways=gateways[0]),
            rome=Durable(server="rome", architecture=architecture, gateways=gateways[1]),
        )
        self.kind = kind
        self.parties: dict[tuple[str, str], Held] = {}
        self.net.give("milan", Connect("rome", Role.GATEWAY if kind == "gateway" else Role.PEER))
        assert "rome" in self.net.servers["milan"].node.links.peers
        self.restarts = 0

    def ask(self, server: str, party: str, do: str, subject: Subject) -> None:
        replies = of_kind(self.net.give(server, Request(party, 1, operation(do, subject))), Reply)
        if replies and replies[-1].problem is None:
            self.parties.setdefault((server, party), Held()).do(do, subject)
        else:
            assert "match" in str(replies[-1].problem) or "tell" in str(replies[-1].problem), replies

    def step(self, step: Step) -> None:
        if step.do == "restart":
            self.restart(step.server)
            return
        for each in step.subjects():
            if step.do.startswith("ask") and isinstance(each, Pattern):
                continue
            self.ask(step.server, step.party, step.do, each)

    def restart(self, server: str) -> None:
        """The gateway is configured in other words each time."""
        self.restarts += 1
        words = Filter.parse(WORDS[self.restarts % len(WORDS)])
        gateway = Gateway(words, words)
        options = {"gateways": {"rome": gateway}} if (self.kind, server) == ("gateway", "milan") else {}
        self.net.restart(server, **options)
        durable = self.net.servers[server]
        assert not durable.node.quarantined
        assert not load(durable.records.items()).changes
        self.net.settle("milan", "rome")

    def facts(self) -> dict[str, Any]:
        """What can be compared with another pair."""
        found: dict[str, Any] = {}
        for name, peer in (("milan", "rome"), ("rome", "milan")):
            node = self.net.servers[name].node
            found[f"{name} heard"] = {str(each) for each in node.router.standing(peer)}
            found[f"{name} keys"] = _keys(load(self.net.servers[name].records.items()).records)
            found[f"{name} filters"] = {str(each) for each in node.router.subscriptions}
        return found


def _keys(kept: Iterable[tuple[Any, Any]]) -> set[bytes]:
    """The keys of records of parties and neighbours; the numbers of tasks for neighbours do not matter."""
    known: Records = dict(kept)
    plain = [
        (*key[:1], key[1].peer, *key[2:]) if isinstance(key[1], Commission) else key for key in known if len(key) > 1
    ]
    return {records.encode_key(key) for key in plain if key[0] in ("held", "holds", "pattern", "asks")}


def _fresh(pair: Pair) -> Pair:
    """The same, said once by each party, in canonical words."""
    fresh = Pair(pair.kind)
    for (server, party), held in pair.parties.items():
        for do, subjects in (("begin", held.subjects), ("ask", held.questions)):
            for each in subjects:
                fresh.ask(server, party, do, each.canonical())
    fresh.net.settle("milan", "rome")
    return fresh


GROUPS = st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2]), st.integers(0, 20))


def _steps(groups: list[tuple[int, int]]) -> st.SearchStrategy[list[Step]]:
    """Steps with few subjects, so that many are about the same one."""
    actions = st.sampled_from(["begin"] * 4 + ["end"] * 3 + ["ask", "ask no more"] + ["restart"] * 2)
    servers, parties = st.sampled_from(["milan", "rome", "rome"]), st.sampled_from(["eva", "bob"])
    step = st.builds(
        lambda server, party, do, about, words: Step(server, party, do, *about, words),
        *(servers, parties, actions, st.sampled_from(groups), st.integers(0, 5)),
    )
    return st.lists(step, max_size=25)


STEPS = st.lists(GROUPS, min_size=1, max_size=3).flatmap(_steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["as", "aa", "gs", "ga", "gateway"])
@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_all_is_as_if_it_were_said_once_and_plainly(kind: str, steps: list[Step]) -> None:
    pair = Pair(kind)
    for step in steps:
        pair.step(step)
    pair.net.settle("milan", "rome")
    for (server, party), held in pair.parties.items():
        node = pair.net.servers[server].node
        profile = node.router.profile(party)
        mine = [*profile.filters, *profile.advertisements, *node.monitors.patterns(party)]
        assert {repr(each.canonical()) for each in mine} == {repr(each.canonical()) for each in held.subjects}
        asked = {repr(each.canonical()) for each in node.outlooks.of(party)}
        assert asked == {repr(each.canonical()) for each in held.questions}
    for _ in range(2):
        assert not any(of_kind(each, LinkDown) for each in pair.net.said.values())
        assert pair.facts() == _fresh(pair).facts()
        for server in ("milan", "rome"):
            pair.restart(server)


@pytest.mark.parametrize("kind", ["as", "aa"])
def test_one_part_of_a_union_is_taken_back_in_other_words_after_a_restart(kind: str) -> None:
    pair = Pair(kind)
    pair.ask("milan", "adam", "begin", Advertisement.parse("x any; y any"))
    for each in union("x > 5 or y in (1, 2) and x any"):
        pair.ask("rome", "eva", "begin", each)
    for server in ("rome", "milan"):
        pair.restart(server)
    pair.ask("rome", "eva", "end", Filter.parse("x any and y >= 2.0 and y <= 2"))
    assert set(pair.net.servers["milan"].node.router.standing("rome")) == {
        Subscribe(Filter.parse(text).canonical()) for text in ("x > 5", "y = 1 and x any")
    }
    for server in ("milan", "rome"):
        pair.restart(server)
    for text in ("number x > 5.0", "y <= 1 and x any and y >= 1"):
        pair.ask("rome", "eva", "end", Filter.parse(text))
    assert not pair.net.servers["milan"].node.router.standing("rome")
    assert not any(of_kind(each, LinkDown) for each in pair.net.said.values())
