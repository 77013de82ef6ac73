"""Publications in blocks: the same as one by one."""

from __future__ import annotations

import pytest

from palio import Advertisement, Filter, Notification, Pattern
from palio.codec import frames
from palio.link.frames import Accept, Data, Open
from palio.model import Mode
from palio.node import ports
from palio.node.node import Node, NodeSettings
from palio.node.ports import (
    AcceptedUpTo,
    DeliverBlock,
    DeliverSequence,
    FromPeer,
    Output,
    PublishBlock,
    Reply,
    Rest,
    Send,
)
from palio.routing import board, messages
from palio.sim.engine.blocks import Blocks


def node(**settings: object) -> Node:
    return Node(NodeSettings("milan", "as")._replace(**settings))  # type: ignore[arg-type]


def block(*notifications: Notification, first: int = 1) -> PublishBlock:
    return PublishBlock(
        "adam", b"".join(frames.publish(each, number) for number, each in enumerate(notifications, first))
    )


def ask(made: Node, party: str, operation: ports.Operation) -> None:
    made.handle([ports.Request(party, 0, operation)], 1)


def delivered(outputs: list[Output]) -> dict[str, list[Notification]]:
    return {
        each.party: [frames.delivered(content) for _, content in frames.frames_of(each.frames)]
        for each in outputs
        if isinstance(each, DeliverBlock)
    }


def test_parties_get_what_they_want_and_the_publisher_its_answer() -> None:
    made = node()
    ask(made, "eva", ports.Subscribe(Filter.parse("x > 1")))
    ask(made, "ida", ports.Subscribe(Filter.parse("x any")))
    outputs = made.handle([block(*(Notification(x=x) for x in range(4)))], 50)
    got = delivered(outputs)
    assert [each["x"] for each in got["eva"]] == [2, 3]
    assert [each["x"] for each in got["ida"]] == [0, 1, 2, 3]
    assert outputs[-1] == AcceptedUpTo("adam", 4)
    assert [each.envelope for each in got["ida"][2:]] == [each.envelope for each in got["eva"]]
    later = delivered(made.handle([block(Notification(x=7))], 50))["eva"][0].envelope
    last = got["eva"][-1].envelope
    assert later is not None
    assert last is not None
    assert (later.id.sequence, later.published > last.published) == (4, True)


def test_no_answer_where_none_is_wanted() -> None:
    made = node()
    assert made.handle([PublishBlock("adam", frames.publish(Notification(x=1)))], 5) == []
    assert made.publishing.count == 1


def connected(made: Node) -> Node:
    """With a neighbour that wants x > 2."""
    (sent,) = made.handle([ports.Connect("rome")], 1)
    assert isinstance(sent, Send)
    assert isinstance(sent.frame, Open)
    session = sent.frame.session
    made.handle([FromPeer("rome", Accept(session, (("rome", (0, "", 0)),)))], 2)
    made.handle([FromPeer("rome", Data(session, 0, (messages.Subscribe(Filter.parse("x > 2")),), 0))], 3)
    return made


def sent_to_rome(outputs: list[Output]) -> list[Notification]:
    return [
        message.notification
        for each in outputs
        if isinstance(each, Send) and isinstance(each.frame, Data)
        for message in each.frame.messages
        if isinstance(message, messages.Publish)
    ]


def test_neighbours_get_what_they_want_and_parties_are_not_told_twice() -> None:
    made = connected(node())
    ask(made, "eva", ports.Subscribe(Filter.parse("x any")))
    outputs = made.handle([block(*(Notification(x=x) for x in range(5)))], 50)
    got, sent = delivered(outputs)["eva"], sent_to_rome(outputs)
    assert [each["x"] for each in got] == [0, 1, 2, 3, 4]
    assert [each["x"] for each in sent] == [3, 4]
    assert [each.envelope for each in sent] == [each.envelope for each in got[3:]]
    assert not [each for each in outputs if isinstance(each, ports.Deliver)]


def test_patterns_are_met() -> None:
    made = node()
    ask(made, "eva", ports.Subscribe(Pattern.parse("x = 1 then x = 3")))
    outputs = made.handle([block(*(Notification(x=x) for x in range(4)))], 50)
    (found,) = [each for each in outputs if isinstance(each, DeliverSequence)]
    assert [each["x"] for each in found.notifications] == [1, 3]


@pytest.mark.parametrize("settings", [{"guard": True}, {"durable": True}, {}])
def test_what_is_refused_is_told_by_its_number_and_the_others_go(settings: dict[str, object]) -> None:
    made = node(**settings)
    ask(made, "eva", ports.Subscribe(Filter.parse("x any")))
    ask(made, "adam", ports.Advertise(Advertisement.parse("x any")))
    bad = frames.frame(frames.PUBLISH, b"\0\0\0\x02\xc0")
    frames_given = frames.publish(Notification(x=1), 1) + bad + frames.publish(Notification(x=2), 3)
    outputs = made.handle([PublishBlock("adam", frames_given)], 5)
    while any(isinstance(each, ports.Persist) for each in outputs):  # as if it were on disk
        outputs = [
            new
            for each in outputs
            for new in (made.handle([ports.Persisted(each.token)], 5) if isinstance(each, ports.Persist) else [each])
        ]
    (reply,) = [each for each in outputs if isinstance(each, Reply) and each.problem]
    assert (reply.party, reply.number) == ("adam", 2)
    mode = Mode.SYNCED if settings.get("durable") else Mode.MEMORY
    assert AcceptedUpTo("adam", 3, mode) in outputs
    assert made.publishing.count == 2


def test_the_guard_looks_at_every_publication() -> None:
    made = node(guard=True)
    ask(made, "adam", ports.Advertise(Advertisement.parse("x > 1")))
    outputs = made.handle([block(Notification(x=1), Notification(x=2))], 5)
    assert [each.number for each in outputs if isinstance(each, Reply)] == [1]
    assert made.publishing.count == 1


def test_the_rest_of_a_large_block_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "MOST_BYTES", 1)
    made = node()
    ask(made, "eva", ports.Subscribe(Filter.parse("x any")))
    outputs = made.handle([block(Notification(x=1), Notification(x=2))], 5)
    assert len(delivered(outputs)["eva"]) == 1
    assert outputs[0] == Rest(block(Notification(x=2), first=2))
    assert outputs[-1] == AcceptedUpTo("adam", 1)
    all_at_once = Blocks()
    requests = [ports.Request("adam", number, ports.Publish(Notification(x=number))) for number in range(3)]
    found = [each for each in all_at_once.handle(made, requests, 6) if isinstance(each, ports.DeliverBlock | Reply)]
    assert [type(each) for each in found] == [ports.DeliverBlock, Reply] * 3


def test_what_is_refused_goes_in_portions() -> None:
    """Answers are more work than deliveries, and others should not have to wait for all of them."""
    bad = b"".join(frames.frame(frames.PUBLISH, n.to_bytes(4, "big") + b"\xc1") for n in range(1, 1_001))
    made, given, numbers, turns = node(), [PublishBlock("adam", bad)], list[int](), 0
    while given:
        outputs = made.handle(given, 1)
        numbers += [each.number for each in outputs if isinstance(each, Reply)]
        given = [each.given for each in outputs if isinstance(each, Rest)]
        turns += 1
    assert numbers == list(range(1, 1_001))
    assert turns == 4
