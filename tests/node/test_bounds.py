"""What is kept under names that neighbours choose has a bound, in memory and in the records."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import LimitError, PeerError
from palio.link.frames import Close, Data, Open, Refuse
from palio.link.session import LinkSettings
from palio.model import Filter, Notification
from palio.node.journal import Journal
from palio.node.link_letters import LinkLetters
from palio.node.node import Node, NodeSettings
from palio.node.peer_limits import PeerLimits
from palio.node.ports import Connect, Disconnect, FromPeer, Output, Persist, Persisted, Reply, Request, Send, Subscribe
from palio.node.seen import Seen
from palio.routing.membership import Membership, TooManyServersError
from palio.routing.messages import Account, Members, Spread
from palio.routing.router import Role
from palio.routing.topology import BadAccountError, Topology

HERE = (0, "", 0)


class Kept:
    """A durable node with its records."""

    def __init__(self, neighbours: int, records: dict[Any, Any] | None = None) -> None:
        self.records = {} if records is None else records
        settings = NodeSettings("milan", "as", durable=True, link=LinkSettings(neighbours=neighbours))
        self.node = Node(settings, tuple(self.records.items()))
        self.now = 0
        self.give()

    def give(self, *given: Any) -> list[Output]:
        """What goes out, with what the node keeps written at once."""
        self.now += 1
        found: list[Output] = []
        outputs = self.node.handle(given, self.now)
        while outputs:
            found += outputs
            written = [each for each in outputs if isinstance(each, Persist)]
            for key, value in [record for each in written for record in each.records]:
                if value is None:
                    self.records.pop(key, None)
                else:
                    self.records[key] = value
            outputs = self.node.handle([Persisted(each.token, is_synced=True) for each in written], self.now)
        return found

    def open(self, peer: str, number: int = 1) -> None:
        self.give(FromPeer(peer, Open((number, peer, 0), "peer", "as", ((peer, HERE),))))

    def confirm(self, peer: str, number: int = 1) -> None:
        self.give(FromPeer(peer, Data((number, peer, 0), 0, (), 0)))

    def kinds(self, kind: str) -> list[Any]:
        return [key[1] for key in self.records if key[0] == kind]


def test_questions_of_new_neighbours_leave_only_so_many_records() -> None:
    kept = Kept(3)
    for number in range(50):
        kept.open(f"peer-{number}")
    assert kept.kinds("answer") == ["peer-47", "peer-48", "peer-49"]
    assert len(kept.node.links._ends) == 3
    kept.confirm("peer-49")  # the last ones are as good as ever
    assert list(kept.node.links.peers) == ["peer-49"]


def test_ended_sessions_go_before_unconfirmed_ones() -> None:
    kept = Kept(3)
    for name in ("a", "b"):
        kept.open(name)
    kept.open("c")
    kept.confirm("c")
    kept.give(Disconnect("c", bars=False))
    assert kept.kinds("closing") == ["c"]
    kept.open("d")
    assert (kept.kinds("answer"), kept.kinds("closing")) == (["a", "b", "d"], [])


def test_links_stay_and_more_of_them_are_refused() -> None:
    kept = Kept(2)
    for name in ("a", "b"):
        kept.open(name)
        kept.confirm(name)
    outputs = kept.give(FromPeer("c", Open((1, "c", 0), "peer", "as", (("c", HERE),))))
    (frame,) = [each.frame for each in outputs if isinstance(each, Send) and each.peer == "c"]
    assert isinstance(frame, Refuse)
    assert "links.neighbours" in frame.reason
    assert sorted(kept.node.links.peers) == ["a", "b"]
    kept.give(Connect("own", Role.PEER))  # what this server asks for does not count
    assert kept.node.links.status("own").is_wanted
    kept.give(Disconnect("a", bars=False))
    kept.open("c")
    kept.confirm("c")
    assert "c" in kept.node.links.peers


def test_a_store_with_too_many_is_brought_within_the_bound() -> None:
    before = Kept(50)
    for number in range(50):
        before.open(f"peer-{number}")
    assert len(before.kinds("answer")) == 50
    kept = Kept(3, dict(before.records))
    assert len(kept.node.links._ends) == 3
    assert len(kept.kinds("answer")) == 3
    assert not kept.node.quarantined


def test_a_neighbour_that_was_forgotten_learns_it() -> None:
    kept = Kept(1)
    kept.open("a")
    kept.open("b")
    outputs = kept.give(FromPeer("a", Data((1, "a", 0), 0, (), 0)))
    assert isinstance(next(each.frame for each in outputs if isinstance(each, Send)), Close)
    kept.give(FromPeer("a", Open((2, "a", 0), "peer", "as", (("a", HERE),))))
    assert kept.kinds("answer") == ["a"]


def test_origins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.node.seen.MOST_ORIGINS", 2)
    seen = Seen("milan")
    assert [seen.is_new(name, 0, 1) for name in ("a", "b", "a")] == [True, True, False]
    assert seen.forgotten() == []
    assert seen.is_new("c", 0, 1)
    assert seen.forgotten() == [("a", 0)]
    assert [seen.is_new(name, 0, 1) for name in ("b", "c")] == [False, False]
    again = Seen("milan")
    for name in ("x", "y", "z"):
        again.restore(name, 4, 7)
    assert again.forgotten() == [("x", 4)]


def test_letters_are_bounded_over_all_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.node.link_letters.MOST_PEERS", 3)
    monkeypatch.setattr("palio.node.link_letters.MOST_BYTES", 3_000)
    journal = Journal()
    letters = LinkLetters(LinkSettings(), journal)
    for number in range(20):
        letters.add(f"peer-{number}", Notification(x="." * 10), "", 0)
    assert sorted(letters.totals()) == ["peer-17", "peer-18", "peer-19"]
    for _ in range(50):
        letters.add("peer-19", Notification(x="." * 200), "", 0)
    assert letters["peer-17"].letters
    assert letters["peer-19"].forgotten
    assert sum(letters[each].bytes for each in letters.totals()) <= 3_000
    kept = dict[Any, Any]()
    for key, value in journal.take():
        if value is not None:
            kept[key] = value
    assert {key[1] for key in kept} == {"peer-17", "peer-18", "peer-19"}
    again = LinkLetters(LinkSettings())
    again.restore(kept)
    assert again["peer-19"].letters.keys() == letters["peer-19"].letters.keys()


def test_limits_of_peers_without_a_link_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.node.peer_limits.MOST_WITHOUT_LINK", 2)
    limits = PeerLimits(LinkSettings(), lambda *_: None)
    tight = (1,) * 11
    limits.connected("linked", tight, list)
    limits.opened("linked", ())
    for number in range(5):
        limits.connected(f"peer-{number}", tight, list)
    assert [name for name in ("linked", *(f"peer-{n}" for n in range(5))) if limits.is_tight(name)] == [
        "linked", "peer-3", "peer-4",
    ]  # fmt: skip


def test_waves_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.node.spreading.MOST_WAVES", 2)
    kept = Kept(5)
    for name in ("a", "b"):
        kept.open(name)
        kept.confirm(name)

    def ask(number: int) -> list[Reply]:
        wanted = Subscribe(Filter.parse(f"x = {number}"), wait=True)
        return [each for each in kept.give(Request("eva", number, wanted)) if isinstance(each, Reply)]

    assert [ask(number) for number in (1, 2)] == [[], []]  # nobody has answered
    (refusal,) = ask(3)
    assert isinstance(refusal.problem, LimitError)
    assert len(kept.node.router.profile("eva").filters) == 2
    spread = Spread(7, "a", ("a", 0, 7))
    kept.give(FromPeer("a", Data((1, "a", 0), 0, (spread,), 0)))
    assert list(kept.node.links.peers) == ["b"]  # one that brings more ends


def test_servers_of_a_network_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.routing.membership.MOST_SERVERS", 3)
    monkeypatch.setattr("palio.routing.topology.MOST_SERVERS", 3)
    monkeypatch.setattr("palio.node.neighbours.MOST_SERVERS", 3)
    membership = Membership("milan")
    membership.connect("rome", (1, "rome", 0), {"rome": HERE})
    membership.receive("rome", Members((("a", HERE), ("b", HERE)), ()))
    with pytest.raises(TooManyServersError):
        membership.receive("rome", Members((("c", HERE),), ()))
    topology = Topology("milan")
    topology.connect("rome", 1, (1, "rome", 0))
    for name in ("rome", "bari"):
        topology.receive("rome", Account(name, 0, 1, ()))
    topology.receive("rome", Account("bari", 0, 2, ()))
    with pytest.raises(BadAccountError):
        topology.receive("rome", Account("pisa", 0, 1, ()))
    links = tuple((f"s{number}", 1, (1, "x", 0)) for number in range(4))
    with pytest.raises(PeerError):
        topology.receive("rome", Account("bari", 0, 3, links))
    kept = Kept(5)
    brought = tuple((f"server-{number}", HERE) for number in range(4))
    outputs = kept.give(FromPeer("a", Open((1, "a", 0), "peer", "as", brought)))
    (frame,) = [each.frame for each in outputs if isinstance(each, Send)]
    assert isinstance(frame, Refuse)
    assert "4 servers" in frame.reason
