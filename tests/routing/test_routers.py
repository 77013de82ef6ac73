"""Routers on random trees, with operations that overlap, against tables computed from scratch."""

from __future__ import annotations

import pytest

from palio import Advertisement, Filter, Notification
from palio.errors import CallerError
from palio.routing.architectures import ARCHITECTURES
from palio.routing.general import MOST_HOPS, General
from palio.routing.messages import Account, Advertise, Publish, Subscribe, Unadvertise, Unsubscribe
from palio.routing.router import Profile, Role, Router, UnexpectedMessageError
from tests.routing.network import History


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(12))
def test_tables_and_deliveries_at_rest(architecture: str, seed: int) -> None:
    History(architecture, seed).run(40)


def router(architecture: str, **peers: Role) -> Router:
    made = ARCHITECTURES[architecture]("milan")
    for peer, role in peers.items():
        made.connect(peer, role)
    made.control()
    return made


BROAD, NARROW = Filter.parse("x > 3"), Filter.parse("x > 5")


def test_make_before_break() -> None:
    here = router("as", rome=Role.PEER)
    here.subscribe("me", BROAD)
    here.subscribe("you", NARROW)
    assert here.control() == [("rome", [Subscribe(BROAD)])]
    here.unsubscribe("me", BROAD)
    assert here.control() == [("rome", [Subscribe(NARROW), Unsubscribe(BROAD)])]


def test_what_was_undone_is_not_told() -> None:
    here = router("as", rome=Role.PEER)
    here.subscribe("me", BROAD)
    here.unsubscribe("me", BROAD)
    assert here.control() == []


def test_a_neighbours_narrower_filter_is_kept_beside_its_broader_one() -> None:
    here = router("as", rome=Role.PEER, bari=Role.PEER)
    here.receive("rome", Subscribe(BROAD))
    here.receive("rome", Subscribe(NARROW))
    assert here.control() == [("bari", [Subscribe(BROAD)])]
    here.receive("rome", Unsubscribe(BROAD))
    assert here.control() == [("bari", [Subscribe(NARROW), Unsubscribe(BROAD)])]
    assert here.route(Publish(Notification(x=7))).peers == ("rome",)
    assert here.route(Publish(Notification(x=4))).peers == ()


def test_a_partys_broader_filter_replaces_its_narrower_ones() -> None:
    here = router("ce")
    here.subscribe("me", NARROW)
    here.subscribe("me", BROAD)
    here.subscribe("me", NARROW)
    assert here.profile("me") == Profile((BROAD,), ())
    assert here.unsubscribe("me", NARROW) == ()
    assert here.unsubscribe("me", Filter.parse("x > 0")) == (BROAD,)
    assert here.route(Publish(Notification(x=7))).parties == ()


def test_each_party_gets_one_copy() -> None:
    here = router("ce")
    for text in ("x > 3", "x < 9", "y any"):
        here.subscribe("me", Filter.parse(text))
    here.subscribe("you", BROAD)
    assert here.route(Publish(Notification(x=5, y=1))).parties == ("me", "you")


def test_a_profile_moves() -> None:
    here, there = router("as"), router("as")
    offer = Advertisement.parse("x > 3")
    here.subscribe("me", BROAD)
    here.advertise("me", offer)
    profile = here.take_out("me")
    assert profile == Profile((BROAD,), (offer,))
    assert here.profile("me") == Profile((), ())
    assert len(here.subscriptions) == len(here.advertisements) == 0
    there.put_in("me", profile)
    assert there.profile("me") == profile
    assert there.announces("me", Notification(x=4))
    assert not there.announces("me", Notification(x=2))


def test_subscriptions_follow_advertisements() -> None:
    here = router("aa", rome=Role.PEER, bari=Role.PEER)
    here.subscribe("me", BROAD)
    assert here.control() == []
    offer = Advertisement.parse("x > 0")
    here.receive("rome", Advertise(offer))
    assert here.control() == [("bari", [Advertise(offer)]), ("rome", [Subscribe(BROAD)])]
    here.receive("rome", Unadvertise(offer))
    assert here.control() == [("bari", [Unadvertise(offer)]), ("rome", [Unsubscribe(BROAD)])]


