"""Which servers are in the tree, so that a link that would close a cycle is refused, or found and cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from palio.errors import CallerError, PeerError, brief
from palio.routing.messages import MOST_AGE, Members, Stamp, has_bad_stamp

MOST_SERVERS = 20_000
"""Servers behind one neighbour, and servers of one network."""
_HERE: Stamp = (0, "", 0)
"""The age of no link at all."""


class CycleError(CallerError):
    """A link would close a cycle."""


class BadStampError(PeerError):
    """A stamp that no server gives."""


class TooManyServersError(PeerError):
    """There cannot be so many servers behind a neighbour."""


class _Link(NamedTuple):
    stamp: Stamp
    reached: dict[str, Stamp]
    """The servers beyond, with the age of the youngest link on the way to each, this one included."""
    told: dict[str, Stamp]
    """What the neighbour was told of the servers on this side."""


class Membership:
    """The servers that can be reached over each link.

    A link is refused if a server that it would bring is in the tree already. Two links that are opened at the same time
    can still close a cycle together, because neither end knows of the other link yet. Then both ends of the youngest
    link on the cycle see a server behind it that they also reach over older links alone; they cut it, and nobody cuts
    any other.

    >>> milan = Membership("milan")
    >>> milan.connect("rome", (2, "milan", 0), {"rome": (0, "", 0), "bari": (1, "rome", 0)})
    >>> milan.check("bari", ["bari"])
    Traceback (most recent call last):
    ...
    palio.routing.membership.CycleError: a link between milan and bari would close a cycle: bari is in the tree, \
