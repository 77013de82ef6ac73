"""The covering order against brute force that compares all pairs."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from palio import Advertisement, Constraint, Filter
from palio.errors import CallerError, UnknownElementError
from palio.matching import Change, CoveringOrder, candidates, dominance, features, views
from tests.matching.covering_populations import KINDS, NEVER, families, population

Element = Filter | Advertisement


class Plain:
    """The order as a list; every question goes through all pairs."""

    def __init__(self) -> None:
        self.elements: list[Element] = []

    def insert(self, element: Element) -> Change:
        before = self.maximal()
        if element in self.elements:
            return Change(False, (), ())
        self.elements.append(element)
        return self._change(before)

    def remove(self, element: Element) -> Change:
        before = self.maximal()
        self.elements.remove(element)
        return self._change(before)

    def _change(self, before: tuple[Element, ...]) -> Change:
        after = self.maximal()
        risen = tuple(each for each in after if each not in before)
        return Change(True, risen, tuple(each for each in before if each not in after))

    def maximal(self) -> tuple[Element, ...]:
        return tuple(self._upper(self.elements))

    def covering(self, element: Element) -> tuple[Element, ...]:
        return tuple(each for each in self.elements if each.covers(element))

    def covered_by(self, element: Element) -> tuple[Element, ...]:
        return tuple(each for each in self.elements if element.covers(each))

    def predecessors(self, element: Element) -> tuple[Element, ...]:
        strict = [each for each in self.covering(element) if each != element]
        return tuple(each for each in strict if not any(each is not other and each.covers(other) for other in strict))

    def successors(self, element: Element) -> tuple[Element, ...]:
        return tuple(self._upper([each for each in self.covered_by(element) if each != element]))

    @staticmethod
    def _upper(elements: list[Element]) -> Iterator[Element]:
        return (each for each in elements if not any(other is not each and other.covers(each) for other in elements))


QUESTIONS = ("covering", "covered_by", "predecessors", "successors")


def words(elements: tuple[Element, ...]) -> list[str]:
    """Elements by their wording, so that also which of several equal ones comes out is compared."""
    return [str(each) for each in elements]


def check(order: CoveringOrder, plain: Plain, asked: list[Element]) -> None:
    assert words(tuple(order)) == words(tuple(plain.elements))
    assert len(order) == len(plain.elements)
    assert words(order.maximal()) == words(plain.maximal())
    for element in asked:
        assert (element in order) is (element in plain.elements)
        for question in QUESTIONS:
            answer = words(getattr(order, question)(element))
            assert answer == words(getattr(plain, question)(element)), f"{question}({element})"


def wording(change: Change) -> tuple[bool, list[str], list[str]]:
    return change.changed, words(change.risen), words(change.fallen)


@pytest.fixture(params=["as it is", "small", "smallest"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few elements must reach what otherwise takes many: inner nodes, sets too large to list, views to measure."""
    views._described.cache_clear()  # what is few is part of the description
    if request.param != "as it is":
        smallest = request.param == "smallest"
        monkeypatch.setattr(dominance, "_LEAF", 1 if smallest else 2)
        monkeypatch.setattr(candidates, "_MOST_VIEWS", 0 if smallest else 1)
        monkeypatch.setattr(features, "FEW", 1 if smallest else 2)
        monkeypatch.setattr(candidates, "_MOST_PLANS", 1)
        monkeypatch.setattr(candidates, "_FEW_IN_GROUP", 0 if smallest else 1)
        monkeypatch.setattr(views, "_MOST_PLACES", 1 if smallest else 2)
        monkeypatch.setattr(views, "_LONG", 2)
    yield
    views._described.cache_clear()


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("kind", [Filter, Advertisement])
@given(data=st.data())
def test_any_sequence_of_insertions_and_removals(kind: type, data: st.DataObject) -> None:
    elements = data.draw(families(kind))
    asks = data.draw(st.booleans())  # all along, or only at the end, when the index has yet to be built
    order, plain = CoveringOrder(kind), Plain()
    for step in data.draw(st.lists(st.integers(0, len(elements) - 1), max_size=12)):
        # An element that is there is mostly removed, else mostly inserted.
        element = elements[step]
        if element in plain.elements and data.draw(st.integers(0, 3)):
            note(f"remove {element}")
            assert wording(order.remove(element)) == wording(plain.remove(element))
        else:
            note(f"insert {element}")
            assert wording(order.insert(element)) == wording(plain.insert(element))
        if asks:
            check(order, plain, elements)
    check(order, plain, elements)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Filter, Advertisement])
