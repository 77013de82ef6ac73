"""Where monitors run: at the neighbour from which alone everything comes that a pattern waits for, or here.

A monitor that a neighbour runs says what it takes, one by one. So this server always knows how far the pattern has been
met, and goes on itself when the neighbour is gone, or when something of the pattern is advertised elsewhere too. Moving
a monitor loses nothing and takes nothing twice: one server stops at a certain place of what comes over the link, the
other one goes on from there with what it has collected.

=====================  =================================================================================================
here → offered         ``Delegate`` is sent; the neighbour collects from now on, and says ``Accepted``
offered → away         ``Accepted`` comes: all that the neighbour has not collected was here; ``Continue`` is sent
here → away            at once, with ``Delegate``, if nobody was told of the filters: nothing is on the way; if the
                       neighbour has no room, it is away without a number until ``Delegate`` is sent
away → recalled        the filters are told, then ``Recall`` is sent; what comes is collected
recalled → here        ``Returned`` comes: all that was taken was here; what was collected is looked at
=====================  =================================================================================================

A neighbour needs comparisons to take in a monitor or to give it back, as for changes of filters. So only as many are
under way as :mod:`palio.routing.pacing` permits. The others wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from palio.errors import PeerError, brief
from palio.model import Filter, Notification
from palio.node.holdback import order_of
from palio.node.journal import Journal
from palio.node.monitors import Monitors
from palio.node.peer_limits import PeerLimits
from palio.node.settings import Delegation
from palio.node.watches import Commission, Place, Step, Watch
from palio.routing import messages
from palio.routing.available import Available
from palio.routing.messages import Message
from palio.routing.router import LOCAL, MONITORS, Role, Router


class Delegating:
    """Moves the monitors of one server, and takes in those of its neighbours."""

    def __init__(
        self,
        router: Router,
        monitors: Monitors,
        delegation: Delegation,
        peer_limits: PeerLimits,
        journal: Journal | None = None,
    ) -> None:
        self._peer_limits = peer_limits
        self._router = router
        self._monitors = monitors
        self._delegation = delegation
        self._journal = journal
        self.available = Available(router)
        self._by_filter: dict[Filter, dict[Watch, None]] = {}
        self._lent: dict[Commission, Watch] = {}
        """The watches that are at neighbours, or on the way, by neighbour and by this server's number for it."""
        self._taken_in: dict[Commission, Watch] = {}
        """The watches for neighbours."""
        self._tag = 0
        self._outgoing: list[tuple[str, Message]] = []
        self._moving: Counter[str] = Counter()
        """How many of these are requests to take in a monitor or to give it back, by neighbour."""
        self._waiting: dict[str, dict[Watch, None]] = {}
        """The watches that are to go to neighbours, or to come back, when these have room for that."""
        self._awaited: dict[Watch, str] = {}
        """The neighbour for which each of them waits."""

    # -- where monitors should be --------------------------------------------------------------------------------------

    def reconsider(self, room: Callable[[str], int] | None) -> bool:
        """Move the monitors that belong elsewhere now; whether neighbours have to be told at once what is wanted.

        ``room`` says for how many monitors a neighbour has room; without it, all are moved.
        """
        moved = self._monitors.moved
        for peer, waiting in self._waiting.items():
            moved.update(dict.fromkeys(islice(waiting, None if room is None else room(peer))))
        if not self._router.advertisements_spread:
            moved.clear()
        elif moved or self._by_filter:
            for filter in self.available.refresh():
                moved.update(self._by_filter.get(filter, {}))
        while moved:
            watch = next(iter(moved))
            del moved[watch]
            self._wait_no_longer(watch)
            if watch.place is Place.OVER:
                self._forget(watch)
            else:
                self._index(watch)
                self._settle(watch, room)
        return any(isinstance(message, messages.Recall) for _, message in self._outgoing)

    def reconsider_peer(self, peer: str) -> None:
        """A neighbour takes more or less than before: watches that it has, or has asked for, may belong elsewhere."""
        for watches in (self._lent, self._taken_in):
            self._monitors.moved.update(dict.fromkeys(each for owner, each in watches.items() if owner.peer == peer))

    def is_due(self, room: Callable[[str], int]) -> bool:
        """Whether a neighbour has room for a monitor that waits for that."""
        return any(room(peer) > 0 for peer in self._waiting)

    def _may_move(self, watch: Watch, peer: str, room: Callable[[str], int] | None) -> bool:
        """Whether a neighbour has room for one more monitor; otherwise the watch waits for that."""
        if room is None or room(peer) > self._moving[peer]:
            self._moving[peer] += 1
            return True
        self._waiting.setdefault(peer, {})[watch] = None
        self._awaited[watch] = peer
        return False

    def _wait_no_longer(self, watch: Watch) -> None:
        peer = self._awaited.pop(watch, None)
        if peer is not None:
            del self._waiting[peer][watch]
            if not self._waiting[peer]:
                del self._waiting[peer]

    def _settle(self, watch: Watch, room: Callable[[str], int] | None) -> None:
        target = self._target(watch)
        if watch.place is Place.OFFERED and target != watch.peer:
            self._send(watch, messages.Release(watch.tag))
            self._unlend(watch)
            self._monitors.move(watch, Place.HERE, self._factors(watch))
        elif watch.place is Place.AWAY and not watch.tag:
            self._settle_waiting(watch, target, room)
        elif watch.place is Place.AWAY and target != watch.peer:
            if self._may_move(watch, watch.peer, room):
                self._monitors.move(watch, Place.RECALLED)
                self._send(watch, messages.Recall(watch.tag))
        elif watch.place is Place.HERE and target != LOCAL:
            is_with_state = watch.is_silent and bool(self._monitors.held_for(watch))
            if is_with_state or self._may_move(watch, target, room):
                self._lend(watch, target)
            elif watch.is_silent:
                watch.peer = target
                self._monitors.move(watch, Place.AWAY)
        elif watch.place is Place.HERE and (factors := self._factors(watch)) != watch.factors:
            self._monitors.move(watch, Place.HERE, factors)
        if watch.place is not Place.AWAY:
            self._speak(watch)

    def _settle_waiting(self, watch: Watch, target: str, room: Callable[[str], int] | None) -> None:
        """A watch waits to be handed over: its neighbour has room now, or it belongs elsewhere."""
        if target == LOCAL:
            watch.peer = LOCAL
            self._monitors.move(watch, Place.HERE, self._factors(watch))
        elif self._may_move(watch, target, room):
            self._lend(watch, target)
        elif watch.peer != target:
            watch.peer = target
            self._monitors.keep(watch)

    def _speak(self, watch: Watch) -> None:
        """Neighbours are told of a pattern's filters now; if it is of another server, they may know them already."""
        if watch.is_silent and (
            isinstance(watch.owner, Commission)
            or any(peer != LOCAL for filter in watch.pattern for peer in self.available.providers(filter))
        ):
            watch.is_silent = False
            self._monitors.keep(watch)

    def _target(self, watch: Watch) -> str:
        if self._delegation is Delegation.NONE:
            return LOCAL
        peer = self.available.only_provider(watch.pattern.filters)
        return peer if peer is not None and self._may_ask(watch, peer) else LOCAL

    def _may_ask(self, watch: Watch, peer: str) -> bool:
        """Whether a neighbour can watch: it is of this network, has not passed the pattern on, and takes it.

        A watch for a neighbour that does not take everything stays here, where it is known what that one takes.
        """
        owner = watch.owner
        if isinstance(owner, Commission) and self._peer_limits.is_tight(owner.peer):
            return False
        is_possible = self._router.peers.get(peer) is Role.PEER and peer not in watch.path
        return is_possible and self._peer_limits.takes_pattern(peer, watch.pattern)

    def _factors(self, watch: Watch) -> tuple[Step, ...]:
        """What a watch waits for; only those of parties for groups, for these may give up elements, unlike twins."""
        is_of_party = isinstance(watch.owner, str) and watch.owner != MONITORS
        if self._delegation is not Delegation.GROUPS or not is_of_party:
            return watch.pattern.filters
        return self.available.factor(watch.pattern, lambda peer: self._may_ask(watch, peer))

    def _index(self, watch: Watch) -> None:
        for filter in watch.pattern:
            self._by_filter.setdefault(filter, {})[watch] = None

    def _forget(self, watch: Watch) -> None:
        if watch.tag:
            self._send(watch, messages.Release(watch.tag))
            self._unlend(watch)
        for filter in dict.fromkeys(watch.pattern):
            watches = self._by_filter.get(filter, {})
            watches.pop(watch, None)
            if not watches:
                self._by_filter.pop(filter, None)
                self.available.forget(filter)

    @property
    def lent(self) -> Mapping[Commission, Watch]:
        """The watches that are at neighbours or on the way, by neighbour and number; to be looked at only."""
        return self._lent

    @property
    def taken_in(self) -> Mapping[Commission, Watch]:
        """The watches for neighbours, by neighbour and its number for it; to be looked at only."""
        return self._taken_in

    # -- what goes to neighbours ---------------------------------------------------------------------------------------

    def _lend(self, watch: Watch, peer: str) -> None:
        self._tag += 1
        if self._journal is not None:
            self._journal.put(("tag",), self._tag)
        watch.peer, watch.tag = peer, self._tag
        self._lent[Commission(peer, watch.tag)] = watch
        state = self._hand_over(watch) if watch.is_silent else None
        if state is None:
            self._monitors.move(watch, Place.OFFERED, watch.factors)
        self._send(watch, messages.Delegate(watch.pattern, watch.tag, (*watch.path, self._router.server), state))

    def _hand_over(self, watch: Watch) -> messages.Continue:
        """From now on a watch is at a neighbour; what that has to know."""
        held = self._monitors.held_for(watch)
        self._monitors.move(watch, Place.AWAY)
        return messages.Continue(watch.tag, watch.position, watch.after, held)

    def _unlend(self, watch: Watch) -> None:
        del self._lent[Commission(watch.peer, watch.tag)]
        watch.peer, watch.tag = LOCAL, 0

    def _come_home(self, watch: Watch, held: tuple[Notification, ...], now: int) -> None:
        """A watch that was at a neighbour goes on here, or where it has come from."""
        self._unlend(watch)
        watch.is_silent = False
        if watch.is_leaving:
            self._give_back(watch, held)
            return
        self._monitors.move(watch, Place.HERE, self._factors(watch))
        self._monitors.catch_up(watch, held, now)

    def _give_back(self, watch: Watch, more: tuple[Notification, ...] = ()) -> None:
        """A watch ends here; whoever has asked for it gets what has not been looked at."""
        owner = watch.owner
        assert isinstance(owner, Commission)
        held = sorted([*self._monitors.take_pending(watch), *self._monitors.held_for(watch), *more], key=order_of)
        self._outgoing += self._monitors.elements()
        self._outgoing.append((owner.peer, messages.Returned(owner.tag, tuple(held))))
        self._monitors.end(self._taken_in.pop(owner))

    def _send(self, watch: Watch, message: Message) -> None:
        self._outgoing.append((watch.peer, message))

    def outgoing(self) -> list[tuple[str, Message]]:
        """What neighbours have to be told, behind all that they have to be told of filters."""
        self._outgoing += self._monitors.elements()
        outgoing, self._outgoing = self._outgoing, []
        self._moving.clear()
        return outgoing

    # -- what comes from neighbours ------------------------------------------------------------------------------------

    def receive(self, peer: str, message: messages.MonitorMessage, now: int) -> None:
        """A neighbour says something about a pattern that it watches, or wants to be watched."""
        if not self._router.advertisements_spread or self._router.peers.get(peer) is not Role.PEER:
            raise PeerError(f"{brief(peer)} cannot say {type(message).__name__} here")
        match message:
            case messages.Element(notification, tags):
                for tag in tags:
                    self._element(self._lent.get(Commission(peer, tag)), peer, notification)
            case messages.Accepted(tag):
                watch = self._lent.get(Commission(peer, tag))
                if watch is not None and watch.place is Place.OFFERED:
                    self._send(watch, self._hand_over(watch))
            case messages.Returned(tag, held):
                watch = self._lent.get(Commission(peer, tag))
                if watch is not None and watch.place is Place.RECALLED:
                    self._come_home(watch, held, now)
            case messages.Delegate(pattern, tag, path, state):
                self._take_in(Watch(Commission(peer, tag), pattern, self._monitors.arrivals, path), state, now)
            case messages.Continue() | messages.Recall() | messages.Release():
                owner = Commission(peer, message.tag)
                if owner in self._taken_in:
                    self._command(owner, message, now)
                elif not isinstance(message, messages.Release):  # that may have crossed with an answer
                    raise PeerError(f"{brief(peer)} says {type(message).__name__} of what it has not asked for")

    def _take_in(self, watch: Watch, state: messages.Continue | None, now: int) -> None:
        owner = watch.owner
        assert isinstance(owner, Commission)
        if owner in self._taken_in:
            raise PeerError(f"{brief(owner.peer)} asks twice for {brief(watch.pattern)}, as number {owner.tag}")
        self._taken_in[owner] = watch
        watch.place = Place.EXPECTED
        self._monitors.begin(watch)
        if state is None:
            self._outgoing.append((owner.peer, messages.Accepted(owner.tag)))
        else:
            self._command(owner, state, now)

    def _command(
        self, owner: Commission, message: messages.Continue | messages.Recall | messages.Release, now: int
    ) -> None:
        watch = self._taken_in[owner]
        match message:
            case messages.Continue(_, position, after, held):
                if watch.place is not Place.EXPECTED or not 0 <= position < len(watch.pattern):
                    raise PeerError(f"{type(message).__name__} makes no sense for {brief(watch.pattern)}")
                watch.position, watch.after = position, after
                self._monitors.move(watch, Place.HERE, self._factors(watch))
                self._monitors.catch_up(watch, held, now)
            case messages.Recall():
                watch.is_leaving = True
                self._monitors.keep(watch)
                if watch.place is Place.AWAY and watch.tag:
                    self._monitors.move(watch, Place.RECALLED)
                    self._send(watch, messages.Recall(watch.tag))
                elif watch.place is not Place.RECALLED:
                    self._give_back(watch)
            case messages.Release():
                self._monitors.end(self._taken_in.pop(owner))

    def _element(self, watch: Watch | None, peer: str, notification: Notification) -> None:
        if watch is None or watch.place not in (Place.AWAY, Place.RECALLED):
            return  # it is over here, and the neighbour does not know yet
        step = watch.waiting
        is_met = isinstance(step, Filter) and step.matches(notification)
        if not is_met or (watch.after is not None and order_of(notification) <= watch.after):
            raise PeerError(f"{brief(peer)} takes {order_of(notification)[1]} for {brief(watch.pattern)}, wrongly")
        self._monitors.take(watch, (notification,), self._monitors.next_number())

    def lost(self, peer: str, now: int) -> None:
        """A neighbour is gone: what it watched goes on here, what it has asked for is over."""
        for watch in tuple(self._waiting.get(peer, ())):
            self._wait_no_longer(watch)
            self._monitors.moved[watch] = None
        for owner in [owner for owner in self._taken_in if owner.peer == peer]:
            self._monitors.end(self._taken_in.pop(owner))
        for watch in [watch for watch in self._lent.values() if watch.peer == peer]:
            if watch.place is Place.OFFERED:
                self._unlend(watch)
                self._monitors.move(watch, Place.HERE, watch.factors)
            elif watch.place is Place.OVER:
                self._unlend(watch)
            else:
                self._come_home(watch, (), now)

    def restore(self, known: Mapping[tuple[Any, ...], Any], watches: Iterable[Watch]) -> None:
        """Take back what was kept."""
        watches = list(watches)
        self._tag = max([known.get(("tag",), 0), *(watch.tag for watch in watches)])
        for watch in watches:
            if isinstance(watch.owner, Commission):
                self._taken_in[watch.owner] = watch
            if watch.tag:
                self._lent[Commission(watch.peer, watch.tag)] = watch
