"""What neighbours are told, merged or not, against what the table says, compared by what is matched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from palio import Advertisement, Filter
from palio.errors import CallerError
from palio.routing.merging import Merged
from palio.routing.messages import Advertise, Control, Standing, Subscribe, begun, ended
from palio.routing.pool import unite
from palio.routing.table import Table
from palio.routing.telling import Telling, TellingSettings
from palio.routing.unions import Merging
from palio.sim.generators.networks import advertisement_text, filter_text
from palio.sim.invariants.merging import selected
from palio.sim.invariants.world import maximal

SETTINGS = [
    TellingSettings(),
    TellingSettings(delay=10),
    TellingSettings(Merging()),
    TellingSettings(Merging(parts=3), delay=10),
    TellingSettings(Merging(slack=40), delay=10),
]


def range_text(random: Random) -> str:
    if random.random() < 0.3:
        return filter_text(random)
    symbol = random.choice(["", 'symbol = "A" and ', 'symbol = "B" and '])
    box = f" and {limits_text('y', 2, random)}" if random.random() < 0.3 else ""
    return symbol + limits_text("x", 7, random) + box


def limits_text(name: str, most: int, random: Random) -> str:
    low = random.randrange(most)
    return f"{name} >= {low} and {name} <= {low + random.randrange(3)}"


def union(elements: Iterable[Filter | Advertisement]) -> int:
    found = 0
    for each in elements:
        found |= selected(each)
    return found


# -- unions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("limits", [Merging(), Merging(parts=3), Merging(slack=40), Merging(parts=1)])
def test_unions_are_exact_or_within_the_budget(seed: int, limits: Merging) -> None:
    random = Random(seed)
    elements = [*dict.fromkeys(Filter.parse(range_text(random)) for _ in range(random.randrange(1, 25)))]
    found = unite(elements, limits)
    assert sorted(str(part) for each in found for part in each.parts) == sorted(map(str, elements))
    assert len({each.element for each in found}) == len(found)
    for each in found:
        assert 1 <= len(each.parts) <= limits.parts
        whole, needed = selected(each.element), union(each.parts)
        assert not needed & ~whole
        assert (whole & ~needed).bit_count() * 100 <= limits.slack * whole.bit_count()


def unions(*texts: str, slack: int = 0) -> set[Filter]:
    found = unite(map(Filter.parse, texts), Merging(slack=slack))
    assert len(found) == len({each.element for each in found})
    return {each.element for each in found}


def filters(*texts: str) -> set[Filter]:
    return set(map(Filter.parse, texts))


def test_boxes_that_tile_a_larger_one_become_it() -> None:
    texts = [f"integer x = {x} and integer y = {y}" for x in range(3) for y in range(3)]
    assert unions(*texts) == filters("integer x >= 0 and integer x <= 2 and integer y >= 0 and integer y <= 2")


def test_a_union_that_is_a_list_of_exceptions_saves_nothing() -> None:
    assert unions("integer x = 1", "integer x = 2") == filters("integer x >= 1 and integer x <= 2")
    assert unions("integer x = 1", "integer x = 9") == filters("integer x = 1", "integer x = 9")


def test_a_gap_is_a_share_of_the_whole_range() -> None:
    texts = "x >= 0 and x <= 6", "x >= 8 and x <= 10"
    assert unions(*texts, slack=19) == filters(*texts)
    assert unions(*texts, slack=20) == filters("x >= 0 and x <= 10")
    vast = "x >= -1.7e308 and x <= 0", "x >= 1 and x <= 1.7e308"
    assert unions(*vast, slack=100) == filters(*vast), "of what is too large to be measured neither"
    half_open = "x <= 1", "x >= 2"
    assert unions(*half_open, slack=100) == filters(*half_open), "of what has no end a gap has no share"


def test_gaps_add_up() -> None:
    texts = "x >= 0 and x <= 4", "x >= 5 and x <= 9", "x >= 10 and x <= 11"
    assert unions(*texts, slack=12) == filters("x >= 10 and x <= 11", "x >= 0 and x <= 9")
    assert unions(*texts, slack=19) == filters("x >= 0 and x <= 11")


def test_gaps_in_two_attributes_add_up() -> None:
    texts = [f"x >= {x} and x <= {x + 8} and y >= {y} and y <= {y + 8}" for x in (0, 9) for y in (0, 9)]
    assert len(unions(*texts, slack=10)) == 2
    assert unions(*texts, slack=12) == filters("x >= 0 and x <= 17 and y >= 0 and y <= 17")


def test_a_box_around_two_boxes_keeps_within_the_budget() -> None:
    texts = "x >= 0 and x <= 9 and y >= 0 and y <= 10", "x >= 1 and x <= 10 and y >= 0 and y <= 9"
    assert unions(*texts, slack=0) == filters(*texts)
    assert unions(*texts, slack=1) == filters("x >= 0 and x <= 10 and y >= 0 and y <= 10")
    far = "x >= 0 and x <= 1 and y >= 0 and y <= 1", "x >= 1 and x <= 2 and y >= 1 and y <= 2"
    assert unions(*far, slack=49) == filters(*far)
    mixed = "x >= 0 and x <= 9 and y >= 0", "x >= 1 and x <= 10 and y >= 1"
    assert unions(*mixed, slack=100) == filters(*mixed), "one of the attributes has no end"


def test_strings_keep_most_of_their_beginning() -> None:
    texts = 'u >* "/news/sport/a"', 'u >* "/news/sport/x"', 'u = "/weather"'
    assert unions(*texts, slack=5) == filters(*texts)
    assert unions(*texts, slack=10) == filters('u = "/weather"', 'u >* "/news/sport/"')


@pytest.mark.parametrize("seed", range(60))
def test_advertisements_merge_exactly(seed: int) -> None:
    random = Random(seed)
    one, other = (Advertisement.parse(advertisement_text(random)) for _ in range(2))
    merged = one.merge(other)
    differing = {n for n in (*one.names, *other.names) if one.value_sets().get(n) != other.value_sets().get(n)}
    assert (merged is not None) == (len(differing) <= 1 or one.covers(other) or other.covers(one))
    if merged is not None:
        assert selected(merged) == selected(one) | selected(other)
        assert merged.covers(one)
        assert merged.covers(other)


def test_merged_advertisements_have_a_bound() -> None:
    one, other = Advertisement.parse('s in ("a", "b")'), Advertisement.parse('s in ("c", "d")')
    assert one.merge(other, most=3) is None
    assert str(one.merge(other, most=4)) == 's = "a" and s = "b" and s = "c" and s = "d"'


# -- what neighbours are told ------------------------------------------------------------------------------------------


class Hearing:
    """A table and what a neighbour hears of it, beside the plainest account of both."""

    def __init__(self, seed: int, settings: TellingSettings, kind: type[Any]) -> None:
        self.random = Random(seed)
        self.settings, self.kind = settings, kind
        self.table: Table[Any] = Table(kind)
        self.table.open("rome")
        self.say: Callable[[Any], Standing] = Subscribe if kind is Filter else Advertise
        text = range_text if kind is Filter else advertisement_text
        self.elements = [*dict.fromkeys(kind.parse(text(self.random)) for _ in range(30))]
        self.held: dict[Any, None] = {}
        self.telling = Telling(settings, is_kept=True)
        self.heard: dict[Standing, None] = {}
        self.records: dict[Any, Any] = {}
        self.now = 0

    def operate(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            element = self.random.choice(self.elements)
            if element in self.held:
                self.table.remove_party(element, "me")
                del self.held[element]
            elif self.random.random() < 0.7:
                self.table.add_party(element, "me")
                self.held[element] = None
        self.now += self.random.randrange(8)
        self.tell(pressing=self.random.random() < 0.1)

    def tell(self, *, pressing: bool = False) -> None:
        for peer, messages in self.telling.take(self.said(), self.now, pressing=pressing):
            assert peer == "rome"
            self.hear(messages)
        self.records.update(self.telling.records())
        self.records = {key: value for key, value in self.records.items() if value is not None}

    def said(self) -> list[tuple[str, list[Control]]]:
        say = self.say
        found: list[tuple[str, list[Control]]] = []
        for update in self.table.updates():
            ends = [ended(say(each)) for each in update.ended]
            found.append((update.peer, [*map(say, update.begun), *ends]))
        return found

    def hear(self, messages: list[Control]) -> None:
        news = [each for each in messages if isinstance(each, Subscribe | Advertise)]
        assert messages[: len(news)] == news, "make before break"
        for each in messages:
            if isinstance(each, Subscribe | Advertise):
                assert each not in self.heard
                self.heard[each] = None
            else:
                del self.heard[begun(each)]

    def judge(self) -> None:
        known = [each.filter if isinstance(each, Subscribe) else each.advertisement for each in self.heard]
        required = maximal(set(self.held))
        groups = dict(self.telling.groups("rome"))
        parts = [part for group in groups.values() for part in group]
        assert {*parts, *(each for each in self.heard if each not in groups)} == set(map(self.say, required))
        assert len(parts) == len(set(parts))
        assert set(groups) <= set(self.heard)
        told, needed = union(known), union(required)
        slack = self.settings.merging.slack if self.settings.merging else 0
        assert not needed & ~told
        assert slack or told == needed

    def restart(self) -> None:
        """As a server that dies and comes back."""
        self.telling = Telling(self.settings, is_kept=True)
        table: Table[Any] = Table(self.kind)
        table.open("rome")
        for each in self.held:
            table.add_party(each, "me")
        self.table = table
        told, misfits = self.telling.restore(self.said(), self.records, self.now)
        assert not misfits
        assert {each for _, messages in told for each in messages} == set(self.heard)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", [Filter, Advertisement])
def test_a_neighbour_knows_the_union(seed: int, settings: TellingSettings, kind: type[Any]) -> None:
    hearing = Hearing(seed, settings, kind)
    for _ in range(60):
        hearing.operate()
        if hearing.random.random() < 0.1:
            hearing.restart()
        if hearing.telling.deadline is None:
            hearing.judge()
        else:
            assert hearing.telling.deadline <= hearing.now + settings.delay
    hearing.tell(pressing=True)
    hearing.judge()
    for element in [*hearing.held]:
        hearing.table.remove_party(element, "me")
    hearing.held.clear()
    hearing.tell(pressing=True)
    assert not hearing.heard
    assert not hearing.records


def subscribe(*texts: str) -> list[Control]:
    return [Subscribe(Filter.parse(text)) for text in texts]


def test_what_comes_later_joins_what_covers_it() -> None:
    telling = Telling(TellingSettings(Merging()))
    assert len(telling.take([("rome", subscribe("x >= 0 and x <= 3", "x >= 2 and x <= 6"))], 0)[0][1]) == 1
    assert telling.take([("rome", subscribe("x >= 1 and x <= 5"))], 0) == []
    ((_, parts),) = telling.groups("rome")
    assert len(parts) == 3


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_one_by_one_is_merged_as_well_as_what_comes_at_once(seed: int) -> None:
    random = Random(seed)
    numbers = random.sample(range(40), 30)
    merged = Merged(Filter, Merging(parts=40))
    messages = 0
    pieces = [Filter.parse(f"x >= {number} and x < {number + 1}") for number in numbers]
    for count, piece in enumerate(pieces, 1):
        news, ends = merged.change([piece], [])
        messages += len(news) + len(ends)
        assert messages <= 2 * count, "what is new begins one at most, and that ends once"
    found = {each.element for each in merged.groups()}
    assert found == {each.element for each in unite(pieces, Merging(parts=40)) if not each.is_single}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("limits", [Merging(), Merging(parts=4, slack=40)])
def test_a_cancellation_touches_only_what_it_was_merged_with(seed: int, limits: Merging) -> None:
    random = Random(seed)
    merged, held = Merged(Filter, limits), dict[Filter, None]()
    for _ in range(80):
        one = Filter.parse(range_text(random))
        if one not in held:
            held[one] = None
            merged.change([one], [])
        else:
            del held[one]
            news, ends = merged.change([], [one])
            assert len(ends) <= 1
            assert len(news) < limits.parts


def test_what_stands_can_be_said_once_more_by_itself() -> None:
    """As neighbours do that make before they break: the broad one comes before the narrow ones end."""
    one, two = Filter.parse("x >= 0 and x <= 3"), Filter.parse("x >= 2 and x <= 6")
    both = Filter.parse("x >= 0 and x <= 6")
    merged = Merged(Filter, Merging(parts=2))
    assert merged.change([one, two], []) == ([both], [])
    assert merged.change([both], []) == ([], []), "though that makes three parts"
    assert merged.change([], [one]) == ([], [])
    assert merged.change([], [two]) == ([], [])
    assert merged.change([], [both]) == ([], [both])


def test_what_is_undone_is_never_told() -> None:
    telling = Telling(TellingSettings(delay=10))
    (wanted,) = subscribe("x > 3")
    assert telling.take([("rome", [wanted])], 0) == []
    assert telling.deadline == 10
    assert telling.take([("rome", [ended(wanted)])], 5) == []  # type: ignore[arg-type]
    assert telling.deadline is None
    assert not telling.is_due(10)


def test_a_neighbour_that_is_gone_is_told_nothing() -> None:
    telling = Telling(TellingSettings(Merging(), delay=10), is_kept=True)
    telling.take([("rome", subscribe("x >= 0 and x <= 3", "x >= 2 and x <= 6"))], 0, pressing=True)
    telling.take([("rome", subscribe("y > 3"))], 0)
    assert {key[0] for key, value in telling.records().items() if value is not None} == {"told", "untold"}
    telling.forget("rome")
    assert telling.deadline is None
    assert set(telling.records().values()) == {None}
    assert not list(telling.groups("rome"))


def test_merging_can_be_switched_off_where_something_was_merged() -> None:
    before = Telling(TellingSettings(Merging()), is_kept=True)
    one, other = subscribe("x >= 0 and x <= 3", "x >= 2 and x <= 6")
    before.take([("rome", [one, other])], 0)
    after = Telling(TellingSettings(), is_kept=True)
    after.restore([("rome", [one, other])], before.records(), 0)
    ((_, said),) = after.take([("rome", [ended(one)])], 0)  # type: ignore[arg-type]
    assert said == [other, ended(*subscribe("x >= 0 and x <= 6"))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (TellingSettings(delay=-1), r"telling\.delay: -1; changes wait for 0"),
        (TellingSettings(Merging(parts=0)), r"telling\.merging\.parts: 0; a merged filter has 1"),
        (TellingSettings(Merging(slack=101)), r"telling\.merging\.slack: 101; it is a share"),
    ],
)
def test_bad_settings_are_refused(settings: TellingSettings, problem: str) -> None:
    with pytest.raises(CallerError, match=problem):
        Telling(settings)
