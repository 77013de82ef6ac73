"""Which servers and links there are in a network of any shape: every server tells all others of its links.

A server's account of its links has a number, and is passed on by flooding over links that lose nothing; of two accounts
the younger counts. A link is there when both of its ends say so, and mean the same one: an account from before the
network fell apart does not count again when it comes together. A new neighbour is told of this server last, so that who
hears that the two are connected has heard of all that lies behind them before.

Accounts are passed on at once if none were for a while; else they wait for a moment, so that when much happens at the
same time many travel together, and those that are out of date by then not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from palio.errors import PeerError, brief
from palio.routing.membership import MOST_SERVERS
from palio.routing.messages import Account, Stamp
from palio.routing.paths import Graph

_NOBODY = Account("", 0, -1, ())
MOST_LATENCY = 1_000_000_000
"""The highest latency of a configured link."""
PACE = 10_000
"""Microseconds between two times at which accounts are passed on."""
_MOST_OUTDONE = 16
"""How often a server takes over the number of an account that it has not given itself."""
_MOST_NUMBER = 1 << 62
"""Numbers and incarnations of accounts that a server takes over are lower, so that there are higher ones."""


class BadAccountError(PeerError):
    """An account of links that no server can give."""


class Topology:
    """What one server knows of the network.

    >>> milan, rome = Topology("milan"), Topology("rome")
    >>> milan.connect("rome", 30, (1, "milan", 0))
    >>> rome.connect("milan", 30, (1, "milan", 0))
    >>> [(_, accounts)] = rome.updates(now=0)
    >>> for account in accounts:
    ...     milan.receive("rome", account)
    >>> milan.graph.latency("milan", "rome")
    30
    """

    def __init__(self, server: str, incarnation: int = 0) -> None:
        self._server = server
        self._incarnation = incarnation
        self._links: dict[str, tuple[int, Stamp]] = {}
        """The latencies and stamps of this server's links, by neighbour."""
        self._beyond: dict[str, Stamp] = {}
        self._accounts: dict[str, Account] = {server: Account(server, incarnation, 0, ())}
        self._told: dict[str, dict[str, Account]] = {}
        """For each neighbour the youngest account of every server that it has given or was given."""
        self._touched: dict[str, None] = {}
        """Servers whose accounts may have to be passed on."""
        self._learned: dict[str, None] = {}
        """Servers whose accounts have changed since :meth:`learned` was asked."""
        self.graph = Graph()
        """The network as far as it is known."""
        self._pause = 0
        """Until when accounts wait."""
        self.deadline: int | None = None
        """When :meth:`updates` must be asked again at the latest."""
        self._outdone = 0
        """How often the network knew a younger account of this server than its own."""

    def restore(self, accounts: Iterable[Account], waiting: Iterable[str]) -> None:
        """Take back what was known when there were the links that there are now.

        All neighbours have been told it, but for the accounts of some servers, which waited. If the account of this
        server is not of these links, it gives another one.
        """
        links = self._own_links()
        self._accounts.update({account.server: account for account in accounts})
        own = self._accounts[self._server]
        self._incarnation = max(self._incarnation, own.incarnation)  # the clock may have been put back
        self._beyond = dict(own.beyond)
        self._touched = dict.fromkeys(waiting)
        told = {name: account for name, account in self._accounts.items() if name not in self._touched}
        for peer in self._links:
            self._told[peer] = dict(told)
        self.deadline = self._pause if self._touched else None
        self._learned.clear()
        self.graph = Graph(self._usable())
        if self._accounts[self._server].links != links:
            self._account()
            self.deadline = self._pause

    def learned(self) -> list[Account]:
        """The accounts that have changed since the last call: what has to be kept."""
        learned, self._learned = self._learned, {}
        return [self._accounts[name] for name in learned]

    def waiting(self) -> tuple[str, ...]:
        """The servers whose accounts wait to be passed on."""
        return tuple(self._touched)

    @property
    def servers(self) -> Iterable[str]:
        """The servers that can be reached, this one included, from the nearest on."""
        return self.graph.tree(self._server).distances

    def accounts(self) -> Mapping[str, Account]:
        """What is known, by server; to be looked at only."""
        return self._accounts

    # -- links of this server ------------------------------------------------------------------------------------------

    def connect(self, peer: str, latency: int, stamp: Stamp) -> None:
        """There is a new link: the neighbour gets to know all that is known here."""
        self._links[peer] = latency, stamp
        self._told[peer] = {}
        self._touched.update(dict.fromkeys(self._accounts))
        self._account()

    def disconnect(self, peer: str) -> None:
        """A link is gone."""
        del self._links[peer], self._told[peer]
        self._account()

    def reach(self, beyond: Mapping[str, Stamp]) -> None:
        """These servers of other networks are reached over this one."""
        if tuple(sorted(beyond.items())) != self._accounts[self._server].beyond:
            self._beyond = dict(beyond)
            self._account()

    def _account(self) -> None:
        """Give account of the links anew."""
        number = self._accounts[self._server].number + 1
        links = self._own_links()
        beyond = tuple(sorted(self._beyond.items()))
        self._learn(Account(self._server, self._incarnation, number, links, beyond))

    def _own_links(self) -> tuple[tuple[str, int, Stamp], ...]:
        return tuple((peer, latency, stamp) for peer, (latency, stamp) in sorted(self._links.items()))

    def members(self) -> dict[str, Stamp]:
        """All servers of this network, and those that are reached over other gateways than this server's own.

        For each the age of the youngest link on the way that is one of a tree: none within this network.
        """
        found: dict[str, Stamp] = dict.fromkeys(self.servers, (0, "", 0))
        for server in self.servers:
            if server != self._server:
                for name, stamp in self._accounts[server].beyond:
                    found[name] = min(stamp, found.get(name, stamp))
        return found

    # -- what others say -----------------------------------------------------------------------------------------------

    def receive(self, peer: str, account: Account) -> None:
        """A neighbour passes on what a server says of its links."""
        if account.server not in self._accounts and len(self._accounts) >= MOST_SERVERS:
            raise BadAccountError(f"{brief(peer)} passes on the links of more than {MOST_SERVERS:,} servers")
        if account.server == self._server and _age(account) > _age(self._accounts[self._server]):
            self._outdo(peer, account)
        told = self._told[peer]
        if _age(account) > _age(told.get(account.server, _NOBODY)):
            told[account.server] = account
        if _age(account) > _age(self._accounts.get(account.server, _NOBODY)):
            check_account(peer, account)
            self._learn(account)

    def _outdo(self, peer: str, account: Account) -> None:
        """The network knows a younger account of this server than its own: an earlier life had a later clock.

        This server goes on with higher numbers than that. If it has to do so again and again, another server has its
        name.
        """
        self._outdone += 1
        if self._outdone > _MOST_OUTDONE or max(_age(account)) > _MOST_NUMBER:
            raise BadAccountError(f"{brief(peer)} knows of another server with the name {brief(self._server)}")
        self._incarnation = account.incarnation
        own = self._accounts[self._server]
        self._accounts[self._server] = msgspec.structs.replace(
            own, incarnation=account.incarnation, number=account.number
        )
        self._account()

    def _learn(self, account: Account) -> None:
        server = account.server
        before = self._accounts.get(server, _NOBODY).links
        self._accounts[server] = account
        self._touched.pop(server, None)  # what was learned last is told last
        self._touched[server] = self._learned[server] = None
        for link in before:
            if link not in account.links and self._is_seen_there(server, link):
                self.graph.remove(server, link[0])
        for link in account.links:
            if link not in before and self._is_seen_there(server, link):
                self.graph.add(server, link[0], link[1])

    def _is_seen_there(self, server: str, link: tuple[str, int, Stamp]) -> bool:
        """Whether the other end of a server's link gives the same account of it."""
        peer, latency, stamp = link
        return (server, latency, stamp) in self._accounts.get(peer, _NOBODY).links

    def _usable(self) -> Iterator[tuple[str, str, int]]:
        """Links that both ends give the same account of."""
        for server, account in self._accounts.items():
            for link in account.links:
                if server < link[0] and self._is_seen_there(server, link):
                    yield server, link[0], link[1]

    # -- what neighbours are told --------------------------------------------------------------------------------------

    def is_due(self, now: int) -> bool:
        """Whether accounts have waited long enough."""
        return self.deadline is not None and self.deadline <= now

    def updates(self, now: int, *, pressing: bool = False) -> list[tuple[str, list[Account]]]:
        """What the neighbours have to be told now; it counts as told. What may wait does, unless it is pressing."""
        if not self._touched:
            return []
        if now < self._pause and not pressing:
            self.deadline = self._pause
            return []
        touched, self._touched = self._touched, {}
        self.deadline = None
        found = []
        for peer, told in self._told.items():
            fresh = [
                account
                for account in map(self._accounts.__getitem__, touched)
                if _age(told.get(account.server, _NOBODY)) < _age(account)
            ]
            told.update((each.server, each) for each in fresh)
            if fresh:
                found.append((peer, fresh))
        if found:
            self._pause = now + PACE
        return found


def check_account(peer: str, account: Account) -> None:
    """Refuse an account that no server can give, and that a neighbour passes on."""
    if len(account.links) > MOST_SERVERS or len(account.beyond) > MOST_SERVERS:
        raise BadAccountError(f"{brief(peer)} passes on more than {MOST_SERVERS:,} links of {brief(account.server)}")
    if any(latency < 1 for _, latency, _ in account.links):
        raise BadAccountError(f"{brief(peer)} passes on a latency below 1: {brief(account)}")
    neighbours = {neighbour for neighbour, _, _ in account.links}
    if len(neighbours) < len(account.links) or account.server in neighbours:
        raise BadAccountError(
            f"{brief(peer)} passes on two links to the same server, or one to itself: {brief(account)}"
        )


def _age(account: Account) -> tuple[int, int]:
    return account.incarnation, account.number
