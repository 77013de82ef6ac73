"""The states of one end of a link, as data: which event leads from which state to which, and what is done then.

An *end* is what one server knows of its link to one neighbour. A *session* is one life of the link; the server that
opens it gives it a stamp that is never used again. Frames may be lost, doubled or late, so no rule relies on the order
in which they come:

- A question (``Open``, ``Accept``, ``Probe``, ``Close``) is repeated until it is answered.
- An end accepts a session only provisionally (``ANSWERING``). The link is up there when the server that opened the
  session confirms it, so a late copy of an old ``Open`` never makes a link.
- An ``Open`` of another session does not replace a link. The end asks its neighbour whether that still has the link
  (``Probe``); if not, the neighbour says so (``Close``), and the next copy of the ``Open`` is accepted.
- While an end asks, it sends no messages (``DOUBTED``). The answer (``Known``) says how far the neighbour is. If that
  contradicts what this end knows, one of the two came back with an older state, and the session begins anew.
- A link that is wanted stays wanted. When it is lost it is opened again after a short while (``WAITING``); when it was
  refused (``REFUSED``), it is opened again as soon as something has changed that may have been the reason.

:data:`TRANSITIONS` has a row for every state and event. ``docs/links.md`` shows it as a diagram, which
:func:`diagram` makes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """What one end of a link is doing."""

    IDLE = "idle"
    """There is no link, and this end wants none."""
    WAITING = "waiting"
    """A wanted link was lost; this end opens it again after a short while."""
    REFUSED = "refused"
    """The neighbour refused a wanted link, or ended it."""
    ASKING = "asking"
    """This end has asked for a link."""
    ANSWERING = "answering"
    """This end has accepted a link, and the neighbour has not confirmed it yet."""
    UP = "up"
    """The link is there."""
    DOUBTED = "doubted"
    """The link is there; this end asks its neighbour whether that knows it still, and sends no messages meanwhile."""

    @property
    def has_link(self) -> bool:
        """Whether messages may be given to the link."""
        return self in (State.UP, State.DOUBTED)


class Event(Enum):
    """What happens to one end; of frames it matters whether they belong to the session that the end has now."""

    CONNECT = "connect"
    """The operator or the driver wants the link."""
    BLOCKED = "blocked"
    """This end wants the link and knows that it cannot be now, for instance because it would close a cycle."""
    DISCONNECT = "disconnect"
    """The operator ends the link, and wants it no longer."""
    DOUBT = "doubt"
    """The driver can reach the neighbour again, or this server was restarted."""
    LOSE = "lose"
    """The neighbour could not be reached for too long, or too many messages wait for it."""
    BREAK = "break"
    """The neighbour breaks the rules, or the link closes a cycle."""
    DUE = "due"
    """The time to open the link again has come."""
    RETRY = "retry"
    """The reason for a refusal may be gone."""
    OPEN = "Open"
    """The neighbour asks for a link that can be."""
    OPEN_REFUSED = "Open, refused"
    """The neighbour asks for a link that cannot be."""
    OPEN_AGAIN = "Open, again"
    """A copy of the question for the session that this end has."""
    OPEN_OTHER = "Open, other session"
    """The neighbour asks for another session than this end has, or a late copy comes."""
    OPEN_YOUNGER = "Open, younger"
    """Both ends have asked, and the neighbour's session is the younger one."""
    OPEN_ENDED = "Open, ended session"
    """The neighbour asks for a session that this end has closed."""
    ACCEPT = "Accept"
    ACCEPT_REFUSED = "Accept, refused"
    """The neighbour accepts; meanwhile the link cannot be any more."""
    ACCEPT_AGAIN = "Accept, again"
    """A copy of the answer; the session is as new as the neighbour takes it to be."""
    ACCEPT_LATE = "Accept, late"
    """A copy of the answer, though messages have gone over the link: it is late, or the neighbour has forgotten."""
    ACCEPT_OTHER = "Accept, other session"
    REFUSE = "Refuse"
    REFUSE_OTHER = "Refuse, other session"
    CLOSE = "Close, unknown"
    """The neighbour does not know the session, or has given it up."""
    CLOSE_ENDED = "Close, ended"
    """The neighbour's operator has ended the link, or this end broke the rules, or there is a cycle."""
    CLOSE_OTHER = "Close, other session"
    CLOSED = "Closed"
    PROBE = "Probe"
    PROBE_OTHER = "Probe, other session"
    KNOWN = "Known"
    """The neighbour knows the session, and both ends agree about it."""
    KNOWN_ELSE = "Known, contradiction"
    """The neighbour knows the session; one of the two ends came back with an older state of it."""
    KNOWN_OTHER = "Known, other question"
    CONFIRM = "Data, first"
    """The server that opened the session shows that it has the answer."""
    CONFIRM_REFUSED = "Data, first, refused"
    """The same; meanwhile the link cannot be any more."""
    DATA = "Data"
    DATA_BROKEN = "Data, contradiction"
    """The neighbour acknowledges messages that this end never sent."""
    DATA_EARLY = "Data, early"
    """Data of a session that this end does not take for established yet."""
    DATA_OTHER = "Data, other session"


