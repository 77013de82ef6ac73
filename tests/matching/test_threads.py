"""Several threads match while one updates: every answer is right for some state of the index during the call.

The updates are fixed beforehand, so the states are known: state v is what v updates leave. A reader notes how many
updates had ended before its call and how many had begun after it; its answer must be the model's for a state between.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pytest

from palio import Constraint, Filter, Notification
from palio.codec import msgpack
from palio.matching import FilterIndex
from tests.matching.populations import events, population
from tests.matching.strategies import examples
from tests.matching.twins import body_batch, drain, pairs_of

DEADLINE = 120
"""Seconds after which a thread is taken to hang; a run takes a few."""
EFFORT = examples(200).max_examples  # 2 usually, 100 in a soak


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as Python can make them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_threads(*works: Callable[[], None]) -> None:
    """Run all of them at once; fail if one raises, or if one has not ended by the deadline."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


# -- the updates and the states they lead to ---------------------------------------------------------------------------


class Update(NamedTuple):
    """Filters to add at once, or (the number of) one that was added and is to be removed."""

    add: list[Filter]
    remove: int | None = None


def plan_updates(random: Random, count: int) -> list[Update]:
    """Updates most of which change the answer to every event, and make the index divide itself and shrink again."""
    divided = population(random, "mixture", 400) + population(random, "pairs_with_a_range", 400)
    updates = [Update(divided[:200])]
    live = list(range(200))
    for number in range(count):
        shrinking = number % 400 >= 250
        if live and random.random() < (0.8 if shrinking else 0.3):
            updates.append(Update([], live.pop(random.randrange(len(live)))))
            continue
        added = sum(len(update.add) for update in updates)
        group = [random.choice([Filter(), Filter([Constraint("x", "absent")]), random.choice(divided)])]
        if random.random() < 0.1:
            group += random.sample(divided, 20)
        updates.append(Update(group))
        live += range(added, added + len(group))
    return updates


class History:
    """The states by number, and the answers of the model in each."""

    def __init__(self, updates: list[Update], notifications: list[Notification], ids: list[int]) -> None:
        filters = [filter for update in updates for filter in update.add]
        self.answers: list[list[list[int]]] = []
        """For each event the answer in each state."""
        for notification in notifications:
            matching = [filter.matches(notification) for filter in filters]
            current: set[int] = set()
            answers: list[list[int]] = [[]]
            added = 0
            for update in updates:
                numbers = range(added, added + len(update.add))
                added += len(update.add)
                changed = {ids[number] for number in numbers if matching[number]}
                current |= changed
                if update.remove is not None and matching[update.remove]:
                    current.discard(ids[update.remove])
                answers.append(sorted(current))
            self.answers.append(answers)

    def states(self, event: int, begin: int, end: int, answer: list[int]) -> set[int]:
        """The states from begin to end in which this is the answer."""
        return {state for state in range(begin, end + 1) if self.answers[event][state] == answer}


class Writer:
    """Carries the updates out and counts them, a few for each call of a reader, so that neither is done too soon."""

    PACE = 8

    def __init__(self, index: FilterIndex, updates: list[Update]) -> None:
        self.index = index
        self.updates = updates
        self.ids: list[int] = []
        self.begun = 0
        self.ended = 0
        self.calls = 0
        self.done = False
        self.called = threading.Condition()

    def note_call(self) -> None:
        with self.called:
            self.calls += 1
            self.called.notify_all()

    def keep_pace(self) -> None:
        with self.called:
            assert self.called.wait_for(lambda: self.calls * self.PACE >= self.begun, DEADLINE), "the readers hang"

    def run(self) -> None:
        try:
            for update in self.updates:
                self.keep_pace()
                self.begun += 1
                if update.remove is None:
                    self.ids += self.index.add_many(update.add)
                else:
                    self.index.remove(self.ids[update.remove])
                self.ended += 1
        finally:
            self.done = True


class Answer(NamedTuple):
    """What a reader got for an event, and between which states."""

    event: int
    begin: int
    end: int
    ids: list[int]


Ask = Callable[[FilterIndex, int], list[tuple[int, list[int]]]]
"""Ask the index in some way, by the number of the question; the answers come with the numbers of their events."""


def read(writer: Writer, ask: Ask, calls: list[list[Answer]]) -> None:
    """Ask until the writer is done, and once more."""
    question = 0
    last = False
    while not last:
        last = writer.done
        begin = writer.ended
        found = ask(writer.index, question)
        end = writer.begun
        calls.append([Answer(event, begin, end, ids) for event, ids in found])
        writer.note_call()
        question += 1


def by_event(pairs: list[tuple[int, int]], count: int) -> list[tuple[int, list[int]]]:
    rows: list[list[int]] = [[] for _ in range(count)]
    for row, id in pairs:
        rows[row].append(id)
    return list(enumerate(rows))