@pytest.mark.parametrize("of", [*KINDS, "mixed"])
def test_hundreds(kind: type, of: str) -> None:
    """Enough to split, rebuild and shrink the trees of the index; each step's change is checked by the maximal ones."""
    rng = random.Random(of)
    elements = list(dict.fromkeys(population(kind, of, 260)))
    order, plain = CoveringOrder(kind), Plain()
    maximal: dict[Element, None] = {}

    def apply(change: Change) -> None:
        for each in change.fallen:
            del maximal[each]
        for each in change.risen:
            assert each not in maximal
            maximal[each] = None

    for at, element in enumerate(elements):
        apply(order.insert(element))
        plain.elements.append(element)
        if at == len(elements) // 3:  # views that exist already must follow what comes
            check(order, plain, rng.sample(elements, min(20, len(elements))))
    check(order, plain, rng.sample(elements, min(40, len(elements))))
    assert set(maximal) == set(order.maximal())
    rng.shuffle(elements)
    for element in elements[20:]:
        apply(order.remove(element))
        plain.elements.remove(element)
        if len(plain.elements) % 50 == 0:
            check(order, plain, rng.sample(elements, min(10, len(elements))))
            assert set(maximal) == set(order.maximal())
    check(order, plain, elements[:40])


def test_sorted_insertions_stay_quick() -> None:
    """Ascending values are the worst case of an unbalanced tree: it must rebuild itself, and not too often."""
    order = CoveringOrder(Filter)
    tree = dominance.DominanceTree[int]()
    for low in range(2000):
        tree.add(low, ((low,), (low + 2,)))
        order.insert(Filter.parse(f"integer x >= {low} and integer x < {low + 2}"))
    depth, nodes = 0, [tree._root]
    while nodes:
        depth += 1
        nodes = [child for node in nodes for child in (node.left, node.right) if child is not None]
    assert depth < 30
    assert words(order.covering(Filter.parse("integer x = 700"))) == [
        "integer x >= 699 and integer x < 701",
        "integer x >= 700 and integer x < 702",
    ]


# -- edges -------------------------------------------------------------------------------------------------------------


def texts(*lines: str) -> list[Filter]:
    return [Filter.parse(line) for line in lines]


def test_an_empty_order() -> None:
    order = CoveringOrder(Filter)
    assert len(order) == 0
    assert list(order) == []
    assert order.maximal() == order.covering(Filter()) == order.covered_by(Filter()) == ()
    assert order.predecessors(NEVER) == order.successors(Filter()) == ()
    assert NEVER not in order
    assert repr(order) == "<CoveringOrder of 0 Filters, 0 of them maximal>"


def test_the_first_wording_of_equal_elements_stays() -> None:
    first, again = texts("integer x = 4", "integer x > 3 and integer x < 5")
    order = CoveringOrder(Filter, [first])
    change = order.insert(again)
    assert not change
    assert change == Change(False, (), ())
    assert words(tuple(order)) == words(order.maximal()) == ["integer x = 4"]
    assert again in order
    assert words(order.covering(again)) == ["integer x = 4"]
    assert words(order.remove(again).fallen) == ["integer x = 4"]
    assert len(order) == 0


def test_what_was_removed_and_inserted_again_comes_last() -> None:
    wide, narrow = texts("x > 1", "x > 2")
    order = CoveringOrder(Filter, [wide, narrow])
    order.remove(wide)
    order.insert(wide)
    assert list(order) == [narrow, wide]
    assert order.covered_by(wide) == (narrow, wide)


def test_an_element_covers_itself_and_is_not_its_own_neighbour() -> None:
    top, middle, bottom = texts("x > 1", "x > 2", "x > 3")
    order = CoveringOrder(Filter, [bottom, middle, top])
    assert order.covering(middle) == (middle, top)
    assert order.covered_by(middle) == (bottom, middle)
    assert order.predecessors(middle) == (top,)
    assert order.successors(middle) == (bottom,)


def test_the_filter_that_nothing_can_match() -> None:
    some, other = texts("x > 1", "y > 1")
    order = CoveringOrder(Filter)
    assert order.insert(NEVER) == Change(True, (NEVER,), ())
    assert order.maximal() == (NEVER,)
    assert not order.insert(Filter.parse("false"))
    assert order.insert(some) == Change(True, (some,), (NEVER,))
    assert order.insert(other) == Change(True, (other,), ())
    assert order.maximal() == (some, other)
    assert order.covering(NEVER) == (NEVER, some, other)
    assert order.predecessors(NEVER) == (some, other)
    assert order.successors(some) == (NEVER,)
    assert order.successors(Filter()) == (some, other)
    assert order.covered_by(NEVER) == order.covered_by(Filter.parse("x = 0")) == (NEVER,)
    assert order.remove(some) == Change(True, (), (some,))
    assert order.remove(other) == Change(True, (NEVER,), (other,))
    assert order.remove(NEVER) == Change(True, (), (NEVER,))


