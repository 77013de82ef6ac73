"""The kill campaign, short; and that it would notice what it is there for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.processes.kill import line
from tests.processes.kill_campaign import Campaign, Plan
from tests.processes.kill_judge import KINDS, Judge, Verdict
from tests.processes.kill_ledger import (
    Accepted,
    Book,
    Delivered,
    Follower,
    Intent,
    Life,
    Line,
    Missing,
    Noted,
    Spread,
    Trouble,
    Wish,
)
from tests.serving import run

_SHORT = Plan(7, pause=(0.5, 1.5), publishers=3, parties=5, mean_life=150)
_EVERYTHING = Wish()


def test_what_was_acknowledged_is_delivered_though_servers_are_killed(tmp_path: Path) -> None:
    verdicts: list[Verdict] = []
    campaign: list[Campaign] = []

    async def story() -> None:
        campaign.append(Campaign(_SHORT._replace(kills=6), tmp_path, print))
        verdicts.append(await campaign[0].run())

    run(story(), deadline=240)
    (verdict,) = verdicts
    assert verdict.problems == ()
    said = line(campaign[0], verdict)
    assert (said["lost"], said["twice"], said["disordered"], said["expired"]) == (0, 0, 0, 0)
    assert said["kills"] >= 6
    assert said["acknowledged"] > 200
    assert said["delivered"] > 500
    assert sum(account.lives for account in verdict.accounts) > len(verdict.accounts) * 2
    for account in verdict.accounts:
        assert account.acknowledged == account.delivered + account.dropped


def test_servers_that_acknowledge_too_early_are_found_out(tmp_path: Path) -> None:
    """The same against servers that say that something is on disk before it is: then it is lost, or comes again."""
    verdicts: list[Verdict] = []

    async def story() -> None:
        plan = _SHORT._replace(
            network="ce", kills=4, program="tests.processes.hasty", patience=6.0, mean_life=60, with_bounded=False
        )
        verdicts.append(await Campaign(plan, tmp_path, print).run())

    run(story(), deadline=240)
    assert verdicts[0].lost + verdicts[0].twice > 0
    assert not verdicts[0].is_good


# -- the judge, with ledgers that are made up --------------------------------------------------------------------------


def _published(count: int) -> list[Line]:
    return [Life(), *(each for n in range(count) for each in (Intent(n, n % 100, False), Accepted(n, "synced")))]


def _delivered(n: int, number: int | None = None, *, repeated: bool = False, by: str = "p", log: int = 1) -> Delivered:
    return Delivered(log, n if number is None else number, f"a0/1/{by}{n}", by, n, repeated)


def _judged(
    party: Iterable[Line], published: Iterable[Line], kind: str = "acknowledging", wish: Wish = _EVERYTHING
) -> Verdict:
    judge = Judge(["p"], {"d": (wish, KINDS[kind])})
    judge.take("p", published)
    judge.take("d", [Life(), Spread(), *party])
    return judge.verdict()


def test_a_ledger_in_which_all_is_right() -> None:
    died = [_delivered(0), _delivered(1), Noted(1, 0), Life(), _delivered(1, repeated=True), _delivered(2)]
    verdict = _judged(died, _published(3))
    assert verdict.is_good, verdict.problems
    assert (verdict.acknowledged, verdict.delivered, verdict.accounts[0].redelivered) == (3, 3, 1)


def test_what_was_acknowledged_and_did_not_come_is_lost() -> None:
    verdict = _judged([_delivered(0), _delivered(2, 1)], _published(3))
    assert (verdict.lost, verdict.is_good) == (1, False)
    assert "lost 1: [('p', 1)]" in verdict.problems[-1]


def test_what_was_not_acknowledged_may_be_missing_but_the_publisher_has_to_know() -> None:
    verdict = _judged([_delivered(0)], [*_published(1), Intent(1, 0, False)])
    assert verdict.lost == 0
    assert not verdict.is_good
    assert "never told" in verdict.problems[0]


def test_what_a_party_does_not_want_is_not_owed_to_it() -> None:
    verdict = _judged([_delivered(5, 0)], _published(10), wish=Wish(None, 5, 6))
    assert verdict.is_good, verdict.problems
    verdict = _judged([_delivered(5, 0), _delivered(6, 1)], _published(10), wish=Wish("p", 5, 6))
    assert "does not want" in verdict.problems[0]
    assert _judged([], _published(10), wish=Wish("q")).is_good


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("acknowledging", [_delivered(0), _delivered(0, 1)]),  # in the same life, as another delivery
        ("acknowledging", [_delivered(0), _delivered(0, repeated=True)]),  # marked, but it has not died
        ("acknowledging", [_delivered(0), Life(), _delivered(0)]),  # not marked
        ("acknowledging", [_delivered(0), Noted(1, 0), Life(), _delivered(0, repeated=True)]),
        ("acknowledging", [_delivered(0), Life(), _delivered(0, 1, repeated=True)]),  # its key did not count
        ("acknowledging", [_delivered(0), Life(), *2 * [_delivered(0, repeated=True)]]),
        ("cursor", [_delivered(0), Life(), _delivered(0, repeated=True)]),
    ],
)
def test_what_should_have_come_once_and_came_again_came_twice(kind: str, lines: list[Line]) -> None:
    verdict = _judged(lines, _published(1), kind)
    assert (verdict.twice, verdict.is_good) == (1, False)


def test_what_comes_after_something_later_of_the_same_publisher_is_disordered() -> None:
    assert _judged([_delivered(1, 0), _delivered(0, 1)], _published(2)).disordered == 1
    judge = Judge(["p", "q"], {"d": (Wish(), KINDS["cursor"])})
    for name in ("p", "q"):
        judge.take(name, _published(2))
    judge.take("d", [Life(), Spread(), *(_delivered(n, 2 * n + i, by=by) for n in (0, 1) for i, by in enumerate("qp"))])
    assert judge.verdict().is_good


def test_a_number_means_one_thing_only() -> None:
    again = _delivered(1, 0, repeated=True)
    assert not _judged([_delivered(0), Life(), again], _published(2)).is_good
    assert "its log was 1" in _judged([_delivered(0), _delivered(1, 0, log=2)], _published(2)).problems[0]
    assert "never got 1 numbers: [1]" in _judged([_delivered(0), _delivered(1, 2)], _published(2)).problems[0]


def test_a_publication_has_one_id() -> None:
    judge = Judge(["p"], {name: (Wish(), KINDS["cursor"]) for name in "de"})
    judge.take("p", _published(1))
    judge.take("d", [Life(), Spread(), _delivered(0)])
    judge.take("e", [Life(), Spread(), _delivered(0)._replace(id="a0/1/other")])
    assert "others as a0/1/p0" in judge.verdict().problems[0]


def test_what_falls_out_of_bounds_is_accounted_for_exactly() -> None:
    told = [_delivered(0), Missing(1, 0, 3, "dropped"), _delivered(3)]
    verdict = _judged(told, _published(4), "bounded")
    assert verdict.is_good, verdict.problems
    assert (verdict.delivered, verdict.dropped_by_bound, verdict.lost) == (2, 2, 0)
    assert _judged(told, _published(4), "cursor").lost == 2  # this one has no such bounds
    assert _judged([*told, _delivered(5, 4)], _published(6), "bounded").lost == 1
    too_many = [_delivered(0), Missing(1, 0, 4, "dropped"), _delivered(3, 4)]
    assert "3 are gone, and 2 are" in _judged(too_many, _published(4), "bounded").problems[0]


def test_programs_tell_what_should_not_be() -> None:
    assert _judged([_delivered(0), Trouble("oh")], _published(1)).problems == ("d: oh",)
    weak = [Intent(0, 0, False), Accepted(0, "memory")]
    assert "was promised memory" in _judged([_delivered(0)], weak).problems[0]
    other = [*_published(1), Intent(0, 7, False)]
    assert not _judged([_delivered(0)], other).is_good


def test_a_ledger_survives_its_writer_and_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "p.ledger"
    follower = Follower(path)
    assert list(follower.news()) == []
    lines = [Intent(0, 3, True), Accepted(0, "synced"), _delivered(1), Noted(1, 2), Missing(1, 2, 4, "dropped")]
    book = Book(path)
    for each in lines:
        book.write(each)
    assert list(follower.news()) == [Life(), *lines]
    with path.open("ab") as file:
        file.write(json.dumps(["trouble", "not whole"]).encode())
    assert list(follower.news()) == []
    assert Book(path).before == [Life(), *lines]
    assert list(follower.news()) == [Life()]
