"""A server comes back with another configuration: only what has to go is lost, and that is counted."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Advertisement, Filter, Notification, Pattern
from palio.link import wire
from palio.link.session import LinkSettings
from palio.node import ports, records
from palio.node.logs import LogSettings, Retention
from palio.node.party_log import Keep
from palio.node.ports import Connect, Deliver, DeliverSequence, LinkDown, LinkUp, Output, Request
from palio.node.settings import Delegation
from palio.routing.border import Gateway
from palio.routing.messages import Advertise, Subscribe
from palio.routing.router import Role
from palio.routing.telling import TellingSettings
from palio.routing.unions import Merging
from palio.sim.engine.blocks import one_by_one
from tests.node.durable import Durable, of_kind
from tests.node.test_logs import NOTHING, got

X = Filter.parse("x > 3")
OPEN = Gateway()
IMPORTS = Filter.parse("x < 100")


class Net:
    """Durable servers and the frames between them; a server that is unreachable gets none."""

    def __init__(self, **servers: Durable) -> None:
        self.servers = servers
        self.unreachable: set[str] = set()
        self.now = 0
        self.said: dict[str, list[Output]] = {name: [] for name in servers}

    def give(self, server: str, *inputs: ports.Input) -> list[Output]:
        """A server takes inputs, and all that follows happens."""
        self.now += 1
        found = self.servers[server].handle(inputs, self.now)
        self.said[server] += found
        under_way = [(server, each.peer, each.frame) for each in of_kind(found, ports.Send)]
        while under_way:
            source, target, frame = under_way.pop(0)
            if target not in self.servers or {source, target} & self.unreachable:
                continue
            taken = wire.decode(wire.encode(frame))
            outputs = self.servers[target].handle([ports.FromPeer(source, taken)], self.now)
            self.said[target] += outputs
            under_way += [(target, each.peer, each.frame) for each in of_kind(outputs, ports.Send)]
        return found

    def pass_time(self, rounds: int = 16) -> None:
        """All that is due happens, for a while."""
        for _ in range(rounds):
            self.now += 500_000
            for server in self.servers:
                self.give(server)

    def settle(self, server: str, peer: str) -> None:
        """Time passes until nothing waits for the two servers of a link."""
        for _ in range(500):
            self.pass_time(1)
            backlogs = (
                self.servers[one].node.links.status(other).backlog for one, other in ((server, peer), (peer, server))
            )
            if not any(each.messages for each in backlogs):
                return
        raise AssertionError(f"{server} and {peer} do not come to rest")

    def restart(self, server: str, **options: Any) -> None:
        self.now += 1
        self.said[server].clear()
        self.servers[server].die(self.now, **options)
        self.give(server)

    def delivered(self, server: str, party: str) -> list[Any]:
        found = of_kind(self.said[server], Deliver)
        return [each.notification["x"] for each in found if party in each.parties]

    def downs(self, server: str) -> list[tuple[str, int]]:
        return [(each.peer, each.discarded) for each in of_kind(self.said[server], LinkDown)]


def joined(architecture: str = "as", gateway: Gateway = OPEN) -> Net:
    """Milan has rome as a neighbour, and bari, of another network, behind a gateway."""
    back = Gateway(offers=(Advertisement.parse("x any"),))
    milan = Durable(server="milan", architecture=architecture, gateways={"bari": gateway})
    rome = Durable(server="rome", architecture=architecture)
    bari = Durable(server="bari", architecture="as", gateways={"milan": back})
    net = Net(milan=milan, rome=rome, bari=bari)
    net.give("milan", Connect("rome"), Connect("bari", Role.GATEWAY))
    net.give("milan", Request("adam", 1, ports.Advertise(Advertisement.parse("x any"))))
    net.give("rome", Request("eva", 1, ports.Subscribe(X)))
    net.give("rome", Request("eva", 2, ports.Advertise(Advertisement.parse("x any"))))
    net.give("bari", Request("bob", 1, ports.Subscribe(Filter.parse("x > 50"))))
    assert set(milan.node.links.peers) == {"rome", "bari"}
    return net


def publish(net: Net, server: str, *values: int) -> None:
    for value in values:
        net.give(server, Request("adam", value, ports.Publish(Notification(x=value))))


def told(net: Net, server: str, peer: str) -> list[str]:
    """What a server holds of what a neighbour has said."""
    standing = net.servers[server].node.router.standing(peer)
    return sorted(str(each.filter) for each in standing if isinstance(each, Subscribe))


def plain(outputs: list[Output]) -> list[Output]:
    """The deliveries but for sequences."""
    found: list[Output] = [one for each in of_kind(outputs, ports.DeliverBlock) for one in one_by_one(each)]
    return of_kind([*found, *of_kind(outputs, Deliver)], Deliver)


# -- gateways ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["as", "aa", "gs", "ga"])
@pytest.mark.parametrize("gateway", [Gateway(), Gateway(imports=IMPORTS, exports=Filter.parse("x < 90"))])
def test_a_gateway_that_leaves_the_configuration_ends_alone(architecture: str, gateway: Gateway) -> None:
    net = joined(architecture, gateway)
    net.unreachable = {"rome", "bari"}
    publish(net, "milan", 60, 70)
    net.restart("milan", gateways={})
    milan = net.servers["milan"].node
    assert not milan.quarantined
    assert net.downs("milan") == [("bari", 2)], "and it is counted what waited"
    assert set(milan.links.peers) == {"rome"}
    assert "bari" not in milan.links.wishes
    net.unreachable.clear()
    net.pass_time()
    assert net.delivered("rome", "eva") == [60, 70]
    assert not of_kind(net.said["rome"], LinkDown)
    assert told(net, "rome", "milan") == [], "nobody behind the gateway counts any more"
    (down,) = of_kind(net.said["bari"], LinkDown)
    assert "no gateway in the configuration of milan" in down.reason
    net.restart("milan")
    assert not net.servers["milan"].node.quarantined
    publish(net, "milan", 80)
    net.pass_time()
    assert net.delivered("rome", "eva") == [60, 70, 80]


@pytest.mark.parametrize("architecture", ["as", "aa", "gs", "ga"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Gateway(), Gateway(exports=Filter.parse("x < 60"))),
        (Gateway(exports=Filter.parse("x < 60")), Gateway()),
        (Gateway(exports=Filter.parse("x < 60")), Gateway(exports=Filter.parse("x > 90"), imports=IMPORTS)),
        (Gateway(imports=IMPORTS), Gateway(imports=Filter.parse("x = 5"))),
        (Gateway(offers=(Advertisement.parse("y any"),)), Gateway(offers=(Advertisement.parse("z any"),))),
    ],
)
def test_a_gateway_with_other_filters_tells_the_difference(architecture: str, before: Gateway, after: Gateway) -> None:
    net, fresh = joined(architecture, before), joined(architecture, after)
    net.unreachable = {"rome", "bari"}
    publish(net, "milan", 55)
    net.restart("milan", gateways={"bari": after})
    net.unreachable.clear()
    net.pass_time()
    for _ in range(2):
        assert not any(of_kind(each, LinkDown) for each in net.said.values())
        for server, peer in (("rome", "milan"), ("bari", "milan"), ("milan", "bari"), ("milan", "rome")):
            standing = [set(each.servers[server].node.router.standing(peer)) for each in (net, fresh)]
            assert standing[0] == standing[1], (server, peer)
        assert net.delivered("rome", "eva") == [55]
        net.restart("milan")
        assert not net.servers["milan"].node.quarantined
        net.pass_time()


def test_offers_that_mean_the_same_count_once() -> None:
    offers = tuple(map(Advertisement.parse, ("x any and y any", "y any and x any", "x any; y any; x > 3")))
    net = joined("aa", Gateway(offers=offers))
    assert len(net.servers["milan"].node.router.advertisements) == 2
    net.give("bari", Request("bob", 2, ports.Advertise(Advertisement.parse("x any and y any"))))
    net.restart("milan")
    assert set(net.servers["milan"].node.links.peers) == {"rome", "bari"}
    assert len(net.servers["milan"].node.router.advertisements) == 2
    net.pass_time()
    assert not any(of_kind(each, LinkDown) for each in net.said.values())


def test_a_neighbour_may_advertise_what_is_configured_to_be_offered() -> None:
    offer = Advertisement.parse("x any")
    milan = Durable(server="milan", architecture="aa", gateways={"bari": Gateway(offers=(offer,))})
    bari = Durable(server="bari", architecture="aa", gateways={"milan": Gateway()})
    net = Net(milan=milan, bari=bari)
    net.give("milan", Connect("bari", Role.GATEWAY))
    for _ in range(2):
        net.give("bari", Request("bob", 1, ports.Advertise(offer)))
        net.give("bari", Request("bob", 2, ports.Unadvertise(offer)))
    assert not any(of_kind(each, LinkDown) for each in net.said.values())
    assert milan.node.router.standing("bari") == [Advertise(offer)], "it is offered still"


def test_a_store_without_records_of_gateways_is_as_the_configuration_says() -> None:
    net = joined("as", Gateway(imports=IMPORTS))
    milan = net.servers["milan"]
    del milan.records[records.encode_key(("gateway", "bari"))], milan.records[records.encode_key(("architecture",))]
    net.restart("milan")
    assert not milan.node.quarantined
    assert set(milan.node.links.peers) == {"rome", "bari"}
    assert records.encode_key(("gateway", "bari")) in milan.records


# -- architectures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["as", "aa", "gs", "ga"])
@pytest.mark.parametrize("after", ["ce", "hs", "as", "aa", "nf", "gs", "ga"])
def test_another_architecture_ends_links_and_keeps_what_parties_have(before: str, after: str) -> None:
    if before == after:
        return
    ab = Pattern.parse("x = 1 then x = 2")
    net = joined(before)
    milan = net.servers["milan"]
    net.give("milan", ports.Attach("luigi", NOTHING, 1), Request("luigi", 1, ports.Subscribe(X)))
    net.give("milan", Request("luigi", 2, ports.Subscribe(ab)))
    net.give("milan", ports.Detach("luigi", 1))
    net.unreachable = {"rome", "bari"}
    publish(net, "milan", 60, 1)
    net.restart("milan", architecture=after, boot=7)
    assert not milan.node.quarantined
    assert sorted(net.downs("milan")) == [("bari", 1), ("rome", 1)]
    assert not milan.node.links.peers
    publish(net, "milan", 2, 70)
    net.restart("milan")
    outputs = net.give("milan", ports.Attach("luigi", NOTHING, 2))
    assert [value for _, value in got(plain(outputs), 2)] == [60, 70]
    assert milan.node.logs.of("luigi").next == 3, "and the sequence, which had begun before"
    assert milan.node.monitors.patterns("luigi") == (ab,)
    net.unreachable.clear()
    net.pass_time()
    downs = of_kind(net.said["rome"], LinkDown)
    assert f"the architecture of the server is {after}, and was {before}" in downs[0].reason
    assert milan.node.links.status("rome").reason, "both ends say why there is no link"


def test_both_servers_may_get_another_architecture_and_find_each_other() -> None:
    net = joined("as")
    for server in ("milan", "rome"):
        net.restart(server, architecture="gs", boot=7)
    net.give("milan", Connect("rome"))  # as the server does now and then
    net.pass_time()
    assert set(net.servers["milan"].node.links.peers) >= {"rome"}
    publish(net, "milan", 80)
    net.pass_time()
    assert net.delivered("rome", "eva") == [80]


def test_a_pattern_at_a_neighbour_comes_home_with_what_waits_for_it() -> None:
    ab = Pattern.parse('kind = "a" then kind = "b"')
    milan = Durable(server="milan", architecture="aa", delegation=Delegation.WHOLE)
    rome = Durable(server="rome", architecture="aa", delegation=Delegation.WHOLE)
    net = Net(milan=milan, rome=rome)
    net.give("milan", Connect("rome"))
    net.give("rome", Request("adam", 1, ports.Advertise(Advertisement.parse("kind any"))))
    net.give("milan", ports.Attach("eva"), Request("eva", 1, ports.Subscribe(ab)))
    assert milan.node.delegating.lent
    net.give("rome", Request("adam", 2, ports.Publish(Notification(kind="a"))))
    net.unreachable = {"rome"}
    net.give("milan", Request("local", 1, ports.Advertise(Advertisement.parse("kind any"))))
    net.give("milan", Request("local", 2, ports.Publish(Notification(kind="b"))))
    net.restart("milan", architecture="as", boot=7)
    net.pass_time()
    assert not milan.node.quarantined
    assert len(of_kind(net.said["milan"], DeliverSequence)) == 1


# -- other settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"link": LinkSettings(outbox=2, full=1)},
        {"link": LinkSettings(outbox_bytes=300, full_bytes=300)},
        {"link": LinkSettings(window=1, frame=1)},
        {"filters_per_party": 1},
        {"window": 1_000},
        {"held_back": 1},
        {"delegation": Delegation.NONE},
        {"telling": TellingSettings(Merging(), 1_000)},
        {"compression": Merging()},
        {"log": LogSettings(keep=Keep(1, 1, 1, 10**15, 0, 1), retention=Retention(), letters=1, keys=1)},
        {"guard": True},
        {"reserve": 5},
    ],
)
def test_other_settings_discard_nothing_that_waits(options: dict[str, Any]) -> None:
    net = joined("aa")
    net.give("milan", ports.Attach("luigi", NOTHING, 1), Request("luigi", 1, ports.Subscribe(X)))
    net.give("milan", ports.Detach("luigi", 1))
    net.unreachable = {"rome"}
    publish(net, "milan", *range(51, 61))
    net.restart("milan", **options)
    net.give("milan", Request("mario", 1, ports.Subscribe(Filter.parse("x = 1"))))
    publish(net, "rome", 7)
    net.unreachable.clear()
    net.pass_time()
    assert not net.servers["milan"].node.quarantined
    assert not any(of_kind(each, LinkDown) for each in net.said.values())
    assert net.delivered("rome", "eva") == [7, *range(51, 61)]
    assert net.servers["milan"].node.logs.of("luigi").next - net.servers["milan"].node.logs.of("luigi").done >= 10


def test_a_peer_that_becomes_a_master_ends_that_link_alone() -> None:
    """As the server does it that finds another role in its configuration than before."""
    milan, rome, bari = (Durable(server=name, architecture="hs") for name in ("milan", "rome", "bari"))
    net = Net(milan=milan, rome=rome, bari=bari)
    net.give("milan", Connect("rome", Role.CLIENT), Connect("bari", Role.CLIENT))
    for peer in ("rome", "bari"):
        net.give(peer, Request("eva", 1, ports.Subscribe(X)))
    net.unreachable = {"rome", "bari"}
    publish(net, "milan", 60)
    net.restart("milan")
    net.give("milan", ports.Disconnect("bari", bars=False), Connect("bari", Role.MASTER))
    net.unreachable.clear()
    net.pass_time()
    assert net.delivered("rome", "eva") == [60]
    assert not of_kind(net.said["rome"], LinkDown)
    assert net.downs("milan") == [("bari", 1)]
    assert of_kind(net.said["milan"], LinkUp)[-1].peer == "bari"
    publish(net, "milan", 70)
    assert net.delivered("bari", "eva") == [70]
