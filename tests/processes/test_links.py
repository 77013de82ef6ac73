"""The links campaign, short; and that it would notice what it is there for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.processes.kill_ledger import Accepted, Delivered, Intent, Life, Line, Noted, Refused, Spread, Wish
from tests.processes.links_campaign import KINDS, LinksCampaign, Plan, Stretch, line
from tests.processes.links_judge import LinksJudge, LinksVerdict, Subscriber
from tests.serving import run


def test_links_come_up_and_publications_arrive(tmp_path: Path) -> None:
    verdicts: list[LinksVerdict] = []

    async def story() -> None:
        plan = Plan(1, kinds=("cut", "reload", "url", "restart", "left-out"), without_store=())
        verdicts.append(await LinksCampaign(plan, tmp_path, print).run())

    run(story(), deadline=240)
    (verdict,) = verdicts
    assert verdict.problems == ()
    said = line(verdict)
    assert (said["lost"], said["twice"], said["disordered"], said["links_down_unexplained"]) == (0, 0, 0, 0)
    assert said["rounds"] == 5
    assert said["acknowledged"] > 200
    assert said["delivered"] > 500


def test_servers_that_acknowledge_too_early_are_found_out(tmp_path: Path) -> None:
    """They say that something is on disk before it is, so that a kill loses it."""
    verdicts: list[LinksVerdict] = []

    async def story() -> None:
        plan = Plan(1, kinds=("kill",), without_store=(), program="tests.processes.hasty", patience=8.0)
        verdicts.append(await LinksCampaign(plan, tmp_path, print).run())

    run(story(), deadline=240)
    assert verdicts[0].lost + verdicts[0].twice > 0
    assert not verdicts[0].is_good


class _Stubborn(set[tuple[str, str]]):
    def discard(self, _: object) -> None:
        """Keep it."""


def test_a_link_that_stays_down_without_a_reason_is_found(tmp_path: Path) -> None:
    """The operator takes a neighbour out of a file and never puts it back."""
    found: list[LinksVerdict] = []

    async def story() -> None:
        stretch = Stretch(Plan(1, without_store=()), tmp_path / "0", print, 0)
        stretch.fleet.left_out = _Stubborn()
        assert await stretch.run(["left-out", "cut"], lambda: False) == 1
        found.append(stretch.verdict())

    run(story(), deadline=120)
    assert found[0].links_down_unexplained == 1
    assert not found[0].is_good


def test_every_kind_of_deed_has_a_name(tmp_path: Path) -> None:
    assert set(Stretch(Plan(1), tmp_path / "0", print, 0)._mischief.deeds()) == set(KINDS)


# -- the judge, with ledgers that are made up --------------------------------------------------------------------------


def _published(judge: LinksJudge, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        judge.take("p", Intent(n, n, False))
        judge.take("p", Accepted(n, "synced"))


def _judge(*, is_durable: bool = True) -> LinksJudge:
    judge = LinksJudge(["p"], {"d": Subscriber("a0", Wish(), is_durable)})
    _take(judge, [Life(), Spread()])
    return judge


def _take(judge: LinksJudge, lines: Iterable[Line]) -> None:
    for each in lines:
        judge.take("d", each)


def _delivered(n: int, number: int | None = None, *, repeated: bool = False, log: int = 1) -> Delivered:
    return Delivered(log, n if number is None else number, f"a0/1/{n}", "p", n, repeated)


def test_what_was_promised_and_acknowledged_must_come() -> None:
    judge = _judge()
    _published(judge, 2)
    judge.is_promised = True
    _published(judge, 2, first=2)
    judge.take("p", Intent(4, 4, False))
    judge.take("p", Refused(4, "no-store"))
    assert judge.is_settled
    assert judge.missing() == {"d": [("p", 2), ("p", 3)]}
    _take(judge, [_delivered(2)])
    assert (judge.close_round(), judge.verdict().lost) == (1, 1)
    assert "d at a0 lost 1" in judge.verdict().problems[0]
    assert judge.close_round() == 0  # it counts once


def test_plain_subscribers_of_disturbed_servers_may_miss_something() -> None:
    for is_durable in (True, False):
        judge = _judge(is_durable=is_durable)
        judge.is_promised = True
        _published(judge, 1)
        assert len(judge.missing()) == 1
        assert len(judge.missing({"a0"})) == is_durable


def test_a_restored_server_may_deliver_again_once() -> None:
    judge = _judge()
    _published(judge, 3)
    _take(judge, [_delivered(0), Noted(1, 0), _delivered(1)])
    judge.subscribers["d"].restored()
    _take(judge, [Life(), _delivered(0), _delivered(1), _delivered(2)])
    assert judge.verdict().is_good, judge.verdict().problems
    _take(judge, [_delivered(1)])
    assert judge.verdict().twice == 1


def test_an_id_is_of_one_publication() -> None:
    judge = _judge()
    _published(judge, 2)
    _take(judge, [_delivered(0), _delivered(1)._replace(id="a0/1/0")])
    assert "which is ('p', 0)" in judge.contradictions()[0]


def test_nothing_comes_twice_or_in_disorder_otherwise() -> None:
    judge = _judge()
    _published(judge, 4)
    _take(judge, [_delivered(1), _delivered(1)])
    assert judge.verdict().twice == 1
    _take(judge, [_delivered(0, 2)])
    assert judge.verdict().disordered == 1
    _take(judge, [_delivered(3), Life(), _delivered(2, 0, log=2)])  # another store has another log
    assert judge.verdict().disordered == 1