class Action(Enum):
    """What one end does; in the order in which a row of the table names them."""

    ASK = "send Open until it is answered"
    ANSWER = "send Accept until it is confirmed"
    ANSWER_AGAIN = "send Accept"
    REFUSE = "send Refuse"
    ESTABLISH = "the link is up"
    ACKNOWLEDGE = "send an acknowledgement"
    PROBE = "send Probe until it is answered"
    TRUST = "send messages again"
    REPLY_KNOWN = "send Known"
    REPLY_UNKNOWN = "send Close"
    REPLY_CLOSED = "send Closed"
    HASTEN = "repeat questions now"
    TAKE = "take the messages"
    FORGET_CLOSED = "repeat Close no longer"
    END = "the link is down, or the attempt is over; send Close (ended) until it is answered"
    DROP = "the link is down, or the attempt is over; send Close (unknown) until it is answered"
    FORGET = "the link is down, or the attempt is over"
    REPORT = "report the refusal, if the link is wanted"


class Next(NamedTuple):
    """A row of the table: the next state, and what is done on the way to it.

    ``WAITING`` and ``REFUSED`` are for links that this end wants; if it does not, ``IDLE`` takes their place.
    """

    state: State
    actions: tuple[Action, ...] = ()


_NO_LINK = (State.IDLE, State.WAITING, State.REFUSED)
_LINKED = (State.UP, State.DOUBTED)
_EVERY = tuple(State)

_ROWS: tuple[tuple[tuple[State, ...], Event, State | None, tuple[Action, ...]], ...] = (
    (_NO_LINK, Event.CONNECT, State.ASKING, (Action.ASK,)),
    (_NO_LINK, Event.BLOCKED, State.REFUSED, (Action.REPORT,)),
    ((State.ASKING, State.ANSWERING, *_LINKED), Event.BLOCKED, None, ()),
    ((State.ASKING, State.ANSWERING, *_LINKED), Event.CONNECT, None, ()),
    (_EVERY, Event.DISCONNECT, State.IDLE, (Action.END,)),
    ((State.IDLE, State.ASKING, State.ANSWERING), Event.DOUBT, None, (Action.HASTEN,)),
    ((State.WAITING, State.REFUSED), Event.DOUBT, State.ASKING, (Action.ASK, Action.HASTEN)),
    (_LINKED, Event.DOUBT, State.DOUBTED, (Action.PROBE, Action.HASTEN)),
    (_NO_LINK, Event.LOSE, None, ()),
    ((State.ASKING,), Event.LOSE, None, ()),
    ((State.ANSWERING, *_LINKED), Event.LOSE, State.WAITING, (Action.DROP,)),
    (_NO_LINK, Event.BREAK, None, ()),
    ((State.ASKING, State.ANSWERING, *_LINKED), Event.BREAK, State.REFUSED, (Action.END, Action.REPORT)),
    ((State.WAITING,), Event.DUE, State.ASKING, (Action.ASK,)),
    ((State.IDLE, State.REFUSED, State.ASKING, State.ANSWERING, *_LINKED), Event.DUE, None, ()),
    ((State.REFUSED,), Event.RETRY, State.ASKING, (Action.ASK,)),
    ((State.IDLE, State.WAITING, State.ASKING, State.ANSWERING, *_LINKED), Event.RETRY, None, ()),
    ((*_NO_LINK, State.ASKING), Event.OPEN, State.ANSWERING, (Action.ANSWER,)),
    ((*_NO_LINK, State.ASKING), Event.OPEN_REFUSED, None, (Action.REFUSE,)),
    ((State.ANSWERING,), Event.OPEN_AGAIN, None, (Action.ANSWER_AGAIN,)),
    ((State.ASKING, *_LINKED), Event.OPEN_AGAIN, None, ()),
    ((State.ANSWERING,), Event.OPEN_OTHER, None, (Action.ANSWER_AGAIN,)),
    (_LINKED, Event.OPEN_OTHER, State.DOUBTED, (Action.PROBE,)),
    ((State.ASKING,), Event.OPEN_YOUNGER, None, ()),
    (_EVERY, Event.OPEN_ENDED, None, (Action.REPLY_UNKNOWN,)),
    ((State.ASKING,), Event.ACCEPT, State.UP, (Action.ESTABLISH, Action.ACKNOWLEDGE)),
    ((State.ASKING,), Event.ACCEPT_REFUSED, State.REFUSED, (Action.END, Action.REPORT)),
    (_LINKED, Event.ACCEPT_AGAIN, None, (Action.ACKNOWLEDGE,)),
    (_LINKED, Event.ACCEPT_LATE, State.DOUBTED, (Action.PROBE,)),
    (_EVERY, Event.ACCEPT_OTHER, None, (Action.REPLY_UNKNOWN,)),
    ((State.ASKING,), Event.REFUSE, State.REFUSED, (Action.FORGET, Action.REPORT)),
    (_EVERY, Event.REFUSE_OTHER, None, ()),
    ((State.ASKING, State.ANSWERING, *_LINKED), Event.CLOSE, State.WAITING, (Action.REPLY_CLOSED, Action.FORGET)),
    (
        (State.ASKING, State.ANSWERING, *_LINKED),
        Event.CLOSE_ENDED,
        State.REFUSED,
        (Action.REPLY_CLOSED, Action.FORGET, Action.REPORT),
    ),
    (_EVERY, Event.CLOSE_OTHER, None, (Action.REPLY_CLOSED,)),
    (_EVERY, Event.CLOSED, None, (Action.FORGET_CLOSED,)),
    ((State.ANSWERING, *_LINKED), Event.PROBE, None, (Action.REPLY_KNOWN,)),
    (_EVERY, Event.PROBE_OTHER, None, (Action.REPLY_UNKNOWN,)),
    ((State.DOUBTED,), Event.KNOWN, State.UP, (Action.TRUST,)),
    ((State.DOUBTED,), Event.KNOWN_ELSE, State.WAITING, (Action.DROP,)),
    (_EVERY, Event.KNOWN_OTHER, None, ()),
    ((State.ANSWERING,), Event.CONFIRM, State.UP, (Action.ESTABLISH, Action.TAKE)),
    ((State.ANSWERING,), Event.CONFIRM_REFUSED, State.REFUSED, (Action.END, Action.REPORT)),
    (_LINKED, Event.DATA, None, (Action.TAKE,)),
    (_LINKED, Event.DATA_BROKEN, State.WAITING, (Action.DROP,)),
    ((State.ASKING, State.ANSWERING), Event.DATA_EARLY, None, ()),
    (_EVERY, Event.DATA_OTHER, None, (Action.REPLY_UNKNOWN,)),
)
"""States, what happens in them, the next state (``None``: the same one), and what is done."""

