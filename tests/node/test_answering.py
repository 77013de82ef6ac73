"""Questions about demand are answered within the comparisons of each turn; others do not wait for them."""

from __future__ import annotations

import pytest

from palio import Advertisement, Filter
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.ports import Outlook, Persist, Reply, Request
from tests.node.test_preparing import BUDGET, Driver, node, subscribe

LARGEST = 16 * 6
"""The cost of the largest step, about: to list the candidates for one element."""


def wishes(count: int) -> list[Filter]:
    """Filters that an index finds for all offers, and that none is relevant to."""
    return [Filter.parse(f"x any and y{number} any") for number in range(count)]


def offers(count: int) -> list[Advertisement]:
    """Advertisements that an index finds for all wishes."""
    return [Advertisement.parse(f"x any; z{number} any") for number in range(count)]


def watch(party: str, number: int, offer: Advertisement) -> Request:
    return Request(party, number, ports.Watch(offer))


def told(driver: Driver, party: str) -> list[bool]:
    return [each.is_good for each in driver.outputs if isinstance(each, Outlook) and each.party == party]


def rest(driver: Driver) -> None:
    while driver.left or driver.node.answering:
        assert not driver.node.answering or driver.node.deadline is not None
        driver.turn()


def asked(count: int, wanted: int) -> Driver:
    """A server that knows many filters, at which a party has asked many questions in vain."""
    driver = Driver(node(10**9))
    driver.turn(*(Request("zoe", number, ports.Subscribe(each)) for number, each in enumerate(wishes(wanted))))
    driver.turn(*(watch("mallory", number, each) for number, each in enumerate(offers(count))))
    rest(driver)
    driver.node.allowance.budget = BUDGET
    driver.outputs.clear()
    return driver


def test_the_search_for_a_question_takes_several_turns_and_its_party_waits_for_it() -> None:
    driver = asked(1, 1_500)
    question = Advertisement.parse("x any; w any")
    driver.turn(watch("mallory", 100, question), subscribe("mallory", 101, "z = 1"), subscribe("eva", 1, "v > 3"))
    assert [type(each) for each in driver.left] == [Request, Request]
    assert driver.answers("eva") == [1]
    assert driver.answers("mallory") == []
    rest(driver)
    assert driver.turns > 4
    assert driver.answers("mallory") == [100, 101]
    assert told(driver, "mallory") == [False]


def test_a_filter_that_concerns_many_questions_takes_several_turns_and_each_has_a_bound() -> None:
    driver = asked(400, 60)
    allowance = driver.node.allowance
    allowance.total = 0
    costs = []
    driver.turn(subscribe("eva", 1, "x any"))
    assert driver.answers("eva") == [1]
    while driver.node.answering:
        assert driver.node.deadline == driver.turns
        costs.append(allowance.total - sum(costs))
        driver.turn()
    costs.append(allowance.total - sum(costs))
    assert len(costs) > 1
    assert max(costs) <= BUDGET + LARGEST
    assert told(driver, "mallory") == [True] * 400
    driver.outputs.clear()
    driver.turn(Request("eva", 2, ports.Unsubscribe(Filter.parse("x any"))))
    turns = 1
    while driver.node.answering:
        costs.append(allowance.total - sum(costs))
        turns += 1
        driver.turn()
    assert turns > 20, "for each question another witness is looked for"
    assert max(costs) <= BUDGET + LARGEST
    assert told(driver, "mallory") == [False] * 400


def test_a_question_that_cannot_be_answered_here_is_refused_without_a_search() -> None:
    driver = Driver(Node(NodeSettings("milan", "nf", comparisons=1)))
    driver.turn(watch("eva", 1, Advertisement.parse("x any")))
    driver.finish()
    assert [each.number for each in driver.outputs if isinstance(each, Reply) and each.problem is not None] == [1]


@pytest.mark.parametrize("turns", [0, 1, 3, 10])
def test_a_server_that_stops_in_the_middle_answers_all_questions_again_in_slices(turns: int) -> None:
    settings = NodeSettings("milan", "ce", comparisons=10**9, durable=True)
    driver = Driver(Node(settings))
    for number, each in enumerate(wishes(40)):
        driver.turn(Request("zoe", number, ports.Subscribe(each)))
    driver.turn(*(watch("mallory", number, each) for number, each in enumerate(offers(40))))
    driver.turn(watch("eva", 1, Advertisement.parse("x any; y1 any")))
    rest(driver)
    driver.node.allowance.budget = 10
    driver.turn(subscribe("eva", 2, "x any"))
    for _ in range(turns):
        driver.turn()
    kept: dict[bytes, bytes | None] = {}
    for each in driver.outputs:
        if isinstance(each, Persist):
            kept.update(each.records)
    again = Driver(Node(settings._replace(comparisons=BUDGET), [(key, value) for key, value in kept.items() if value]))
    assert again.node.answering
    assert again.node.deadline is not None
    is_wanted = bool(again.node.router.profile("eva").filters)
    assert is_wanted is (turns > 0)
    again.turn(ports.Attach("mallory"))
    assert again.node.answering
    rest(again)
    again.turn(*(ports.Persisted(each.token) for each in again.outputs if isinstance(each, Persist)))
    assert told(again, "mallory") == [is_wanted] * 40


def test_whatever_the_bound_the_last_answers_are_the_same() -> None:
    last = []
    for budget in (1, 7, 10**9):
        driver = Driver(node(budget))
        driver.turn(*(watch("eva", number, each) for number, each in enumerate(offers(5))))
        driver.turn(subscribe("zoe", 1, "x any and z1 any"), subscribe("zoe", 2, "z2 any"))
        driver.finish()
        driver.turn(Request("zoe", 3, ports.Unsubscribe(Filter.parse("z2 any"))), subscribe("zoe", 4, "z4 any"))
        rest(driver)
        words = {each.subject: each.is_good for each in driver.outputs if isinstance(each, Outlook)}
        last.append([words[each] for each in offers(5)])
    assert last == [[False, True, False, False, True]] * 3
