"""A node that merges, waits and answers questions about the outlook, as whoever drives it sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palio import Advertisement, Filter, Notification
from palio.errors import LimitError
from palio.link.frames import Data
from palio.link.session import LinkSettings
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.ports import FromPeer, Outlook, Output, Persist, Persisted, Reply, Request, Send
from palio.routing.messages import Message, Spread, Subscribe
from palio.routing.outlooks import NotKnownHereError
from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging

ONE, TWO = Filter.parse("x >= 0 and x <= 2"), Filter.parse("x >= 1 and x <= 3")
BOTH = Filter.parse("x >= 0 and x <= 3")
OFFER = Advertisement.parse("x any")
PATIENT = LinkSettings(retransmit=10_000_000, acknowledge=1_000_000)


def pair(telling: TellingSettings, architecture: str = "as") -> tuple[Node, Node]:
    milan, rome = (Node(NodeSettings(name, architecture, link=PATIENT, telling=telling)) for name in ("milan", "rome"))
    carry(milan, rome, milan.handle([ports.Connect("rome")], 0), 0)
    return milan, rome


def carry(one: Node, other: Node, begin: Sequence[Output], now: int) -> list[Output]:
    """Hand frames to and fro until there are none; what else the two have said."""
    nodes = {node.settings.server: node for node in (one, other)}
    waiting, told = [(one.settings.server, output) for output in begin], []
    while waiting:
        source, output = waiting.pop(0)
        if isinstance(output, Send):
            answers = nodes[output.peer].handle([FromPeer(source, output.frame)], now)
            waiting += [(output.peer, each) for each in answers]
        else:
            told.append(output)
    return told


def said(outputs: Sequence[Output]) -> list[Message]:
    frames = [output.frame for output in outputs if isinstance(output, Send)]
    return [message for frame in frames if isinstance(frame, Data) for message in frame.messages]


def ask(party: str, operation: ports.Operation) -> Request:
    return Request(party, 1, operation)


def test_what_comes_together_is_told_as_one() -> None:
    milan, _ = pair(TellingSettings(Merging()))
    outputs = milan.handle([ask("me", ports.Subscribe(ONE)), ask("you", ports.Subscribe(TWO))], 0)
    assert said(outputs) == [Subscribe(BOTH)]


def test_a_change_waits_until_the_deadline() -> None:
    milan, rome = pair(TellingSettings(Merging(), delay=500))
    assert said(milan.handle([ask("me", ports.Subscribe(ONE))], 1_000)) == []
    assert milan.deadline == 1_500
    assert said(milan.handle([ask("you", ports.Subscribe(TWO))], 1_400)) == []
    assert milan.deadline == 1_500
    outputs = milan.handle([], 1_500)
    assert said(outputs) == [Subscribe(BOTH)]
    carry(milan, rome, outputs, 1_500)
    assert rome.router.standing("milan") == [Subscribe(BOTH)]


def test_a_server_may_compress_what_a_neighbour_tells() -> None:
    milan = Node(NodeSettings("milan", "as", link=PATIENT))
    rome = Node(NodeSettings("rome", "as", link=PATIENT, compression=Merging()))
    carry(milan, rome, milan.handle([ports.Connect("rome")], 0), 0)
    for party, wanted in (("me", ONE), ("you", TWO)):
        carry(milan, rome, milan.handle([ask(party, ports.Subscribe(wanted))], 0), 0)
    assert rome.router.standing("milan") == [Subscribe(BOTH)]
    assert rome.neighbours.compression.said("milan", [Subscribe(BOTH)]) == [Subscribe(ONE), Subscribe(TWO)]
    carry(milan, rome, milan.handle([ask("me", ports.Unsubscribe(ONE))], 0), 0)
    assert rome.router.standing("milan") == [Subscribe(TWO)]
    carry(milan, rome, milan.handle([ports.Disconnect("rome")], 0), 0)
    assert not rome.router.subscriptions
    assert not list(rome.neighbours.compression.groups("milan"))


def test_a_wave_waits_for_nothing() -> None:
    milan, rome = pair(TellingSettings(delay=500))
    outputs = milan.handle([ask("me", ports.Subscribe(ONE, wait=True))], 0)
    assert said(outputs) == [Subscribe(ONE), Spread(0, "milan", ("milan", 0, 0))]
    assert Reply("me", 1) in carry(milan, rome, outputs, 0)


def test_notifications_do_not_wait() -> None:
    milan, rome = pair(TellingSettings(delay=500))
    carry(milan, rome, milan.handle([ask("me", ports.Subscribe(ONE, wait=True))], 0), 0)
    rome.handle([ask("you", ports.Subscribe(TWO))], 0)
    outputs = rome.handle([ask("you", ports.Publish(Notification(x=1)))], 0)
    assert [type(each).__name__ for each in said(outputs)] == ["Publish"]


def test_the_outlook_is_told_at_once_and_when_it_changes() -> None:
    milan, rome = pair(TellingSettings())
    assert milan.handle([ask("ticker", ports.Watch(OFFER))], 0) == [
        Reply("ticker", 1),
        Outlook("ticker", OFFER, False),
    ]
    told = carry(rome, milan, rome.handle([ask("me", ports.Subscribe(ONE))], 0), 0)
    assert Outlook("ticker", OFFER, True) in told
    assert not any(isinstance(each, Outlook) for each in milan.handle([ask("you", ports.Subscribe(TWO))], 0))
    milan.handle([ask("you", ports.Unsubscribe(TWO))], 0)
    told = carry(rome, milan, rome.handle([ask("me", ports.Unsubscribe(ONE))], 0), 0)
    assert Outlook("ticker", OFFER, False) in told
    assert milan.handle([ask("ticker", ports.Unwatch(OFFER))], 0) == [Reply("ticker", 1)]
    assert not any(isinstance(each, Outlook) for each in milan.handle([ask("you", ports.Subscribe(TWO))], 0))


def test_a_subscriber_is_told_whether_anything_is_offered() -> None:
    milan, rome = pair(TellingSettings(), "aa")
    assert Outlook("me", ONE, False) in milan.handle([ask("me", ports.Watch(ONE))], 0)
    told = carry(rome, milan, rome.handle([ask("ticker", ports.Advertise(OFFER))], 0), 0)
    assert Outlook("me", ONE, True) in told


def test_questions_without_an_answer_and_too_many_are_refused() -> None:
    node = Node(NodeSettings("milan", "nf"))
    (reply,) = node.handle([ask("me", ports.Watch(OFFER))], 0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.problem, NotKnownHereError)
    node = Node(NodeSettings("milan", "ce", filters_per_party=1))
    node.handle([ask("me", ports.Watch(OFFER))], 0)
    (reply,) = node.handle([ask("me", ports.Watch(Advertisement.parse("y any")))], 0)
    assert isinstance(reply, Reply)
    assert isinstance(reply.problem, LimitError)


def test_questions_are_kept_and_answered_again_when_a_party_is_back() -> None:
    settings = NodeSettings("milan", "ce", durable=True)
    node = Node(settings)
    (persist,) = node.handle([ask("ticker", ports.Watch(OFFER))], 0)
    assert isinstance(persist, Persist)
    assert Outlook("ticker", OFFER, False) in node.handle([Persisted(persist.token)], 0)
    back = Node(settings, persist.records)
    assert back.handle([ports.Attach("ticker")], 0) == [Outlook("ticker", OFFER, False)]
    assert back.handle([ports.Attach("ticker")], 0) == [Outlook("ticker", OFFER, False)]
    (persist,) = back.handle([ask("ticker", ports.Unwatch(OFFER))], 0)
    assert isinstance(persist, Persist)
    assert dict(persist.records)["asks", "ticker", OFFER] is None


def test_each_question_of_a_party_is_a_record_of_its_own() -> None:
    """A server wrote all questions of a party again with each new one."""
    settings = NodeSettings("milan", "ce", durable=True)
    node = Node(settings)
    offers = [Advertisement.parse(f"x = {number}") for number in range(3)]
    kept: dict[Any, Any] = {}
    for each in offers:
        (persist,) = node.handle([ask("ticker", ports.Watch(each))], 0)
        assert isinstance(persist, Persist)
        written = dict(persist.records)
        assert [key for key in written if key[0] == "asks"] == [("asks", "ticker", each)]
        kept.update(written)
        node.handle([Persisted(persist.token)], 0)
    back = Node(settings, kept.items())
    assert back.outlooks.of("ticker") == tuple(offers)


def test_questions_that_an_earlier_release_wrote_into_one_record() -> None:
    settings = NodeSettings("milan", "ce", durable=True)
    reworded = Advertisement.parse("x > 3; x > 5")
    kept = [(("life",), 0), (("architecture",), "ce"), (("watch", "ticker"), (OFFER, reworded))]
    node = Node(settings, kept)
    assert node.outlooks.of("ticker") == (OFFER, reworded)
    assert [str(each) for each in node.outlooks.of("ticker")] == [str(OFFER), str(reworded)]
    (persist,) = node.handle([], 0)
    assert isinstance(persist, Persist)
    written = dict(persist.records)
    assert written["watch", "ticker"] is None
    assert written["asks", "ticker", reworded.canonical()] == reworded
    assert Node(settings, [*kept[:2], *written.items()]).outlooks.of("ticker") == (OFFER, reworded)