TRANSITIONS: dict[tuple[State, Event], Next] = {
    (state, event): Next(state if target is None else target, actions)
    for states, event, target, actions in _ROWS
    for state in states
}
"""What follows when something happens in a state. Events that cannot happen in a state have no row:
:data:`IMPOSSIBLE` says why.
"""

IMPOSSIBLE: dict[Event, str] = {
    Event.OPEN: "an end that has a session takes another Open as OPEN_OTHER",
    Event.OPEN_REFUSED: "an end that has a session takes another Open as OPEN_OTHER",
    Event.OPEN_AGAIN: "an end without a session has none that could be asked for again",
    Event.OPEN_OTHER: "an end that has accepted no session takes an Open as OPEN, OPEN_REFUSED or OPEN_YOUNGER",
    Event.OPEN_YOUNGER: "only an end that has asked can have asked first",
    Event.ACCEPT: "only an end that has asked can be answered",
    Event.ACCEPT_REFUSED: "only an end that has asked can be answered",
    Event.ACCEPT_AGAIN: "only an end whose link is up was answered before",
    Event.ACCEPT_LATE: "only an end whose link is up was answered before",
    Event.REFUSE: "only an end that has asked can be refused",
    Event.CLOSE: "an end without a session has none that could be closed",
    Event.CLOSE_ENDED: "an end without a session has none that could be closed",
    Event.PROBE: "an end that has accepted no session has none that a neighbour could ask about",
    Event.KNOWN: "only an end that has asked with Probe is answered",
    Event.KNOWN_ELSE: "only an end that has asked with Probe is answered",
    Event.CONFIRM: "only an end that has accepted a session waits for its confirmation",
    Event.CONFIRM_REFUSED: "only an end that has accepted a session waits for its confirmation",
    Event.DATA: "only an end whose link is up takes messages",
    Event.DATA_BROKEN: "only an end whose link is up takes messages",
    Event.DATA_EARLY: "an end whose link is up takes data as DATA",
}


def diagram() -> str:
    """The table as a Mermaid state diagram: the transitions that change the state, without pure replies.

    >>> print(diagram().splitlines()[0])
    stateDiagram-v2
    """
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    labels: dict[tuple[str, str], list[str]] = {}
    for (state, event), (target, _) in TRANSITIONS.items():
        if target is not state:
            labels.setdefault((state.value, target.value), []).append(event.value)
    for (source, reached), events in labels.items():
        lines.append(f"    {source} --> {reached}: {'<br/>'.join(events)}")
    return "\n".join(lines)


def table() -> str:
    """The table as Markdown, one row for each state and event that do something.

    >>> print(table().splitlines()[0])
    | state | event | next | actions |
    """
    lines = ["| state | event | next | actions |", "|---|---|---|---|"]
    for (state, event), (target, actions) in TRANSITIONS.items():
        if actions or target is not state:
            done = "; ".join(each.value for each in actions)
            lines.append(f"| {state.value} | {event.value} | {target.value} | {done} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"```mermaid\n{diagram()}\n```\n\n{table()}")
