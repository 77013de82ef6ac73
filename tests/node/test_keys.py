"""Keys of publications: bounds of each party and of all, at their edges."""

from __future__ import annotations

import pytest

from palio import Notification
from palio.codec import frames
from palio.model import Mode
from palio.node import ports
from palio.node.keys import KEY_BYTES, KeyLimits, Keys
from palio.node.logs import LogSettings
from palio.node.ports import AcceptedUpTo, Duplicate, Persist, Persisted
from tests.node.durable import Durable, of_kind


def known(keys: Keys, party: str) -> list[str]:
    return [key for who, key in keys if who == party]


def test_a_party_has_as_many_keys_as_it_may_and_displaces_only_its_own() -> None:
    keys = Keys(KeyLimits(count=3))
    assert keys.is_new("innocent", "order", 0)
    for number in range(3):
        assert keys.is_new("greedy", str(number), 1)
    assert (known(keys, "greedy"), keys.evicted) == (["0", "1", "2"], 0)
    for number in range(3, 1_000):
        assert keys.is_new("greedy", str(number), 2)
    assert (known(keys, "greedy"), keys.evicted) == (["997", "998", "999"], 997)
    assert not keys.is_new("innocent", "order", 3)


def test_the_bytes_of_a_party_s_keys_are_bounded() -> None:
    keys = Keys(KeyLimits(bytes=3 * (10 + KEY_BYTES)))
    for number in range(3):
        assert keys.is_new("greedy", f"{number:010}", 0)
    assert keys.evicted == 0
    assert keys.is_new("greedy", f"{3:011}", 0), "one byte too much"
    assert (len(known(keys, "greedy")), keys.evicted) == (2, 2)
    assert keys.is_new("greedy", "k" * 60_000, 0), "the newest one is known in any case"
    assert (known(keys, "greedy"), keys.evicted) == (["k" * 60_000], 4)
    assert keys.bytes == 60_000 + KEY_BYTES


def test_all_keys_together_are_bounded_and_the_largest_party_pays() -> None:
    each = 10 + KEY_BYTES
    keys = Keys(KeyLimits(all_bytes=100 * each))
    for number in range(10):
        assert keys.is_new("innocent", f"{number:010}", 0)
    for number in range(5_000):
        assert keys.is_new(f"greedy {number % 3}", f"{number:010}", 1)
    assert keys.bytes == 100 * each
    assert keys.evicted == 5_010 - 100
    assert len(known(keys, "innocent")) == 10
    assert {len(known(keys, f"greedy {number}")) for number in range(3)} == {30}
    for number in range(3):
        for key in known(keys, f"greedy {number}"):
            keys.take_back(f"greedy {number}", key)
    assert (keys.bytes, keys.count) == (10 * each, 10)
    for number in range(10, 200):
        assert keys.is_new("innocent", f"{number:010}", 2)
    assert known(keys, "innocent") == [f"{number:010}" for number in range(100, 200)]


def test_what_is_forgotten_is_written_and_restored() -> None:
    keys = Keys(KeyLimits(count=2))
    for number in range(4):
        keys.is_new("eva", str(number), number)
    assert {key: since for _, key, since in keys.changes()} == {"0": None, "1": None, "2": 2, "3": 3}
    again = Keys(KeyLimits(count=2))
    again.restore([("eva", "3", 3), ("eva", "2", 2), ("adam", "1", 1)])
    assert list(again) == [("adam", "1"), ("eva", "2"), ("eva", "3")]
    assert (again.count, again.bytes) == (3, 3 * (1 + KEY_BYTES))
    assert not again.is_new("eva", "3", 4)
    assert again.is_new("eva", "4", 4)
    assert again.evicted == 1


def published(number: int, key: str, source: int = 7) -> ports.PublishWith:
    frame = frames.publish_with(Notification(x=1), frames.Options(key=key), number)
    return ports.PublishWith("adam", frame[frames.HEADER :], Mode.SYNCED, source)


@pytest.mark.parametrize("dies", [False, True])
def test_a_duplicate_is_told_before_its_acceptance(dies: bool) -> None:
    durable = Durable(log=LogSettings())
    first = durable.handle([published(1, "a"), published(2, "b")], 0)
    assert of_kind(first, Duplicate) == []
    if dies:
        durable.die(1)
    said = durable.node.handle([published(3, "a"), published(4, "c"), published(0, "a")], 2)
    assert of_kind(said, Duplicate, AcceptedUpTo) == [Duplicate("adam", 3, 7)]
    (persist,) = of_kind(said, Persist)
    accepted = of_kind(durable.node.handle([Persisted(persist.token)], 3), Duplicate, AcceptedUpTo)
    assert [each.number for each in accepted] == [3, 4]
