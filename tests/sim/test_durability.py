"""Durable parties in the simulator: random histories, and what disks, readers and the law do."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from palio.errors import FileFormatError, InternalError
from palio.model import Mode
from palio.node.journal import Record
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import Keep
from palio.node.ports import Acknowledged, Position
from palio.sim.engine.disk import Disk
from palio.sim.engine.readers import KEEP, Readers
from palio.sim.engine.scheduler import Scheduler
from palio.sim.generators.durability import DURABLE_FAULTS
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import Player
from palio.sim.histories.stored import read, write
from palio.sim.replay import replay
from palio.sim.run import run
from palio.sim.shrink import shrink
from palio.sim.suites import SUITES
from tests.sim.digests import printed_under_any_hash_seed
from tests.sim.effort import seeds

SUITE = SUITES["durability"]
SETTLE = Step(0, "settle")
USUAL = Keep(0, 0, 0, 0, 0, 0)
SETTINGS = LogSettings(KEEP, Retention(age=10**12))


@pytest.mark.parametrize("architecture", SUITE.architectures)
@pytest.mark.parametrize("faults", SUITE.faults)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in seeds(3):
        assert run(SUITE.generate(seed, architecture, faults, 60)).violations == (), seed


@pytest.mark.slow
def test_everything_comes_about() -> None:
    """Each kind of damage, and each thing that parties may do, in some histories."""
    histories = [SUITE.generate(seed, "as", faults, 60) for seed in range(30) for faults in ("disks", "crashes")]
    faults = {kind for history in histories for kind in run(history).faults}
    assert faults >= {
        "crash",
        "power",
        "lose",
        "torn",
        "crash-at",
        "fail",
        "full",
        "scarce",
        "flip",
        "spoil",
        "put-back",
    }
    steps = [step for history in histories for step in history.steps]
    assert {step.do for step in steps} >= {"attach", "detach", "acknowledge", "replay", "reject", "requeue", "discard"}
    assert {step.mode for step in steps} == {None, *Mode}
    assert {step.wish for step in steps if step.do == "replay"} == {"first", "since", "last"}
    assert any(step.key for step in steps)
    assert any(step.expires for step in steps)
    assert set(SUITE.faults) == set(DURABLE_FAULTS)


_DIGESTS = """
from palio.sim.suites import SUITES
from palio.sim.run import run
for faults in ("disks", "all", "slow"):
    for architecture in ("as", "gs"):
        print(run(SUITES["durability"].generate(5, architecture, faults, 60)).digest)
