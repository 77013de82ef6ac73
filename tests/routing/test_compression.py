"""What counts of what a neighbour says, against the plainest account of it, compared by what is matched."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import Advertisement, Filter
from palio.errors import CallerError
from palio.routing.compression import Compression
from palio.routing.messages import Advertise, Control, Standing, Subscribe, begun, ended
from palio.routing.router import UnexpectedMessageError
from palio.routing.unions import Merging
from palio.sim.generators.networks import advertisement_text
from tests.routing.test_merging import range_text, union

LIMITS = [None, Merging(), Merging(parts=3), Merging(slack=40)]


class Listening:
    """What counts and what was said, in a table as plain as can be."""

    def __init__(self, seed: int, limits: Merging | None) -> None:
        self.random, self.limits = Random(seed), limits
        self.compression = Compression(limits, is_kept=True)
        self.said: dict[Standing, None] = {}
        self.counting: dict[Standing, None] = {}
        self.records: dict[Any, Any] = {}

    def say(self, message: Control) -> None:
        standing = begun(message)
        if standing is message:
            self.said[standing] = None
        else:
            del self.said[standing]
        for each in self.compression.take("rome", message):
            if isinstance(each, Subscribe | Advertise):
                assert each not in self.counting
                self.counting[each] = None
            else:
                del self.counting[begun(each)]
            self.judge_union(is_between=True)
        self.records |= self.compression.records()
        self.records = {key: value for key, value in self.records.items() if value is not None}

    def judge_union(self, *, is_between: bool = False) -> None:
        """Nothing that was said is ever missing, and what is there in vain keeps within the budget."""
        for kind in (Subscribe, Advertise):
            for source in ("", "milan"):
                needed, counts = (
                    union(element(each) for each in known if isinstance(each, kind) and each.source == source)
                    for known in (self.said, self.counting)
                )
                assert not needed & ~counts
                assert is_between or needed == counts or (self.limits and self.limits.slack)

    def judge(self) -> None:
        self.judge_union()
        assert set(self.compression.said("rome", self.counting)) == set(self.said)
        groups = dict(self.compression.groups("rome"))
        assert set(groups) <= set(self.counting)
        for whole, parts in groups.items():
            assert {part.source for part in parts} == {whole.source}
            wide, needed = union([element(whole)]), union(map(element, parts))
            slack = self.limits.slack if self.limits else 0
            assert (wide & ~needed).bit_count() * 100 <= slack * wide.bit_count()

    def restart(self, limits: Merging | None) -> None:
        """As a server that dies and comes back, perhaps with other settings."""
        self.limits = limits
        self.compression = Compression(limits, is_kept=True)
        found = [standing for _, standing in self.compression.restore(self.records)]
        for standing in self.said:
            found += map(begun, self.compression.recall("rome", standing))
        assert len(found) == len(set(found))
        assert set(found) == set(self.counting)


def element(standing: Standing) -> Filter | Advertisement:
    return standing.filter if isinstance(standing, Subscribe) else standing.advertisement


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("limits", LIMITS)
def test_what_counts_is_what_was_said(seed: int, limits: Merging | None) -> None:
    listening = Listening(seed, limits)
    random = listening.random
    known: list[Standing] = [Subscribe(Filter.parse(range_text(random)), "milan") for _ in range(10)]
    known += [Subscribe(Filter.parse(range_text(random))) for _ in range(30)]
    known += [Advertise(Advertisement.parse(advertisement_text(random))) for _ in range(10)]
    for _ in range(120):
        one = random.choice(known)
        listening.say(ended(one) if one in listening.said else one)
        listening.judge()
        if random.random() < 0.05:
            listening.restart(limits)
    for standing in [*listening.said]:
        listening.say(ended(standing))
    assert not listening.counting
    assert not listening.records


@pytest.mark.parametrize("seed", range(10))
def test_compression_can_be_switched_on_and_off(seed: int) -> None:
    listening = Listening(seed, Merging())
    random = listening.random
    known = [Subscribe(Filter.parse(range_text(random))) for _ in range(25)]
    for number in range(100):
        one = random.choice(known)
        listening.say(ended(one) if one in listening.said else one)
        assert set(listening.compression.said("rome", listening.counting)) == set(listening.said)
        if number % 10 == 9:
            listening.restart(random.choice([None, Merging(), Merging(parts=3)]))


ONE, TWO = Subscribe(Filter.parse("x >= 0 and x <= 2")), Subscribe(Filter.parse("x >= 1 and x <= 3"))


def test_what_cannot_be_said_is_refused() -> None:
    compression = Compression(Merging())
    compression.take("rome", ONE)
    compression.take("rome", TWO)
    for impossible in (ONE, TWO, ended(Subscribe(Filter.parse("x >= 0 and x <= 3")))):
        with pytest.raises(UnexpectedMessageError, match="'rome' cannot say"):
            compression.take("rome", impossible)


def test_neighbours_and_sources_are_kept_apart() -> None:
    compression = Compression(Merging())
    assert compression.take("rome", ONE) == [ONE]
    assert compression.take("milan", TWO) == [TWO]
    assert compression.take("rome", Subscribe(TWO.filter, "turin")) == [Subscribe(TWO.filter, "turin")]


def test_a_neighbour_that_is_gone_is_forgotten() -> None:
    compression = Compression(Merging(), is_kept=True)
    compression.take("rome", ONE)
    compression.take("rome", TWO)
    assert list(compression.records().values()) == [(0, (ONE, TWO))]
    compression.forget("rome")
    assert set(compression.records().values()) == {None}
    assert compression.take("rome", ONE) == [ONE]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(CallerError, match=r"compression\.parts: 0"):
        Compression(Merging(parts=0))
