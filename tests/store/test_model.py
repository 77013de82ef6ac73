"""Random histories of a store against a dict and a list: what is read is what was written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from palio.store import Batch, InvalidWriteError, Store
from tests.store.conftest import MEMORY

KEYS = st.binary(min_size=0, max_size=3)
VALUES = st.one_of(st.binary(max_size=20), st.integers(1, 30_000).map(lambda size: bytes([size % 256]) * size))
ENTRIES = st.one_of(st.binary(min_size=1, max_size=20), st.integers(1, 60_000).map(lambda size: b"e" * size))


class StoreMachine(RuleBasedStateMachine):
    """A store that is written, trimmed, closed and opened."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.state: dict[bytes, bytes] = {}
        self.log: dict[int, bytes] = {}
        self.first = self.next = 0
        self.store = Store.open(self.folder / "store.db", name="rome", incarnation=7)
        assert self.store.is_new_incarnation

    def batch(self, data: st.DataObject) -> Batch:
        changes = data.draw(st.dictionaries(KEYS, st.none() | VALUES, max_size=4))
        values = data.draw(st.lists(ENTRIES, max_size=3))
        entries = list(enumerate(values, self.next))
        self.next += len(entries)
        trim = data.draw(st.none() | st.integers(0, self.next))
        for key, value in changes.items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.log.update(entries)
        self.first = max(self.first, trim or 0)
        self.log = {position: value for position, value in self.log.items() if position >= self.first}
        return Batch(list(changes.items()), entries, trim, data.draw(st.booleans()))

    @rule(data=st.data(), count=st.integers(1, 3), then_tidy=st.booleans())
    def commit(self, data: st.DataObject, count: int, then_tidy: bool) -> None:
        self.store.commit([self.batch(data) for _ in range(count)], then_tidy=then_tidy)

    @rule(gap=st.integers(1, 5))
    def gaps_are_refused(self, gap: int) -> None:
        with pytest.raises(InvalidWriteError):
            self.store.commit([Batch([(b"lost", b"")], [(self.next + gap, b"entry")])])
        with pytest.raises(InvalidWriteError):
            self.store.commit([Batch(trim=self.next + gap)])

    @rule()
    def reopen(self) -> None:
        has_settled = not self.store.is_new_incarnation or bool(self.next or self.state)
        self.store.close()
        self.store = Store.open(self.folder / "store.db", name="rome", incarnation=99)
        assert self.store.incarnation == 7
        assert self.store.damage == []
        assert not (has_settled and self.store.is_new_incarnation)

    @rule(data=st.data(), most=st.integers(1, 50_000))
    def read(self, data: st.DataObject, most: int) -> None:
        position, end = data.draw(st.integers(0, self.next + 1)), data.draw(st.integers(0, self.next + 1))
        found = self.store.read(position, end, most)
        wanted = [(each, self.log[each]) for each in range(max(position, self.first), min(end, self.next))]
        assert found == wanted[: len(found)]
        if len(found) < len(wanted):
            assert found
            assert sum(len(value) for _, value in found) >= most
        assert sum(len(value) for _, value in found[:-1]) < most

    @invariant()
    def all_is_there(self) -> None:
        assert list(self.store.records()) == sorted(self.state.items())
        assert (self.store.first, self.store.next) == (self.first, self.next)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=settings().max_examples // 6, stateful_step_count=20)
