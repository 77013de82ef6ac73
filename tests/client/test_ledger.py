"""What a durable client acknowledges, against a model that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.client.durable import Cursor, Gap
from palio.client.ledger import Ledger
from palio.codec.control import Position

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), st.integers(0, 3)),
        st.tuples(st.just("release"), st.integers(0, 99)),
        st.tuples(st.just("reject"), st.integers(0, 99)),
        st.tuples(st.just("answer"), st.booleans()),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("ahead"), st.integers(1, 5)),
        st.tuples(st.just("other"), st.integers(0, 9)),
    ),
    max_size=60,
)


class Model:
    """Every holder by itself, and every number one by one."""

    def __init__(self, first: int) -> None:
        self.first = self.next = first
        self.holders: list[tuple[int, str]] = []
        """The number that each holds, and what it has said: ``held``, ``rejected``, or ``done``."""

    def is_done(self, number: int) -> bool:
        return all(said == "done" for held, said in self.holders if held == number)

    @property
    def done(self) -> int:
        lowest = min([self.first, self.next, *(held for held, _ in self.holders)])
        number = lowest - 1
        while number + 1 < self.next and self.is_done(number + 1):
            number += 1
        return number

    @property
    def rejection(self) -> int | None:
        number = self.done + 1
        said = [said for held, said in self.holders if held == number]
        return number if number < self.next and said and "held" not in said and "rejected" in said else None


@given(st.integers(0, 50), STEPS)
def test_all_below_what_is_acknowledged_is_done_and_the_next_is_not(first: int, steps: list[tuple[str, int]]) -> None:
    ledger, model, log = Ledger(), Model(first), 3
    ledger.position(Position(log, first, 0, 0, 0))
    for step, argument in steps:
        held = [index for index, (_, said) in enumerate(model.holders) if said == "held"]
        if step == "receive":
            assert ledger.receive(argument) == model.next
            model.holders += [(model.next, "held")] * argument
            model.next += 1
        elif step in ("release", "reject") and held:
            index = held[argument % len(held)]
            number = model.holders[index][0]
            if step == "release":
                ledger.release(number)
            else:
                ledger.reject(number, "why")
            model.holders[index] = number, "done" if step == "release" else "rejected"
        elif step == "answer" and model.rejection is not None:
            number, mine = model.rejection, (model.rejection, "rejected")
            if argument:
                ledger.rejected(number)
            else:
                ledger.keep(number, model.holders.count(mine))
            after = (number, "done" if argument else "held")
            model.holders = [after if each == mine else each for each in model.holders]
        elif step in ("back", "ahead"):
            model.next = max(0, model.next - argument) if step == "back" else model.next + argument
            gap = ledger.position(Position(log, model.next, 0, 0, 0))
            assert (gap is None) == (step == "back")
        elif step == "other":
            log += 1
            model = Model(argument)
            assert ledger.position(Position(log, argument, 0, 0, 0)) is not None
        assert ledger.done == model.done
        assert (ledger.rejection or (None,))[0] == model.rejection
        assert ledger.cursor == Cursor(log, model.next - 1)


def test_what_is_gone_is_told_with_the_reason() -> None:
    ledger = Ledger()
    assert ledger.position(Position(3, 10, 0, 5, 5)) is None  # nothing is known of what was before
    ledger.receive(0)
    for position, gap in (
        (Position(3, 11, 0, 5, 5), None),
        (Position(3, 15, 0, 9, 5), Gap(Cursor(3, 10), Cursor(3, 15), "dropped")),
        (Position(3, 20, 0, 10, 9), Gap(Cursor(3, 14), Cursor(3, 20), "expired")),
        (Position(3, 21, 0, 10, 9), Gap(Cursor(3, 19), Cursor(3, 21), "skipped")),
        (Position(3, 2, 0, 10, 9), None),
        (Position(4, 0, 0, 0, 0), Gap(Cursor(3, 1), Cursor(4, 0), "other-log")),
    ):
        assert ledger.position(position) == gap
    fresh = Ledger()
    assert fresh.position(Position(3, 10, 0, 4, 0), Cursor(3, 4)) == Gap(Cursor(3, 4), Cursor(3, 10), "dropped")


def test_what_came_before_is_marked() -> None:
    ledger = Ledger()
    ledger.position(Position(3, 5, 7, 0, 0))
    marked = []
    for _ in range(4):
        marked.append(ledger.is_repeated(ledger.next))
        ledger.receive(1)
    assert marked == [True, True, False, False]
    ledger.position(Position(3, 7, 0, 0, 0))  # though the server does not say so
    assert ledger.is_repeated(8)
    assert not ledger.is_repeated(9)


def test_a_hostile_jump_costs_nothing() -> None:
    ledger = Ledger()
    ledger.position(Position(3, 0, 0, 0, 0))
    ledger.position(Position(3, 2**62, 0, 0, 0))
    assert ledger.done == 2**62 - 1
