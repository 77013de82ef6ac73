"""Planted bugs of links, of the tree's membership and of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from palio.link.end import End
from palio.link.frames import Close, Data, Frame, Why
from palio.link.links import Links
from palio.link.ports import LinkEvent, Received
from palio.link.session import Session
from palio.link.states import Event as StateEvent
from palio.model import Filter, Pattern
from palio.node.arrivals import Arrivals, _Queue
from palio.node.departures import Departures
from palio.node.node import Node
from palio.node.publications import Publications
from palio.node.requests import Requests
from palio.node.seen import Seen
from palio.node.spreading import Spreading
from palio.node.waves import Asked, Passed, Waves
from palio.routing import messages
from palio.routing.membership import Membership
from palio.routing.messages import Members, Message, Stamp
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs()
_Right = Callable[..., Any]
_SERVERS = ("hs", "as", "aa", "nf")
_ALL = ("ce", *_SERVERS)

# -- one sequence for each direction -----------------------------------------------------------------------------------


@BUGS.plant(Session, "receive", _SERVERS, ("weather", "all"))
def _gap_accepted(right: _Right) -> _Right:
    """A frame that has overtaken another one is taken, and the other one is not any more."""

    def receive(session: Session, frame: Data, now: int) -> Sequence[Message]:
        if frame.messages and frame.first > session.expected:
            session.expected = frame.first
        return tuple(right(session, frame, now))

    return receive


@BUGS.plant(Session, "receive", _SERVERS, ("weather", "all"))
def _acknowledged_before_it_came(right: _Right) -> _Right:
    """After a gap all is acknowledged up to the frame that came, which is thrown away."""

    def receive(session: Session, frame: Data, now: int) -> Sequence[Message]:
        is_gap = bool(frame.messages) and frame.first > session.expected
        found = tuple(right(session, frame, now))
        if is_gap:
            session.expected = frame.first + len(frame.messages)
        return found

    return receive


@BUGS.plant(Arrivals, "_append", TREES, ("weather", "all"))
def _frame_taken_twice(right: _Right) -> _Right:
    """A frame of which the beginning is known already is taken as a whole."""

    def append(arrivals: Arrivals, peer: str, session: Session, frame: Data) -> None:
        following = session.expected + arrivals.waiting(peer)
        if frame.first < following < frame.first + len(frame.messages):
            frame = msgspec.structs.replace(frame, first=following)
        right(arrivals, peer, session, frame)

    return append


@BUGS.plant(Session, "frames", _SERVERS, ("weather", "all"))
def _never_sent_again(right: _Right) -> _Right:
    """What was not acknowledged is not sent again."""

    def frames(session: Session, now: int) -> list[Data]:
        session._resend_at = None
        return list(right(session, now))

    return frames


@BUGS.plant(Session, "frames", _SERVERS, ("weather", "all"))
def _held_for_good(right: _Right) -> _Right:
    """Who was asked to wait never sends anything again, if the word that it may was lost."""

    def frames(session: Session, now: int) -> list[Data]:
        if session.is_held:
            session._resend_at = None
        found = list(right(session, now))
        if session.is_held:
            session._resend_at = None
        return found

    return frames


@BUGS.plant(Links, "lose", _SERVERS, ("links",))
def _given_up_for_good(right: _Right) -> _Right:
    """A link that was given up because the neighbour could not be reached is not opened again."""

    def lose(links: Links, peer: str, *given: Any) -> list[LinkEvent]:
        if peer in links._ends:
            links._ends[peer].want_no_longer()
        return list(right(links, peer, *given))

    return lose


@BUGS.plant(Session, "_acknowledged", _SERVERS, ("weather", "all"))
def _too_much_forgotten(right: _Right) -> _Right:
    """An acknowledgement lets go of all that was sent, also of what it does not speak of."""

    def acknowledged(session: Session, expected: int, now: int) -> None:
        right(session, session._end if expected > session.base else expected, now)

    return acknowledged


@BUGS.plant(Arrivals, "take", _SERVERS, ("crashes",))
def _acknowledged_before_it_is_handled(right: _Right) -> _Right:
    """A frame is acknowledged when it has come, though its messages wait for comparisons."""

    def take(arrivals: Arrivals, peer: str, frame: Frame) -> None:
        node, hand_over = arrivals._node, Arrivals._pass

        def hand_over_late(peer: str, given: Any) -> None:
            if isinstance(given, Received):
                node.happened((given,))
            else:
                hand_over(arrivals, peer, given)

        vars(arrivals).update(_frame=lambda peer, ready: Received(peer, tuple(ready)), _pass=hand_over_late)
        if not isinstance(frame, Data) or not arrivals._may_take_long(peer, frame):
            right(arrivals, peer, frame)
            return
        queue = arrivals._queues.setdefault(peer, _Queue())
        for event in node.links.receive(peer, frame, node.now):
            if isinstance(event, Received):
                queue.messages.extend(event.messages)
            else:
                node.happened((event,))
        if peer in arrivals._queues:
            arrivals._work(peer)

    return take


@BUGS.plant(Departures, "work", ("as", "aa"), ("links", "crashes"))
def _departed_for_ever(_right: _Right) -> _Right:
    """What a neighbour has left behind that takes comparisons to remove is never removed."""

    def work(departures: Departures) -> None:
        departures._waiting.clear()

    return work


@BUGS.plant(Departures, "restore", ("as", "aa"), ("crashes", "all"))
def _departed_forgotten(_right: _Right) -> _Right:
    """A server that comes back does not know what was still to be removed, which its neighbours were told."""
    return lambda _departures, _found: None


# -- how links come and go ---------------------------------------------------------------------------------------------


@BUGS.plant(End, "receive_data", _SERVERS, ("races",))
def _stale_session(right: _Right) -> _Right:
    """Data of an older link to the same neighbour is taken for data of this one."""

    def receive_data(end: End, frame: Data, now: int) -> list[LinkEvent]:
        if end.session is not None:
            frame = msgspec.structs.replace(frame, session=end.session)
        return list(right(end, frame, now))

    return receive_data


@BUGS.plant(Links, "doubt", _SERVERS, ("crashes",))
def _never_in_doubt(_right: _Right) -> _Right:
    """A server does not find out that a neighbour was restarted and has forgotten the link."""
    return lambda _links, _peer, _now: []


@BUGS.plant(End, "happen", _SERVERS, ("crashes",))
def _not_opened_again(right: _Right) -> _Right:
    """A link that the neighbour does not know any more is not opened again."""

    def happen(end: End, event: StateEvent, *given: Any) -> list[LinkEvent]:
        if event is StateEvent.CLOSE:
            end.want_no_longer()
        return list(right(end, event, *given))

    return happen


@BUGS.plant(End, "receive", _SERVERS, ("links",))
def _close_not_heard(right: _Right) -> _Right:
    """A neighbour that ends a link is not heard."""

    def receive(end: End, frame: Frame, now: int) -> list[LinkEvent]:
        if isinstance(frame, Close):
            return end.happen(StateEvent.CLOSE_OTHER, now, frame)
        return list(right(end, frame, now))

    return receive


@BUGS.plant(End, "receive", _SERVERS, ("links", "races"))
def _wish_dropped_with_the_link(right: _Right) -> _Right:
    """A server whose neighbour ends the link gives up its own wish for it."""

    def receive(end: End, frame: Frame, now: int) -> list[LinkEvent]:
        if isinstance(frame, Close) and frame.why is Why.ENDED and frame.session == end.session:
            end.want_no_longer()
        return list(right(end, frame, now))

    return receive


# -- who is in the tree ------------------------------------------------------------------------------------------------


@BUGS.plant(Membership, "next_stamp", ("as", "nf"), ("races",))
def _stamps_given_again(right: _Right) -> _Right:
    """A server gives the same stamp to all sessions that it opens, of the same link and of others."""

    def next_stamp(membership: Membership) -> Stamp:
        _, server, incarnation = right(membership)
        return (1, server, incarnation)

    return next_stamp


@BUGS.plant(Membership, "check", ("as", "aa", "nf"), ("links",))
def _cycle_not_refused(_right: _Right) -> _Right:
    """A link that would close a cycle is not refused."""
    return lambda _membership, _peer, _members: None


@BUGS.plant(Membership, "to_cut", ("as", "nf"), ("races",))
def _cycle_not_cut(_right: _Right) -> _Right:
    """A cycle that came about is not cut."""
    return lambda _membership: []


@BUGS.plant(Membership, "_closes_cycle", ("as", "aa", "nf"), ("races",))
def _wrong_link_cut(_right: _Right) -> _Right:
    """Every link of a cycle is cut by whoever sees the cycle, and not the youngest alone."""

    def closes_cycle(membership: Membership, peer: str, link: Any, _suspects: Iterable[str]) -> bool:
        return any(membership._nearest(member, peer) is not None for member in link.reached)

    return closes_cycle


@BUGS.plant(Membership, "updates", ("as", "aa", "nf"), ("links",))
def _departures_not_told(right: _Right) -> _Right:
    """Servers are not told which servers cannot be reached any more."""

    def updates(membership: Membership) -> list[tuple[str, Members]]:
        found = [(peer, Members(said.joined, ())) for peer, said in right(membership)]
        return [(peer, said) for peer, said in found if said.joined]

    return updates


# -- the node ----------------------------------------------------------------------------------------------------------


@BUGS.plant(Seen, "is_new", ("nf",), ("races",))
def _nothing_is_remembered(right: _Right) -> _Right:
    """While two links close a cycle, notifications go round in it."""

    def is_new(seen: Seen, origin: str, incarnation: int, sequence: int) -> bool:
        right(seen, origin, incarnation, sequence)
        return True

    return is_new


@BUGS.plant(Seen, "is_new", _SERVERS)
def _only_the_latest_is_remembered(_right: _Right) -> _Right:
    """What comes in another order than it was published in counts as known, whoever has published it."""

    def is_new(seen: Seen, _origin: str, _incarnation: int, sequence: int) -> bool:
        latest = seen._latest.get("", {}).get(0, -1)
        seen._latest[""] = {0: max(latest, sequence)}
        return sequence > latest

    return is_new


@BUGS.plant(Waves, "answered", ("as",), ("races",))
def _first_answer_counts(right: _Right) -> _Right:
    """A wave counts as come back when the first neighbour has answered."""

    def answered(waves: Waves[Any], peer: str, number: int) -> list[Any]:
        wave = waves._waves.get(number)
        for other in [] if wave is None else [each for each in wave.missing if each != peer]:
            del waves._waves[number].missing[other]
        return list(right(waves, peer, number))

    return answered


@BUGS.plant(Spreading, "spread", TREES, ("races",))
def _wave_not_passed_on(right: _Right) -> _Right:
    """A neighbour's wave is answered at once, before it has gone any further."""

    def spread(spreading: Spreading, waiting: Asked | Passed, source: str | None, origin: str) -> None:
        if isinstance(waiting, Passed):
            spreading.come_back([waiting])
        else:
            right(spreading, waiting, source, origin)

    return spread