behind rome
    """

    def __init__(self, server: str, incarnation: int = 0) -> None:
        self._server = server
        self._incarnation = incarnation
        self._links: dict[str, _Link] = {}
        self._inside: dict[str, Stamp] = {server: _HERE}
        """The servers that are reached without these links, with the age of the youngest link on the way to each."""
        self._latest = 0
        self._touched: dict[str, None] = {}
        """Servers whose neighbours may have to be told."""
        self._suspects: dict[str, None] = {}
        """Servers to which there may now be a second way."""

    def known(self) -> dict[str, Stamp]:
        """All servers of the tree as far as they are known here, this one included: what a new neighbour is told."""
        return self._beyond(None)

    def next_stamp(self) -> Stamp:
        """The stamp of a session that is opened here: younger than all that are known, and never given twice.

        Two things rely on that. Links take a frame for one of their own session if the stamps are equal, so late
        frames of an earlier session with the same stamp would acknowledge messages that never arrived. The tree takes
        equal stamps for one link, so it would overlook a cycle over two links. Within one start of the server the
        number grows. Across starts the number may begin again, for instance without a store or with an older one; then
        the start, which is part of the stamp, tells the sessions apart. A lower number after a restart does no harm:
        which of several links counts as the youngest is arbitrary, as long as all servers agree.
        """
        self._latest += 1
        return (self._latest, self._server, self._incarnation)

    def check(self, peer: str, members: Iterable[str]) -> None:
        """Refuse a link to a neighbour that would bring these servers."""
        for member in members:
            if member == self._server:
                raise CycleError(f"a link between {self._server} and {peer} would close a cycle: it is there already")
            if member in self._inside:
                raise CycleError(
                    f"a link between {self._server} and {peer} would close a cycle: {member} is in the network already"
                )
            for other, link in self._links.items():
                if member in link.reached:
                    raise CycleError(
                        f"a link between {self._server} and {peer} would close a cycle: {member} is in the tree, "
                        f"behind {other}"
                    )

    def connect(
        self, peer: str, stamp: Stamp, members: Mapping[str, Stamp], told: Mapping[str, Stamp] | None = None
    ) -> None:
        """There is a new link; the neighbour has said which servers it brings.

        It was told :meth:`known` when the link was offered, which may have changed since: then say so in ``told``.
        """
        here = self._beyond(None)
        self._links[peer] = _Link(stamp, {}, dict(here if told is None else told))
        self._touched.update(dict.fromkeys([*(told or ()), *here]))
        self._latest = max(self._latest, stamp[0])
        self.receive(peer, Members(tuple(members.items()), ()))

    def surround(self, servers: Mapping[str, Stamp]) -> None:
        """This server stands for a whole network in which there may be cycles: these are in it, or beyond it."""
        before, self._inside = self._inside, {**servers, self._server: _HERE}
        changed = [name for name in {**before, **self._inside} if before.get(name) != self._inside.get(name)]
        self._touched.update(dict.fromkeys(changed))
        self._suspects.update(dict.fromkeys(changed))
        self._latest = max(self._latest, *(stamp[0] for stamp in self._inside.values()))

    def reached(self) -> dict[str, Stamp]:
        """The servers beyond all links, with the age of the youngest link on the way to each."""
        found: dict[str, Stamp] = {}
        for link in self._links.values():
            for member, stamp in link.reached.items():
                found[member] = min(stamp, found.get(member, stamp))
        return found

    def restore(self, latest: int, links: Mapping[str, tuple[Stamp, Mapping[str, Stamp]]]) -> None:
        """Take back what was known; all neighbours have been told it."""
        self._latest = latest if latest < MOST_AGE else 0
        for peer, (stamp, reached) in links.items():
            self._links[peer] = _Link(stamp, dict(reached), {})
        for peer, link in self._links.items():
            link.told.update(self._beyond(peer))

    def links(self) -> dict[str, tuple[Stamp, dict[str, Stamp]]]:
        """The links by neighbour: the stamp, and the servers beyond."""
        return {peer: (link.stamp, dict(link.reached)) for peer, link in self._links.items()}

    @property
    def latest(self) -> int:
        """The number of the youngest stamp that is known."""
        return self._latest

    def disconnect(self, peer: str) -> None:
        """A link is gone."""
        link = self._links.pop(peer)
        self._touched.update(dict.fromkeys(link.reached))

    def receive(self, peer: str, message: Members) -> None:
        """A neighbour says which servers it reaches, or does no longer."""
        link = self._links[peer]
        if has_bad_stamp(link.stamp, message.joined):
            raise BadStampError(f"{brief(peer)} sends a stamp that is too high")
        for member, stamp in message.joined:
            self._latest = max(self._latest, stamp[0])
            self._touched[member] = self._suspects[member] = None
            if stamp == link.stamp:  # an echo from a cycle elsewhere: the way leads over this link already
                link.reached.pop(member, None)
            else:
                link.reached[member] = max(stamp, link.stamp)
        for member in message.left:
            link.reached.pop(member, None)
            self._touched[member] = None
        if len(link.reached) > MOST_SERVERS:
            raise TooManyServersError(f"more than {MOST_SERVERS:,} servers are said to be behind {brief(peer)}")

    def updates(self) -> list[tuple[str, Members]]:
        """What the neighbours have to be told now; it counts as told."""
        if not self._touched:
            return []
        touched, self._touched = self._touched, {}
        found = []
        for peer, link in self._links.items():
            joined, left = [], []
            for member in touched:
                stamp = self._nearest(member, peer)
                if stamp is None:
                    if link.told.pop(member, None) is not None:
                        left.append(member)
                elif link.told.get(member) != stamp:
                    link.told[member] = stamp
                    joined.append((member, stamp))
            if joined or left:
                found.append((peer, Members(tuple(joined), tuple(left))))
        return found

    def to_cut(self) -> list[str]:
        """The links that are the youngest of a cycle, as far as that has come out since the last call."""
        if not self._suspects:
            return []
        suspects, self._suspects = self._suspects, {}
        return [peer for peer, link in self._links.items() if self._closes_cycle(peer, link, suspects)]

    def _closes_cycle(self, peer: str, link: _Link, suspects: Iterable[str]) -> bool:
        for member in suspects:
            if link.reached.get(member) != link.stamp:
                continue
            other = self._nearest(member, peer)
            if other is not None and other < link.stamp:
                return True
        return False

    def _beyond(self, peer: str | None) -> dict[str, Stamp]:
        """The servers on this side of a link."""
        members = dict(self._inside)
        for other, link in self._links.items():
            if other != peer:
                for member, stamp in link.reached.items():
                    members[member] = min(stamp, members.get(member, stamp))
        return members

    def _nearest(self, member: str, peer: str) -> Stamp | None:
        """Over links other than that to a neighbour: how old is the youngest on the best way to a server."""
        ways = [link.reached[member] for other, link in self._links.items() if other != peer and member in link.reached]
        if member in self._inside:
            ways.append(self._inside[member])
        return min(ways, default=None)
