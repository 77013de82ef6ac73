"""Who is in the tree: links that would close a cycle are refused, and those that did are cut."""

from __future__ import annotations

from random import Random

import pytest

from palio.routing.membership import CycleError, Membership
from palio.routing.messages import Members


class Net:
    """Memberships joined by queues, without any check when links are opened: cycles are to be found later."""

    def __init__(self, servers: list[str], random: Random) -> None:
        self.random = random
        self.members = {name: Membership(name) for name in servers}
        self.queues: dict[tuple[str, str], list[Members]] = {}

    def connect(self, one: str, other: str) -> None:
        stamp = self.members[one].next_stamp()
        known = {name: self.members[name].known() for name in (one, other)}
        self.members[one].connect(other, stamp, known[other], known[one])
        self.members[other].connect(one, stamp, known[one], known[other])
        self.queues[one, other], self.queues[other, one] = [], []

    def disconnect(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            self.members[here].disconnect(there)
            del self.queues[here, there]

    def settle(self) -> int:
        """Deliver in any order, cut what has to be cut; how many links were."""
        cuts = 0
        for _ in range(10_000):
            for name, member in self.members.items():
                for peer in member.to_cut():
                    if (name, peer) in self.queues:
                        cuts += 1
                        self.disconnect(name, peer)
                for peer, message in member.updates():
                    self.queues[name, peer].append(message)
            waiting = [link for link, queue in self.queues.items() if queue]
            if not waiting:
                return cuts
            source, target = self.random.choice(waiting)
            self.members[target].receive(source, self.queues[source, target].pop(0))
        raise AssertionError("no rest")

    def components(self) -> list[set[str]]:
        left, found = set(self.members), []
        while left:
            stack, seen = [min(left)], set()
            while stack:
                here = stack.pop()
                seen.add(here)
                stack += [there for source, there in self.queues if source == here and there not in seen]
            found.append(seen)
            left -= seen
        return found


@pytest.mark.parametrize("seed", range(300))
def test_at_rest_there_is_a_forest_and_everybody_knows_it(seed: int) -> None:
    random = Random(seed)
    servers = [f"s{i}" for i in range(random.randrange(2, 8))]
    net = Net(servers, random)
    for _ in range(random.randrange(1, 5)):
        for _ in range(random.randrange(1, 4)):  # opened at the same time
            one, other = random.sample(servers, 2)
            if (one, other) not in net.queues:
                net.connect(one, other)
        before = net.components()
        net.settle()
        assert net.components() == before, "a cut has parted what was joined"
        assert len(net.queues) // 2 == len(servers) - len(before), "there is a cycle left"
        for component in before:
            for name in component:
                assert set(net.members[name].known()) == component
        if net.queues and random.random() < 0.5:
            net.disconnect(*random.choice(list(net.queues)))
            net.settle()


def test_a_link_that_would_close_a_cycle_is_refused_by_name() -> None:
    net = Net(["a", "b", "c"], Random(0))
    net.connect("a", "b")
    net.connect("b", "c")
    net.settle()
    with pytest.raises(CycleError, match="between a and c would close a cycle: c is in the tree, behind b"):
        net.members["a"].check("c", ["c"])
    with pytest.raises(CycleError, match="it is there already"):
        net.members["a"].check("d", ["d", "a"])
    net.members["a"].check("d", ["d", "e"])


def test_the_youngest_link_of_a_cycle_is_cut() -> None:
    """Whatever the names are: a server that opens a link knows how old the others are."""
    net = Net(["a", "b", "c"], Random(0))
    net.connect("c", "b")
    net.settle()
    net.connect("b", "a")
    net.settle()
    net.connect("a", "c")
    assert net.settle() == 1
    assert sorted(net.queues) == [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]


def test_what_has_changed_since_a_link_was_offered_is_told() -> None:
    here = Membership("a")
    here.connect("b", (1, "a", 0), {"b": (0, "", 0)})
    offered = here.known()
    here.disconnect("b")
    here.connect("c", (2, "a", 0), {"c": (0, "", 0)})
    here.updates()
    here.connect("d", (3, "a", 0), {"d": (0, "", 0)}, offered)
    told = dict(here.updates())
    assert dict(told["d"].joined) == {"c": (2, "a", 0)}
    assert told["d"].left == ("b",)


def test_what_was_kept_is_known_again() -> None:
    before = Membership("a")
    before.connect("b", (1, "a", 0), {"b": (0, "", 0)})
    before.connect("c", (2, "a", 0), {"c": (0, "", 0), "d": (1, "c", 0)})
    before.updates()
    after = Membership("a")
    after.restore(before.latest, before.links())
    assert after.known() == before.known()
    assert after.updates() == []
    after.receive("c", Members((), ("d",)))
    assert after.updates() == [("b", Members((), ("d",)))]
    assert after.next_stamp() > (2, "a", 0)


def test_a_link_that_leads_to_a_cycle_is_no_part_of_it() -> None:
    """The tail is the youngest link, and what it has told of itself comes back to it round the cycle."""
    tail = Membership("tail")
    tail.connect("a", (9, "tail", 0), {"a": (0, "", 0)})
    tail.updates()
    tail.receive("a", Members((("b", (2, "b", 0)), ("tail", (9, "tail", 0))), ()))
    assert tail.to_cut() == []
    assert tail.known() == {"tail": (0, "", 0), "a": (9, "tail", 0), "b": (9, "tail", 0)}


def test_a_neighbour_is_told_of_the_oldest_way() -> None:
    """As long as a cycle is not cut, there are several; a new neighbour would take a younger one for the way."""
    milan = Membership("milan")
    milan.connect("rome", (2, "rome", 0), {"rome": (0, "", 0), "pisa": (7, "pisa", 0)})
    milan.connect("bari", (4, "bari", 0), {"bari": (0, "", 0), "pisa": (1, "pisa", 0)})
    assert milan.known()["pisa"] == (4, "bari", 0)
    milan.surround({"pisa": (3, "milan", 0), "rome": (9, "milan", 0)})
    assert milan.known()["pisa"] == (3, "milan", 0)
    assert milan.known()["rome"] == (2, "rome", 0)
