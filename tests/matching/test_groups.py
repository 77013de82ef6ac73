"""The directory of groups finds the groups that brute force finds, and looks at few others."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.matching.features import covered_kinds, covering_kinds
from palio.matching.groups import Directory, Signature

KINDS = [("number", "one"), ("number", "few"), ("number", "range"), ("string", "one"), ("string", "part")]


def signatures() -> st.SearchStrategy[Signature]:
    names = st.dictionaries(st.sampled_from("abcde"), st.sampled_from(KINDS), max_size=4)
    return names.map(lambda found: tuple(sorted(found.items())))


def needing_at_most(groups: list[Signature], asked: Signature, kin) -> list[Signature]:
    offered = dict(asked)
    return [group for group in groups if all(name in offered and kind in kin(offered[name]) for name, kind in group)]


def offering(groups: list[Signature], asked: Signature, kin) -> list[Signature]:
    return [
        group for group in groups if all(name in dict(group) and kind in kin(dict(group)[name]) for name, kind in asked)
    ]


@given(
    steps=st.lists(signatures(), max_size=30),
    asked=st.lists(signatures(), min_size=1, max_size=4),
    is_turned=st.booleans(),
)
def test_any_sequence_of_groups(steps: list[Signature], asked: list[Signature], is_turned: bool) -> None:
    """A signature that is there is removed, another one is added; answers come in the order of additions."""
    kinds = (covered_kinds, covering_kinds) if is_turned else (covering_kinds, covered_kinds)
    directory: Directory[Signature] = Directory(*kinds)
    groups: list[Signature] = []
    for each in steps:
        if each in groups:
            groups.remove(each)
            directory.remove(each, each)
        else:
            groups.append(each)
            directory.add(each, each)
        for signature in (*asked, each):
            assert directory.needing_at_most(signature) == needing_at_most(groups, signature, kinds[0])
            assert directory.offering(signature) == offering(groups, signature, kinds[0])


def test_nothing_is_left_of_groups_that_are_removed() -> None:
    directory: Directory[Signature] = Directory(covering_kinds, covered_kinds)
    groups = [tuple((name, KINDS[0]) for name in names) for size in range(5) for names in combinations("abcdefg", size)]
    for order in (groups, groups[::-1], random.Random(1).sample(groups, len(groups))):
        for group in groups:
            directory.add(group, group)
        for group in order:
            directory.remove(group, group)
        assert not directory._root.children
        assert directory._root.group is None
        assert not directory._by_token
        assert not directory._numbers


def test_searches_look_at_few_of_thousands_of_groups() -> None:
    """As many groups as an attacker makes with filters of six names out of thirty."""
    rng, names = random.Random(1), [f"u{number:02}" for number in range(30)]
    directory: Directory[Signature] = Directory(covering_kinds, covered_kinds)
    groups = {tuple((name, KINDS[2]) for name in sorted(rng.sample(names, 6))) for _ in range(10_000)}
    for group in sorted(groups):
        directory.add(group, group)
    asked = sorted(groups)[::100]
    for signature in asked:
        assert signature in directory.needing_at_most(signature)
        assert signature in directory.offering(signature)
    assert directory.effort < len(asked) * 600


@pytest.mark.slow
def test_hostile_signatures_cost_what_they_are_charged() -> None:
    """Many branches, and one long way to them: what a search looks at is counted."""
    directory: Directory[Signature] = Directory(covering_kinds, covered_kinds)
    stem = tuple((f"a{number:03}", KINDS[2]) for number in range(250))
    for number in range(2_000):
        group = (*stem, (f"b{number:04}", KINDS[2]))
        directory.add(group, group)
    before = directory.effort
    assert len(directory.offering(stem)) == 2_000
    assert directory.effort - before > 2_000 // 16
    assert directory.needing_at_most(stem) == []