def test_the_filter_that_matches_everything() -> None:
    some = texts("x > 1", "y > 1", "x any", "z absent")
    order = CoveringOrder(Filter, some)
    assert order.insert(Filter()) == Change(True, (Filter(),), (some[1], some[2], some[3]))
    assert order.covered_by(Filter()) == (*some, Filter())
    assert order.successors(Filter()) == tuple(some[1:])
    assert order.remove(Filter()) == Change(True, tuple(some[1:]), (Filter(),))


def test_the_advertisement_of_nothing_is_covered_by_all() -> None:
    empty, some, impossible = map(Advertisement.parse, ("", "x > 1", "integer x > 1.2 and x = 'a'"))
    order = CoveringOrder(Advertisement, [empty, some, impossible])
    assert order.maximal() == (some, impossible)
    assert order.covering(empty) == (empty, some, impossible)
    assert Advertisement.parse("float x = 9007199254740993") == empty
    assert order.covered_by(Advertisement.parse("float x = 9007199254740993")) == (empty,)


def test_absent_is_covered_by_absent_alone() -> None:
    absent, anything = texts("x absent", "x any")
    order = CoveringOrder(Filter, [absent, anything])
    assert order.covering(Filter.parse("x absent and y = 1")) == (absent,)
    assert order.covering(Filter.parse("x = 1")) == (anything,)
    assert order.covering(Filter.parse("y = 1")) == ()


def test_removal_resurfaces_only_what_nothing_else_covers() -> None:
    wide, other, low, high = texts("x > 0", "x > 4 and x < 20", "x > 2 and x < 9", "x > 5 and x < 9")
    order = CoveringOrder(Filter, [wide, other, low, high])
    assert order.maximal() == (wide,)
    assert order.remove(wide) == Change(True, (other, low), (wide,))


def test_texts_of_any_length() -> None:
    """Long texts are not indexed piece by piece, and what they contain is searched for rather than looked up."""
    parts = [Filter([Constraint("x", "*", text)]) for text in ("needle", "hay" * 100, "a", "hayneedle", "other")]
    long = Filter([Constraint("x", "=", "hay" * 1000 + "needle")])
    brief = Filter([Constraint("x", "=", "needle")])
    order = CoveringOrder(Filter, [*parts, long, brief])
    assert order.maximal() == (parts[0], parts[2], parts[4])
    assert order.covering(long) == (*parts[:4], long)
    assert order.covered_by(parts[0]) == (parts[0], parts[3], long, brief)
    assert order.covered_by(parts[1]) == (parts[1], long)
    order.remove(long)
    assert order.covered_by(parts[1]) == (parts[1],)


@pytest.mark.parametrize("element", ["x > 3", None, Advertisement.parse("x > 3")])
@pytest.mark.parametrize("operation", ["insert", "remove", *QUESTIONS])
def test_other_things_are_refused(operation: str, element: object) -> None:
    order = CoveringOrder(Filter, texts("x > 3"))
    with pytest.raises(CallerError, match="is no Filter"):
        getattr(order, operation)(element)
    assert element not in order
    assert len(order) == 1


def test_an_order_of_advertisements_refuses_filters() -> None:
    with pytest.raises(CallerError, match="is no Advertisement"):
        CoveringOrder(Advertisement, texts("x > 3"))  # type: ignore[type-var]


def test_an_order_of_other_things_is_refused() -> None:
    with pytest.raises(CallerError, match="holds Filter or Advertisement, not <class 'str'>"):
        CoveringOrder(str)  # type: ignore[type-var]


def test_removing_what_is_not_there_is_refused_and_changes_nothing() -> None:
    order = CoveringOrder(Filter, texts("x > 3", "x > 4"))
    for element in (*texts("x > 2", "x > 5"), NEVER):
        with pytest.raises(UnknownElementError, match="is not in the order"):
            order.remove(element)
    assert len(order) == 2
    assert words(order.maximal()) == ["x > 3"]


REPLAY = """
from palio import Advertisement, Filter
from palio.matching import CoveringOrder
from tests.matching.covering_populations import population
for kind in (Filter, Advertisement):
    elements = population(kind, "mixed", 120)
    order = CoveringOrder(kind)
    print(*map(order.insert, elements), sep="\\n")
    for element in elements[:40]:
        print(order.covering(element), order.covered_by(element), order.predecessors(element))
    print(*[order.remove(element) for element in dict.fromkeys(elements)], sep="\\n")
"""


@pytest.mark.slow
def test_nothing_depends_on_the_hash_seed() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", REPLAY],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]
    assert len(printed[0]) > 10_000
    assert all(each == printed[0] for each in printed)


def test_pairs_occur() -> None:
    """The larger populations are worth something: in each, many elements cover others."""
    for kind, of in itertools.product((Filter, Advertisement), KINDS):
        elements = list(dict.fromkeys(population(kind, of, 100)))
        pairs = sum(wide.covers(narrow) for wide, narrow in itertools.permutations(elements, 2))
        assert len(elements) > 20
        assert pairs > len(elements) / 4, (kind, of)