@BUGS.plant(Spreading, "spread", ("hs", "as"), ("races",))
def _wave_overtakes(right: _Right) -> _Right:
    """A wave goes out before what it is to follow."""

    def spread(spreading: Spreading, waiting: Asked | Passed, source: str | None, origin: str) -> None:
        node = spreading._node
        tell, node.tell = node.tell, lambda **_: None  # type: ignore[method-assign]
        try:
            right(spreading, waiting, source, origin)
        finally:
            node.tell = tell  # type: ignore[method-assign]

    return spread


@BUGS.plant(Waves, "lost", TREES, ("links", "crashes"))
def _wave_waits_for_the_lost(_right: _Right) -> _Right:
    """A wave waits for ever for the answer of a neighbour that is gone."""
    return lambda _waves, _peer, _is_void=None: []


@BUGS.plant(Publications, "publish", ("ce", "hs", "as", "aa", "nf"))
def _number_given_twice(right: _Right) -> _Right:
    """Every second publication has the number of the one before."""

    def publish(publications: Publications, *given: Any) -> None:
        right(publications, *given)
        publications._node.publishing.count &= ~1

    return publish


@BUGS.plant(Node, "_received", _SERVERS, ("weather", "all"))
def _notifications_in_a_batch_reversed(right: _Right) -> _Right:
    """Messages that came in one frame are taken from its end when all are notifications."""

    def received(node: Node, peer: str, messages_of_frame: Sequence[Message]) -> None:
        found = list(messages_of_frame)
        if all(isinstance(each, messages.Publish) for each in found):
            found.reverse()
        right(node, peer, found)

    return received


@BUGS.plant(Requests, "_undoing", _ALL)
def _left_and_still_here(_right: _Right) -> _Right:
    """A party that goes leaves behind all that it holds."""
    return lambda _requests, _party: []


@BUGS.plant(Requests, "_unsubscribe", _ALL)
def _nothing_instead(right: _Right) -> _Right:
    """A subscription that takes the place of another one does not count."""

    def unsubscribe(requests: Requests, party: str, wanted: Filter | Pattern, _instead: Any) -> None:
        right(requests, party, wanted, ())

    return unsubscribe