def ways_to_ask(notifications: list[Notification]) -> dict[str, Ask]:
    count = len(notifications)
    encoded = [msgpack.encode(notification) for notification in notifications]
    batch = body_batch(notifications)

    def single(index: FilterIndex, question: int) -> list[tuple[int, list[int]]]:
        return [(question % count, index.match(notifications[question % count]))]

    def one_body(index: FilterIndex, question: int) -> list[tuple[int, list[int]]]:
        return [(question % count, index.match_encoded(encoded[question % count]))]

    def many(index: FilterIndex, question: int) -> list[tuple[int, list[int]]]:
        return by_event(pairs_of(index.match_batch(batch, bodies="body")), count)

    return {"single": single, "encoded": one_body, "batch": many}


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("ways", [["single", "single", "encoded"], ["batch", "batch"], ["single", "batch", "encoded"]])
@pytest.mark.parametrize("seed", range(EFFORT))
def test_answers_while_another_thread_updates(ways, seed):
    random = Random(seed)
    updates = plan_updates(random, 1200)
    notifications = events(random, [filter for update in updates for filter in update.add], 8)
    writer = Writer(FilterIndex(), updates)
    asks = ways_to_ask(notifications)
    logs: list[list[list[Answer]]] = [[] for _ in ways]
    readers = [lambda way=way, log=log: read(writer, asks[way], log) for way, log in zip(ways, logs, strict=True)]
    run_threads(writer.run, *readers)
    history = History(updates, notifications, writer.ids)
    for log in logs:
        assert log
        for answer in (answer for call in log for answer in call):
            assert history.states(*answer), f"no state between {answer.begin} and {answer.end} has this answer"
    for event, notification in enumerate(notifications):
        assert writer.index.match(notification) == history.answers[event][-1]


@pytest.mark.usefixtures("restless")
def test_several_threads_match_one_index_that_rests():
    random = Random(3)
    filters = population(random, "mixture", 800)
    index = FilterIndex(filters)
    notifications = events(random, filters, 40)
    expected = [index.match(notification) for notification in notifications]
    pairs = [(row, id) for row, ids in enumerate(expected) for id in ids]
    batch = body_batch(notifications)
    agreed: list[int] = []

    def match(number: int) -> None:
        for _ in range(5):
            assert [index.match(notification) for notification in notifications] == expected
            assert pairs_of(index.match_batch(batch, bodies="body")) == pairs
            assert drain(index, batch, 500 + number, "body") == pairs
            assert list(index.match_counts(batch, bodies="body")) == [len(ids) for ids in expected]
        agreed.append(number)

    run_threads(*(lambda number=number: match(number) for number in range(4)))
    assert sorted(agreed) == [0, 1, 2, 3]


@pytest.mark.usefixtures("restless")
def test_several_threads_update():
    """No update is lost, and no id is given out twice."""
    index = FilterIndex()
    kept: list[list[int]] = [[] for _ in range(4)]

    def update(number: int) -> None:
        for step in range(150):
            first, *others = index.add_many([Filter([Constraint("t", "=", number)])] * (1 + step % 3))
            kept[number] += others
            index.remove(first)
            kept[number].append(index.add(Filter([Constraint("t", "=", number)])))
            assert set(kept[number]) <= set(index.match(Notification(t=number)))

    run_threads(*(lambda number=number: update(number) for number in range(4)))
    everything = [id for ids in kept for id in ids]
    assert len(set(everything)) == len(everything) == len(index)
    for number, ids in enumerate(kept):
        assert index.match(Notification(t=number)) == sorted(ids)


@pytest.mark.usefixtures("restless")
def test_names_that_change_their_numbers_during_a_batch():
    """A name that no filter has any more gives its number to another one, which must not get its column."""
    index = FilterIndex()
    rows = pa.record_batch({"a": [1] * 20_000, "b": [2] * 20_000})
    found: list[int] = []
    over = threading.Event()

    def update() -> None:
        while not over.is_set():
            for name, value in (("a", 2), ("b", 1)):  # each holds for the other column, and never for its own
                index.remove(index.add(Filter([Constraint(name, "=", value)])))

    def match() -> None:
        try:
            found.extend(sum(index.match_counts(rows)) for _ in range(20))
        finally:
            over.set()

    run_threads(update, match)
    assert found == [0] * 20


# -- the lock of the interpreter ---------------------------------------------------------------------------------------


class Exported:
    """A batch that was exported before the call: exporting it would let other threads run, too."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.capsules = batch.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.capsules


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """No thread is made to give way: another one runs only when this one waits, or lets go of the lock itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(DEADLINE * 10)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("undisturbed")
@pytest.mark.parametrize("ask", ["match_batch", "match_bodies", "match_counts"])
def test_others_run_during_a_batch(ask):
    """Another thread wakes up during the call, which it cannot unless the call lets go of the interpreter's lock.

    A short batch may be over before the other thread has woken up, so the batch grows until it was not.
    """
    index = FilterIndex(population(Random(5), "pairs_with_a_range", 500))
    call = threading.Lock()
    answered = threading.Lock()
    call.acquire()
    answered.acquire()
    ran: list[int] = []
    rounds = 14

    def wait_for_calls() -> None:
        for number in range(rounds):
            assert call.acquire(timeout=DEADLINE)
            ran.append(number)
            answered.release()

    other = threading.Thread(target=wait_for_calls, daemon=True)
    other.start()
    during = []
    for number in range(rounds):
        size = 2**number
        columns = {"kind": ["a", "b"] * size, "room": [1, 2] * size, "level": [3, 50] * size}
        bodies = body_batch([Notification(kind="a", room=1, level=3)] * min(size, 4096))
        batch = Exported(bodies if ask == "match_bodies" else pa.record_batch(columns))
        call.release()  # from here to the test of what ran, only the call can let the other thread run
        if ask == "match_counts":
            index.match_counts(batch)
        else:
            index.match_batch(batch, bodies="body" if ask == "match_bodies" else None, limit=10**6)
        during.append(number in ran)
        assert answered.acquire(timeout=DEADLINE)
    other.join(DEADLINE)
    assert not other.is_alive()
    assert any(during)
