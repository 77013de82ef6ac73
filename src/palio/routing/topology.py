"""Which servers and links there are in a network of any shape: every server tells all others of its links.

A server's account of its links has a number, and is passed on by flooding over links that lose nothing; of two accounts
the younger counts. A link is there when both of its ends say so, and mean the same one: an account from before the
network fell apart does not count again when it comes together. A new neighbour is told of this server last, so that who
hears that the two are connected has heard of all that lies behind them before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from palio.errors import PeerError, brief
from palio.routing.messages import Account, Stamp
from palio.routing.paths import Graph

_NOBODY = Account("", 0, -1, ())


class BadAccountError(PeerError):
    """An account of links that no server can give."""


class Topology:
    """What one server knows of the network.

    >>> milan, rome = Topology("milan"), Topology("rome")
    >>> milan.connect("rome", 30, (1, "milan", 0))
    >>> rome.connect("milan", 30, (1, "milan", 0))
    >>> [(_, accounts)] = rome.updates()
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
        self._told: dict[str, dict[str, tuple[int, int]]] = {}
        """For each neighbour the youngest account of every server that it has given or was given."""
        self._touched: dict[str, None] = {}
        """Servers whose accounts may have to be passed on."""
        self._learned: dict[str, None] = {}
        """Servers whose accounts have changed since :meth:`learned` was asked."""
        self._graph: Graph | None = None

    def restore(self, accounts: Iterable[Account]) -> None:
        """Take back what was known when there were the links that there are now; all neighbours have been told it."""
        self._accounts.update({account.server: account for account in accounts})
        self._beyond = dict(self._accounts[self._server].beyond)
        for peer in self._links:
            self._told[peer] = {name: _age(account) for name, account in self._accounts.items()}
        self._touched.clear()
        self._learned.clear()
        self._graph = None

    def learned(self) -> list[Account]:
        """The accounts that have changed since the last call: what has to be kept."""
        learned, self._learned = self._learned, {}
        return [self._accounts[name] for name in learned]

    @property
    def graph(self) -> Graph:
        """The network as far as it is known."""
        if self._graph is None:
            self._graph = Graph(self._usable())
        return self._graph

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
        links = tuple((peer, latency, stamp) for peer, (latency, stamp) in sorted(self._links.items()))
        beyond = tuple(sorted(self._beyond.items()))
        self._learn(Account(self._server, self._incarnation, number, links, beyond))

    def members(self) -> dict[str, Stamp]:
        """All servers of this network, and those that are reached over other gateways than this server's own.

        For each the age of the youngest link on the way that is one of a tree: none within this network.
        """
        found: dict[str, Stamp] = dict.fromkeys(self.servers, (0, "", 0))
        for server in self.servers:
            if server != self._server and server in self._accounts:
                for name, stamp in self._accounts[server].beyond:
                    found[name] = min(stamp, found.get(name, stamp))
        return found

    # -- what others say -----------------------------------------------------------------------------------------------

    def receive(self, peer: str, account: Account) -> None:
        """A neighbour passes on what a server says of its links."""
        if account.server == self._server and _age(account) > _age(self._accounts[self._server]):
            raise BadAccountError(f"{brief(peer)} knows of a later life of {brief(self._server)} than this one")
        if any(latency < 1 for _, latency, _ in account.links):
            raise BadAccountError(f"{brief(peer)} passes on a latency below 1: {brief(account)}")
        self._told[peer][account.server] = _age(account)
        if _age(account) > _age(self._accounts.get(account.server, _NOBODY)):
            self._learn(account)
        else:
            self._touched[account.server] = None  # the neighbour may know less than is known here

    def _learn(self, account: Account) -> None:
        self._accounts[account.server] = account
        self._touched.pop(account.server, None)  # what was learned last is told last
        self._touched[account.server] = self._learned[account.server] = None
        self._graph = None

    def _usable(self) -> Iterator[tuple[str, str, int]]:
        """Links that both ends give the same account of."""
        for one, account in sorted(self._accounts.items()):
            for other, latency, stamp in account.links:
                if one < other and other in self._accounts and (one, latency, stamp) in self._accounts[other].links:
                    yield one, other, latency

    # -- what neighbours are told --------------------------------------------------------------------------------------

    def updates(self) -> list[tuple[str, list[Account]]]:
        """What the neighbours have to be told now; it counts as told."""
        touched, self._touched = self._touched, {}
        found = []
        for peer, told in self._told.items():
            fresh = [self._accounts[name] for name in touched]
            fresh = [each for each in fresh if told.get(each.server, _age(_NOBODY)) < _age(each)]
            told.update((each.server, _age(each)) for each in fresh)
            if fresh:
                found.append((peer, fresh))
        return found


def _age(account: Account) -> tuple[int, int]:
    return account.incarnation, account.number
