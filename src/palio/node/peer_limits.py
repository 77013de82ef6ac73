"""What each peer takes, and how messages are made to fit.

Between servers of this release only the protocol's maxima hold, and everything fits. A peer of an earlier release has
limits of its own. A publication that it cannot take becomes a letter of its link; a filter or an advertisement is
widened. So no frame is refused there, and the link goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from palio.link.session import PEER_FRAME_BYTES, LinkSettings
from palio.model import PROTOCOL_LIMITS, Limits, Notification, NotificationId, Pattern
from palio.model.limits import from_wire
from palio.node.journal import Journal
from palio.node.link_letters import LinkLetters
from palio.node.widening import problem, widened
from palio.routing.messages import (
    Continue,
    Control,
    Delegate,
    Element,
    Message,
    Publish,
    Returned,
    Spreaded,
    Standing,
    begun,
    ended,
)

MOST_HELD_BYTES = PEER_FRAME_BYTES // 2
"""Of the notifications that one message about a pattern may hold: the message has to fit into a frame."""
MOST_WITHOUT_LINK = 1_000
"""Peers of version 1 whose limits are known though there is no link to them."""
NOTHING = Spreaded(-1)
"""Takes the place of a message that a peer cannot take but that has a number already: no wave has this one."""
_HOLDING = (Delegate, Continue, Returned)
"""Messages that hold any number of notifications; each is sent alone."""

Refused = Callable[[str, NotificationId, str], None]
"""Is called with the peer, the id of the notification and the reason when something becomes a letter."""


class _Forms:
    """What one peer was sent in place of subscriptions and advertisements. Several may have the same form: it is sent
    once, and taken back with the last of them.
    """

    __slots__ = ("counts", "forms")

    def __init__(self) -> None:
        self.forms: dict[Standing, Standing | None] = {}
        self.counts: Counter[Standing] = Counter()

    def begin(self, standing: Standing, form: Standing | None) -> bool:
        """Something has a form from now on; whether that is new to the peer."""
        self.forms[standing] = form
        if form is None:
            return False
        self.counts[form] += 1
        return self.counts[form] == 1

    def end(self, standing: Standing) -> Standing | None:
        """Something is taken back; the form with which the peer has to be sent the same, if any."""
        form = self.forms.pop(standing, None)
        if form is None:
            return None
        self.counts[form] -= 1
        if self.counts[form]:
            return None
        del self.counts[form]
        return form


class PeerLimits:
    """The limits of all peers of a node, and the letters of its links."""

    def __init__(self, settings: LinkSettings, refused: Refused, journal: Journal | None = None) -> None:
        self.letters = LinkLetters(settings, journal)
        self._refused = refused
        self._journal = journal
        self._said: dict[str, tuple[int, ...]] = {}
        """What peers have said when links were opened, for each link that there is."""
        self._of_connection: dict[str, tuple[int, ...]] = {}
        """What is known from connections to peers of version 1, which say nothing."""
        self._tight: dict[str, Limits] = {}
        """The limits of peers with which not everything fits."""
        self._forms: dict[str, _Forms] = {}
        """For each of these to which there is a link."""
        self._kept: dict[str, None] = {}
        """The peers of whose limits there is a record: those that do not take everything."""

    # -- what peers take -----------------------------------------------------------------------------------------------

    def connected(self, peer: str, limits: tuple[int, ...], told: Callable[[], Iterable[Standing]]) -> bool:
        """There is a connection to a peer, which may have come back as another release. Whether it takes less now.

        ``limits`` are empty if the peer says itself what it takes. ``told`` gives what it was told before.
        """
        before = self._tight.get(peer)
        if limits:
            self._of_connection[peer] = limits
            self._bound()
        else:
            self._of_connection.pop(peer, None)
        self._look(peer)
        if peer not in self._said:
            return False
        self._keep(peer)
        now = self._tight.get(peer)
        if now is not None and peer not in self._forms:
            forms = self._forms[peer] = _Forms()
            for standing in told():
                forms.begin(standing, standing)
        return now is not None and now != before

    def _bound(self) -> None:
        """Of peers without a link only so many are known; the first ones are forgotten."""
        if len(self._of_connection) > MOST_WITHOUT_LINK + len(self._said):
            first = next(each for each in self._of_connection if each not in self._said)
            del self._of_connection[first]
            self._look(first)

    def opened(self, peer: str, limits: tuple[int, ...]) -> None:
        """There is a new link; nothing was sent over it yet."""
        self._said[peer] = limits
        self._look(peer)
        self._keep(peer)
        if peer in self._tight:
            self._forms[peer] = _Forms()

    def gone(self, peer: str) -> None:
        """There is no link any more; its letters stay."""
        self._said.pop(peer, None)
        forms = self._forms.pop(peer, None)
        for standing, form in forms.forms.items() if forms is not None else ():
            if form != standing:
                self._put(("widened", peer, standing), None)
        self._look(peer)
        self._keep(peer)

    def _look(self, peer: str) -> None:
        limits = from_wire(self._of_connection.get(peer) or self._said.get(peer, ()))
        if limits == PROTOCOL_LIMITS:
            self._tight.pop(peer, None)
        else:
            self._tight[peer] = limits

    def is_tight(self, peer: str) -> bool:
        """Whether there may be something that a peer cannot take."""
        return peer in self._tight

    def takes(self, peer: str, notification: Notification) -> bool:
        """Whether a peer can take a notification."""
        return peer not in self._tight or not self._problem(peer, notification)

    def takes_pattern(self, peer: str, pattern: Pattern) -> bool:
        """Whether a peer can take a pattern."""
        return peer not in self._tight or not problem(pattern, self._tight[peer])

    def _problem(self, peer: str, notification: Notification) -> str:
        limits = self._tight[peer]
        envelope = notification.envelope
        return problem(notification, limits) or ("" if envelope is None else problem(envelope, limits))

    # -- what they are sent --------------------------------------------------------------------------------------------

    def fit(self, peer: str, said: Sequence[Message], now: int) -> Sequence[Message]:
        """The messages that a peer is sent in place of others; most often the same."""
        is_roomy = peer not in self._tight and peer not in self._forms
        if is_roomy and (len(said) != 1 or said[0].__class__ not in _HOLDING):
            return said
        return [each for message in said for each in self._fitted(peer, message, now)]

    def _fitted(self, peer: str, message: Message, now: int) -> Sequence[Message]:
        if peer in self._forms and isinstance(message, Control):
            return self._control(peer, message)
        found = self.replacement(peer, message, now)
        return () if found is None else (found,)

    def replacement(self, peer: str, message: Message, now: int) -> Message | None:
        """What a peer is sent in place of one message that is no subscription or advertisement; nothing if it cannot
        take any of it.
        """
        match message:
            case Publish(notification) | Element(notification):
                return message if peer not in self._tight or self._check(peer, notification, now) else None
            case Continue(held=held) | Returned(held=held):
                return msgspec.structs.replace(message, held=self._most_of(peer, held, now))
            case Delegate(pattern, state=state) if not self.takes_pattern(peer, pattern):
                return None
            case Delegate(state=Continue(held=held) as state):
                state = msgspec.structs.replace(state, held=self._most_of(peer, held, now))
                return msgspec.structs.replace(message, state=state)
        return message

    def _control(self, peer: str, message: Control) -> Sequence[Message]:
        forms, standing = self._forms[peer], begun(message)
        if standing is message:
            form = widened(standing, self._limits(peer))
            if form != standing:
                self._put(("widened", peer, standing), () if form is None else (form,))
            return (form,) if forms.begin(standing, form) and form is not None else ()
        form = forms.forms.get(standing, standing)
        if form != standing:
            self._put(("widened", peer, standing), None)
        form = forms.end(standing)
        # a peer that took more before goes on holding what it cannot be told to drop, which does no harm
        return (ended(form),) if form is not None and self._is_fit(peer, form) else ()

    def _is_fit(self, peer: str, standing: Standing) -> bool:
        return widened(standing, self._limits(peer)) is standing

    def _limits(self, peer: str) -> Limits:
        return self._tight.get(peer, PROTOCOL_LIMITS)

    def refit(self, peer: str, replace: Callable[[Callable[[Message], Message]], None], now: int) -> list[Message]:
        """A peer takes less than before: ``replace`` what waits for it, one by one; what has to be sent besides.

        A subscription that it cannot take may have reached it or not. So the widened one is sent as another message.
        """
        again: list[Standing] = []

        def fitted(message: Message) -> Message:
            if not isinstance(message, Control):
                return self.replacement(peer, message, now) or NOTHING
            standing = begun(message)
            if self._is_fit(peer, standing):
                return message
            if standing is message and standing in self._forms[peer].forms:
                again.append(standing)
            return NOTHING

        replace(fitted)
        found: list[Message] = []
        for standing in dict.fromkeys(again):
            self._forms[peer].end(standing)
            found += self._control(peer, standing)
        return found

    def _check(self, peer: str, notification: Notification, now: int) -> bool:
        """Whether a peer can take a notification; if not, it becomes a letter."""
        reason = self._problem(peer, notification)
        if reason:
            self.refuse(peer, notification, reason, now)
        return not reason

    def refuse(self, peer: str, notification: Notification, reason: str, now: int) -> None:
        """Make a notification a letter."""
        assert notification.envelope is not None
        self.letters.add(peer, notification, reason, now)
        self._refused(peer, notification.envelope.id, reason)

    def _most_of(self, peer: str, held: tuple[Notification, ...], now: int) -> tuple[Notification, ...]:
        """As many notifications that are held back as fit into a message, the latest ones, without those that a peer
        cannot take.
        """
        if peer in self._tight:
            held = tuple([each for each in held if self._check(peer, each, now)])
        size, kept = 0, len(held)
        while kept and size + held[kept - 1].size <= MOST_HELD_BYTES:
            kept -= 1
            size += held[kept].size
        for each in held[:kept]:
            self.refuse(peer, each, f"more than {MOST_HELD_BYTES:,} bytes are held back for one pattern", now)
        return held[kept:]

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _keep(self, peer: str) -> None:
        if peer in self._said and peer in self._tight:
            self._kept[peer] = None
            self._put(("takes", peer), (self._said[peer], self._of_connection.get(peer, ())))
        elif peer in self._kept:
            del self._kept[peer]
            self._put(("takes", peer), None)

    def _put(self, key: tuple[Any, ...], value: object) -> None:
        if self._journal is not None:
            self._journal.put(key, value)

    def restore(self, known: Mapping[tuple[Any, ...], Any], peers: Iterable[str]) -> None:
        """Take back what was kept: the limits of peers to which there are links, and letters."""
        self.letters.restore(known)
        formed = {key[1] for key in known if key[0] == "widened"}
        for peer in peers:
            if ("takes", peer) in known:
                self._kept[peer] = None
            said, of_connection = known.get(("takes", peer), ((), ()))
            self._said[peer] = said
            if of_connection:
                self._of_connection[peer] = of_connection
            self._look(peer)
            if peer in self._tight or peer in formed:
                self._forms[peer] = _Forms()

    def recall(self, peer: str, told: Iterable[Message], known: Mapping[tuple[Any, ...], Any]) -> None:
        """Take back in which form a peer was told what it was told in an earlier life of this server."""
        if peer in self._forms:
            for message in told:
                if isinstance(message, Control):
                    standing = begun(message)
                    (form,) = known.get(("widened", peer, standing), (standing,)) or (None,)
                    self._forms[peer].begin(standing, form)
