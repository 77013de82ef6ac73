"""Studies as data: runs, what is measured of them, what the papers claim about it, and what they draw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from random import Random
from statistics import fmean
from typing import Literal, NamedTuple

from palio.errors import CallerError
from palio.lab.estimates import Estimate, estimate
from palio.lab.networks import USUAL_NETWORK
from palio.lab.scenario import Delay, Objects, Parties, Scenario, Specification, expand
from palio.lab.topology import Topology


class Setting(NamedTuple):
    """One point of a grid."""

    architecture: str
    objects: int
    parties: int
    publications: int = 20
    """Between advertising and unadvertising."""
    notifications: int = 15
    """Between subscribing and unsubscribing."""
    object_cycles: int = 10
    party_cycles: int = 10
    pause: int = 2250
    """The middle of the times between two publications; they are drawn from a ninth of it on either side."""
    is_poisson: bool = False
    """Whether publications come at random times instead, so far apart on average."""
    network: str = USUAL_NETWORK
    """As :func:`palio.lab.networks.named` knows it."""


class Run(NamedTuple):
    """A setting that is played once more."""

    experiment: str
    setting: Setting
    repetition: int

    @property
    def name(self) -> str:
        """Says all that the run is; no two runs have the same."""
        values = " ".join(f"{key}={value}" for key, value in self.setting._asdict().items())
        return f"{self.experiment} {values} repetition={self.repetition}"

    @property
    def seed(self) -> int:
        """The same in all settings on one network, so that they are compared in the same situation.

        Of repetitions with the same number the objects of one are among the objects of another that has more of them,
        at the same sites; and the parties likewise.
        """
        alike = f"{self.setting.network} {self.repetition}"
        return int.from_bytes(blake2b(alike.encode(), digest_size=8).digest(), "big") >> 1

    def scenario(self, network: Topology) -> Scenario:
        """What is played."""
        setting, spread = self.setting, self.setting.pause // 9
        pause = Delay(setting.pause - spread, setting.pause + spread)
        if setting.is_poisson:
            pause = Delay(setting.pause, is_poisson=True)
        specification = Specification(
            setting.architecture,
            (Objects("A", setting.objects, setting.publications, pause, setting.object_cycles),),
            (Parties("A", setting.parties, setting.party_cycles, Delay(2000, 2500), setting.notifications),),
        )
        return expand(specification, network, Random(self.seed))


class Experiment(NamedTuple):
    """Settings that are played several times each, on one network."""

    name: str
    settings: tuple[Setting, ...]
    repetitions: int

    def under(self, network: str, *, is_poisson: bool) -> Experiment:
        """The same in another network, or with publications at random times.

        >>> Experiment("x", (Setting("as", 1, 10),), 3).under("waxman:1", is_poisson=True).settings[0].network
        'waxman:1'
        """
        settings = (each._replace(network=network, is_poisson=is_poisson) for each in self.settings)
        return self._replace(settings=tuple(settings))

    def runs(self) -> Iterator[Run]:
        """All of them."""
        for setting in self.settings:
            for repetition in range(self.repetitions):
                yield Run(self.name, setting, repetition)


class Measured(NamedTuple):
    """What is known of one run."""

    run: Run
    figures: dict[str, float]
    """By metric."""
    sites: dict[str, float]
    """What the messages cost that a site sent or got, by site."""


class Results:
    """The runs of some experiments, to be asked by claims and plots."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        self._runs: dict[str, dict[Setting, list[Measured]]] = {}
        """By experiment and setting, in order of repetition."""
        for each in sorted(measured, key=lambda each: (each.run.experiment, each.run.setting, each.run.repetition)):
            self._runs.setdefault(each.run.experiment, {}).setdefault(each.run.setting, []).append(each)

    def select(self, experiment: str, **where: object) -> list[Measured]:
        """The runs of an experiment with certain values of settings, in order."""
        found = [
            each
            for setting, runs in self._runs.get(experiment, {}).items()
            if all(getattr(setting, key) == value for key, value in where.items())
            for each in runs
        ]
        if not found:
            raise MissingRunsError(f"{experiment}: there is no run with {where}")
        return found

    def groups(self) -> Iterator[tuple[str, Setting, list[Measured]]]:
        """All runs, by experiment and setting."""
        for experiment, settings in self._runs.items():
            for setting, runs in settings.items():
                yield experiment, setting, runs

    def settings(self, experiment: str, key: str) -> list[int]:
        """The values that a setting has in an experiment."""
        if experiment not in self._runs:
            raise MissingRunsError(f"{experiment}: there is no run")
        return sorted({getattr(setting, key) for setting in self._runs[experiment]})

    def values(self, experiment: str, metric: str, **where: object) -> list[float]:
        """A metric of runs that differ in nothing but repetition."""
        return [each.figures[metric] for each in self.select(experiment, **where)]

    def mean(self, experiment: str, metric: str, **where: object) -> Estimate:
        """Its mean."""
        return estimate(self.values(experiment, metric, **where))

    def worst_site(self, experiment: str, **where: object) -> list[float]:
        """What each of some runs cost the site with the largest mean over them."""
        runs = self.select(experiment, **where)
        loads = [[each.sites.get(site, 0.0) for each in runs] for site in runs[0].sites]
        return max(loads, key=fmean)

    def curves(
        self, experiment: str, metric: str, key: str, among: Collection[int], **where: object
    ) -> list[list[tuple[float, float]]]:
        """For each repetition the metric over a setting."""
        columns = [(x, self.values(experiment, metric, **{key: x}, **where)) for x in among]
        count = min((len(values) for _, values in columns), default=0)
        return [[(x, values[number]) for x, values in columns] for number in range(count)]


class MissingRunsError(CallerError):
    """A claim needs runs that a grid does not have."""


class Verdict(NamedTuple):
    """What our runs say about a claim."""

    holds: bool
    figure: str
    """Our figures, in short."""


class Claim(NamedTuple):
    """What a paper says, as a predicate on our runs."""

    name: str
    words: str
    """The paper's, in short."""
    judge: Callable[[Results], Verdict]
    """What it is documented with is the predicate."""

    @property
    def predicate(self) -> str:
        """What has to be true of the figures."""
        return " ".join((self.judge.__doc__ or "").split()).rstrip(".")


Scale = Literal["linear", "log"]
Bars = Literal["interval", "deviation"]
"""What error bars span: the 95 % confidence interval of the mean, or one standard deviation on either side."""
WORST_SITE = "worst_site"
"""Can be plotted like a metric: what the site costs that costs most, in the mean over runs."""


class Curve(NamedTuple):
    """Some runs that a line goes through."""

    label: str
    style: int
    """Which colour and marker; so an architecture looks the same in all figures."""
    where: Mapping[str, object]
    """Values of settings."""


class Plot(NamedTuple):
    """What is drawn of an experiment: a quantity over a setting, as one line or some."""

    name: str
    """Of its files."""
    title: str
    original: str
    """Which figures of the papers it has the form of; empty if it is only ours."""
    experiment: str
    metric: str
    curves: tuple[Curve, ...]
    y_label: str
    where: Mapping[str, object] = {}
    """Values of settings that all curves share."""
    x: str = "parties"
    x_label: str = "interested parties"
    x_scale: Scale = "log"
    y_scale: Scale = "linear"
    most: float | None = None
    """The largest x that is drawn."""
    bars: Bars = "interval"


class Study(NamedTuple):
    """Some claims about some experiments, and what is drawn of them."""

    name: str
    title: str
    experiments: tuple[str, ...]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...] = ()
    left_open: tuple[str, ...] = ()
    """What the papers do not say, and what we chose."""
