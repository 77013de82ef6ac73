"""The index of the covering order proposes hardly anything that does not cover, or is not covered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from palio import Advertisement, Filter
from palio.bench.populations import SUBSCRIPTIONS, advertisements, subscriptions
from palio.matching import CoveringOrder, candidates, covering, sharing, views
from palio.matching.candidates import Among, Index
from palio.matching.views import Entry

Element = Filter | Advertisement


class CountingIndex(Index):
    """Counts what it proposes, and how much of that in vain."""

    proposed = in_vain = 0

    def _search(self, asked: Entry, wide: bool) -> Iterator[Entry]:
        for entry in super()._search(asked, wide):
            above, below = (entry, asked) if wide else (asked, entry)
            CountingIndex.proposed += 1
            CountingIndex.in_vain += not above.element.covers(below.element)
            yield entry


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingIndex, "proposed", 0)
    monkeypatch.setattr(CountingIndex, "in_vain", 0)
    monkeypatch.setattr(candidates, "_FEW_IN_GROUP", 0)
    for module in (covering, sharing):
        monkeypatch.setattr(module, "Index", CountingIndex)


@pytest.mark.slow
@pytest.mark.parametrize("population", [*SUBSCRIPTIONS, "advertisements"])
def test_populations(population: str) -> None:
    """The share of vain proposals is what grows with the size when an index is blind to something."""
    kind = Advertisement if population == "advertisements" else Filter
    source = advertisements() if kind is Advertisement else subscriptions(population)
    elements: list[Element] = list(islice(source, 1500))
    order = CoveringOrder(kind, elements)
    for element in elements:
        order.covering(element)
        order.covered_by(element)
    for element in elements[::3]:
        order.remove(element)
    assert CountingIndex.proposed > len(elements)
    assert CountingIndex.in_vain <= len(elements) / 100


COMMON_AND_RARE = {
    "low": "x >* 'a/{}/' and x >* 'b{}/'",
    "high": "x >* 'a{}/' and x >* 'b/{}/'",
    "numbers": "x < -{} and x > 1{}",
    "values": "x = 'a/{}' and x = 'b{}'",
    "two names": "x >* 'a/{}/' and x >* 'b{}/' and y >* 'a/{}/' and y >* 'b{}/'",
}


@pytest.mark.parametrize("text", COMMON_AND_RARE.values(), ids=COMMON_AND_RARE)
def test_sets_that_have_only_one_of_two_intervals_in_common(text: str) -> None:
    """All are alike in what is common, so they must be told apart by what is rare, wherever that is in the order."""
    elements = [Advertisement.parse(text.replace("{}", str(number))) for number in range(100, 400)]
    order = CoveringOrder(Advertisement, elements)
    for wide in ("x >* 'a/' and x >* 'c'", "x >* '' and y > 3", "x >* 'b/' and x >* '9'", "x < 0 and x > 2000"):
        order.covered_by(Advertisement.parse(wide))
        order.insert(Advertisement.parse(wide))
    for narrow in ("x = 'a/123/' and x = 'c'", "x = 'a77' and x = 'b/200/'", "x = -5000 and x = 0"):
        order.covering(Advertisement.parse(narrow))
    assert CountingIndex.in_vain == 0


def test_no_entry_among_many_makes_all_others_enter_the_index_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[str] = []
    monkeypatch.setattr(Index, "add", lambda _index, entry: added.append(str(entry.element)))
    among: Among[Entry[Filter]] = Among(Filter)
    texts = [f"x > {number}" for number in range(200)]
    most = 0
    for text in texts:
        before = len(added)
        among.add(Entry(Filter.parse(text)))
        most = max(most, len(added) - before)
    assert most == 2
    assert added == texts


def filters_of_few_names(random: Random) -> Filter:
    text = " and ".join(f"{name} {random.choice('<>=')} {random.randrange(9)}" for name in random.sample("abc", 2))
    return Filter.parse(text)


@pytest.mark.parametrize("few", [0, 2, 50])
def test_entries_that_come_and_go_while_a_search_goes_on(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that is there all the time is found; an owner finds only its own entries."""
    monkeypatch.setattr(candidates, "_FEW_IN_GROUP", few)
    monkeypatch.setattr(candidates, "_FILLED", 1)
    for seed in range(60):
        random = Random(seed)
        index: Index[Entry[Filter]] = Index(Filter)
        entries = [Entry(filters_of_few_names(random), random.choice("xy")) for _ in range(40)]
        there = dict.fromkeys(entries[:30])
        for entry in there:
            index.add(entry)
        stays, asked = dict(there), Entry(filters_of_few_names(random), "x")
        wide, found = random.random() < 0.5, None
        search = index.find(asked, wide)
        while found is None:
            try:
                assert next(search) >= 0
            except StopIteration as done:
                found = done.value
            for entry in random.sample(entries, random.choice([0, 0, 1, 5])):
                if entry in there:
                    index.remove(entry)
                    del there[entry]
                    stays.pop(entry, None)
                else:
                    index.add(entry)
                    there[entry] = None
        above = [each for each in stays if each.owner == "x" and covers(each, asked, wide)]
        assert set(above) <= set(found)
        assert {each.owner for each in found} <= {"x"}
        again = [*(index.may_cover if wide else index.may_be_covered)(asked)]
        assert {each for each in there if each.owner == "x" and covers(each, asked, wide)} <= set(again) <= set(there)


def test_entries_that_are_taken_out_later_count_no_longer_and_may_come_back() -> None:
    index: Index[Entry[Filter]] = Index(Filter)
    entries = [Entry(Filter.parse(f"x = {number} and y > {number}")) for number in range(40)]
    for entry in entries:
        index.add(entry)
    asked = Entry(Filter.parse("y > 0"))
    assert set(index.may_be_covered(asked)) == set(entries)
    for entry in entries[:30]:
        index.remove(entry)
    assert set(index.may_be_covered(asked)) == set(entries[30:])
    for entry in entries[:20]:
        index.add(entry)
    assert set(index.may_be_covered(asked)) == {*entries[:20], *entries[30:]}
    for entry in (*entries[:20], *entries[30:-1]):
        index.remove(entry)
    assert set(index.may_be_covered(asked)) == {entries[-1]}


def covers(entry: Entry[Filter], asked: Entry[Filter], wide: bool) -> bool:
    above, below = (entry, asked) if wide else (asked, entry)
    return above.element.covers(below.element)


def test_one_step_of_a_search_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question of a new kind made a view of all entries of a group at once: a large table held up a server."""
    index: Index[Entry[Filter]] = Index(Filter)
    for number in range(3_000):
        index.add(Entry(Filter.parse(f"symbol = 's{number}' and price > {number}")))
    placed = [0]
    add = views.View._place

    def counted(view: views.View[Entry[Filter]], entry: Entry[Filter]) -> None:
        placed[0] += 1
        add(view, entry)

    monkeypatch.setattr(views.View, "_place", counted)
    search = index.find(Entry(Filter.parse("price > 2990")), wide=False)
    most = 0
    while True:
        placed[0] = 0
        try:
            next(search)
        except StopIteration as done:
            found = done.value
            break
        most = max(most, placed[0])
    assert 0 < most <= candidates._FILLED
    assert placed[0] <= candidates._FILLED
    assert len(found) >= 9
