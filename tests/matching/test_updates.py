"""Updates and questions in any order: a state machine that Hypothesis drives, and shrinks when it fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from palio import Constraint, Filter, Notification
from palio.errors import CallerError, ReadOnlyError, UnknownFilterError
from palio.matching import FilterIndex
from tests.matching.strategies import FILTERS, LITERAL, aimed_lists, examples, filter_lists
from tests.matching.twins import Twins, body_batch, drain, flat


class Updates(RuleBasedStateMachine):
    """The index and the model go through the same updates."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins()
        self.filters: list[Filter] = []
        """All filters that ever were, which notifications are aimed at: those that were removed must not match."""

    @rule(filter=FILTERS)
    def add(self, filter: Filter) -> None:
        self.twins.add(filter)
        self.filters.append(filter)

    @rule(filters=filter_lists(8))
    def add_many(self, filters: list[Filter]) -> None:
        self.twins.add_many(filters)
        self.filters += filters

    @rule(literals=st.lists(LITERAL, min_size=20, max_size=50), name=st.sampled_from(["x", "a"]))
    def add_so_many_that_they_are_divided(self, literals: list[object], name: str) -> None:
        filters = [Filter([Constraint(name, "=", literal)]) for literal in literals]
        self.twins.add_many(filters)
        self.filters += filters

    @precondition(lambda self: self.filters)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        self.twins.add(data.draw(st.sampled_from(self.filters)))

    @rule(filters=filter_lists(5), bad=st.sampled_from([None, "x = 1", 5, Notification(), Constraint("x", "any")]))
    def add_many_of_which_one_is_bad(self, filters: list[Filter], bad: object) -> None:
        for given in ([*filters, bad], [bad, *filters], [*filters, bad, *filters]):
            with pytest.raises(CallerError):
                self.twins.index.add_many(given)

    @precondition(lambda self: self.twins.ids)
    @rule(places=st.lists(st.integers(0, 200), min_size=1, max_size=10))
    def remove(self, places: list[int]) -> None:
        for place in places[: len(self.twins.ids)]:
            self.twins.remove(place)

    @precondition(lambda self: self.twins.ids)
    @rule()
    def remove_all(self) -> None:
        while self.twins.ids:
            self.twins.remove(0)

    @precondition(lambda self: self.twins.gone)
    @rule(place=st.integers(0, 200))
    def remove_twice(self, place: int) -> None:
        id = self.twins.gone[place % len(self.twins.gone)]
        with pytest.raises(UnknownFilterError):
            self.twins.index.remove(id)

    @rule(data=st.data())
    def match(self, data: st.DataObject) -> None:
        self.twins.check(data.draw(aimed_lists(self.filters)))

    @rule(data=st.data(), limit=st.integers(1, 30))
    def match_in_pages(self, data: st.DataObject, limit: int) -> None:
        notifications = data.draw(aimed_lists(self.filters))
        expected = flat(self.twins.expected(notifications))
        assert drain(self.twins.index, body_batch(notifications), limit, "body") == expected

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            opened: FilterIndex = self.twins.reopened(Path(folder, "index"))
            self.twins.check(data.draw(aimed_lists(self.filters, 3)), opened)
            with pytest.raises(ReadOnlyError):
                opened.add_many([Filter()])

    @invariant()
    def knows_its_filters(self) -> None:
        self.twins.check_membership()


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(examples(2), stateful_step_count=25)
