"""What is held back for a monitor ends with it: in memory and on disk."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Notification, Pattern
from palio.codec import msgpack
from palio.link.frames import Data
from palio.model.envelope import Envelope, NotificationId
from palio.node import ports, records
from palio.node.hybrid import date_of
from palio.node.ports import FromPeer, LinkDown, Request
from palio.routing.messages import Continue, Delegate, Message, Recall, Release
from tests.node.durable import Durable, of_kind
from tests.node.test_identity import STAMP, linked

AB = Pattern.parse('kind = "a" then kind = "b"')
WINDOW = 1_000


def held_back(milan: Durable) -> list[tuple[Any, ...]]:
    """The keys of the records of what is held back."""
    return [key for key in (records.decode(*row)[0] for row in milan.records.items()) if key[0] == "held back"]


def taken(sequence: int) -> Notification:
    envelope = Envelope(NotificationId("rome", 1, sequence), date_of(sequence), "source")
    return Notification(kind="ab"[sequence % 2]).with_envelope(envelope)


def delegated(*, window: int = WINDOW) -> Durable:
    """Rome asks milan to watch a pattern, and hands over what it has held back for it."""
    milan = linked("aa", window=window)
    says(milan, 0, Delegate(AB, 7, ("rome",), Continue(7, 0, None, (taken(2), taken(3)))))
    assert len(held_back(milan)) == 2
    return milan


def says(milan: Durable, number: int, message: Message) -> None:
    assert not of_kind(milan.handle([FromPeer("rome", Data(STAMP, number, (message,), 0))], 2), LinkDown)


@pytest.mark.parametrize("end", [Release(7), Recall(7)])
def test_a_pattern_that_ends_takes_along_what_is_held_back_for_it(end: Message) -> None:
    milan = delegated()
    says(milan, 1, end)
    assert not held_back(milan)
    milan.die(3)
    assert not milan.node.quarantined


def test_so_does_a_neighbour_that_is_gone() -> None:
    milan = delegated()
    assert of_kind(milan.handle([ports.Lost("rome")], 3), LinkDown)
    assert not held_back(milan)
    milan.die(4)
    assert not milan.node.quarantined


@pytest.mark.parametrize("restarts", [False, True])
def test_after_a_restart_too(restarts: bool) -> None:
    milan = delegated()
    if restarts:
        milan.die(2)
        milan.handle([], 2)
        assert len(held_back(milan)) == 2
    says(milan, 1, Release(7))
    assert not held_back(milan)


def test_what_is_held_for_others_stays_and_comes_in_order() -> None:
    milan = linked("aa", window=WINDOW)
    milan.handle([ports.Attach("eva"), Request("eva", 1, ports.Subscribe(AB))], 1)
    for number, kind in enumerate("ab", 2):
        milan.handle([Request("eva", number, ports.Publish(Notification(kind=kind)))], number)
    says(milan, 0, Delegate(AB, 7, ("rome",), Continue(7, 0, None, (taken(2), taken(3)))))
    assert len(held_back(milan)) == 4
    says(milan, 1, Release(7))
    assert len(held_back(milan)) == 2
    (found,) = of_kind(milan.handle([], WINDOW + 10), ports.DeliverSequence)
    assert [msgpack.encode(each) for each in found.notifications] == [
        msgpack.encode(Notification(kind=kind)) for kind in "ab"
    ]
