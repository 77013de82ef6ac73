"""Networks that are joined by gateways, judged by the law; and what once was violated there."""

from __future__ import annotations

from random import Random

import pytest

from palio import Filter, Notification
from palio.node import ports
from palio.node.node import NodeSettings
from palio.routing.border import Gateway
from palio.routing.membership import Membership
from palio.routing.router import Role
from palio.routing.topology import Topology
from palio.sim.engine.cluster import Cluster
from palio.sim.generators.networks import FAULTS, generate
from palio.sim.histories.history import History, Step
from palio.sim.run import run
from palio.sim.suites import JOINED
from tests.sim.effort import seeds


@pytest.mark.slow
@pytest.mark.parametrize("architecture", JOINED)
@pytest.mark.parametrize("faults", FAULTS)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in seeds(2):
        assert run(generate(seed, architecture, faults)).violations == (), seed


def connect(server: str, peer: str, wait: int = 0) -> Step:
    return Step(wait, "connect", server, peer=peer)


def disconnect(server: str, peer: str, wait: int = 0) -> Step:
    return Step(wait, "disconnect", server, peer=peer)


REST = Step(0, "settle")


def test_an_account_from_before_a_partition_does_not_count_after_it() -> None:
    """When the network comes together again, an old account said that a gateway closes a loop, and it was cut."""
    steps = (
        *(connect("a1", "a0"), connect("a2", "a0"), connect("b1", "b0"), connect("b0", "a2"), REST),
        *(disconnect("a2", "a0"), REST, disconnect("a2", "b0"), disconnect("b1", "b0"), REST),
        *(connect("b1", "a1"), connect("a2", "a0", 200), REST),
    )
    outcome = run(History("gs+hs", 5, ("a0", "a1", "a2", "b0", "b1"), steps))
    assert outcome.violations == ()


def test_a_loop_over_a_network_of_any_shape_is_cut_at_a_gateway_alone() -> None:
    """A link of a tree that leads to the loop was cut as well, because it heard of itself over it."""
    steps = (
        *(connect("b0", "a1"), connect("b2", "a1"), connect("b1", "b0"), REST, connect("a0", "a1"), REST),
        *(connect("b2", "b1"), REST),
    )
    outcome = run(History("aa+ga", 2, ("a0", "a1", "b0", "b1", "b2"), steps))
    assert outcome.violations == ()


def test_a_master_and_a_gateway_at_the_same_time_are_not_both_lost() -> None:
    steps = (
        *(connect("b0", "a0"), connect("c2", "c0"), connect("c3", "c1"), connect("c0", "b0"), connect("c1", "c2")),
        *(connect("a1", "a0"), connect("c3", "a1"), Step(679, "settle")),
    )
    outcome = run(History("hs+aa+gs", 68, ("a0", "a1", "b0", "c0", "c1", "c2", "c3"), steps))
    assert outcome.violations == ()


def test_a_wave_ends_in_a_loop_between_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was passed on for ever, as another one each time that it came to a network."""
    monkeypatch.setattr(Topology, "reach", lambda _topology, _beyond: None)
    monkeypatch.setattr(Membership, "to_cut", lambda _membership: [])
    monkeypatch.setattr(Membership, "check", lambda _membership, _peer, _members: None)
    cluster = Cluster(Random(1), lambda _source, _target: 1_000)
    pairs = {"a0": "b0", "a1": "b1", "b0": "a0", "b1": "a1"}
    for server, peer in pairs.items():
        cluster.start(NodeSettings(server, "gs", gateways={peer: Gateway()}))
    for server, peer, role in (
        *(("a0", "a1", Role.PEER), ("b0", "b1", Role.PEER)),
        *(("a0", "b0", Role.GATEWAY), ("a1", "b1", Role.GATEWAY)),
    ):
        cluster.give(server, [ports.Connect(peer, role)])
    assert cluster.settle(10_000)
    subscribe = ports.Subscribe(Filter.parse("x > 1"), wait=True)
    cluster.give("a0", [ports.Request("me", 7, subscribe)])
    assert cluster.settle(10_000)
    assert [(answer.server, answer.reply.number) for answer in cluster.answers] == [("a0", 7)]
    cluster.give("b1", [ports.Request("object", 1, ports.Publish(Notification(x=5)))])
    assert cluster.settle(10_000)
    assert [each.party for each in cluster.deliveries] == ["me"]
    assert len(cluster.hops) < 12
