"""Verdicts that need luck to come about between real servers, from what servers would say then."""

from __future__ import annotations

from typing import Any

import pytest

from palio.server.forms import AccountDocument, Came, Neighbour, PartyAccount
from palio.server.verdict import judge

ID = "milan/1/7"
PUBLISHED, LATER = "2026-07-02T19:30:00.000000Z", "2026-07-02T19:31:00.000000Z"
EVA: PartyAccount = {
    "is_connected": True,
    "gone_seconds": None,
    "filters": 1,
    "patterns": 0,
    "changes": [],
    "matching": ["x any"],
    "matching_patterns": [],
    "missing": [],
}


def account(server: str, *links: str, **more: Any) -> AccountDocument:
    """Of a server that has seen nothing, with these links."""
    made: AccountDocument = {
        "server": server,
        "architecture": "as",
        "history": {"is_on": True, "is_whole": True, "since": PUBLISHED},
        "id_problem": "",
        "came": [],
        "sent": [],
        "delivered": [],
        "delivered_left_out": 0,
        "lost": [],
        "lost_left_out": 0,
        "document": None,
        "links": [{"to": each, "latency": 1} for each in links],
        "would_go_to": [],
        "neighbours": [neighbour(each) for each in links],
        "advertised": None,
        "party": None,
    }
    made.update(more)  # type: ignore[typeddict-item]
    return made


def neighbour(name: str, *, is_up: bool = True, imports: str = "", letter: str = "") -> Neighbour:
    return {"name": name, "is_up": is_up, "asked": [], "link": [], "exports": "", "imports": imports, "letter": letter}


def published() -> list[Came]:
    return [{"origin": "party", "name": "adam", "at": PUBLISHED, "let_in": True}]


def passed_on(*, let_in: bool = True) -> list[Came]:
    return [{"origin": "server", "name": "milan", "at": PUBLISHED, "let_in": let_in}]


SENT = [{"to": "rome", "at": LATER}]


@pytest.mark.parametrize(
    ("code", "milan", "rome"),
    [
        ("no-way", account("milan", came=published()), account("rome", party=EVA)),
        ("under-way", account("milan", "rome", came=published(), sent=SENT), account("rome", "milan", party=EVA)),
        (
            "forgotten",
            account("milan", "rome", came=published(), sent=SENT),
            account("rome", "milan", party=EVA, history={"is_on": True, "is_whole": False, "since": LATER}),
        ),
        (
            "unclear",
            account("milan", "rome", came=published(), would_go_to=["rome"]),
            account("rome", "milan", party=EVA),
        ),
        (
            "unclear",
            account("milan", "rome", came=published(), sent=SENT),
            account("rome", "milan", party=EVA, came=passed_on()),
        ),
        (
            "gateway",
            account("milan", "rome", came=published(), sent=SENT),
            account(
                "rome",
                "milan",
                party=EVA,
                came=passed_on(let_in=False),
                neighbours=[neighbour("milan", imports="x > 9")],
            ),
        ),
        (
            "too-large",
            account("milan", "rome", came=published(), neighbours=[neighbour("rome", letter="value_bytes")]),
            account("rome", "milan", party=EVA),
        ),
        (
            "link-down",
            account("milan", came=published(), neighbours=[neighbour("rome", is_up=False)]),
            account("rome", party=EVA),
        ),
    ],
)
def test_why_not(code: str, milan: AccountDocument, rome: AccountDocument) -> None:
    verdict = judge(ID, "eva", [milan, rome], {})
    assert verdict.code == code
    assert "rome" in verdict.text


def test_a_server_on_the_way_that_does_not_answer() -> None:
    """Eva is at bari; what rome, between, knows cannot be asked for."""
    milan = account("milan", "rome", came=published(), sent=SENT)
    bari = account("bari", "rome", party=EVA)
    verdict = judge(ID, "eva", [milan, bari], {"rome": "it did not answer milan within 2 s"})
    assert verdict.code == "no-answer"
    assert verdict.text.endswith("it did not answer milan within 2 s")
