"""All states that the two ends of a link can be in together, whatever happens and whatever frames come.

A *pair* is two real :class:`~palio.link.end.End` objects, frozen into tuples. From each pair everything that can happen
is tried: what operators and drivers do, restarts, time, and every frame that the other end can ever have sent, of the
sessions that the pair knows and of sessions that it has forgotten. So frames may be lost, doubled, and as late as they
like. Messages, and with them numbers of the sequence, are not part of this; ``test_links.py`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from palio.link.end import End
from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.link import Link, Repeated
from palio.link.ports import Members, Nothing, Wish
from palio.link.session import LinkSettings, Session
from palio.link.states import Event, State
from palio.routing.messages import Stamp

SETTINGS = LinkSettings()
NAMES = ("milan", "rome")
WISH = Wish("peer")
STALE = [(number, name, 0) for name in NAMES for number in (0, 10_000)]
"""Sessions that both ends have forgotten: older and younger than all that they know, opened by either."""
_FRESH = 100
"""The first number of the sessions that a canonical pair knows."""


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


Pair = tuple[FrozenEnd, FrozenEnd]


class Side:
    """One end, thawed, with the server around it; it refuses its neighbour or not."""

    def __init__(self, pair: Pair, place: int, *, refuses: bool = False) -> None:
        self.name, self.peer = NAMES[place], NAMES[1 - place]
        self.frames: list[Frame] = []
        self._refuses = refuses
        self._latest = max([_FRESH, *(stamp[0] for stamp in stamps_of(pair))])
        self.end = End((self.name, self.peer), self, SETTINGS, Nothing(), lambda _, frame: self.frames.append(frame))
        thaw(pair[place], self.end)

    def next_stamp(self) -> Stamp:
        self._latest += 1
        return (self._latest, self.name, 1)

    def introduction(self) -> tuple[str, Members, tuple[int, ...]]:
        return "as", (), ()

    def refusal(self, peer: str, role: str, architecture: str | None, members: Members) -> str | None:
        return "it cannot be" if self._refuses else None

    def obstacle(self, peer: str, wish: Wish) -> str | None:
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
    )


def thaw(frozen: FrozenEnd, end: End) -> None:
    """Make an end what it was."""
    end.state, end.is_barred = frozen.state, frozen.is_barred
    end.wish = WISH if frozen.is_wanted else None
    end.reopen_at = 0 if frozen.state is State.WAITING else None
    end.reason = "for some reason"
    if frozen.answer is not None:
        end._answer = open_of(frozen.answer), Repeated(Accept(frozen.answer, ()), 0, SETTINGS)
    if frozen.link is not None:
        end.link = Link(Session(frozen.link, SETTINGS), "peer", 1)
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
    for session in [*stamps_of(pair), (1, sender, 0)]:
        if session[1] == sender:
            yield open_of(session)
        else:
            yield Accept(session, ())
            yield Refuse(session, "it could not be")
        yield Close(session, Why.ENDED)
        yield Close(session, Why.UNKNOWN)
        yield Closed(session)
        yield Probe(session, 1)
        yield Known(session, 0, 0, 0, 0)
        yield Known(session, 1, 0, 0, 0)
        yield Data(session, 0, (), 0)


def steps(pair: Pair, place: int) -> Iterator[tuple[str, Pair]]:
    """Everything that can happen at one end, and the pairs that come of it."""

    def after(what: str, side: Side) -> tuple[str, Pair]:
        ends = [pair[0], pair[1]]
        ends[place] = freeze(side.end)
        return f"{NAMES[place]}: {what}", canonical((ends[0], ends[1]))

    for what in ("connect", "disconnect", "remove", "allow", "doubt", "lose", "break", "due", "retry", "restart"):
        side = Side(pair, place)
        _do(side, what)
        yield after(what, side)
    ends = [pair[0], pair[1]]
    ends[place] = NOTHING
    yield f"{NAMES[place]}: forgets everything", canonical((ends[0], ends[1]))
    for frame in frames_for(pair, NAMES[1 - place]):
        side = Side(pair, place)
        receive(side, frame)
        yield after(f"gets {frame}", side)


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
            end._question = None
            end.is_barred = False
            if end._answer is not None:
                end.state = State.ANSWERING
            elif end.link is not None:
                end.state = State.UP
                end.happen(Event.DOUBT, 0)
            else:
                end.state = State.WAITING if end.wish is not None else State.IDLE
        case _:
            end.happen(Event[what.upper()], 0)


def receive(side: Side, frame: Frame) -> None:
    if isinstance(frame, Data):
        side.end.receive_data(frame, 0)
    else:
        side.end.receive(frame, 0)


def settled(pair: Pair, refuses: tuple[bool, bool]) -> Pair:
    """What becomes of a pair when all frames that are sent from now on get through, each once.

    Frames get lost with connections; so there is a new connection first, and the drivers say so. After a while the
    drivers ask once more for links that were refused.
    """
    sides = [Side(pair, place, refuses=refuses[place]) for place in (0, 1)]
    for side in sides:
        side.end.try_again(Event.DOUBT, 0)
    now, is_retried = 0, False
    for _ in range(60):
        flying = [(1 - place, frame) for place, side in enumerate(sides) for frame in sent(side, now)]
        if not flying and is_retried:
            return freeze(sides[0].end), freeze(sides[1].end)
        if not flying:
            is_retried = True
            for side in sides:
                if side.end.state is State.REFUSED:
                    side.end.want(WISH, now)
        for place, frame in flying:
            receive(sides[place], frame)
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
