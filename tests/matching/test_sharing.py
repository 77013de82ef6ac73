"""One order for several readers, against the maximal elements of what each one sees, computed from scratch."""

from __future__ import annotations

from random import Random

import pytest

from palio import Advertisement, Filter
from palio.matching.sharing import EVERYBODY, NOBODY, Node, SharedOrder
from palio.sim.generators.networks import advertisement_text, filter_text

Element = Filter | Advertisement
READERS = [1 << number for number in range(4)]
NEW_READER = 1 << 70
NEVER = Filter.parse("x > 3 and x < 2")


def maximal(nodes: list[Node]) -> set[Node]:
    """Those that no other one covers."""
    return {
        node for node in nodes if not any(other is not node and other.element.covers(node.element) for other in nodes)
    }


def check(order: SharedOrder, nodes: list[Node]) -> None:
    for reader in (*READERS, NEW_READER):
        expected = maximal([node for node in nodes if not node.barred & reader])
        assert {node for node in nodes if node.free & reader} == expected
    assert set(order.free) == {node for node in nodes if node.free}
    for node in nodes:
        places = [node.barred, node.free, *node.above.values()]
        assert sum(places) == EVERYBODY, "each reader has it in exactly one place: sums of disjoint masks carry nothing"
        for other, readers in node.above.items():
            assert readers
            assert not readers & other.barred
            assert other.element.covers(node.element)
            assert node in other.below
        assert all(node in child.above for child in node.below)


def draw(kind: type, random: Random) -> Element:
    if kind is Advertisement:
        return Advertisement.parse(advertisement_text(random))
    return NEVER if random.random() < 0.03 else Filter.parse(filter_text(random))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Filter, Advertisement])
@pytest.mark.parametrize("seed", range(25))
def test_each_reader_has_the_maximal_elements_of_what_it_sees(kind: type, seed: int) -> None:
    random = Random(seed)
    order, nodes = SharedOrder(kind), dict[Element, Node]()
    usual = random.choice([(0,), (0, 0, 0, 1, 2, 4, 8), range(16)])
    for _ in range(70):
        before = {node: node.free for node in nodes.values()}
        element, choice = draw(kind, random), random.random()
        if choice < 0.04:
            chosen = random.choice([order.show_all, order.hide_all])
            chosen(nodes.values(), random.choice(READERS))
        elif element in nodes and choice < 0.4:
            node = nodes.pop(element)
            order.remove(node)
            assert node.barred == EVERYBODY
            assert node.free == NOBODY
            assert not node.above
            assert not node.below
        else:
            order.bar(nodes.setdefault(element, Node(element)), random.choice(usual))
        assert {node for node, free in before.items() if node.free != free} <= set(order.touched)
        order.touched.clear()
        check(order, list(nodes.values()))


def test_a_change_below_what_one_reader_does_not_see_is_not_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one reader nothing covers the many elements; that must not make every change compare with all of them."""
    order = SharedOrder(Filter)
    order.bar(Node(Filter.parse("x any")), READERS[0])
    order.bar(Node(Filter.parse("x >= -5")), READERS[0])
    for low in range(1000):
        order.bar(Node(Filter.parse(f"integer x >= {2 * low} and integer x <= {2 * low + 1}")), NOBODY)
    assert sum(bool(node.free & READERS[0]) for node in order.free) == 1000
    compared, right = [], Filter.covers

    def covers(wide: Filter, narrow: Filter) -> bool:
        compared.append((wide, narrow))
        return right(wide, narrow)

    monkeypatch.setattr(Filter, "covers", covers)
    for low in range(0, 1000, 10):
        below, above = (
            Node(Filter.parse(f"integer x = {low}")),
            Node(Filter.parse(f"integer x >= {low} and integer x <= {low + 5}")),
        )
        for node in (below, above):
            order.bar(node, NOBODY)
        for node in (below, above):
            order.remove(node)
    assert len(compared) < 100 * 40
