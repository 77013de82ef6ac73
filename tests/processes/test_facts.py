"""The judge of running servers notices what it is there to notice."""

from __future__ import annotations

import pytest

from palio.model import Envelope, Filter, Notification, Pattern
from palio.model.envelope import NotificationId
from tests.processes.facts import _LONG_AGO, Facts
from tests.processes.fleet import NETWORKS

WANTED = Filter.parse("x > 3")


class Scene:
    """Eva at one server publishes, and Adam at another wants some of it."""

    def __init__(self) -> None:
        self.facts = Facts(NETWORKS["as"].world(), is_causal=True)
        self.facts.enter("eva", "a0")
        self.facts.enter("adam", "a3")
        self.facts.asked("adam", "subscribe", WANTED)
        self.facts.done("adam", "subscribe", WANTED, has_spread=True)
        assert self.facts.rest() == []

    def publish(self, n: int, x: int = 5) -> None:
        self.facts.published("eva", 1, Notification(n=n, x=x))

    def deliver(self, n: int, x: int = 5, *, sequence: int | None = None, publisher: str = "eva") -> None:
        self.facts.delivered("adam", notification(n, x, sequence, publisher))


def notification(n: int, x: int = 5, sequence: int | None = None, publisher: str = "eva") -> Notification:
    id = NotificationId("a0", 77, n if sequence is None else sequence)
    return Notification(n=n, x=x).with_envelope(Envelope(id, _LONG_AGO, publisher))


def test_what_should_come_and_comes_is_in_order() -> None:
    scene = Scene()
    for n in (1, 2, 3):
        scene.publish(n)
        scene.deliver(n)
    scene.publish(4, x=1)
    assert scene.facts.rest() == []


def test_what_is_missing() -> None:
    scene = Scene()
    scene.publish(1)
    (problem,) = scene.facts.rest()
    assert "adam did not get" in problem


def test_what_comes_twice() -> None:
    scene = Scene()
    scene.publish(1)
    scene.deliver(1)
    scene.deliver(1)
    (problem,) = scene.facts.rest()
    assert "twice" in problem


def test_what_comes_twice_under_another_id() -> None:
    scene = Scene()
    scene.publish(1)
    scene.deliver(1)
    scene.deliver(1, sequence=9)
    (problem,) = scene.facts.rest()
    assert "others as" in problem


def test_what_comes_out_of_order() -> None:
    scene = Scene()
    scene.publish(1)
    scene.publish(2)
    scene.deliver(2)
    scene.deliver(1)
    assert any("out of order" in problem for problem in scene.facts.rest())


def test_what_nobody_wanted_or_published() -> None:
    scene = Scene()
    scene.publish(1, x=1)
    scene.deliver(1, x=1)
    scene.deliver(2)
    problems = "\n".join(scene.facts.rest())
    assert "never wanted" in problems
    assert "which nobody has published" in problems


def test_what_was_changed_on_the_way() -> None:
    scene = Scene()
    scene.publish(1)
    scene.deliver(1, x=6)
    assert any("which nobody has published" in problem for problem in scene.facts.rest())


def test_who_is_said_to_have_published_it() -> None:
    scene = Scene()
    scene.publish(1)
    scene.deliver(1, publisher="adam")
    (problem,) = scene.facts.rest()
    assert "it is of eva" in problem


@pytest.mark.parametrize("is_delivered", [True, False])
def test_while_a_cancellation_is_under_way_both_is_right(is_delivered: bool) -> None:
    scene = Scene()
    scene.facts.asked("adam", "unsubscribe", WANTED)
    scene.publish(1)
    if is_delivered:
        scene.deliver(1)
    scene.facts.done("adam", "unsubscribe", WANTED, has_spread=False)
    assert scene.facts.rest() == []
    scene.publish(2)
    scene.deliver(2)
    (problem,) = scene.facts.rest()
    assert "never wanted" in problem


def test_what_a_killed_server_may_lose_and_what_not() -> None:
    scene = Scene()
    scene.publish(1)
    scene.facts.died("a3")
    scene.publish(2)
    scene.facts.done("adam", "subscribe", WANTED, has_spread=True)
    assert scene.facts.rest() == []
    scene.publish(3)
    (problem,) = scene.facts.rest()
    assert "did not get" in problem


def test_sequences() -> None:
    scene = Scene()
    pattern = Pattern.parse("x = 1 then x = 2")
    scene.facts.watch("adam", pattern)
    for n, x in ((1, 1), (2, 2), (3, 1), (4, 2)):
        scene.publish(n, x)
    scene.facts.found("adam", pattern, [notification(1, 1), notification(2, 2)])
    (problem,) = scene.facts.rest()
    assert "[(1, 2)], and should [(1, 2), (3, 4)]" in problem
    scene.facts.found("adam", pattern, [notification(3, 1), notification(2, 2)])
    problems = "\n".join(scene.facts.rest())
    assert "twice" in problems
    assert "not in order" in problems
