"""The index of the covering order proposes hardly anything that does not cover, or is not covered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from palio import Advertisement, Filter
from palio.bench.populations import SUBSCRIPTIONS, advertisements, subscriptions
from palio.matching import CoveringOrder, covering, sharing
from palio.matching.candidates import Among, Entry, Index

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