@pytest.mark.parametrize(
    "message",
    [
        Unsubscribe(NARROW),
        Subscribe(BROAD),
        Unadvertise(Advertisement.parse("y any")),
        Advertise(Advertisement.parse("x any")),
    ],
)
def test_messages_that_cannot_be_leave_the_tables_untouched(
    message: Subscribe | Unsubscribe | Advertise | Unadvertise,
) -> None:
    here = router("aa", rome=Role.PEER)
    here.receive("rome", Subscribe(BROAD))
    here.receive("rome", Advertise(Advertisement.parse("x any")))
    with pytest.raises(UnexpectedMessageError, match="'rome' cannot say"):
        here.receive("rome", message)
    with pytest.raises(UnexpectedMessageError, match="'oslo' is no neighbour"):
        here.receive("oslo", message)
    assert list(here.subscriptions) == [BROAD]
    assert list(here.advertisements) == [Advertisement.parse("x any")]


def test_neighbours_that_cannot_be() -> None:
    with pytest.raises(CallerError, match="has no peers"):
        router("ce", rome=Role.PEER)
    with pytest.raises(CallerError, match="not a peer"):
        router("hs", rome=Role.PEER)
    with pytest.raises(CallerError, match="a master already: rome"):
        router("hs", rome=Role.MASTER, bari=Role.MASTER)
    with pytest.raises(CallerError, match="there is no client"):
        router("as", rome=Role.CLIENT)
    with pytest.raises(CallerError, match="is a neighbour already"):
        router("as", rome=Role.PEER).connect("rome", Role.PEER)
    with pytest.raises(CallerError, match="is no neighbour"):
        router("as").disconnect("rome")


def test_hops_are_counted_through_other_networks() -> None:
    """A notification that goes round through gateways would never end otherwise, should it not be known again."""
    here = router("gs", rome=Role.PEER, paris=Role.GATEWAY)
    notification = Notification(x=1)
    assert here.admit(Publish(notification), None) == Publish(notification, "milan", MOST_HOPS)
    assert here.admit(Publish(notification), "paris") == Publish(notification, "milan", MOST_HOPS)
    assert here.admit(Publish(notification, "lyon", 3), "paris") == Publish(notification, "milan", 2)
    assert here.admit(Publish(notification, "lyon", 1), "rome") == Publish(notification, "lyon", 0)
    for source in ("paris", "rome"):
        assert here.admit(Publish(notification, "lyon", 0), source) is None


def graph_of_two() -> General:
    here, stamp = General("milan"), (1, "milan", 0)
    here.connect("rome", Role.PEER)
    here.topology.connect("rome", 1, stamp)
    here.topology.receive("rome", Account("rome", 0, 1, (("milan", 1, stamp),)))
    return here


def test_nothing_goes_back_where_it_came_from_whatever_servers_think_of_the_network() -> None:
    here, message = graph_of_two(), Publish(Notification(x=1), "milan", 5)
    assert here.onward(["rome"], None, message) == ("rome",)
    assert here.onward(["rome"], "rome", message) == ()


def test_what_neighbours_cannot_say_of_sources() -> None:
    here = graph_of_two()
    for peer, source in (("rome", "milan"), ("bari", "rome"), ("bari", "milan")):
        with pytest.raises(UnexpectedMessageError):
            here.receive(peer, Subscribe(BROAD, source))
    here.receive("rome", Subscribe(BROAD, "rome"))


@pytest.mark.parametrize("kind", [Subscribe, Unsubscribe, Advertise, Unadvertise])
def test_a_neighbour_cannot_name_a_gateway_of_this_server_as_a_source(
    kind: type[Subscribe | Unsubscribe | Advertise | Unadvertise],
) -> None:
    """A gateway's filters are kept as those of this server; only the gateway itself adds and removes them."""
    here = graph_of_two()
    here.connect("paris", Role.GATEWAY)
    subject = BROAD if kind in (Subscribe, Unsubscribe) else Advertisement.parse("x any")
    with pytest.raises(UnexpectedMessageError, match="'rome'"):
        here.receive("rome", kind(subject, "paris"))  # type: ignore[arg-type]
    assert here.standing("rome") == here.standing("paris") == []
    here.receive("paris", Subscribe(BROAD))
    assert here.standing("paris") == [Subscribe(BROAD)]
