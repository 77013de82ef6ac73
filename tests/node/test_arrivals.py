"""The messages of neighbours are handled in slices: turns are short, and nothing is lost or disordered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palio import Advertisement, Filter, Notification
from palio.codec import frames
from palio.link.frames import Close, Data, Probe, Why
from palio.link.session import LinkSettings
from palio.node import arrivals, ports
from palio.node.ports import Deliver, DeliverBlock, FromPeer, Input, LinkDown, LinkUp, Output, PublishBlock, Send
from palio.routing.messages import Advertise, Message, Subscribe, Unsubscribe
from tests.node.neighbours import BROAD, BUDGET, LARGEST, Milan, Neighbour, answer, published
from tests.routing.test_preparation import hostile


def delivered(outputs: Sequence[Output]) -> list[str]:
    return [str(each.notification) for each in outputs if isinstance(each, Deliver)]


def subscribe(party: str, text: str) -> Input:
    return ports.Request(party, 1, ports.Subscribe(Filter.parse(text)))


def test_subscriptions_of_a_neighbour_take_several_turns_each_of_which_has_a_bound() -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    filters = [each.canonical() for each in hostile(80)]
    milan.costs.clear()
    milan.turn(rome.say(*map(Subscribe, filters)))
    assert milan.is_busy
    assert milan.finish() > 20
    assert max(milan.costs) <= BUDGET + LARGEST
    assert list(milan.node.router.subscriptions.held_by("rome")) == filters
    assert oslo.standing == set(map(Subscribe, filters))


def test_the_end_of_a_broad_filter_with_many_below_it_takes_several_turns_and_is_told_make_before_break() -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    narrow = [Subscribe(each.canonical()) for each in hostile(60)]
    milan.turn(rome.say(Subscribe(BROAD), *narrow))
    milan.finish()
    assert oslo.standing == {Subscribe(BROAD)}
    milan.costs.clear()
    oslo.handed_over.clear()
    milan.turn(rome.say(Unsubscribe(BROAD)))
    assert oslo.standing == {Subscribe(BROAD)}, "nothing changes before all comparisons are made"
    assert milan.finish() > 20
    assert max(milan.costs) <= BUDGET + LARGEST
    assert oslo.standing == set(narrow)
    assert oslo.handed_over[-1] == Unsubscribe(BROAD)


@pytest.mark.parametrize("message", [Subscribe(hostile(1, 7)[0].canonical()), Advertise(Advertisement.parse("x any"))])
def test_what_comes_behind_a_message_that_waits_waits_and_other_links_and_parties_do_not(message: Message) -> None:
    milan = Milan(comparisons=2 * BUDGET)
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    milan.turn(subscribe("eva", "y any"))
    milan.turn(rome.say(*(Subscribe(each.canonical()) for each in hostile(80))))
    assert milan.is_busy
    milan.turn(rome.say(message, published("y = 1", "rome")))
    outputs = milan.turn(
        oslo.say(published("y = 2", "oslo")),
        PublishBlock("adam", frames.publish(Notification(y=3), 1)),
        subscribe("adam", "y = 7"),
    )
    assert milan.is_busy
    assert any("y = 2" in each for each in delivered(outputs))
    assert [each for each in outputs if isinstance(each, DeliverBlock)]
    assert [each.party for each in outputs if isinstance(each, ports.Reply)] == ["adam"]
    assert not any("y = 1" in each for each in delivered(milan.outputs))
    milan.finish()
    assert any("y = 1" in each for each in delivered(milan.outputs))


def test_a_message_is_acknowledged_when_it_is_handled_and_not_before() -> None:
    milan = Milan()
    rome = Neighbour(milan, "rome")
    filters = [each.canonical() for each in hostile(80)]
    milan.turn(rome.say(*map(Subscribe, filters)))
    while milan.is_busy:
        handled = list(milan.node.router.subscriptions.held_by("rome"))
        milan.turn(rome.again())  # an answer at once, because it knows the beginning
        assert rome.acknowledged <= len(milan.node.router.subscriptions.held_by("rome"))
        assert handled == filters[: len(handled)]
    milan.turn(rome.again())
    assert list(milan.node.router.subscriptions.held_by("rome")) == filters, "what came again counts once"
    assert rome.acknowledged == 80


def test_acknowledgements_of_the_neighbour_do_not_wait_behind_its_messages() -> None:
    milan = Milan()
    rome, _ = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    milan.turn(subscribe("eva", "y any"))
    assert rome.heard
    milan.turn(rome.say(*(Subscribe(each.canonical()) for each in hostile(80))))
    assert milan.is_busy
    assert milan.node.links.status("rome").backlog.messages == 0


def test_each_neighbour_has_its_share_of_a_turn() -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    milan.turn(rome.say(*(Subscribe(each.canonical()) for each in hostile(80))))
    turns = 0
    milan.turn(oslo.say(*(Subscribe(Filter.parse(f"integer z = {number}").canonical()) for number in range(20))))
    while len(milan.node.router.subscriptions.held_by("oslo")) < 20:
        milan.turn()
        turns += 1
    assert milan.is_busy, "the neighbour that asks for much waits for it"
    assert turns < 10


def test_what_waits_has_a_bound_and_the_neighbour_sends_the_rest_again() -> None:
    milan = Milan(link=LinkSettings(window=10))
    rome = Neighbour(milan, "rome")
    filters = [each.canonical() for each in hostile(80)]
    milan.turn(rome.say(*map(Subscribe, filters)))
    assert milan.node.arrivals.waiting("rome") <= 10
    milan.turn(rome.say(Subscribe(BROAD)))
    assert milan.node.arrivals.waiting("rome") <= 10
    while rome.acknowledged < 81:
        milan.turn(rome.again())
        assert milan.node.arrivals.waiting("rome") <= 10
    assert list(milan.node.router.subscriptions.held_by("rome")) == [*filters, BROAD]


def test_what_waits_has_a_bound_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "MOST_BYTES", 1_000)
    milan = Milan()
    rome = Neighbour(milan, "rome")
    milan.turn(rome.say(*(Subscribe(each.canonical()) for each in hostile(80))))
    assert milan.is_busy
    assert milan.node.arrivals.waiting("rome") <= 4
    while rome.acknowledged < 80:
        milan.turn(rome.again())
    assert len(milan.node.router.subscriptions) == 80


def test_a_link_that_ends_takes_what_waits_with_it() -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    filters = [each.canonical() for each in hostile(80)]
    milan.turn(rome.say(*map(Subscribe, filters)))
    outputs = milan.turn(FromPeer("rome", Close(rome.stamp, Why.ENDED)))
    assert [each.peer for each in outputs if isinstance(each, LinkDown)] == ["rome"]
    assert not milan.is_busy
    assert not milan.node.router.preparations._open
    assert oslo.standing == set()
    again = Neighbour(milan, "rome", 2)
    milan.turn(again.say(*map(Subscribe, filters)))
    milan.finish()
    assert oslo.standing == set(map(Subscribe, filters))


def test_a_message_that_cannot_be_ends_the_link_when_its_turn_comes() -> None:
    milan = Milan()
    rome = Neighbour(milan, "rome")
    filters = [each.canonical() for each in hostile(40)]
    outputs = milan.turn(rome.say(*map(Subscribe, filters), Unsubscribe(BROAD), Subscribe(BROAD)))
    assert not [each for each in outputs if isinstance(each, LinkDown)]
    milan.finish()
    assert [each.peer for each in milan.outputs if isinstance(each, LinkDown)] == ["rome"]
    assert len(milan.node.router.subscriptions) == 0


def test_a_question_about_the_link_is_answered_while_messages_wait() -> None:
    milan = Milan()
    rome = Neighbour(milan, "rome")
    milan.turn(rome.say(*(Subscribe(each.canonical()) for each in hostile(80))))
    assert milan.is_busy
    outputs = milan.turn(FromPeer("rome", Probe(rome.stamp, 5)))
    (known,) = [each.frame for each in outputs if isinstance(each, Send) and not isinstance(each.frame, Data)]
    assert known.expected == len(milan.node.router.subscriptions.held_by("rome"))


def test_a_fault_in_a_later_turn_ends_the_link_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    milan = Milan()
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    filters = [each.canonical() for each in hostile(80)]
    milan.turn(rome.say(*map(Subscribe, filters)), oslo.say(Subscribe(BROAD)))
    receive = type(milan.node.router).receive

    def failing(router: object, peer: str, message: Message) -> None:
        if message == Subscribe(filters[70]):
            raise ZeroDivisionError
        receive(router, peer, message)  # type: ignore[arg-type]

    monkeypatch.setattr(type(milan.node.router), "receive", failing)
    milan.finish()
    assert [each.where for each in milan.outputs if isinstance(each, ports.Fault)] == ["FromPeer"]
    assert [each.peer for each in milan.outputs if isinstance(each, LinkDown)] == ["rome"]
    assert list(milan.node.router.subscriptions) == [BROAD]


@pytest.mark.parametrize("turns", [1, 5, 20])
def test_a_server_that_dies_in_the_middle_loses_nothing(turns: int) -> None:
    """The neighbour sends again what was not acknowledged, and it counts once."""
    milan = Milan(durable=True, reserve=0)
    rome, oslo = Neighbour(milan, "rome"), Neighbour(milan, "oslo")
    filters = [each.canonical() for each in hostile(60)]
    milan.turn(rome.say(Subscribe(BROAD), *map(Subscribe, filters), Unsubscribe(BROAD)))
    for _ in range(turns):
        milan.turn()
    assert milan.is_busy
    acknowledged = rome.acknowledged
    milan.made.die(milan.now, boot=1)
    assert milan.node.quarantined == []
    assert not milan.is_busy
    milan.turn()
    assert len(milan.node.router.subscriptions.held_by("rome")) >= acknowledged
    for neighbour in (rome, oslo):
        answer(milan, neighbour)
    while rome.acknowledged < 62:
        milan.turn(rome.again())
    milan.finish()
    assert list(milan.node.router.subscriptions.held_by("rome")) == filters
    assert not [each for each in milan.outputs if isinstance(each, LinkDown)]
    answer(milan, oslo)
    assert oslo.standing == set(map(Subscribe, filters))


def test_tests_know_when_links_come_up() -> None:
    milan = Milan()
    Neighbour(milan, "rome")
    assert [each.peer for each in milan.outputs if isinstance(each, LinkUp)] == ["rome"]
