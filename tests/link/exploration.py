"""All states that the two ends of a link can be in together, whatever happens and whatever frames come.

A *pair* is two real :class:`~palio.link.end.End` objects, frozen into tuples. From each pair everything that can happen
is tried at either end:

- operators and drivers connect, disconnect, remove, allow, doubt, lose and break the link, and time passes;
- a server restarts with its store, without a store, or with a store that is older or that another life has left;
- every frame arrives that the other end can ever have sent, about the sessions that the pair knows and about sessions
  that both have forgotten. So frames may be lost, doubled, and as late as they like.

The model has more behaviour than servers have: for instance, a late ``Known`` always answers the present ``Probe``, and
an older store may hold any session. So each pair that servers can reach is among the explored ones.

Of the messages only one in each direction is modelled, and both are acknowledged at the same time
(``FrozenEnd.talked``). That is enough for stores that contradict each other. ``test_links.py`` and ``test_session.py``
have the sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from palio.link.end import End
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.link import Link, Repeated
from palio.link.ports import Members, Nothing, Received, Wish
from palio.link.session import LinkSettings, Session
from palio.link.states import Event, State
from palio.routing.messages import Message, Spread, Stamp

SETTINGS = LinkSettings()
NAMES = ("milan", "rome")
WISH = Wish("peer")
STALE = [(number, name, 0) for name in NAMES for number in (0, 10_000)]
"""Sessions that both ends have forgotten: older and younger than all that they know, opened by either."""
FORGOTTEN = [(1, name, 0) for name in NAMES]
"""Sessions that both ends have forgotten; an older store, or late frames of all kinds, may know them."""
_FRESH, _LATEST = 100, 1_000
"""The numbers of the sessions that a canonical pair knows lie between these; those of new sessions are higher."""


class FrozenEnd(NamedTuple):
    """What tells ends apart, times left out."""

    state: State
    is_wanted: bool
    is_barred: bool
    question: tuple[str, Stamp, int] | None
    """Open or Probe, the session, and the number of a probe."""
    answer: Stamp | None
    link: Stamp | None
    closing: tuple[tuple[Stamp, Why], ...]
    talked: bool = False
    """Whether a message has gone over the link in each direction, as far as this end knows."""


Pair = tuple[FrozenEnd, FrozenEnd]


class Side:
    """One end, thawed, with the server around it; it refuses its neighbour or not."""

    def __init__(self, frozen: FrozenEnd, place: int, *, refuses: bool = False) -> None:
        self.name, self.peer = NAMES[place], NAMES[1 - place]
        self.frames: list[Frame] = []
        self._refuses = refuses
        self._latest = _LATEST
        self.received: list[Message] = []
        self.end = self.new_end()
        thaw(frozen, self.end)

    def new_end(self) -> End:
        return End((self.name, self.peer), self, SETTINGS, Nothing(), lambda _, frame: self.frames.append(frame))

    def next_stamp(self) -> Stamp:
        self._latest += 1
        return (self._latest, self.name, 1)

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        return "as", (), ()

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        return "it cannot be" if self._refuses else None

    def obstacle(self, peer: str, wish: Wish, *, only_cycles: bool = False) -> str | None:
        return None


def stamps_of(pair: Pair) -> list[Stamp]:
    """All sessions that a pair knows, one way or another."""
    found: dict[Stamp, None] = {}
    for end in pair:
        known = [end.link, end.answer, end.question[1] if end.question is not None else None]
        found.update(dict.fromkeys(stamp for stamp in known if stamp is not None))
    for end in pair:
        found.update(dict.fromkeys(stamp for stamp, _ in end.closing))
    return list(found)


def freeze(end: End) -> FrozenEnd:
    """What tells this end from others."""
    question = None
    if end._question is not None:
        frame = end._question.frame
        question = type(frame).__name__, frame.session, frame.number if isinstance(frame, Probe) else 0
    return FrozenEnd(
        end.state,
        end.wish is not None,
        end.is_barred,
        question,
        end._answer[0].session if end._answer is not None else None,
        end.link.session.stamp if end.link is not None else None,
        tuple(sorted(((stamp, each.frame.why) for stamp, each in end.closing.items()), key=lambda each: each[0])),
        end.link is not None and not end.link.session.is_fresh,
    )


def thaw(frozen: FrozenEnd, end: End) -> None:
    """Make an end what it was."""
    end.state, end.is_barred = frozen.state, frozen.is_barred
    end.wish = WISH if frozen.is_wanted else None
    end.reopen_at = 0 if frozen.state is State.WAITING else None
    if frozen.answer is not None:
        end._answer = open_of(frozen.answer), Repeated(Accept(frozen.answer, ()), 0, SETTINGS)
    if frozen.link is not None:
        number = int(frozen.talked)
        end.link = Link(Session(frozen.link, SETTINGS, expected=number, base=number), "peer", 1)
        if frozen.state is State.DOUBTED:
            end.link.session.suspend()
    if frozen.question is not None:
        kind, session, number = frozen.question
        frame: Any = open_of(session) if kind == "Open" else Probe(session, number)
        end._question = Repeated(frame, 0, SETTINGS)
    for stamp, why in frozen.closing:
        end.closing[stamp] = Repeated(Close(stamp, why), 0, SETTINGS)


def open_of(session: Stamp) -> Open:
    return Open(session, "peer", "as", ())


def canonical(pair: Pair) -> Pair:
    """The same pair, its sessions named anew: their order matters only for those that were asked for."""
    asked = sorted(end.question[1] for end in pair if end.question is not None and end.question[0] == "Open")
    names = {stamp: (_FRESH + place, stamp[1], stamp[2]) for place, stamp in enumerate(stamps_of(pair))}
    names |= {stamp: (2 * _FRESH + place, stamp[1], stamp[2]) for place, stamp in enumerate(asked)}

    def rename(end: FrozenEnd) -> FrozenEnd:
        question = end.question
        return end._replace(
            question=None if question is None else (question[0], names[question[1]], question[2]),
            answer=None if end.answer is None else names[end.answer],
            link=None if end.link is None else names[end.link],
            closing=tuple(sorted(((names[stamp], why) for stamp, why in end.closing), key=lambda each: each[0])),
        )

    return rename(pair[0]), rename(pair[1])


NOTHING = FrozenEnd(State.IDLE, False, False, None, None, None, ())


def frames_for(pair: Pair, sender: str) -> Iterator[Frame]:
    """Every frame that the sender may have sent at some time, about the sessions that the pair knows and others."""
    yield from (open_of(session) for session in STALE if session[1] == sender)
    for session in [*stamps_of(pair), *FORGOTTEN]:
        if session[1] == sender:
            yield open_of(session)
        else:
            yield Accept(session, ())
            yield Refuse(session, "it could not be")
        yield Close(session, Why.ENDED)
        yield Close(session, Why.UNKNOWN)
        yield Closed(session)
        yield Probe(session, 1)
        yield Known(session, 1, 0, 0, 0)
        for number in (0, 1):
            yield Known(session, 0, number, number, number)
            yield Data(session, number, (), number)


OPERATIONS = (
    "connect", "disconnect", "remove", "allow", "doubt", "lose", "break", "due", "retry", "blocked", "restart"
)  # fmt: skip


def steps(pair: Pair) -> Iterator[tuple[object, Pair]]:
    """Everything that can happen at an end and changes it, and the pairs that come of it; they are not canonical."""
    one, other = pair
    for what, end in _changes(pair, 0):
        if end != one:
            yield (NAMES[0], what), (end, other)
    for what, end in _changes(pair, 1):
        if end != other:
            yield (NAMES[1], what), (one, end)
    if one.link == other.link and one.state is other.state is State.UP:
        yield "messages are exchanged", (one._replace(talked=True), other._replace(talked=True))


def forget_steps() -> None:
    """The table has changed: steps that were computed before do not count."""
    for each in (_after_operation, _after_frame, _after_starts):
        each.cache_clear()


def _changes(pair: Pair, place: int) -> Iterator[tuple[object, FrozenEnd]]:
    end, sender = pair[place], NAMES[1 - place]
    for what in OPERATIONS:
        yield what, _after_operation(end, place, what)
    yield "start without the store", NOTHING
    for session in [None, *stamps_of(pair), *FORGOTTEN]:
        yield from _after_starts(place, session)
    for frame in frames_for(pair, sender):
        yield frame, _after_frame(end, place, frame)
        if isinstance(frame, Open | Accept | Data):
            yield frame, _after_frame(end, place, frame, refuses=True)


@cache
def _after_operation(end: FrozenEnd, place: int, what: str) -> FrozenEnd:
    side = Side(end, place)
    _do(side, what)
    return freeze(side.end)


@cache
def _after_frame(end: FrozenEnd, place: int, frame: Frame, *, refuses: bool = False) -> FrozenEnd:
    side = Side(end, place, refuses=refuses)
    receive(side, frame)
    return freeze(side.end)


@cache
def _after_starts(place: int, session: Stamp | None) -> list[tuple[str, FrozenEnd]]:
    """Starts with older stores, or stores of other lives, that know one session or none."""
    found = []
    for records in stores(NAMES[1 - place], session):
        side = Side(NOTHING, place)
        _restore(side, records)
        found.append((f"start with the store {records}", freeze(side.end)))
    return found


Records = dict[tuple[Any, ...], Any]


def stores(peer: str, session: Stamp | None) -> Iterator[Records]:
    """Stores that know a session in any way: more ends of sessions in one store would add nothing new."""
    for wish in ({}, {("wish", peer): WISH}):
        if session is None:
            yield {**wish}
            continue
        for why in Why:
            yield {**wish, ("closing", peer, session): Close(session, why)}
        link = {**wish, ("link", peer): (session, "peer", 1, None)}
        yield link
        yield {**link, ("base", peer): 1, ("in", peer): 1}
        if session[1] == peer:
            yield {**wish, ("answer", peer): (open_of(session), Accept(session, ()))}


def records_of(end: FrozenEnd, peer: str) -> Records:
    """The store of an end that writes everything at once."""
    records: Records = {("wish", peer): WISH} if end.is_wanted else {}
    records |= {("closing", peer, session): Close(session, why) for session, why in end.closing}
    if end.answer is not None:
        records["answer", peer] = open_of(end.answer), Accept(end.answer, ())
    if end.link is not None:
        records["link", peer] = end.link, "peer", 1, None
        records["base", peer] = records["in", peer] = int(end.talked)
    return records


def _restore(side: Side, records: Records) -> None:
    """Start a server with a store, as :meth:`palio.link.links.Links.restore` does."""
    side.end = side.new_end()
    if side.end.restore(records, 0) is not None:
        side.end.try_again(Event.DOUBT, 0)


def _do(side: Side, what: str) -> None:
    end = side.end
    match what:
        case "connect":
            end.want(WISH, 0)
        case "disconnect" | "remove":
            end.want_no_longer()
            end.is_barred = what == "remove"
            end.happen(Event.DISCONNECT, 0)
        case "allow":
            end.is_barred = False
        case "doubt":
            end.try_again(Event.DOUBT, 0)
        case "restart":
            _restore(side, records_of(freeze(end), side.peer))
        case _:
            end.happen(Event[what.upper()], 0)


def receive(side: Side, frame: Frame, now: int = 0) -> None:
    events = side.end.receive_data(frame, now) if isinstance(frame, Data) else side.end.receive(frame, now)
    side.received += [message for event in events if isinstance(event, Received) for message in event.messages]


class Settled(NamedTuple):
    """A pair that has come to rest."""

    pair: Pair
    reasons: tuple[str, str]
    """Why each end has no link, as it would tell its operator."""
    received: tuple[list[Message], list[Message]]
    """The messages that have come to each end, after the other end has sent one."""


MESSAGES: tuple[Message, Message] = (Spread(1), Spread(2))
"""The message that each end sends when the link is up."""


def settled(pair: Pair, refuses: tuple[bool, bool]) -> Settled:
    """What becomes of a pair when all frames that are sent from now on get through, each once.

    Frames are lost with connections only; so there is a new connection first, and the drivers say so. After a while
    the drivers ask once more for links that were refused. When the link is up, each end sends a message.
    """
    sides = _sides(pair, refuses)
    for side in sides:
        side.end.try_again(Event.DOUBT, 0)
    now, is_retried, has_sent = 0, False, False
    for _ in range(60):
        flying = [(1 - place, frame) for place, side in enumerate(sides) for frame in sent(side, now)]
        if not flying and has_sent:
            one, other = sides
            ends = freeze(one.end), freeze(other.end)
            return Settled(ends, (one.end.reason, other.end.reason), (one.received, other.received))
        if not flying and is_retried:
            has_sent = True
            for side, message in zip(sides, MESSAGES, strict=True):
                if side.end.link is not None:
                    side.end.link.session.send([message], now)
        elif not flying:
            is_retried = True
            for side in sides:
                if side.end.state is State.REFUSED:
                    side.end.want(WISH, now)
        for place, frame in flying:
            receive(sides[place], frame, now)
        now += 2 * SETTINGS.most_patience
    raise AssertionError(f"no rest: {pair}")


def sent(side: Side, now: int) -> list[Frame]:
    """What an end sends now."""
    end = side.end
    if end.reopen_at is not None:
        end.try_again(Event.DUE, now)
    frames = [*side.frames, *(each.frame for each in end.repeated())]
    side.frames.clear()
    return frames if end.link is None else [*frames, *end.link.session.frames(now)]


def fair_steps(pair: Pair, refuses: tuple[bool, bool]) -> Iterator[Pair]:
    """What may happen next while only the two ends act: a frame gets through that one of them sends or repeats now.

    The answers to it get through as well, or are lost. An end that waits asks again, and so does one that was refused.
    """
    for place in (0, 1):
        sides = _sides(pair, refuses)
        end = sides[place].end
        count = len(end.repeated())
        if end.state is State.WAITING:
            end.try_again(Event.DUE, 0)
            yield _frozen(sides)
        elif end.state is State.REFUSED:
            end.want(WISH, 0)
            yield _frozen(sides)
        for number in range(count):
            for is_answered in (False, True):
                yield _after_exchange(_sides(pair, refuses), place, number, is_answered=is_answered)


def _after_exchange(sides: list[Side], place: int, number: int, *, is_answered: bool) -> Pair:
    """One frame of those that an end repeats gets through, and the answers to it do, or are lost."""
    flying = [(1 - place, sides[place].end.repeated()[number].frame)]
    while flying:
        target, frame = flying.pop(0)
        side = sides[target]
        receive(side, frame)
        if is_answered:
            link = side.end.link
            flying += [(1 - target, each) for each in (*side.frames, *(link.session.frames(0) if link else ()))]
        side.frames.clear()
    return _frozen(sides)


def reconnected(pair: Pair, refuses: tuple[bool, bool]) -> Pair:
    """A pair whose drivers have a new connection."""
    sides = _sides(pair, refuses)
    for side in sides:
        side.end.try_again(Event.DOUBT, 0)
    return _frozen(sides)


def _sides(pair: Pair, refuses: tuple[bool, bool]) -> list[Side]:
    return [Side(pair[place], place, refuses=refuses[place]) for place in (0, 1)]


def _frozen(sides: list[Side]) -> Pair:
    return canonical((freeze(sides[0].end), freeze(sides[1].end)))
