"""Equal filters, advertisements and patterns are one thing, in whatever words: in tables, in messages and on disk."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Advertisement, Filter, Notification, Pattern
from palio.codec import msgpack
from palio.errors import LimitError
from palio.link import wire
from palio.link.frames import Close, Data, Known, Open, Probe, Why
from palio.model.limits import Limits
from palio.node import ports, records
from palio.node.loading import UNCONFIRMED, load
from palio.node.node import Node, NodeSettings
from palio.node.ports import FromPeer, LinkDown, LinkUp, Outlook, Reply, Request, Send
from palio.routing.messages import Advertise, Message, Stamp, Subscribe, Unadvertise, Unsubscribe
from tests.node.durable import Durable, of_kind

FIRST, SECOND = "x > 5 and y any", "y any and x > 5"
STAMP: Stamp = (1, "rome", 7)


def linked(architecture: str = "as", **options: Any) -> Durable:
    """A durable server with a link that rome has opened."""
    milan = Durable(architecture=architecture, **options)
    assert of_kind(opened(milan, "peer", architecture), LinkUp)
    return milan


def opened(milan: Durable, role: str, architecture: str) -> list[ports.Output]:
    """Rome opens a link, and confirms it."""
    milan.handle([FromPeer("rome", Open(STAMP, role, architecture, (("rome", (0, "", 0)),)))], 0)
    return milan.handle([FromPeer("rome", Data(STAMP, 0, (), 0))], 0)


class Rome:
    """The other end of the link, as a sequence of messages in their form on the wire."""

    def __init__(self, milan: Durable) -> None:
        self.milan, self.number = milan, 0

    def says(self, *messages: Message, now: int = 1) -> list[ports.Output]:
        data = in_words(Data(STAMP, self.number, messages, 0))
        self.number += len(messages)
        return self.milan.handle([FromPeer("rome", wire.decode(data))], now)


def in_words(frame: Data) -> bytes:
    """As a server writes it that knows no canonical form."""
    data = wire.encode(frame)
    for message in frame.messages:
        word = document_of(message)
        data = data.replace(msgpack.encode(word.canonical()), msgpack.encode(word))
    return data


def document_of(message: Message) -> Filter | Advertisement:
    match message:
        case Subscribe(filter) | Unsubscribe(filter):
            return filter
        case Advertise(advertisement) | Unadvertise(advertisement):
            return advertisement
    raise AssertionError(message)


def held(milan: Durable) -> list[tuple[Any, ...]]:
    return [key for key in (records.decode(*row)[0] for row in milan.records.items()) if key[0] == "held"]


def test_a_frame_brings_documents_to_their_canonical_form() -> None:
    words = Subscribe(Filter.parse(SECOND)), Advertise(Advertisement.parse("y any; x > 5; x > 7"))
    frame = Data(STAMP, 0, words, 0)
    assert in_words(frame) != wire.encode(frame)
    found = wire.decode(in_words(frame))
    assert isinstance(found, Data)
    assert wire.encode(found) == wire.encode(frame)
    assert [str(each) for each in found.messages] == [
        "Subscribe(filter=Filter.parse('x > 5 and y any'))",
        "Advertise(advertisement=Advertisement.parse('x > 5 and y any'))",
    ]


@pytest.mark.parametrize("is_adv", [False, True])
def test_what_was_said_in_one_wording_is_taken_back_in_another(is_adv: bool) -> None:
    milan = linked("aa")
    rome = Rome(milan)
    if is_adv:
        rome.says(Advertise(Advertisement.parse(FIRST)))
        rome.says(Unadvertise(Advertisement.parse(SECOND)))
    else:
        rome.says(Subscribe(Filter.parse(FIRST)))
        rome.says(Unsubscribe(Filter.parse(SECOND)))
    assert not held(milan)
    milan.die(2)
    assert not milan.node.router.standing("rome")
    assert not milan.node.quarantined


def test_parties_of_one_filter_in_two_wordings_tell_it_once_and_take_it_back_once() -> None:
    milan = linked()
    told: list[str] = []
    for operation in (
        Request("p1", 1, ports.Subscribe(Filter.parse(FIRST))),
        Request("p2", 1, ports.Subscribe(Filter.parse(SECOND))),
        Request("p1", 2, ports.Unsubscribe(Filter.parse(FIRST))),
    ):
        told += _sent(milan.handle([operation], 1))
    milan.die(2)
    said = milan.handle([Request("p2", 2, ports.Unsubscribe(Filter.parse(SECOND)))], 3)
    (asked,) = [send.frame for send in of_kind(said, Send) if isinstance(send.frame, Probe)]
    told += _sent(milan.handle([FromPeer("rome", Known(STAMP, asked.number, 0, 0, 1))], 4))
    assert list(dict.fromkeys(told)) == [f"Subscribe {FIRST}", f"Unsubscribe {FIRST}"]  # one may be repeated


def _sent(outputs: list[ports.Output]) -> list[str]:
    return [
        f"{type(message).__name__} {message.filter}"
        for send in of_kind(outputs, Send)
        if isinstance(send.frame, Data)
        for message in send.frame.messages
        if isinstance(message, Subscribe | Unsubscribe)
    ]


def test_a_party_is_told_of_its_own_words() -> None:
    milan = Durable(architecture="ce")
    filter, pattern = Filter.parse("y any and x = 5.0"), Pattern.parse("y any and x = 1 then x = 2.0")
    offer = Advertisement.parse("y any and x any")
    operations: list[ports.Operation] = [ports.Subscribe(filter), ports.Subscribe(pattern), ports.Advertise(offer)]
    operations.append(ports.Watch(offer))
    said = [each for one in operations for each in milan.handle([Request("eva", 1, one)], 1)]
    assert [str(each.subject) for each in of_kind(said, Outlook)] == [str(offer)]
    for _ in range(2):
        node = milan.node
        assert list(map(str, node.router.profile("eva").filters)) == [str(filter)]
        assert list(map(str, node.router.profile("eva").advertisements)) == [str(offer)]
        assert list(map(str, node.monitors.patterns("eva"))) == [str(pattern)]
        assert list(map(str, node.outlooks.of("eva"))) == [str(offer)]
        assert {str(each) for each in node.router.subscriptions} == {"x = 5 and y any", "x = 1 and y any", "x = 2"}
        milan.die(2)
    milan.handle([ports.Attach("eva")], 3)
    for number, values in enumerate(({"x": 1, "y": 1}, {"x": 2}), 5):
        said = milan.handle([Request("eva", number, ports.Publish(Notification(**values)))], 3)
    (found,) = of_kind(said, ports.DeliverSequence)
    assert str(found.pattern) == str(pattern)


def test_a_request_whose_canonical_form_is_too_long_is_refused() -> None:
    node = Node(NodeSettings("milan", "ce", limits=Limits(literal_bytes=2)))
    wanted = Filter.parse('x > "b\\u007f" and x !>* "b\\u007f"')  # it is x >= "b\u0080", of three bytes
    (reply,) = of_kind(node.handle([Request("eva", 1, ports.Subscribe(wanted))], 0), Reply)
    assert isinstance(reply.problem, LimitError)


# -- sources -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["as", "aa", "hs"])
@pytest.mark.parametrize("message", [Subscribe(Filter(), "x"), Advertise(Advertisement(), "x")])
def test_a_source_does_not_belong_into_a_tree(architecture: str, message: Message) -> None:
    role = {"hs": "master"}.get(architecture, "peer")
    milan = Durable(architecture=architecture)
    opened(milan, role, architecture)
    (down,) = of_kind(Rome(milan).says(message), LinkDown)
    assert "no source" in down.reason
    assert not held(milan)
    milan.die(2)
    assert not milan.node.quarantined


def test_a_network_of_any_shape_needs_a_source() -> None:
    milan = linked("gs")
    (down,) = of_kind(Rome(milan).says(Subscribe(Filter())), LinkDown)
    assert "has a source" in down.reason


def test_what_a_neighbour_held_is_deleted_as_it_was_written() -> None:
    milan = linked()
    rome = Rome(milan)
    rome.says(Subscribe(Filter.parse(SECOND)), Advertise(Advertisement.parse("y any; x any; x > 3")))
    assert len(held(milan)) == 2
    assert of_kind(milan.handle([FromPeer("rome", Close(STAMP, Why.ENDED))], 2), LinkDown)
    assert not held(milan)


# -- stores that know no canonical form --------------------------------------------------------------------------------


def old(milan: Durable, *messages: Message) -> None:
    """The records of a server that has written keys by their words; only wordings are old, not values."""
    milan.records = {key: each for key, each in milan.records.items() if records.decode_value(key)[0] != "form"}
    for message in messages:
        word, canonical = document_of(message), records.encode_value(("held", "rome", message))
        key = canonical.replace(msgpack.encode(word.canonical()), msgpack.encode(word))
        assert key != canonical
        milan.records[key] = records.encode_value(True)


def come_back(milan: Durable) -> Node:
    """As a server starts on its store."""
    loaded = load(milan.records.items())
    for key, value in loaded.changes:
        milan.records.pop(key, None)
        if value is not None:
            milan.records[key] = value
    assert not loaded.quarantined
    milan.die(2)
    return milan.node


def test_doubles_of_an_old_store_become_one() -> None:
    milan = linked("aa")
    rome = Rome(milan)
    rome.says(Subscribe(Filter.parse(FIRST)), Advertise(Advertisement.parse(FIRST)))
    old(milan, Subscribe(Filter.parse(SECOND)), Advertise(Advertisement.parse(SECOND)))
    assert len(milan.records) > len(load(milan.records.items()).records)
    node = come_back(milan)
    assert not node.quarantined
    assert len(held(milan)) == 2
    assert {str(each) for each in node.router.subscriptions} == {FIRST}
    assert not load(milan.records.items()).changes


def test_a_ghost_of_an_old_store_can_be_said_once_more() -> None:
    milan = linked()
    old(milan, Subscribe(Filter.parse(SECOND)))  # rome does not hold it any more
    node = come_back(milan)
    assert {value for key, value in load(milan.records.items()).records if key[0] == "held"} == {UNCONFIRMED}
    rome = Rome(milan)
    assert not of_kind(rome.says(Subscribe(Filter.parse(FIRST))), LinkDown)
    assert node.router.standing("rome") == [Subscribe(Filter.parse(FIRST))]
    assert of_kind(rome.says(Subscribe(Filter.parse(SECOND))), LinkDown)  # now it is certain


def test_what_a_ghost_says_can_be_taken_back() -> None:
    milan = linked()
    old(milan, Subscribe(Filter.parse(SECOND)))
    come_back(milan)
    assert not of_kind(Rome(milan).says(Unsubscribe(Filter.parse(FIRST))), LinkDown)
    assert not held(milan)


def test_a_record_of_a_link_that_is_gone_is_put_aside_and_the_others_stay() -> None:
    milan = linked()
    milan.handle([Request("eva", 1, ports.Subscribe(Filter.parse(FIRST)))], 1)
    milan.handle([FromPeer("rome", Close(STAMP, Why.ENDED))], 1)
    old(milan, Subscribe(Filter.parse(SECOND)))
    node = come_back(milan)
    ((key, reason, _),) = node.quarantined
    assert "held" in key
    assert reason == "'rome' is no neighbour"
    assert node.router.profile("eva").filters == (Filter.parse(FIRST),)
    milan.handle([], 3)
    milan.die(4)
    assert not milan.node.quarantined
