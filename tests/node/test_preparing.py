"""A turn makes a bounded number of comparisons; what needs more goes on in the next one, and others do not wait."""

from __future__ import annotations

from random import Random

import pytest

from palio import Filter, Notification, Pattern
from palio.codec import frames
from palio.errors import LimitError
from palio.model.limits import Limits
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.ports import Deliver, DeliverBlock, Input, Output, PublishBlock, Reply, Request, Rest
from tests.routing.test_preparation import hostile

BUDGET = 640


def node(budget: int = BUDGET, **settings: object) -> Node:
    return Node(NodeSettings("milan", "ce", comparisons=budget)._replace(**settings))


class Driver:
    """Gives again what was given back, before all else."""

    def __init__(self, made: Node) -> None:
        self.node, self.left, self.turns = made, list[Input](), 0
        self.outputs: list[Output] = []

    def turn(self, *inputs: Input) -> list[Output]:
        self.turns += 1
        outputs = self.node.handle([*self.left, *inputs], self.turns)
        self.left = [each.given for each in outputs if isinstance(each, Rest)]
        self.outputs += outputs
        return outputs

    def finish(self) -> None:
        while self.left:
            self.turn()

    def answers(self, party: str) -> list[int]:
        return [each.number for each in self.outputs if isinstance(each, Reply) and each.party == party]


def busy(count: int = 120, budget: int = BUDGET, **settings: object) -> Driver:
    """A server at which a party holds many filters that are hard to compare."""
    driver = Driver(node(10**9, **settings))
    driver.turn(*(Request("mallory", number, ports.Subscribe(each)) for number, each in enumerate(hostile(count))))
    assert not driver.left
    driver.node.allowance.budget = budget
    driver.outputs.clear()
    return driver


def subscribe(party: str, number: int, text: str) -> Request:
    return Request(party, number, ports.Subscribe(Filter.parse(text)))


def test_a_request_that_needs_many_comparisons_takes_several_turns_and_is_answered_in_the_last_one() -> None:
    driver = busy()
    driver.turn(Request("mallory", 100, ports.Subscribe(hostile(1, seed=2)[0])))
    assert driver.left
    assert driver.answers("mallory") == []
    assert len(driver.node.router.profile("mallory").filters) == 120
    driver.finish()
    assert driver.turns > 3
    assert driver.answers("mallory") == [100]
    assert len(driver.node.router.profile("mallory").filters) == 121


def test_others_are_answered_in_the_same_turn() -> None:
    driver = busy()
    driver.turn(
        Request("mallory", 100, ports.Subscribe(hostile(1, seed=2)[0])), subscribe("eva", 1, "x > 3 and y = 'a'")
    )
    assert driver.left
    assert driver.answers("eva") == [1]


def test_the_turns_of_one_who_asks_for_much_have_a_bound_however_much_that_is() -> None:
    driver = busy(count=120)
    requests = [Request("mallory", 100 + each, ports.Subscribe(filter)) for each, filter in enumerate(hostile(20, 3))]
    costs: list[int] = []
    allowance = driver.node.allowance
    allowance.total = 0
    driver.turn(*requests)
    while driver.left:
        costs.append(allowance.total - sum(costs))
        driver.turn()
    costs.append(allowance.total - sum(costs))
    assert driver.answers("mallory") == list(range(100, 120))
    largest = 16 * 6  # to enter one filter of twenty constraints is one step
    assert max(costs) <= BUDGET + largest
    assert len(costs) > 20


def test_what_a_party_says_after_such_a_request_waits_and_what_others_say_does_not() -> None:
    driver = busy()
    block = frames.publish(Notification(x="abc"), 1)
    broad = Request("mallory", 100, ports.Unsubscribe(Filter.parse("y any"), tuple(hostile(20, 2))))
    outputs = driver.turn(
        broad,
        PublishBlock("mallory", block),
        subscribe("mallory", 101, "z = 1"),
        PublishBlock("eva", frames.publish(Notification(x="abd"), 1)),
    )
    assert [type(each) for each in driver.left] == [Request, PublishBlock, Request]
    delivered = [each for each in outputs if isinstance(each, DeliverBlock | Deliver)]
    assert len(delivered) == 1, "what eva published has arrived"
    driver.finish()
    assert driver.answers("mallory")[-2:] == [100, 101]


