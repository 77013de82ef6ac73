"""Patterns at a node: sequences as one slow monitor finds them, windows, limits, and what survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Notification, Pattern
from palio.errors import CallerError, LimitError
from palio.link.frames import Data
from palio.model.envelope import Envelope, NotificationId
from palio.model.limits import Limits
from palio.node import ports
from palio.node.admission import UnsatisfiableFilterError
from palio.node.hybrid import HybridClock
from palio.node.monitors import Monitors
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.ports import Deliver, DeliverBlock, DeliverSequence, Input, Output, Reply, Request
from palio.node.settings import MOST_WINDOW
from palio.routing.architectures import ARCHITECTURES
from palio.routing.messages import Publish
from palio.sim.engine.blocks import one_by_one
from palio.sim.engine.recording import Arrived, Entry, Wanted
from palio.sim.invariants.ideal_monitors import AccessPoint, Ideal, place
from tests.node.durable import Durable, of_kind

AB = Pattern.parse("x = 1 then x = 2")
TEXTS = ("x any", "x = 1", "x = 2", "x >= 2", "x <= 2", "x = 1 and y any")


def node(**settings: Any) -> Node:
    return Node(NodeSettings("milan", "ce")._replace(**settings))


def ask(made: Node, party: str, operation: ports.Operation, now: int = 0) -> list[Output]:
    return made.handle([Request(party, 1, operation)], now)


def publish(made: Node, *values: int, now: int = 0) -> list[Output]:
    inputs: list[Input] = [Request("you", 1, ports.Publish(Notification(x=value))) for value in values]
    return made.handle(inputs, now)


def found(outputs: Sequence[Output]) -> list[tuple[str, tuple[int, ...]]]:
    """Who has got which sequences, by the numbers of their publications."""
    return [
        (output.party, tuple(each.envelope.id.sequence for each in output.notifications if each.envelope))
        for output in outputs
        if isinstance(output, DeliverSequence)
    ]


def refusal(outputs: Sequence[Output]) -> object:
    return next(output.problem for output in outputs if isinstance(output, Reply))


def came(origin: str, sequence: int, published: int, **attributes: Any) -> Notification:
    """A notification as it comes from another server."""
    time = datetime(1970, 1, 1, 0, 0, published // 1_000_000, published % 1_000_000, tzinfo=UTC)
    return Notification(**attributes).with_envelope(Envelope(NotificationId(origin, 0, sequence), time, "you"))


# -- sequences ---------------------------------------------------------------------------------------------------------


def test_a_sequence_is_one_delivery_beside_the_plain_ones() -> None:
    made = node()
    ask(made, "me", ports.Subscribe(AB))
    ask(made, "me", ports.Subscribe(Filter.parse("x = 2")))
    outputs = publish(made, 2, 1, 1, 2, 2)
    assert found(outputs) == [("me", (1, 3))]
    plain = [each.notification.envelope for each in outputs if isinstance(each, Deliver)]
    assert [each.id.sequence for each in plain if each] == [0, 3, 4]


def test_a_pattern_of_one_filter_is_that_filter() -> None:
    made = node()
    ask(made, "me", ports.Subscribe(Pattern.parse("x > 3")))
    assert made.router.profile("me").filters == (Filter.parse("x > 3"),)
    ask(made, "me", ports.Unsubscribe(Pattern.parse("x > 2")))
    assert made.router.profile("me").filters == ()
    assert made.monitors.patterns("me") == ()


def test_no_sequence_begins_before_its_subscriber() -> None:
    made = node()
    ask(made, "me", ports.Subscribe(AB))
    publish(made, 1)
    ask(made, "later", ports.Subscribe(AB))
    assert found(publish(made, 2, 1, 2)) == [("me", (0, 1)), ("later", (2, 3)), ("me", (2, 3))]


def test_what_is_covered_makes_no_difference_and_a_broader_one_replaces() -> None:
    made = node()
    ask(made, "me", ports.Subscribe(AB))
    publish(made, 1)
    ask(made, "me", ports.Subscribe(AB))
    ask(made, "me", ports.Subscribe(Pattern.parse("x = 1 then x = 2 and y any")))
    assert found(publish(made, 2)) == [("me", (0, 1))]
    broader, other = Pattern.parse("x any then x = 2"), Pattern.parse("x = 1 then x = 2 then x = 3")
    ask(made, "me", ports.Subscribe(other))
    ask(made, "me", ports.Subscribe(broader))
    assert made.monitors.patterns("me") == (other, broader)
    ask(made, "me", ports.Unsubscribe(Pattern.parse("x any then x any")))
    assert made.monitors.patterns("me") == (other,)
    ask(made, "me", ports.Unsubscribe(other))
    assert len(made.router.subscriptions) == 0
    assert found(publish(made, 1, 2, 3)) == []


def test_a_notification_costs_only_the_patterns_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = node(), []
    for number in range(200):
        ask(made, f"p{number}", ports.Subscribe(Pattern.parse(f"x = {number} then x = {number + 1}")))
    monkeypatch.setattr("palio.node.watches.Watch.accepts", lambda watch, _arrival: asked.append(watch.owner) or True)
    publish(made, 7)
    assert asked == ["p7"]


# -- windows -----------------------------------------------------------------------------------------------------------


def monitors(**options: int) -> Monitors:
    made = Monitors(ARCHITECTURES["ce"](), **options)
    made.subscribe("me", AB)
    return made


def test_a_window_puts_right_what_the_network_upset() -> None:
    made = monitors(window=10, most=100)
    late, early = came("rome", 0, 7, x=2), came("bari", 0, 5, x=1)
    assert made.arrive(late, made._router.met(late), 100) == []
    assert made.deadline == 110
    assert made.arrive(early, made._router.met(early), 109) == []
    assert made.release(109) == []
    assert [each.notifications for each in made.release(110)] == [(early, late)]
    assert made.deadline == 119  # of what has gone already
    assert made.release(119) == []
    assert made.deadline is None


def test_of_too_many_the_earliest_goes_before_its_time() -> None:
    made = monitors(window=10, most=2)
    first, second, third = (came("rome", number, number, x=value) for number, value in enumerate((1, 2, 1)))
    for each in (first, second):
        assert made.arrive(each, made._router.met(each), 0) == []
    assert made.arrive(third, made._router.met(third), 0) == []
    fourth = came("rome", 3, 3, x=1)
    assert [each.notifications for each in made.arrive(fourth, made._router.met(fourth), 0)] == [(first, second)]


def test_a_node_says_when_what_it_holds_back_has_to_go() -> None:
    made = node(window=50)
    ask(made, "me", ports.Subscribe(AB))
    publish(made, 1, 2, now=5)
    assert made.deadline == 55
    assert found(made.handle([], 54)) == []
    assert found(made.handle([], 55)) == [("me", (0, 1))]


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"window": -1}, "window"), ({"window": MOST_WINDOW + 1}, "window"), ({"held_back": 0}, "held_back")],
)
def test_windows_have_bounds(options: dict[str, int], problem: str) -> None:
    with pytest.raises(CallerError, match=problem):
        node(**options)


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1 then x = 2 then x = 3", LimitError),
        ("x = 1 then x > 1 and y any and z any", LimitError),
        ("x = 1 then x > 3 and x < 2", UnsatisfiableFilterError),
    ],
)
def test_what_a_pattern_may_be(text: str, problem: type[Exception]) -> None:
    made = node(limits=Limits(pattern_filters=2, constraints=2))
    assert isinstance(refusal(ask(made, "me", ports.Subscribe(Pattern.parse(text)))), problem)
    assert made.monitors.patterns("me") == ()
    assert len(made.router.subscriptions) == 0


def test_patterns_count_with_filters() -> None:
    made = node(filters_per_party=2)
    assert refusal(ask(made, "me", ports.Subscribe(AB))) is None
    assert refusal(ask(made, "me", ports.Subscribe(Filter.parse("x = 1")))) is None
    assert isinstance(refusal(ask(made, "me", ports.Subscribe(Filter.parse("x = 2")))), LimitError)
    assert isinstance(refusal(ask(made, "me", ports.Subscribe(Pattern.parse("x = 2 then x = 1")))), LimitError)


def test_a_party_has_a_name() -> None:
    assert isinstance(refusal(ask(node(), "", ports.Subscribe(AB))), CallerError)


# -- time --------------------------------------------------------------------------------------------------------------


def test_publications_are_after_all_that_was_here() -> None:
    clock = HybridClock()
    times = [clock.next(10), clock.next(10), clock.next(50)]
    clock.saw(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    clock.saw(times[0])
    times += [clock.next(60), clock.next(2_000_000)]
    assert [round(time.timestamp() * 1_000_000) for time in times] == [10, 11, 50, 1_000_001, 2_000_000]


def test_times_that_cannot_be_end_the_link() -> None:
    milan, rome = node(architecture="as"), node(architecture="as", server="rome")
    waiting: list[tuple[Node, Node, Output]] = [
        (milan, rome, each) for each in milan.handle([ports.Connect("rome")], 0)
    ]
    while waiting:
        source, target, output = waiting.pop(0)
        if isinstance(output, ports.Send):
            outputs = target.handle([ports.FromPeer(source.settings.server, output.frame)], 0)
            waiting += [(target, source, each) for each in outputs]
    ask(milan, "me", ports.Subscribe(AB))
    assert rome.links.peers
    wrong = Notification(x=1).with_envelope(
        Envelope(NotificationId("bari", 0, 0), datetime(9999, 6, 1, tzinfo=UTC), "you")
    )
    rome.links.send("milan", [Publish(wrong)], 1)
    frames = [frame for _, frame in rome.links.frames(1)]
    assert any(isinstance(frame, Data) for frame in frames)
    outputs = milan.handle([ports.FromPeer("rome", frame) for frame in frames], 1)
    assert any(isinstance(each, ports.LinkRefused) and "clock is wrong" in each.reason for each in outputs)


# -- against one slow monitor ------------------------------------------------------------------------------------------

filters = st.sampled_from(TEXTS)
patterns = st.lists(filters, min_size=2, max_size=3).map(lambda texts: Pattern.parse(" then ".join(texts)))
events = st.builds(
    lambda origin, published, x, has_y: (origin, published, {"x": x, **({"y": 1} if has_y else {})}),
    st.sampled_from(["rome", "bari", "como"]),
    st.integers(0, 60),
    st.integers(0, 4),
    st.booleans(),
)
deeds = st.one_of(
    st.tuples(st.just("event"), events),
    st.tuples(st.just("event"), events),
    st.tuples(st.sampled_from(["subscribe", "unsubscribe"]), st.tuples(st.sampled_from(["me", "you"]), patterns)),
    st.tuples(st.just("wait"), st.integers(1, 15)),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(window=st.sampled_from([0, 3, 10, 1_000]), story=st.lists(deeds, max_size=40))
def test_monitors_find_what_one_slow_monitor_finds(window: int, story: list[tuple[str, Any]]) -> None:
    made, law = Monitors(ARCHITECTURES["ce"](), window, 1_000), AccessPoint(window)
    now, got = 0, []
    for number, (deed, what) in enumerate([*story, ("wait", 2_000)]):
        happened: tuple[Arrived | Wanted, ...] = ()
        match deed:
            case "event":
                origin, published, attributes = what
                notification = came(origin, number, published, **attributes)
                happened = (Arrived(notification),)
                met = made._router.met(notification)
                got += made.arrive(notification, met, now) if met else []
            case "wait":
                now += what
            case _:
                happened = (Wanted(*what, is_over=deed == "unsubscribe"),)
                getattr(made, deed)(*what)
        got += made.release(now)
        law.follow([Entry(0, now, happened)])
    expected = {key: sequences for key, sequences in law.found().items() if sequences}
    by_pattern: dict[Any, list[Any]] = {}
    for each in got:
        ids = tuple(one.envelope.id for one in each.notifications if one.envelope)
        by_pattern.setdefault((each.party, each.pattern), []).append(ids)
    assert by_pattern == expected


@given(story=st.lists(events, max_size=30), pattern=patterns)
def test_with_a_large_window_order_does_not_matter(story: list[Any], pattern: Pattern) -> None:
    made = Monitors(ARCHITECTURES["ce"](), 1_000, 1_000)
    made.subscribe("me", pattern)
    all_of_it = [came(origin, number, published, **what) for number, (origin, published, what) in enumerate(story)]
    for each in all_of_it:
        if made._router.met(each):
            made.arrive(each, made._router.met(each), 0)
    ideal = Ideal(pattern)
    for each in sorted(all_of_it, key=place):
        ideal.feed(each)
    assert [
        tuple(one.envelope.id for one in each.notifications if one.envelope) for each in made.release(1_000)
    ] == ideal.found


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(given_patterns=st.lists(st.tuples(st.booleans(), patterns), max_size=60))
def test_what_a_party_has_of_many_patterns(given_patterns: list[tuple[bool, Pattern]]) -> None:
    made = Monitors(ARCHITECTURES["ce"]())
    held: list[Pattern] = []
    for number, (is_over, pattern) in enumerate([*((False, p) for p in MANY), *given_patterns]):
        if is_over:
            made.unsubscribe("me", pattern)
            held = [each for each in held if not pattern.covers(each)]
        else:
            made.subscribe("me", pattern)
            if not any(each.covers(pattern) for each in held):
                held = [*(each for each in held if not pattern.covers(each)), pattern]
        assert set(made.patterns("me")) == set(held), number
        assert made.count("me") == len(held)
    needed = {filter for pattern in held for filter in pattern}
    assert set(made._router.subscriptions) == needed


MANY = [Pattern.parse(f"z = {number} then x = {number % 3}") for number in range(20)]
"""So many that they are found through an index."""


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    window=st.sampled_from([0, 10]),
    values=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=25),
    deaths=st.sets(st.integers(0, 25), max_size=5),
    pattern=patterns,
)
def test_a_crash_changes_nothing(
    window: int, values: list[tuple[int, int]], deaths: set[int], pattern: Pattern
) -> None:
    def play(survive: Callable[[int], bool]) -> list[tuple[str, tuple[int, ...]]]:
        server, now = Durable(window=window), 0
        got = found(server.handle([Request("me", 1, ports.Subscribe(pattern))], now))
        for number, (x, wait) in enumerate(values):
            if not survive(number):
                server.die(now)
            got += found(server.handle([Request("you", 2, ports.Publish(Notification(x=x)))], now))
            now += wait
            got += found(server.handle([], now))
        return got + found(server.handle([], now + 100))

    assert play(lambda number: number not in deaths) == play(lambda _: True)


def test_what_was_not_acknowledged_comes_again_in_order() -> None:
    server = Durable()
    server.handle([ports.Attach("me", Keep(), 1)], 0)
    server.handle([Request("me", 1, ports.Subscribe(AB)), Request("me", 2, ports.Subscribe(Filter.parse("x = 2")))], 0)
    inputs: list[Input] = [Request("you", 3, ports.Publish(Notification(x=value))) for value in (1, 2)]
    first = of_kind(server.handle(inputs, 0), Deliver, DeliverSequence)
    assert [(type(each), each.number if isinstance(each, DeliverSequence) else each.numbers) for each in first] == [
        (Deliver, (0,)),
        (DeliverSequence, 1),
    ]
    server.die(5)
    (again,) = of_kind(server.handle([ports.Attach("me", Keep(), 2)], 5), DeliverBlock)
    assert (again.first, again.count) == (0, 2)
    plain, sequence = one_by_one(again)
    assert plain == Deliver(("me",), first[0].notification, (0,), (2,))
    assert isinstance(sequence, DeliverSequence)
    assert sequence.notifications == first[1].notifications
    server.handle([ports.Acknowledge("me", 0, 2)], 5)
    (rest,) = of_kind(server.handle([ports.Attach("me", Keep(), 3)], 5), DeliverBlock)
    assert (rest.first, rest.count) == (1, 1)


def test_nothing_waits_longer_because_a_clock_was_set_back() -> None:
    server = Durable(window=50)
    server.handle([Request("me", 1, ports.Subscribe(AB))], 10_000)
    inputs: list[Input] = [Request("you", 3, ports.Publish(Notification(x=value))) for value in (1, 2)]
    server.handle(inputs, 10_000)
    server.die(100)
    assert server.node.deadline == 150
    assert found(server.handle([], 150)) == [("me", (0, 1))]
    later = server.handle([Request("me", 4, ports.Subscribe(Filter.parse("x = 5")))], 160)
    later += server.handle([Request("you", 5, ports.Publish(Notification(x=5)))], 160)
    envelope = next(each.notification.envelope for each in later if isinstance(each, Deliver))
    assert envelope is not None
    assert envelope.published > datetime(1970, 1, 1, 0, 0, 0, 10_001, tzinfo=UTC)
