"""The end of a link takes effect at once; what takes many comparisons goes on in later turns, and nothing is lost."""

from __future__ import annotations

import pytest

from palio import Advertisement, Filter, Notification
from palio.codec import frames
from palio.link.frames import Close, Data, Why
from palio.node.ports import FromPeer, LinkDown, PublishBlock, Send
from palio.routing.messages import Advertise, Publish, Subscribe, Unsubscribe
from palio.routing.table import DEPARTED
from tests.node.neighbours import BROAD, BUDGET, LARGEST, Milan, Neighbour, answer
from tests.routing.test_preparation import hostile

NARROW = [Subscribe(each.canonical()) for each in hostile(60)]


def covered(**settings: object) -> tuple[Milan, Neighbour, Neighbour]:
    """Rome holds a broad filter, bari many below it, and oslo knows the broad one."""
    milan = Milan(**settings)
    rome, bari, oslo = (Neighbour(milan, name) for name in ("rome", "bari", "oslo"))
    milan.turn(rome.say(Subscribe(BROAD)))
    milan.turn(bari.say(*NARROW))
    milan.finish()
    assert oslo.standing == {Subscribe(BROAD)}
    milan.costs.clear()
    oslo.handed_over.clear()
    return milan, rome, oslo


def end(milan: Milan, neighbour: Neighbour) -> None:
    outputs = milan.turn(FromPeer(neighbour.name, Close(neighbour.stamp, Why.ENDED)))
    assert [each.peer for each in outputs if isinstance(each, LinkDown)] == [neighbour.name]


def test_the_end_of_a_link_takes_several_turns_each_of_which_has_a_bound() -> None:
    milan, rome, oslo = covered()
    end(milan, rome)
    assert milan.is_busy
    assert oslo.standing == {Subscribe(BROAD)}, "other neighbours know more than they need for a while"
    assert milan.finish() > 20
    assert max(milan.costs) <= BUDGET + LARGEST
    assert oslo.standing == set(NARROW)
    assert oslo.handed_over[-1] == Unsubscribe(BROAD)
    assert BROAD not in milan.node.router.subscriptions


def test_nothing_is_sent_for_what_departs() -> None:
    milan, rome, _ = covered()
    end(milan, rome)
    outputs = milan.turn(PublishBlock("adam", frames.publish(Notification(x="s"), 1)))
    assert milan.is_busy
    assert {each.peer for each in outputs if isinstance(each, Send) and isinstance(each.frame, Data)} == {"bari"}
    sent = [each.frame for each in outputs if isinstance(each, Send)]
    assert any(isinstance(message, Publish) for frame in sent for message in frame.messages)


def test_a_neighbour_comes_back_meanwhile_and_wants_the_same() -> None:
    milan, rome, oslo = covered()
    end(milan, rome)
    again = Neighbour(milan, "rome", 2)
    milan.turn(again.say(Subscribe(BROAD)))
    milan.finish()
    assert oslo.standing == {Subscribe(BROAD)}
    assert list(milan.node.router.subscriptions.held_by("rome")) == [BROAD]
    assert not milan.node.router.standing(DEPARTED)
    end(milan, again)
    milan.finish()
    assert oslo.standing == set(NARROW)


def test_the_links_of_two_neighbours_that_held_the_same_end() -> None:
    milan, rome, oslo = covered()
    turin = Neighbour(milan, "turin")
    milan.turn(turin.say(Subscribe(BROAD)))
    milan.finish()
    end(milan, turin)
    end(milan, rome)
    milan.finish()
    assert oslo.standing == set(NARROW)


def test_filters_below_one_of_the_same_neighbour_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    milan.turn(rome.say(Subscribe(BROAD), *NARROW))
    milan.finish()
    counted = [0]
    covers = Filter.covers

    def counting(self: Filter, other: Filter) -> bool:
        counted[0] += 1
        return covers(self, other)

    monkeypatch.setattr(Filter, "covers", counting)
    end(milan, rome)
    assert not milan.is_busy
    assert counted[0] == 0
    assert oslo.standing == set()


def test_advertisements_depart_as_well() -> None:
    milan = Milan("aa")
    rome, bari, oslo = (Neighbour(milan, name) for name in ("rome", "bari", "oslo"))
    broad = Advertise(Advertisement.parse("x any").canonical())
    narrow = [Advertise(Advertisement.parse(f"x = {number}").canonical()) for number in range(30)]
    milan.turn(rome.say(broad))
    milan.turn(bari.say(*narrow))
    milan.finish()
    assert oslo.standing == {broad}
    end(milan, rome)
    milan.finish()
    assert oslo.standing == set(narrow)
    assert max(milan.costs) <= BUDGET + LARGEST


@pytest.mark.parametrize("turns", [0, 5, 20])
def test_a_server_that_dies_in_the_middle_goes_on_with_it(turns: int) -> None:
    milan, rome, oslo = covered(durable=True, reserve=0)
    end(milan, rome)
    for _ in range(turns):
        milan.turn()
    assert milan.is_busy
    milan.made.die(milan.now, boot=1)
    assert milan.node.quarantined == []
    assert milan.is_busy
    milan.turn()
    for name in ("bari", "oslo"):
        answer(milan, milan.neighbours[name])
    milan.finish()
    assert oslo.standing == set(NARROW)
    assert not [each for each in milan.outputs if isinstance(each, LinkDown) and each.peer != "rome"]
    assert milan.node.router.standing(DEPARTED) == []
    milan.made.die(milan.now, boot=2)
    assert milan.node.quarantined == []
    assert not milan.is_busy