def test_one_subscription_takes_the_place_of_another_in_one_step_however_long_that_takes() -> None:
    driver = busy()
    before = driver.node.router.profile("mallory").filters
    after = tuple(hostile(20, seed=2))
    driver.turn(Request("mallory", 100, ports.Unsubscribe(Filter.parse("x any"), after)))
    seen = {driver.node.router.profile("mallory").filters}
    while driver.left:
        driver.turn(PublishBlock("eva", frames.publish(Notification(x="abc"), driver.turns)))
        seen.add(driver.node.router.profile("mallory").filters)
    assert seen == {before, after}


def test_what_is_refused_leaves_everything_as_it_was() -> None:
    driver = busy(filters_per_party=120)
    driver.turn(Request("mallory", 100, ports.Subscribe(hostile(1, seed=2)[0])))
    driver.finish()
    driver.turn(Request("mallory", 101, ports.Unsubscribe(Filter.parse("y = 1"), tuple(hostile(1, seed=2)))))
    driver.finish()
    refused = [each for each in driver.outputs if isinstance(each, Reply)]
    assert [type(each.problem) for each in refused] == [LimitError, LimitError]
    assert len(driver.node.router.profile("mallory").filters) == 120


def test_as_many_at_once_as_a_filter_with_or_may_stand_for_and_no_more() -> None:
    limited = Driver(node(limits=Limits(union_filters=3)))
    many = [Filter.parse(f"x = {number}") for number in range(4)]
    limited.turn(Request("eva", 1, ports.Unsubscribe(Filter.parse("y any"), tuple(many[:3]))))
    limited.finish()
    limited.turn(Request("eva", 2, ports.Unsubscribe(Filter.parse("y any"), tuple(many))))
    limited.finish()
    problems = [each.problem for each in limited.outputs if isinstance(each, Reply)]
    assert [problem is None for problem in problems] == [True, False]
    assert "union_filters" in str(problems[1])


def test_a_party_that_leaves_does_so_after_all_that_it_has_asked_for() -> None:
    driver = busy()
    driver.turn(
        Request("mallory", 100, ports.Subscribe(hostile(1, seed=2)[0])),
        subscribe("eva", 1, "x any"),
        Request("mallory", 0, ports.Leave()),
    )
    driver.finish()
    assert driver.answers("mallory") == [100, 0]
    assert driver.node.router.profile("mallory") == ((), ())
    assert driver.node.router.profile("eva").filters == (Filter.parse("x any"),)
    assert len(driver.node.preparing) == 0
    assert not driver.node.router.preparations._open


def test_patterns_are_prepared_as_well() -> None:
    driver = busy()
    patterns = [Pattern([first, second]) for first, second in zip(hostile(20, 2), hostile(20, 3), strict=True)]
    driver.turn(*(Request("eva", number, ports.Subscribe(each)) for number, each in enumerate(patterns)))
    assert driver.left
    driver.finish()
    assert driver.answers("eva") == list(range(20))
    assert list(driver.node.monitors.patterns("eva")) == patterns
    driver.turn(Request("eva", 20, ports.Unsubscribe(Pattern.parse("x any then x any"))))
    driver.finish()
    assert driver.node.monitors.patterns("eva") == ()


@pytest.mark.parametrize("budget", [1, 7, 40])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_bound_parties_hold_the_same_in_the_end(budget: int, seed: int) -> None:
    random = Random(f"{budget} {seed}")
    pool = [*hostile(6, seed), *(Filter.parse(f"x > {number}") for number in range(4)), Filter.parse("x any")]
    requests = []
    for number in range(30):
        party = random.choice(("adam", "eva"))
        wanted = random.choice(pool)
        operation: ports.Operation = random.choice(
            (
                ports.Subscribe(wanted),
                ports.Unsubscribe(wanted),
                ports.Unsubscribe(wanted, tuple(random.sample(pool, 3))),
                ports.Subscribe(Pattern([wanted, random.choice(pool)])),
                ports.Leave(),
            )
        )
        requests.append(Request(party, number, operation))
    bounded, unbounded = Driver(node(budget)), Driver(node(10**9))
    for request in requests:
        bounded.turn(request)
        unbounded.turn(request)
    bounded.finish()
    assert bounded.turns > unbounded.turns
    for party in ("adam", "eva"):
        assert bounded.answers(party) == unbounded.answers(party)
        assert bounded.node.router.profile(party) == unbounded.node.router.profile(party)
        assert bounded.node.monitors.patterns(party) == unbounded.node.monitors.patterns(party)
        assert bounded.node.router.is_sound(party)