"""


@pytest.mark.slow
def test_digests_are_the_same_under_any_hash_seed() -> None:
    assert len(set(printed_under_any_hash_seed(_DIGESTS))) == 6


# -- disks -------------------------------------------------------------------------------------------------------------


def record(number: int) -> tuple[Record, ...]:
    return ((("counters",), number),)


def syncing(*writes: tuple[int, bool], seed: int = 0) -> tuple[Disk, Scheduler, list[tuple[str, int]]]:
    """A disk that tells what is written from what is synced, with writes that are pressing or not."""
    scheduler, told = Scheduler(), []
    disk = Disk(scheduler, Random(seed), Random(seed))
    for number, is_pressing in writes:
        disk.write(
            record(number),
            lambda number=number: told.append(("synced", number)),
            written=lambda number=number: told.append(("written", number)),
            is_pressing=is_pressing,
        )
    return disk, scheduler, told


def test_what_does_not_press_is_written_first_and_synced_later() -> None:
    _, scheduler, told = syncing((1, False), (2, False))
    scheduler.run()
    assert [each for each in told if each[0] == "written"] == [("written", 1), ("written", 2)]
    assert [each for each in told if each[0] == "synced"] == [("synced", 1), ("synced", 2)]
    assert told.index(("written", 1)) < told.index(("synced", 1))


def crashed(*, is_power: bool) -> set[int]:
    """What is left of three writes that are written and not synced."""
    left = set()
    for seed in range(60):
        disk, scheduler, told = syncing((1, False), (2, False), (3, False), seed=seed)
        while ("written", 3) not in told:
            scheduler.run(most=1)
        if not [each for each in told if each[0] == "synced"]:
            disk.crash(is_power=is_power)
            left.add(dict(disk.read()).get(("counters",), 0))
    return left


def test_what_is_written_survives_the_process_and_not_the_machine() -> None:
    assert crashed(is_power=False) == {3}
    assert crashed(is_power=True) == {0, 1, 2, 3}


def test_what_a_server_finds_when_it_starts_is_synced() -> None:
    disk, scheduler, told = syncing((1, False))
    while not told:
        scheduler.run(most=1)
    disk.crash(is_power=False)
    assert dict(disk.read()) == dict(record(1))
    disk.crash(is_power=True)
    assert dict(disk.read()) == dict(record(1))


def test_a_disk_with_damage_is_another_until_somebody_has_said_so() -> None:
    disk, scheduler, _ = syncing()
    disk.write(((("life",), 0), (("cursor", "me"), 7), (("entry", 0), b"data")), lambda: None)
    scheduler.run()
    disk.damage(("entry", 0))
    assert (disk.is_other, disk.records["entry", 0]) == (False, b"")
    disk.damage(("cursor", "me"))
    assert (disk.is_other, ("cursor", "me") in disk.records) == (True, False)
    disk.copy()
    assert not disk.put_back(), "what is damaged cannot be copied"
    disk.write(((("life",), 1_000),), lambda: None)
    scheduler.run()
    assert not disk.is_other
    disk.copy()
    disk.write(((("cursor", "me"), 8),), lambda: None)
    scheduler.run()
    assert disk.put_back()
    assert (disk.is_other, ("cursor", "me") in disk.records) == (True, False)


# -- readers -----------------------------------------------------------------------------------------------------------


def reader(*told: tuple[int, int, int]) -> Readers:
    """A party that has heard positions: log, first number, and below which numbers are marked."""
    readers = Readers()
    readers.may_skip = True
    readers.attach("me", USUAL, remembers=False)
    for log, first, repeated in told:
        readers.position(Position("me", 1, log, first, repeated, 0, 0))
    return readers


def test_a_number_of_a_log_means_one_thing() -> None:
    readers = reader((1, 0, 0))
    assert readers.got("me", 0, 1, "a")
    readers.position(Position("me", 1, 1, 0, 1, 0, 0))
    with pytest.raises(InternalError, match="got b as delivery 0 of log 1, which was a"):
        readers.got("me", 0, 1, "b")


def test_what_comes_again_is_marked_in_the_same_log_and_in_another() -> None:
    for log in (1, 2):
        readers = reader((1, 0, 0))
        assert readers.got("me", 0, 1, "a")
        readers.position(Position("me", 1, log, 0, 1, 0, 0))
        assert readers.got("me", 0, 1, "a") is False
        readers.position(Position("me", 1, log, 0, 0, 0, 0))
        with pytest.raises(InternalError, match="was not told so"):
            readers.got("me", 0, 1, "a")
        fresh = reader((1, 0, 0))
        assert fresh.got("me", 0, 1, "a")
        fresh.position(Position("me", 1, log, 0, 0, 0, 0))
        with pytest.raises(InternalError, match="was not told so"):
            fresh.got("me", 0, 1, "a")


def test_numbers_go_on_one_by_one_and_other_connections_hear_nothing() -> None:
    readers = reader((1, 0, 0))
    assert readers.got("me", 0, 2, "a") is None
    with pytest.raises(InternalError, match="got delivery 1 where 0 was to come"):
        readers.got("me", 1, 1, "a")


def test_a_dead_letter_may_come_once_more() -> None:
    readers = reader((1, 0, 0))
    assert readers.got("me", 0, 1, "a")
    readers.requeued["me", "a"] += 1
    assert readers.got("me", 1, 1, "a") is False
    with pytest.raises(InternalError, match="under another number"):
        readers.got("me", 2, 1, "a")


def test_parties_acknowledge_at_their_pace_and_remember_what_was_noted() -> None:
    readers = reader((1, 0, 0))
    readers["me"].pace = 3
    assert [number for number in range(7) if readers.acknowledges("me", number)] == [2, 5]
    assert readers.got("me", 0, 1, "a")
    assert readers.acknowledge("me", 1) is None, "nobody acknowledges what it has not got"
    assert readers.acknowledge("me", 0) is not None
    readers.noted_for_good(Acknowledged("me", 1, 0))
    assert readers.noted == {("me", 1): 0}
    readers.attach("me", USUAL, remembers=True)
    assert readers["me"].acknowledged == 0


# -- small histories ---------------------------------------------------------------------------------------------------


def history(*steps: Step, settings: LogSettings = SETTINGS, seed: int = 0) -> History:
    return History("ce", seed, ("s",), (*steps, SETTLE), durable=True, logs=settings)


def attach(wait: int = 0, keep: Keep = USUAL, **how: Any) -> Step:
    return Step(wait, "attach", "s", "s/me", keep=keep, **how)


def publish(wait: int = 0, x: int = 1, **how: Any) -> Step:
    return Step(wait, "publish", "s", "s/you", f"x = {x}", **how)


SUBSCRIBED = attach(), Step(0, "subscribe", "s", "s/me", "x any"), SETTLE


def told(*steps: Step, settings: LogSettings = SETTINGS) -> list[str]:
    """All that followed from some steps; nothing is violated."""
    story = replay(history(*SUBSCRIBED, *steps, settings=settings))
    assert story.outcome.violations == ()
    return [each for scene in story.scenes[3:] for each in scene.followed]


def deliveries(lines: Iterable[str]) -> list[str]:
    return [line.rpartition(": ")[2] for line in lines if line.startswith("s/me gets")]


def test_who_comes_back_gets_what_came_meanwhile() -> None:
    away = Step(50, "detach", "s", "s/me"), publish(50, 1), publish(0, 2), Step(500, "power", "s")
    assert deliveries(told(*away, Step(0, "restart", "s"), attach(100))) == ["x = 1", "x = 2"]


def test_what_falls_out_of_a_log_that_is_too_long_does_not_come() -> None:
    small = attach(0, Keep(2, 0, 0, 0, 0, 0))
    assert deliveries(told(small, Step(50, "detach", "s", "s/me"), *(publish(0, x) for x in range(5)))) == [
        "x = 3",
        "x = 4",
    ]


def test_who_stays_away_for_too_long_loses_its_log_and_what_it_wanted() -> None:
    short = attach(0, Keep(0, 0, 0, 1_000, 0, 0))
    assert deliveries(told(short, Step(50, "detach", "s", "s/me"), publish(2_000))) == []


def test_a_publication_with_a_key_counts_once_also_after_a_death() -> None:
    once = publish(0, 1, key="k")
    lines = told(once, Step(500, "power", "s"), Step(0, "restart", "s"), publish(0, 1, key="k"), publish(0, 2))
    assert deliveries(lines) == ["x = 1", "x = 2"]


def test_a_full_disk_refuses_publications_and_delivers_what_there_is() -> None:
    away = Step(50, "detach", "s", "s/me"), publish(50, 1), Step(300, "scarce", "s")
    lines = told(*away, publish(0, 2), attach(0), Step(300, "room", "s"), publish(0, 3))
    assert deliveries(lines) == ["x = 1", "x = 3"]
    refused = [line for line in lines if "no room on the server's disk" in line]
    assert len(refused) == 1
    assert lines.index("s/me gets s/0/0: x = 1") < lines.index("s/me gets s/0/1: x = 3")


def test_what_is_worth_nothing_any_more_is_not_delivered() -> None:
    away = Step(50, "detach", "s", "s/me"), publish(50, 1, expires=200), publish(0, 2)
    assert deliveries(told(*away, attach(1_000))) == ["x = 2"]


def test_an_old_disk_is_another_incarnation_with_what_it_had() -> None:
    steps = publish(0, 1), Step(300, "copy", "s"), publish(0, 2), Step(300, "put-back", "s"), SETTLE, publish(0, 3)
    lines = told(*steps)
    assert deliveries(lines) == ["x = 1", "x = 2", "x = 3"]
    assert "s/me gets s/1000/0: x = 3" in lines


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_promises_are_kept_by_the_death_that_they_are_made_for(mode: Mode) -> None:
    """What is acknowledged and lost is lost only where that was said to be possible."""
    lost = {"crash": 0, "power": 0}
    for death in lost:
        for seed in range(60):
            player = Player(history(seed=seed))
            for step in (*SUBSCRIBED, publish(0, 1, mode=mode)):
                player.do(step)
            while not player.cluster.promised:
                player.cluster.scheduler.run(most=1)
            for step in (Step(0, death, "s"), Step(0, "settle")):  # type: ignore[arg-type]
                player.do(step)
            lost[death] += not player.cluster.deliveries
            assert player.problems == []
    assert (lost["crash"] > 0, lost["power"] > 0) == (mode is Mode.MEMORY, mode is not Mode.SYNCED)


@pytest.mark.parametrize("effect", ["fetch", "fetched", "position", "positioned", "acknowledge", "acknowledged"])
def test_a_server_dies_at_what_it_does_for_durable_parties(effect: Any) -> None:
    small = LogSettings(KEEP, recent_bytes=0)
    away = Step(50, "detach", "s", "s/me"), publish(50, 1), Step(300, "crash-at", "s", effect=effect), attach(0)
    story = replay(history(*SUBSCRIBED, *away, Step(300, "restart", "s"), settings=small))
    assert story.outcome.violations == ()
    assert story.outcome.faults == {"crash-at": 1}
    assert deliveries(each for scene in story.scenes for each in scene.followed) == ["x = 1"]


def test_such_a_history_survives_its_file(tmp_path: Any) -> None:
    whole = SUITE.generate(3, "as", "all", 60)
    assert read(write(whole, tmp_path, "whole")) == whole


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (History("ce", 0, ("s",), (attach(),), durable=True), "attach needs logs"),
        (History("ce", 0, ("s",), (), logs=SETTINGS), "durable has to be true"),
        (history(Step(0, "detach", "s")), "somebody has to do it"),
        (history(Step(0, "flip", "t")), "'t' is none of the servers"),
        (history(attach(0, pace=-1)), "less than there may be"),
    ],
)
def test_what_cannot_be_played_is_refused(given: History, problem: str, tmp_path: Any) -> None:
    with pytest.raises(FileFormatError, match=problem):
        read(write(given, tmp_path, "bad"))


def test_a_history_with_logs_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.node.logs.Logs.keep_cursor", lambda *_: None)
    small = shrink(SUITE.generate(1, "as", "none", 60), most_runs=300)
    assert run(small).violations
    assert len(small.steps) < 12
    assert small.logs is not None


@pytest.mark.slow
def test_no_delivery_is_lost_unsaid_if_two_records_are_damaged_in_turn() -> None:
    """A mark and the cursor of a party were, and it lost its first delivery."""
    history = SUITES["durability"].generate(2, "hs", "disks", 60)
    first, second = [place for place, step in enumerate(history.steps) if step.do == "spoil"][:2]
    steps = [*history.steps[: second + 12], history.steps[-1]]
    assert history.steps[-1].do == "settle"
    for nth in [(one, two) for one in range(1, 16) for two in range(1, 16)]:
        for place, number in zip((first, second), nth, strict=True):
            steps[place] = msgspec.structs.replace(steps[place], nth=number)
        assert run(msgspec.structs.replace(history, steps=tuple(steps))).violations == (), nth
