"""Histories that violate something become small, and still do."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio.errors import CallerError, FileFormatError
from palio.sim.check import Case
from palio.sim.engine.network import Weather
from palio.sim.histories.history import History, Step
from palio.sim.histories.stored import read, write
from palio.sim.replay import replay
from palio.sim.run import run
from palio.sim.shrink import Shrinker, shrink, shrink_all
from tests.planted.catalogue import PLANTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "case", "most"),
    [
        ("copy-for-each-filter", Case("ce", "none", 0, 60), 4),
        ("not-sent-up", Case("hs", "none", 0, 60), 5),
        ("covering-reversed", Case("as", "weather", 0, 60), 6),
        ("never-sent-again", Case("as", "weather", 1, 60), 6),
        ("not-opened-again", Case("hs", "crashes", 0, 60), 4),
        ("released-when-the-write-begins", Case("ce", "disks", 0, 60), 4),
        ("silence-ends-the-link", Case("hs", "partitions", 0, 60), 7),
        ("one-clock-for-all", Case("nf", "slow", 3, 60), 7),
    ],
)
def test_a_small_history_is_found_and_replayed(bug: str, case: Case, most: int, tmp_path: Path) -> None:
    history = case.history()
    with PLANTED[bug].planted():
        small = shrink(history)
        assert run(small).violations
        stored = read(write(small, tmp_path / "deep" / "folder", str(case)))
        story = replay(stored)
        assert stored == small
        assert shrink(small) == small
    assert len(small.steps) <= most
    assert small.steps[-1].do == "settle"
    mentioned = {name for step in small.steps for name in (step.server, step.peer, *step.servers)}
    assert set(small.servers) <= mentioned
    assert story.outcome.violations
    assert len(story.scenes) == len(small.steps)
    assert run(small).violations == (), "it is the bug that violates, and not the history"


def test_nothing_is_left_that_does_not_matter() -> None:
    steps = (
        Step(5, "weather", weather=Weather(drop=0.1)),
        Step(30, "subscribe", "a", "a/me", "x > 3", spread=True),
        Step(30, "crash", "b"),
        Step(200, "publish", "c", "c/you", "x = 4"),
        Step(5, "settle"),
    )

    def violates(history: History) -> bool:
        times = [sum(step.wait for step in history.steps[: place + 1]) for place in range(len(history.steps))]
        return any(
            step.do == "publish" and time >= 200 for step, time in zip(history.steps, times, strict=True)
        ) and any(step.do == "weather" for step in history.steps)

    shrinker = Shrinker(violates)
    small = shrinker.shrink(History("as", 0, ("a", "b", "c"), steps))
    assert small.servers == ("c",)
    assert small.steps == (
        Step(0, "weather"),
        Step(200, "publish", "c", "c/you", "x = 4"),
        Step(0, "settle"),
    )


def test_troubles_become_simpler() -> None:
    steps = (
        Step(0, "part", servers=("a", "b", "c")),
        Step(0, "slow", "a", time=30),
        Step(0, "clock", "a", time=-30, rate=50),
        Step(0, "crash-at", "a", effect="reply", nth=3),
        Step(0, "settle"),
    )
    history = History("as", 0, ("a", "b", "c", "d"), steps, durable=True)

    def violates(history: History) -> bool:
        return len(history.steps) == len(steps) and "b" in history.steps[0].servers

    small = Shrinker(violates).shrink(history)
    assert small.steps == (
        Step(0, "part", servers=("b",)),
        Step(0, "slow", "a"),
        Step(0, "clock", "a"),
        Step(0, "crash-at", "a", effect="reply"),
        Step(0, "settle"),
    )
    assert (small.servers, small.durable) == (("a", "b"), False)
    assert Shrinker(lambda candidate: candidate.durable).shrink(history).durable


def test_bounds() -> None:
    history = Case("as", "none", 0, 60).history()
    tried: list[History] = []
    shrinker = Shrinker(lambda candidate: not tried.append(candidate), most_runs=3)  # type: ignore[func-returns-value]
    small = shrinker.shrink(history)
    assert shrinker.runs == len(tried) == 3
    assert small == tried[-1]
    assert Shrinker(lambda _: True, most_seconds=-1).shrink(history) == history


def test_a_history_that_violates_nothing_stays() -> None:
    case = Case("as", "none", 0, 60)
    assert shrink(case.history()) == case.history()


def test_several_at_a_time() -> None:
    told: list[tuple[int, int]] = []
    with PLANTED["copy-for-each-filter"].planted():
        small = shrink_all([Case("ce", "none", seed, 60) for seed in (0, 2)], lambda *far: told.append(far), 1)
    assert [len(each.steps) for each in small] == [4, 4]
    assert told == [(1, 2), (2, 2)]


def stored(folder: Path, document: str) -> Path:
    path = folder / "history.json"
    path.write_text(document)
    return path


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "holds no history: Input data was truncated"),
        ("[]", "holds no history: Expected `object`, got `array`"),
        ('{"architecture":"as"}', "holds no history: Object missing required field `seed`"),
        ('{"architecture":"xx","seed":0,"servers":["a"],"steps":[]}', "architecture: 'xx' is none of ce, hs, as"),
        ('{"architecture":"as","seed":0,"servers":[],"steps":[]}', "servers: name at least one"),
        ('{"architecture":"as","seed":0,"servers":["a","a"],"steps":[]}', "servers: name at least one, and each once"),
    ],
)
def test_files_that_hold_no_history(document: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=problem) as caught:
        read(stored(tmp_path, document))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ('{"wait":-1,"do":"settle"}', r"steps\[0\]: wait: time does not run backwards"),
        ('{"wait":0,"do":"fly"}', "Invalid enum value 'fly'"),
        ('{"wait":0,"do":"crash","server":"z"}', "server: 'z' is none of the servers"),
        ('{"wait":0,"do":"lose"}', "server: '' is none of the servers"),
        ('{"wait":0,"do":"pause","server":"z"}', "server: 'z' is none of the servers"),
        ('{"wait":0,"do":"part"}', "servers: name those that are cut from the others"),
        ('{"wait":0,"do":"part","servers":["a","z"]}', "servers: 'z' is none of the servers"),
        ('{"wait":0,"do":"slow","server":"a","time":-1}', "time: nothing is done before it has begun"),
        ('{"wait":0,"do":"clock","server":"a","rate":0}', "rate: clocks do not stand still"),
        ('{"wait":0,"do":"crash-at","server":"a"}', "effect, nth: say at which one the server dies"),
        ('{"wait":0,"do":"crash-at","server":"a","effect":"reply","nth":0}', "effect, nth: say at which one"),
        ('{"wait":0,"do":"crash-at","server":"a","effect":"boredom"}', "Invalid enum value 'boredom'"),
        ('{"wait":0,"do":"connect","server":"a","peer":"a"}', "peer: 'a' is none of the other servers"),
        ('{"wait":0,"do":"subscribe","server":"a","text":"x > 3"}', "party: somebody has to do it"),
        ('{"wait":0,"do":"subscribe","server":"a","party":"me","text":"x >"}', "text: line 1, column 4"),
        ('{"wait":0,"do":"advertise","server":"a","party":"me","text":"x absent"}', "text: "),
    ],
)
def test_steps_that_cannot_be_taken(step: str, problem: str, tmp_path: Path) -> None:
    document = f'{{"architecture":"as","seed":0,"servers":["a","b"],"steps":[{step}]}}'
    with pytest.raises(FileFormatError, match=problem) as caught:
        read(stored(tmp_path, document))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="cannot be read: No such file"):
        read(tmp_path / "gone.json")
