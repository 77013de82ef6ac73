"""Random histories of all architectures under all faults, judged by the law."""

from __future__ import annotations

import pytest

from palio.routing.architectures import ARCHITECTURES
from palio.sim.generators.networks import FAULTS, generate
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import Player
from palio.sim.run import run
from tests.sim.effort import seeds


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("faults", FAULTS)
def test_nothing_is_violated(architecture: str, faults: str) -> None:
    for seed in seeds(5):
        history = generate(seed, architecture, faults)
        assert run(history).violations == (), seed


FOUND: dict[str, tuple[str, int, tuple[Step, ...]]] = {
    "the end of a link gets lost": (
        "as",
        34,
        (
            Step(0, "connect", "s2", peer="s1"),
            Step(200, "cut", "s2", peer="s1"),
            Step(0, "disconnect", "s2", peer="s1"),
        ),
    ),
    "both ask, and one dies": (
        "as",
        101,
        (
            Step(0, "connect", "s2", peer="s0"),
            Step(30, "connect", "s0", peer="s2"),
            Step(0, "crash", "s0"),
        ),
    ),
    "who has opened a link forgets it": (
        "as",
        0,
        (Step(0, "connect", "s0", peer="s1"), Step(0, "settle"), Step(0, "crash", "s0")),
    ),
    "three links at once": (
        "as",
        69,
        (
            Step(0, "connect", "s2", peer="s0"),
            Step(0, "connect", "s1", peer="s0"),
            Step(0, "connect", "s1", peer="s2"),
        ),
    ),
    "two masters at once": (
        "hs",
        87,
        (
            Step(0, "connect", "s1", peer="s0"),
            Step(0, "connect", "s2", peer="s0"),
            Step(0, "connect", "s2", peer="s1"),
        ),
    ),
    "a link is ended, asked for and ended where no word gets through": (
        "aa",
        2071,
        (
            Step(0, "connect", "s1", peer="s0"),
            Step(235, "part", servers=("s1",)),
            Step(0, "disconnect", "s1", peer="s0"),
            Step(0, "connect", "s1", peer="s0"),
            Step(0, "disconnect", "s1", peer="s0"),
        ),
    ),
    "an old frame and a doubt are handled together": (
        "as",
        2391,
        (
            Step(0, "connect", "s1", peer="s0"),
            Step(0, "connect", "s2", peer="s1"),
            Step(0, "connect", "s3", peer="s2"),
            Step(0, "settle"),
            Step(0, "slow", "s2", time=150),
            Step(0, "subscribe", "s0", "s0/p0", "x >= 3"),
            Step(30, "subscribe", "s3", "s3/p2", "x >= 3"),
            Step(230, "crash", "s1"),
        ),
    ),
}
"""Small histories that once violated something."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once(name: str) -> None:
    architecture, seed, steps = FOUND[name]
    history = History(architecture, seed, ("s0", "s1", "s2", "s3"), (*steps, Step(0, "settle")))
    assert run(history).violations == ()


def test_only_what_was_held_when_the_wave_set_out_has_spread() -> None:
    """The party hears that its first subscription has spread when the second one has just been asked for."""
    link = Step(0, "connect", "a", peer="b")
    seed = next(seed for seed in range(99) if Player(History("as", seed, ("a", "b"), ()))._latency("a", "b") == 20)
    steps = (
        link,
        Step(0, "settle"),
        Step(0, "subscribe", "a", "a/me", "x any", spread=True),
        Step(39, "subscribe", "a", "a/me", "y any"),
        Step(2, "publish", "b", "b/you", "x = 1"),
        Step(1, "publish", "b", "b/you", "y = 1"),
        Step(0, "settle"),
    )
    outcome = run(History("as", seed, ("a", "b"), steps))
    assert (outcome.violations, outcome.deliveries) == ((), 1)


@pytest.mark.parametrize("faults", FAULTS)
def test_a_history_survives_its_file(faults: str) -> None:
    history = generate(3, "aa", faults)
    assert History.from_json(history.to_json()) == history
