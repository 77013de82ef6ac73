"""A node as whoever drives it sees it: requests and answers, refusals, waves, and nothing before it is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from palio import Advertisement, Envelope, Filter, Notification, NotificationId, Pattern
from palio.errors import CallerError, LimitError, PalioError
from palio.link.frames import Accept, Data, Open, Refuse
from palio.model.limits import Limits
from palio.node import ports
from palio.node.admission import NotAdvertisedError, NotAllowedError, UnsatisfiableFilterError
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.ports import (
    Deliver,
    DeliverBlock,
    Fault,
    FromPeer,
    Input,
    LinkDown,
    LinkRefused,
    LinkUp,
    Output,
    Persist,
    Reply,
    Request,
    Send,
)
from palio.routing.border import Gateway
from palio.routing.messages import Account, Members, Message, Publish, Spread, Subscribe, Unsubscribe
from palio.routing.router import Role
from palio.sim.engine.blocks import one_by_one
from tests.node.durable import Durable, of_kind

BROAD, NARROW = Filter.parse("x > 3"), Filter.parse("x > 5")


def node(architecture: str = "as", **settings: object) -> Node:
    return Node(NodeSettings("milan", architecture)._replace(**settings))


def ask(made: Node, party: str, operation: ports.Operation, by: str | None = None) -> list[Output]:
    return made.handle([Request(party, 1, operation, by)], 0)


def problem(outputs: Sequence[Output]) -> PalioError | None:
    replies = [output for output in outputs if isinstance(output, Reply)]
    assert len(replies) == 1
    return replies[0].problem


def carry(one: Node, other: Node, begin: Sequence[Output], now: int = 0) -> dict[str, list[Output]]:
    """Hand frames to and fro until there are none; what else the two have said."""
    nodes = {one.settings.server: one, other.settings.server: other}
    told: dict[str, list[Output]] = {name: [] for name in nodes}
    waiting: list[tuple[str, Output]] = [(one.settings.server, output) for output in begin]
    while waiting:
        source, output = waiting.pop(0)
        if isinstance(output, Send) and output.peer in nodes:
            inputs: list[Input] = [FromPeer(source, output.frame)]
            waiting += [(output.peer, each) for each in nodes[output.peer].handle(inputs, now)]
        else:
            told[source].append(output)
    return told


def joined(architecture: str = "as") -> tuple[Node, Node]:
    milan, rome = node(architecture), node(architecture, server="rome")
    told = carry(milan, rome, milan.handle([ports.Connect("rome")], 0))
    assert told == {"milan": [LinkUp("rome")], "rome": [LinkUp("milan")]}
    return milan, rome


def test_a_subscription_and_a_publication() -> None:
    made = node("ce")
    assert problem(ask(made, "me", ports.Subscribe(BROAD))) is None
    delivery, reply = ask(made, "you", ports.Publish(Notification(x=4)))
    assert reply == Reply("you", 1)
    assert isinstance(delivery, Deliver)
    assert delivery.parties == ("me",)
    envelope = delivery.notification.envelope
    assert envelope is not None
    assert (str(envelope.id), envelope.publisher) == ("milan/0/0", "you")


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    made = node("ce", guard=True, filters_per_party=1, limits=Limits(constraints=2, attributes=2))
    nothing = Filter.parse("x > 3 and x < 2")
    assert isinstance(problem(ask(made, "me", ports.Subscribe(nothing))), UnsatisfiableFilterError)
    large = Filter.parse("x > 3 and y any and z any")
    assert isinstance(problem(ask(made, "me", ports.Subscribe(large))), LimitError)
    assert problem(ask(made, "me", ports.Subscribe(Filter.parse("x > 3 and y any")))) is None
    assert isinstance(problem(ask(made, "me", ports.Subscribe(NARROW))), LimitError)
    assert isinstance(problem(ask(made, "me", ports.Publish(Notification(x=1)))), NotAdvertisedError)
    assert problem(ask(made, "me", ports.Advertise(Advertisement.parse("x any; y any; ")))) is None
    assert isinstance(problem(ask(made, "me", ports.Advertise(Advertisement.parse("z any")))), LimitError)
    assert problem(ask(made, "me", ports.Publish(Notification(x=1, y=2)))) is None
    assert isinstance(problem(ask(made, "me", ports.Publish(Notification(x=1, y=2, z=3)))), NotAdvertisedError)
    assert made.publishing.count == 1
    assert list(made.router.subscriptions) == [Filter.parse("x > 3 and y any")]


def test_too_many_attributes() -> None:
    made = node("ce", limits=Limits(attributes=2))
    assert problem(ask(made, "me", ports.Publish(Notification(x=1, y=2)))) is None
    assert isinstance(problem(ask(made, "me", ports.Publish(Notification(x=1, y=2, z=3)))), LimitError)


def test_acting_for_another_needs_the_right() -> None:
    made = node("ce", may_act_for={"mailer": frozenset({"mailto:me"})})
    assert problem(ask(made, "mailto:me", ports.Subscribe(BROAD), by="mailer")) is None
    assert problem(ask(made, "mailto:me", ports.Subscribe(BROAD), by="mailto:me")) is None
    assert isinstance(problem(ask(made, "mailto:you", ports.Subscribe(BROAD), by="mailer")), NotAllowedError)
    assert isinstance(problem(ask(made, "mailto:me", ports.Unsubscribe(BROAD), by="stranger")), NotAllowedError)
    assert made.router.profile("mailto:me").filters == (BROAD,)


def test_an_architecture_that_is_none() -> None:
    with pytest.raises(CallerError, match="'xx' is none of ce, hs, as, aa, nf"):
        node("xx")


def test_nothing_overtakes_in_one_batch() -> None:
    milan, rome = joined()
    carry(rome, milan, ask(rome, "there", ports.Subscribe(NARROW)))
    inputs: list[Input] = [
        Request("me", 1, ports.Subscribe(BROAD)),
        Request("me", 2, ports.Publish(Notification(x=7))),
        Request("me", 3, ports.Unsubscribe(BROAD)),
    ]
    sent = [output.frame for output in milan.handle(inputs, 1) if isinstance(output, Send)]
    messages = [type(message) for frame in sent if isinstance(frame, Data) for message in frame.messages]
    assert messages == [Subscribe, Publish, Unsubscribe]


def test_a_subscription_that_waits_is_answered_when_it_has_spread() -> None:
    milan, rome = joined()
    outputs = ask(milan, "me", ports.Subscribe(BROAD, wait=True))
    assert not [output for output in outputs if isinstance(output, Reply)]
    told = carry(milan, rome, outputs)
    assert told["milan"] == [Reply("me", 1)]
    assert rome.router.route(Publish(Notification(x=4))).peers == ("milan",)


def test_a_wave_does_not_wait_for_a_neighbour_that_is_gone() -> None:
    milan, _ = joined()
    ask(milan, "me", ports.Subscribe(BROAD, wait=True))
    assert Reply("me", 1) in milan.handle([ports.Disconnect("rome")], 1)


def test_links_that_cannot_be() -> None:
    milan, rome = joined()
    assert milan.handle([ports.Connect("rome")], 1) == [LinkRefused("rome", "there is a link to 'rome' already")]
    assert isinstance(milan.handle([ports.Disconnect("bari", bars=False)], 1)[0], LinkRefused)
    assert isinstance(milan.handle([ports.Connect("bari", Role.MASTER)], 1)[0], LinkRefused)
    other = node("hs", server="bari")
    told = carry(other, rome, other.handle([ports.Connect("rome", Role.MASTER)], 1))
    assert told["bari"] == [LinkRefused("rome", "rome is as, and bari is hs")]


def test_one_master_at_a_time() -> None:
    made = node("hs")
    assert not [each for each in made.handle([ports.Connect("rome", Role.MASTER)], 0) if isinstance(each, LinkRefused)]
    reason = "this server has a master already, or asks for one: rome; disconnect it first"
    assert made.handle([ports.Connect("bari", Role.MASTER)], 1) == [LinkRefused("bari", reason)]
    made.handle([ports.Disconnect("rome")], 2)
    assert not [each for each in made.handle([ports.Connect("bari", Role.MASTER)], 3) if isinstance(each, LinkRefused)]


def test_a_publication_that_comes_back_is_not_taken_again() -> None:
    milan, _ = joined()
    ask(milan, "me", ports.Subscribe(BROAD))
    outputs = ask(milan, "me", ports.Publish(Notification(x=4)))
    notification = next(each.notification for each in outputs if isinstance(each, Deliver))
    session = milan.links._sessions["rome"]
    frame = Data(session.stamp, session.expected, (Publish(notification),), session.base)
    assert not [each for each in milan.handle([FromPeer("rome", frame)], 1) if isinstance(each, Deliver)]


def test_a_neighbour_that_breaks_the_rules_loses_its_link_and_no_other_does() -> None:
    milan, rome = joined()
    bari = node(server="bari")
    carry(bari, milan, bari.handle([ports.Connect("milan")], 0))
    session = milan.links._sessions["rome"]
    frame = Data(session.stamp, session.expected, (Unsubscribe(BROAD),), session.base)
    outputs = milan.handle([FromPeer("rome", frame)], 1)
    assert LinkRefused("rome", "'rome' cannot say Unsubscribe(filter=Filter.parse('x > 3')) now") in outputs
    assert list(milan.router.peers) == ["bari"]
    carry(milan, rome, outputs, 1)
    assert list(rome.router.peers) == []


def test_frames_of_strangers_change_nothing() -> None:
    milan, _ = joined()
    before = list(milan.router.peers)
    frame = Data((9, "oslo", 0), 0, (Subscribe(BROAD),), 0)
    milan.handle([FromPeer("oslo", frame)], 1)
    assert list(milan.router.peers) == before
    assert len(milan.router.subscriptions) == 0


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_nothing_goes_out_before_what_it_depends_on_is_on_disk() -> None:
    made = node("ce", durable=True)
    first = ask(made, "me", ports.Subscribe(BROAD))
    second = ask(made, "me", ports.Publish(Notification(x=4)))
    assert [type(output) for output in first + second] == [Persist, Persist]
    assert made.handle([ports.Persisted(1)], 1) == [Reply("me", 1)]
    reply_and_delivery = made.handle([ports.Persisted(2)], 2)
    assert {type(output) for output in reply_and_delivery} == {Reply, Deliver}


def test_what_depends_on_nothing_new_keeps_its_place() -> None:
    made = node("ce", durable=True)
    ask(made, "me", ports.Subscribe(BROAD))
    refused = ask(made, "me", ports.Subscribe(Filter.parse("x > 3 and x < 2")))
    assert refused == []
    assert [each.problem is None for each in made.handle([ports.Persisted(1)], 1) if isinstance(each, Reply)] == [
        True,
        False,
    ]


def test_a_node_comes_back_as_what_it_was() -> None:
    server = Durable(architecture="as")
    first = server.node
    server.handle([ports.Attach("me", Keep(), 1)], 4)
    server.handle([ports.Request("me", 1, ports.Subscribe(BROAD))], 4)
    server.handle([ports.Request("me", 1, ports.Advertise(Advertisement.parse("x any")))], 4)
    outputs = server.handle([ports.Request("you", 1, ports.Publish(Notification(x=4)))], 4)
    (delivery,) = of_kind(outputs, Deliver)
    server.handle([FromPeer("rome", Open((1, "rome", 0), "peer", "as", (("rome", (0, "", 0)),)))], 6)
    server.handle([FromPeer("rome", Data((1, "rome", 0), 0, (), 0))], 7)
    server.die(9)
    again = server.node
    assert again.publishing.count == 1
    assert again.router.profile("me") == first.router.profile("me")
    assert list(again.router.peers) == ["rome"]
    assert again.router.control() == []
    assert again.router.subscriptions.told_to("rome") == (BROAD,)
    (redelivered,) = of_kind(server.handle([ports.Attach("me", Keep(), 2)], 10), DeliverBlock)
    assert list(one_by_one(redelivered)) == [Deliver(("me",), delivery.notification, (0,), (2,))]
    server.handle([ports.Acknowledge("me", 0, 2)], 11)
    assert not of_kind(server.handle([ports.Attach("me", Keep(), 3)], 12), DeliverBlock)


@pytest.mark.parametrize(
    ("architecture", "wish", "reason"),
    [
        ("gs", ports.Connect("rome", latency=0), "the latency is 0; the least is 1"),
        ("as", ports.Connect("rome", latency=-3), "the latency is -3; the least is 1"),
        ("as", ports.Connect("rome", Role.GATEWAY), "rome is no gateway of this server"),
        ("nf", ports.Connect("bari", Role.GATEWAY), "in a network that floods there is no gateway"),
        ("gs", ports.Connect("bari", Role.MASTER), "in a network of peers there is no master"),
    ],
)
def test_links_that_are_refused_here(architecture: str, wish: ports.Connect, reason: str) -> None:
    made = node(architecture, gateways={"bari": Gateway()})
    [refused] = made.handle([wish], 0)
    assert isinstance(refused, LinkRefused)
    assert reason in refused.reason
    assert made.deadline is None


def test_a_root_cannot_be_joined_and_have_a_master_at_the_same_time() -> None:
    made = node("hs", gateways={"bari": Gateway()})
    made.handle([ports.Connect("bari", Role.GATEWAY)], 0)
    [refused] = made.handle([ports.Connect("rome", Role.MASTER)], 0)
    assert isinstance(refused, LinkRefused)
    assert "has a master already, or asks for one: bari" in refused.reason


def test_a_gateway_is_in_the_configuration_of_both() -> None:
    asked = Open((1, "bari", 0), "gateway", "as", (("bari", (0, "", 0)),))
    [sent] = node("hs").handle([FromPeer("bari", asked)], 0)
    assert isinstance(sent, Send)
    assert isinstance(sent.frame, Refuse)
    assert "bari is no gateway of milan" in sent.frame.reason
    made = node("hs", gateways={"bari": Gateway()})
    [answer] = made.handle([FromPeer("bari", asked)], 0)
    assert isinstance(answer, Send)
    assert isinstance(answer.frame, Accept)
    assert LinkUp("bari") in made.handle([FromPeer("bari", Data((1, "bari", 0), 0, (), 0))], 0)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("gs", Members((("paris", (1, "rome", 0)),), ())),  # who is in the tree is said only where there is one
        ("as", Account("paris", 0, 1, ())),  # and accounts of links only where there is none
        ("as", Message()),
    ],
)
def test_a_neighbour_that_says_what_makes_no_sense_is_given_up(architecture: str, message: Message) -> None:
    milan, rome = joined(architecture)
    rome.links.send("milan", [message], 0)
    told = carry(rome, milan, rome.handle([], 0))["milan"]
    assert "rome" not in milan.router.peers
    assert any(isinstance(output, LinkRefused) and "is no message" in output.reason for output in told)


def test_whoever_acts_for_another_gets_the_answer() -> None:
    made = node(may_act_for={"mailer": ("mailto:me",)})
    assert ask(made, "mailto:me", ports.Subscribe(BROAD), by="mailer") == [Reply("mailer", 1)]
    (refused,) = ask(made, "mailto:you", ports.Subscribe(BROAD), by="mailer")
    assert isinstance(refused, Reply)
    assert refused.party == "mailer"


@pytest.mark.parametrize("durable", [False, True])
def test_a_party_that_leaves_takes_all_along(durable: bool) -> None:
    made = node("aa", durable=durable)
    wanted: list[ports.Operation] = [
        ports.Subscribe(BROAD),
        ports.Subscribe(Pattern.parse("x = 1 then x = 2")),
        ports.Advertise(Advertisement.parse("x > 0")),
        ports.Watch(BROAD),
    ]
    for operation in wanted:
        ask(made, "me", operation)
    ask(made, "you", ports.Publish(Notification(x=4)))
    assert ask(made, "me", ports.Leave()) if durable else ask(made, "me", ports.Leave()) == [Reply("me", 1)]
    assert made.router.profile("me") == ((), ())
    assert not made.monitors.patterns("me")
    assert not made.outlooks.of("me")
    assert "me" not in made.logs
    outputs = ask(made, "you", ports.Publish(Notification(x=4)))
    assert not [each for each in outputs if isinstance(each, Deliver)]


def test_a_subscription_takes_the_place_of_a_broader_one() -> None:
    made = node()
    ask(made, "me", ports.Subscribe(BROAD))
    assert problem(ask(made, "me", ports.Unsubscribe(BROAD, (NARROW,)))) is None
    assert made.router.profile("me").filters == (NARROW,)


def test_neighbours_never_see_a_gap_between_the_two() -> None:
    milan, rome = joined()
    carry(milan, rome, ask(milan, "me", ports.Subscribe(BROAD)))
    told = [
        message
        for output in ask(milan, "me", ports.Unsubscribe(BROAD, (NARROW,)))
        if isinstance(output, Send) and isinstance(output.frame, Data)
        for message in output.frame.messages
    ]
    assert told == [Subscribe(NARROW), Unsubscribe(BROAD)]


def test_what_cannot_take_the_place_leaves_all_as_it_was() -> None:
    made = node(filters_per_party=2)
    other = Filter.parse("y = 1")
    ask(made, "me", ports.Subscribe(BROAD))
    ask(made, "me", ports.Subscribe(other))
    nothing = Filter.parse("x = 1 and x = 2")
    assert isinstance(problem(ask(made, "me", ports.Unsubscribe(BROAD, (NARROW, nothing)))), PalioError)
    assert isinstance(problem(ask(made, "me", ports.Unsubscribe(BROAD, (nothing,)))), UnsatisfiableFilterError)
    many = tuple(Filter.parse(f"z = {n}") for n in range(2))
    assert isinstance(problem(ask(made, "me", ports.Unsubscribe(BROAD, many))), LimitError)
    assert {*made.router.profile("me").filters} == {BROAD, other}
    assert problem(ask(made, "me", ports.Unsubscribe(BROAD, many[:1]))) is None


X1, X2, ANY = Filter.parse("x = 1"), Filter.parse("x = 2"), Filter.parse("x any")
OFFERS = tuple(map(Advertisement.parse, ("x = 1", "x = 2", "x any", "y any")))
PATTERNS = tuple(map(Pattern.parse, ("x = 1 then x = 2", "x = 2 then x = 1", "x any then x any", "y any then y any")))


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize(
    ("asked", "things"),
    [
        (ports.Subscribe, (X1, X2, ANY, Filter.parse("y any"))),
        (ports.Subscribe, PATTERNS),
        (ports.Advertise, OFFERS),
    ],
)
def test_a_party_with_as_much_as_it_may_hold_can_ask_for_the_same_again(
    asked: Any, things: tuple[Any, ...], is_full: bool
) -> None:
    """Clients do when they reconnect. A limit that was lowered since makes no difference to what is held."""
    made = node("ce", filters_per_party=2)
    one, other, broader, more = things
    for each in (one, other):
        assert problem(ask(made, "me", asked(each))) is None
    if not is_full:
        made.settings = made.settings._replace(filters_per_party=1)
    for each in (one, other):
        assert problem(ask(made, "me", asked(each))) is None
    assert isinstance(problem(ask(made, "me", asked(more))), LimitError)
    assert problem(ask(made, "me", asked(broader))) is None  # which takes the place of two
    assert (problem(ask(made, "me", asked(more))) is None) is is_full


def test_a_party_with_as_many_questions_as_it_may_have_can_ask_the_same_again() -> None:
    made = node("ce", filters_per_party=1)
    for text in ("x any", "x any", "y any"):
        refused = problem(ask(made, "me", ports.Watch(Advertisement.parse(text))))
        assert (refused is None) is (text == "x any")


def test_a_party_with_as_many_patterns_as_it_may_have_can_exchange_one() -> None:
    made = node("ce", filters_per_party=2)
    one, other, _, more = PATTERNS
    for each in (one, other):
        ask(made, "me", ports.Subscribe(each))
    assert isinstance(problem(ask(made, "me", ports.Unsubscribe(one, (more, ANY)))), LimitError)
    assert problem(ask(made, "me", ports.Unsubscribe(one, (more,)))) is None
    assert made.monitors.patterns("me") == (other, more)


def test_a_neighbour_that_is_lost_makes_room_for_another_way() -> None:
    milan, rome = joined()
    assert milan.handle([ports.Lost("rome")], 1)[0] == ports.LinkDown("rome", "rome could not be reached for too long")
    assert "rome" not in milan.router.peers
    for _ in range(10):
        now = milan.deadline
        assert now is not None
        if LinkUp("rome") in carry(milan, rome, milan.handle([], now), now)["milan"]:
            break
    assert "rome" in milan.router.peers
    assert "milan" in rome.router.peers


def test_of_two_masters_that_open_at_the_same_time_the_first_counts() -> None:
    """Both are accepted provisionally; the second is refused when it confirms, and the server goes on."""
    made = node("hs")
    for name in ("rome", "bari"):
        made.handle([FromPeer(name, Open((1, name, 1), "client", "hs", ((name, (0, "", 0)),)))], 0)
    assert LinkUp("rome") in made.handle([FromPeer("rome", Data((1, "rome", 1), 0, (), 0))], 1)
    [sent] = made.handle([FromPeer("bari", Data((1, "bari", 1), 0, (), 0))], 1)
    assert isinstance(sent, Send)
    assert "has a master already: rome" in sent.frame.reason  # type: ignore[attr-defined]
    assert list(made.router.peers) == ["rome"]


def test_a_member_with_a_stamp_that_leaves_no_higher_ones_costs_the_link() -> None:
    milan, rome = joined()
    rome.links.send("milan", [Members((("paris", (1 << 63, "paris", 0)),), ())], 0)
    carry(rome, milan, rome.handle([], 0))
    assert "rome" not in milan.router.peers
    assert milan.router.membership.latest < 1 << 62


def test_two_starts_of_a_server_give_different_stamps_also_with_the_same_store() -> None:
    """A store that was restored from a copy brings back the numbers of stamps that were given since."""
    stamps = [node(boot=boot).neighbours.next_stamp() for boot in (1, 2)]
    assert stamps[0] != stamps[1]
    assert stamps[0][:2] == stamps[1][:2]


@pytest.mark.parametrize("architecture", ["gs", "ga", "as", "aa"])
def test_a_notification_that_comes_behind_the_news_of_a_cycle_is_passed_on(architecture: str) -> None:
    """Before it is passed on, neighbours are told what came before it; that cuts its link, which closes a cycle."""
    is_general = architecture in ("gs", "ga")
    made = node(architecture, gateways={"gate": Gateway(None, None, ())} if is_general else {})
    ask(made, "me", ports.Subscribe(ANY))
    stamps = {name: (age, name, 1) for age, name in enumerate(("rome", "gate"), 1)}
    for name, role in (("rome", "peer"), ("gate", "gateway" if is_general else "peer")):
        made.handle([FromPeer(name, Open(stamps[name], role, architecture, ((name, (0, "", 0)),)))], 0)
        made.handle([FromPeer(name, Data(stamps[name], 0, (), 0))], 0)
    said: list[Message] = [Subscribe(ANY, "rome" if is_general else "")]
    if is_general:
        said.insert(0, Account("rome", 1, 1, (("milan", 1, stamps["rome"]),)))
    made.handle([FromPeer("rome", Data(stamps["rome"], 0, tuple(said), 0))], 1)
    assert made.router.peers.keys() == {"rome", "gate"}
    closing = Members((("rome", (0, "", 0)),), ())
    told = made.handle([FromPeer("gate", Data(stamps["gate"], 0, (closing, published("ghost")), 0))], 2)
    assert of_kind(told, Fault) == []
    assert [each.peer for each in of_kind(told, LinkDown)] == ["gate"]
    assert "closes a cycle" in of_kind(told, LinkDown)[0].reason
    assert len(of_kind(told, Deliver)) == 1
    onward = [
        message
        for each in of_kind(told, Send)
        if each.peer == "rome" and isinstance(each.frame, Data)
        for message in each.frame.messages
        if isinstance(message, Publish)
    ]
    assert [message.entry for message in onward] == ["milan" if is_general else "ghost"]


def test_a_wave_that_comes_behind_the_news_of_a_cycle_ends_with_its_link() -> None:
    made = node("as")
    for age, name in enumerate(("rome", "gate", "bari"), 1):
        stamp = (age, name, 1)
        made.handle([FromPeer(name, Open(stamp, "peer", "as", ((name, (0, "", 0)),)))], 0)
        made.handle([FromPeer(name, Data(stamp, 0, (), 0))], 0)
    closing = Members((("rome", (0, "", 0)),), ())
    told = made.handle([FromPeer("gate", Data((2, "gate", 1), 0, (closing, Spread(7)), 0))], 2)
    assert [each.peer for each in of_kind(told, LinkDown)] == ["gate"]
    assert list(made.spreading.waves.waiting()) == []


def published(origin: str) -> Publish:
    envelope = Envelope(NotificationId(origin, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), "eva")
    return Publish(Notification(x=1).with_envelope(envelope), origin, 9)
