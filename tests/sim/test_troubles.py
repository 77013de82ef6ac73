"""Servers in trouble: parted, paused, slow, wrong about the time, with bad disks, or dead between two effects."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import get_args

import pytest

from palio.node.journal import Record
from palio.node.node import Node
from palio.node.ports import FromPeer, Input, Output, Persisted, Request
from palio.sim.engine.clock import Clock
from palio.sim.engine.disk import Batch, Disk, checksum
from palio.sim.engine.queue import Queue
from palio.sim.engine.scheduler import Scheduler
from palio.sim.faults.crash_points import Effect
from palio.sim.generators.networks import generate
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import Player
from palio.sim.invariants.oracle import Oracle
from palio.sim.run import run

SETTLE = Step(0, "settle")


def subscribe(wait: int = 0, server: str = "a") -> Step:
    return Step(wait, "subscribe", server, f"{server}/me", "x any")


def publish(wait: int = 0, server: str = "a", x: int = 1) -> Step:
    return Step(wait, "publish", server, f"{server}/you", f"x = {x}")


def connect(server: str, peer: str) -> Step:
    return Step(0, "connect", server, peer=peer)


def play(*steps: Step, durable: bool = False, servers: tuple[str, ...] = ("a", "b")) -> Player:
    player = Player(History("as", 0, servers, steps, durable))
    for step in steps:
        player.do(step)
    return player


def rest(player: Player) -> None:
    """Everything heals, and nothing is wrong then."""
    oracle = Oracle(player)
    player.do(SETTLE)
    assert oracle.judge() == []


def deliveries(player: Player) -> list[tuple[str, str]]:
    return [(each.party, str(each.notification)) for each in player.cluster.deliveries]


def answers(player: Player) -> list[str]:
    return [each.reply.party for each in player.cluster.answers]


# -- partitions --------------------------------------------------------------------------------------------------------


def test_a_partition_cuts_a_group_from_the_rest_in_both_directions() -> None:
    servers = ("a", "b", "c", "d")
    linked = connect("a", "b"), connect("b", "c"), connect("c", "d"), *(subscribe(server=each) for each in servers)
    player = play(*linked, SETTLE, Step(0, "part", servers=("a", "b")), servers=servers)
    for server in servers:
        player.do(publish(server=server))
    player.do(Step(60, "join"))
    assert sorted(party for party, _ in deliveries(player)) == sorted(f"{each}/me" for each in servers * 2)
    assert player.cluster.network.faults["partition"] >= 2
    rest(player)
    assert len(deliveries(player)) == 16


def test_a_partition_ends_before_the_rest_if_it_is_told_to() -> None:
    player = play(connect("a", "b"), subscribe(), SETTLE, Step(0, "part", servers=("b",)), publish(server="b"))
    player.do(Step(500, "join"))
    assert deliveries(player) == []
    player.do(Step(2_000, "weather"))
    assert deliveries(player) == [("a/me", "x = 1")]


def test_frames_lost_in_a_partition_are_told_from_those_of_a_cut() -> None:
    steps = connect("a", "b"), SETTLE, Step(0, "part", servers=("a",)), subscribe(), Step(50, "join")
    steps += Step(0, "cut", "a", peer="b"), publish(), Step(3_000, "settle")
    faults = run(History("nf", 0, ("a", "b"), steps)).faults
    assert set(faults) == {"cut"}
    faults = run(History("as", 0, ("a", "b"), steps)).faults
    assert set(faults) == {"cut", "partition"}


# -- queues ------------------------------------------------------------------------------------------------------------


def test_what_waits_is_handled_in_order_and_together() -> None:
    scheduler = Scheduler()
    handled: list[tuple[int, tuple[Input, ...]]] = []
    taken: list[int] = []
    queue = Queue(scheduler, lambda batch: handled.append((scheduler.now, batch)))
    inputs = [Persisted(number) for number in range(5)]
    queue.put(inputs[:1], lambda: taken.append(0))
    queue.is_paused = True
    queue.put(inputs[1:3], lambda: taken.append(1))
    queue.put(())
    assert taken == [0]
    queue.service, queue.is_paused = 7, False
    queue.serve()
    assert taken == [0, 1]
    for given in inputs[3:]:
        queue.put([given])
    scheduler.run()
    queue.serve()
    assert handled == [(0, tuple(inputs[:1])), (0, tuple(inputs[1:3])), (7, tuple(inputs[3:]))]


def test_a_paused_server_takes_nothing_until_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[tuple[Input, ...]] = []
    right = Node.handle

    def handle(node: Node, inputs: Iterable[Input], now: int) -> list[Output]:
        given = tuple(inputs)
        if node.settings.server == "a":
            batches.append(given)
        return right(node, given, now)

    player = play(connect("a", "b"), SETTLE, Step(0, "pause", "a"), durable=True)
    monkeypatch.setattr(Node, "handle", handle)
    for step in (subscribe(server="b"), subscribe(), publish(server="b"), publish(500), publish(500, x=2)):
        player.do(step)
    assert (batches, answers(player)) == ([], ["b/me", "b/you"])
    assert player.epoch.publications[-1].party == "b/you", "what was not taken was not published"
    player.do(Step(0, "resume", "a"))
    kinds = [type(each) for each in batches[0]]
    assert len(batches) == 1
    assert kinds.count(Request) == 3
    assert FromPeer in kinds
    assert [each.party for each in player.epoch.publications] == ["b/you", "a/you", "a/you"]
    rest(player)
    assert deliveries(player).count(("a/me", "x = 2")) == deliveries(player).count(("b/me", "x = 2")) == 1


def test_a_notice_that_records_are_safe_waits_for_a_paused_server() -> None:
    player = play(subscribe(), Step(0, "pause", "a"), Step(1_000, "weather"), durable=True)
    assert answers(player) == []
    player.do(Step(0, "resume", "a"))
    assert answers(player) == ["a/me"]


def test_pauses_end_with_the_rest() -> None:
    player = play(Step(0, "pause", "a"), subscribe(), publish())
    rest(player)
    assert deliveries(player) == [("a/me", "x = 1")]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("do", ["crash", "lose", "tear"])
def test_what_waited_for_a_server_that_dies_was_never_taken(do: str, durable: bool) -> None:
    steps = subscribe(), Step(100, "pause", "a"), publish(), Step(0, "unsubscribe", "a", "a/me", "x any")
    player = play(*steps, Step(0, do, "a"), durable=durable)  # type: ignore[arg-type]
    assert player.waiting == {}
    assert player.epoch.publications == []
    player.do(Step(0, "restart", "a"))
    player.do(publish(200, x=2))
    rest(player)
    is_kept = durable and do != "lose"
    assert deliveries(player) == ([("a/me", "x = 2")] if is_kept else []), "a server that comes back is not paused"


def test_a_slow_server_is_busy_and_stays_slow_when_it_comes_back() -> None:
    player = play(Step(0, "slow", "a", time=100), subscribe(), publish(), publish(50, x=2))
    assert answers(player) == ["a/me"]
    player.do(publish(60, x=3))
    assert answers(player) == ["a/me", "a/you", "a/you"], "what waited was handled together"
    player.do(Step(0, "crash", "a"))
    player.do(Step(0, "restart", "a"))
    player.do(publish(0))
    assert len(answers(player)) == 3
    rest(player)
    assert len(answers(player)) == 4


def test_requests_that_are_taken_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Queue.take
    monkeypatch.setattr(Queue, "take", lambda queue: right(queue)[::-1])
    player = play(Step(0, "pause", "a"), publish(x=1), publish(x=2), SETTLE)
    assert player.problems == ["taken before what the party had asked for earlier: publish a a/you x = 2"]


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1, 50, 99, 100, 101, 200, 1_000])
@pytest.mark.parametrize("offset", [-500, 0, 500])
def test_a_clock_knows_when_it_will_show_a_time(rate: int, offset: int) -> None:
    clock = Clock()
    clock.set(offset, rate, 1_000)
    for shown in range(clock.at(1_000) + 1, clock.at(1_000) + 300):
        when = clock.when(shown)
        assert clock.at(when) >= shown > clock.at(when - 1)


def test_a_running_clock_never_goes_back_and_one_that_starts_again_may() -> None:
    clock = Clock()
    clock.set(300, 100, 0)
    clock.set(-300, 50, 100)
    assert [clock.at(now) for now in (100, 200, 300)] == [400, 450, 500]
    clock.restart(300)
    assert clock.at(300) == 0


def test_nodes_are_given_the_time_of_their_own_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[Node, list[int]] = {}
    right = Node.handle

    def handle(node: Node, inputs: Iterable[Input], now: int) -> list[Output]:
        if node.settings.server == "a":
            given.setdefault(node, []).append(now)
        return right(node, inputs, now)

    monkeypatch.setattr(Node, "handle", handle)
    late = Step(0, "clock", "a", time=10_000, rate=150)
    steps = connect("a", "b"), late, Step(0, "cut", "b", peer="a"), subscribe(500), Step(500, "clock", "a", time=-400)
    player = play(*steps, durable=True)
    rest(player)
    player.do(Step(0, "crash", "a"))
    player.do(Step(0, "restart", "a"))
    rest(player)
    first, second = given.values()
    assert first == sorted(first)
    assert second == sorted(second)
    assert first[-1] > 10_000 > second[0]


def test_a_clock_that_is_put_forward_makes_things_due_at_once() -> None:
    player = play(connect("a", "b"), SETTLE, Step(0, "cut", "a", peer="b"), subscribe(), Step(10, "join"))
    before = player.cluster.network.in_flight
    player.do(Step(0, "clock", "a", time=50_000))
    player.cluster.scheduler.run(until=player.cluster.scheduler.now)
    assert player.cluster.network.in_flight == before + 1, "what was lost is sent again"


# -- disks -------------------------------------------------------------------------------------------------------------


def batch(number: int) -> tuple[Record, ...]:
    return (("counters",), number), (("wish", f"s{number}"), "peer")


def disk_with(*writes: int) -> tuple[Disk, Scheduler, list[int]]:
    scheduler = Scheduler()
    disk, done = Disk(scheduler, Random(0)), []
    for number in writes:
        disk.write(batch(number), lambda number=number: done.append(number))
    return disk, scheduler, done


def test_writes_wait_until_there_is_room() -> None:
    disk, scheduler, done = disk_with(1)
    disk.is_full = True
    disk.write(batch(2), lambda: done.append(2))
    disk.write(batch(3), lambda: done.append(3))
    scheduler.run()
    assert done == [1], "what has begun has its room"
    disk.make_room()
    scheduler.run()
    assert done == [1, 2, 3]
    assert dict(disk.read())["counters",] == 3


def test_what_waits_for_room_is_lost_by_a_crash() -> None:
    disk, scheduler, done = disk_with()
    disk.is_full = True
    disk.write(batch(1), lambda: done.append(1))
    disk.crash(torn=True)
    disk.make_room()
    scheduler.run()
    assert (done, dict(disk.read())) == ([], {})


def test_after_a_write_that_fails_nothing_is_told_any_more() -> None:
    disk, scheduler, done = disk_with(1, 2, 3)
    failed: list[int] = []

    def fail() -> None:
        failed.append(len(done))
        disk.crash()

    disk.fail(fail)
    scheduler.run()
    assert (failed, done) == ([0], [])
    disk.write(batch(4), lambda: done.append(4))
    scheduler.run()
    assert (failed, done) == ([0], [4])


def test_a_failure_may_be_averted() -> None:
    disk, scheduler, done = disk_with(1)
    disk.fail(lambda: done.append(-1))
    disk.fail(None)
    scheduler.run()
    assert done == [1]


def test_a_batch_counts_as_a_whole_or_not_at_all() -> None:
    whole = batch(1)
    assert Batch(whole, checksum(whole)).is_whole()
    for part in (whole[:1], whole[1:], ()):
        assert not Batch(part, checksum(whole)).is_whole()
        assert not Batch(part, None).is_whole()
    assert not Batch(whole, None).is_whole()


def test_a_crash_leaves_whole_batches_from_the_first_on() -> None:
    torn, left = 0, set()
    for seed in range(200):
        scheduler = Scheduler()
        disk = Disk(scheduler, Random(seed))
        for number in (1, 2, 3):
            disk.write(batch(number), lambda: None)
        torn += disk.crash(torn=True)
        found = dict(disk.read())
        last = found.get(("counters",), 0)
        assert found == dict(record for number in range(1, last + 1) for record in batch(number))
        assert dict(disk.read()) == found
        left.add(last)
    assert left == {0, 1, 2, 3}
    assert torn > 100


@pytest.mark.parametrize("do", ["full", "room", "fail"])
def test_servers_without_disks_are_spared(do: str) -> None:
    player = play(Step(0, do, "a"), subscribe(), publish())  # type: ignore[arg-type]
    assert answers(player) == ["a/me", "a/you"]
    assert sum(player.cluster.faults.values()) == 0


def test_a_full_disk_delays_answers_and_nothing_is_lost() -> None:
    player = play(subscribe(), Step(100, "full", "a"), publish(), publish(500, x=2), durable=True)
    assert answers(player) == ["a/me"]
    player.do(Step(0, "room", "a"))
    player.do(Step(100, "full", "a"))
    assert answers(player) == ["a/me", "a/you", "a/you"]
    player.do(publish(0, x=3))
    rest(player)
    assert deliveries(player) == [("a/me", f"x = {x}") for x in (1, 2, 3)]


def test_a_server_whose_write_fails_stops_at_once_and_says_nothing() -> None:
    player = play(subscribe(), Step(100, "fail", "a"), publish(), Step(100, "weather"), durable=True)
    assert "a" not in player.cluster.nodes
    assert (answers(player), deliveries(player)) == (["a/me"], [])
    assert player.cluster.faults["fail"] == 1
    rest(player)
    assert answers(player) == ["a/me"]


# -- deaths between effects --------------------------------------------------------------------------------------------


def crashing(effect: Effect, nth: int = 1, *, durable: bool = True) -> Player:
    """A server with three parties, and a neighbour that wants to know, too, dies while it handles a publication."""
    parties = [Step(0, "subscribe", "a", f"a/p{number}", "x any") for number in range(3)]
    steps = connect("a", "b"), *parties, subscribe(server="b"), SETTLE
    return play(
        *steps, Step(0, "crash-at", "a", effect=effect, nth=nth), publish(), Step(100, "weather"), durable=durable
    )


@pytest.mark.parametrize(
    ("effect", "nth", "delivered", "is_sent", "is_answered", "is_kept"),
    [
        ("write", 1, 0, False, False, False),
        ("written", 1, 0, False, False, True),
        ("deliver", 1, 0, False, False, True),
        ("deliver", 3, 2, False, False, True),
        ("delivered", 1, 1, False, False, True),
        ("delivered", 3, 3, False, False, True),
        ("reply", 1, 3, False, False, True),
        ("replied", 1, 3, False, True, True),
        ("send", 1, 3, False, True, True),
        ("sent", 1, 3, True, True, True),
    ],
)
def test_a_server_crashes_exactly_there(
    effect: Effect, nth: int, delivered: int, is_sent: bool, is_answered: bool, is_kept: bool
) -> None:
    player = crashing(effect, nth)
    assert "a" not in player.cluster.nodes
    assert player.cluster.faults["crash-at"] == 1
    mine = [party for party, _ in deliveries(player) if party.startswith("a/")]
    assert len(mine) == delivered
    assert (("b/me", "x = 1") in deliveries(player)) == is_sent
    assert ("a/you" in answers(player)) == is_answered
    rest(player)
    assert sorted(party for party, _ in deliveries(player)) == (["a/p0", "a/p1", "a/p2", "b/me"] if is_kept else [])


def test_all_effects_can_be_the_last() -> None:
    for effect in get_args(Effect)[:8]:
        assert "a" not in crashing(effect).cluster.nodes, effect
    for effect in ("deliver", "delivered", "reply", "replied", "send", "sent"):
        player = crashing(effect, durable=False)
        assert "a" not in player.cluster.nodes, effect
        assert player.epoch.died == {"a"}
        rest(player)


def test_who_is_saved_by_the_rest_lives_on() -> None:
    steps = (
        Step(0, "crash-at", "a", effect="reply", nth=2),
        Step(0, "crash-at", "b", effect="write"),
        Step(0, "fail", "a"),
    )
    player = play(*steps, SETTLE, publish(), publish(), SETTLE, durable=True)
    assert set(player.cluster.nodes) == {"a", "b"}
    assert sum(player.cluster.faults.values()) == 0


FOUND: dict[str, tuple[str, int, tuple[Step, ...]]] = {
    "a server dies before it is asked for a link": (
        "aa",
        69,
        (
            connect("s1", "s0"),
            connect("s2", "s1"),
            Step(0, "disconnect", "s1", peer="s0"),
            Step(0, "crash-at", "s1", effect="write"),
            Step(30, "connect", "s1", peer="s0"),
        ),
    ),
    "a server that is asked for a link is paused, and dies": (
        "nf",
        231,
        (
            connect("s1", "s0"),
            Step(200, "pause", "s1"),
            Step(0, "disconnect", "s0", peer="s1"),
            connect("s1", "s0"),
            Step(0, "crash", "s1"),
        ),
    ),
    "a server dies and forgets that the link was ended before it was asked for again": (
        "hs",
        1029,
        (
            connect("s1", "s0"),
            Step(215, "disconnect", "s0", peer="s1"),
            Step(0, "full", "s1"),
            Step(30, "connect", "s1", peer="s0"),
            Step(0, "tear", "s1"),
        ),
    ),
    "a refusal dies with its server": (
        "as",
        1831,
        (
            connect("s1", "s0"),
            Step(200, "disconnect", "s0", peer="s1"),
            publish(server="s1"),
            connect("s1", "s0"),
            Step(0, "crash", "s1"),
        ),
    ),
}
"""Small histories that once violated something."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once(name: str) -> None:
    architecture, seed, steps = FOUND[name]
    history = History(architecture, seed, ("s0", "s1", "s2"), (*steps, Step(0, "settle")), durable=True)
    assert run(history).violations == ()


# -- generated histories -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "kinds"),
    [
        ("partitions", {"partition"}),
        ("slow", {"pause", "slow", "clock", "crowd"}),
        ("disks", {"clock", "crash-at", "fail", "full", "tear", "torn"}),
    ],
)
def test_every_trouble_comes_about(faults: str, kinds: set[str]) -> None:
    histories = [generate(seed, "as", faults) for seed in range(30)]
    assert {kind for history in histories for kind in run(history).faults} == kinds
    assert faults != "disks" or all(history.durable for history in histories)


@pytest.mark.slow
def test_servers_of_all_kinds_of_trouble_at_once() -> None:
    faults = {kind for seed in range(90) for kind in run(generate(seed, "as", "all")).faults}
    troubles = {"clock", "crash", "crash-at", "fail", "full", "lose", "partition", "pause", "slow", "tear", "torn"}
    troubles |= {"crowd", "give-up"}
    assert faults == troubles | {"cut", "delay", "disconnect", "drop", "duplicate", "reorder"}
