"""What passes a gateway, against what should: the filters of one side, narrowed, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from palio import Advertisement, Filter, Notification
from palio.routing.border import Border, Gateway
from palio.routing.messages import Advertise, Members, Message, Publish, Subscribe, Unadvertise, Unsubscribe
from palio.routing.router import UnexpectedMessageError
from palio.sim.generators.networks import filter_text, notification_text

LOW = Filter.parse("x <= 4")


def standing(said: list[Message], stands: set[Filter]) -> None:
    for message in said:
        if isinstance(message, Subscribe):
            assert message.filter not in stands
            stands.add(message.filter)
        else:
            assert isinstance(message, Unsubscribe)
            stands.remove(message.filter)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_wanted_is_narrowed(seed: int) -> None:
    random = Random(seed)
    out, taken = Border(Gateway(imports=LOW)), Border(Gateway(exports=LOW))
    held: set[Filter] = set()
    told: set[Filter] = set()
    known: set[Filter] = set()
    for _ in range(30):
        filter = Filter.parse(filter_text(random))
        message = Unsubscribe(filter) if filter in held else Subscribe(filter)
        held ^= {filter}
        standing(out.let_out([message]), told)
        standing([*taken.take_in(message)], known)
        assert told == known
        assert {each.filter for each in taken.heard if isinstance(each, Subscribe)} == held
        for _ in range(5):
            notification = Notification.parse(notification_text(random))
            passes = LOW.matches(notification) and any(each.matches(notification) for each in held)
            assert any(each.matches(notification) for each in told) is passes


def test_without_borders_everything_passes() -> None:
    border = Border(Gateway())
    messages: list[Message] = [Subscribe(LOW), Publish(Notification(x=9)), Members((), ("rome",))]
    assert border.let_out(messages) == messages
    assert border.take_in(Subscribe(LOW)) == [Subscribe(LOW)]
    assert border.lets_in(Publish(Notification(x=9)))


def test_notifications_stop_at_the_border() -> None:
    border = Border(Gateway(imports=LOW, exports=Filter.parse("x >= 3")))
    low, high = Publish(Notification(x=1)), Publish(Notification(x=9))
    assert border.let_out([low, high]) == [high]
    assert [border.lets_in(each) for each in (low, high)] == [True, False]


def test_advertisements_pass_if_they_matter() -> None:
    border = Border(Gateway(imports=LOW, exports=Filter.parse("x >= 7")))
    small, large = Advertisement.parse("x < 3"), Advertisement.parse("x > 8")
    assert border.let_out([Advertise(small), Advertise(large)]) == [Advertise(large)]
    assert border.let_out([Unadvertise(small), Unadvertise(large)]) == [Unadvertise(large)]
    assert border.take_in(Advertise(small)) == [Advertise(small)]
    assert border.take_in(Advertise(large)) == []


def test_what_a_gateway_cannot_say() -> None:
    border = Border(Gateway())
    with pytest.raises(UnexpectedMessageError, match="cannot say Unsubscribe"):
        border.take_in(Unsubscribe(LOW))
    border.take_in(Subscribe(LOW))
    with pytest.raises(UnexpectedMessageError, match="cannot say Subscribe"):
        border.take_in(Subscribe(LOW))
