"""The state machine of one end of a link, as data: for each state and event the next state and the actions.

An *end* is the state that one server keeps for its link to one neighbour. A *session* is one life of the link. The
server that opens a session gives it a stamp that is never used again. Frames may be lost, duplicated or late, so no
rule relies on the order in which they arrive:

- An end repeats a question (``Open``, ``Accept``, ``Probe``, ``Close``) until the neighbour answers it.
- An end accepts a session provisionally (``ANSWERING``). Its link is up when the server that opened the session
  confirms it, so a late copy of an old ``Open`` never creates a link.
- An ``Open`` of another session does not replace a link. The end asks its neighbour whether it still has the link
  (``Probe``). If it has not, it answers ``Close``, and the end accepts the next copy of the ``Open``.
- While an end waits for that answer, it sends no messages (``DOUBTED``). The answer ``Known`` contains the sequence
  numbers of the neighbour. If they contradict the numbers of this end, one of the two servers was restored from an
  older state, and a new session begins.
- A wanted link stays wanted. After a loss the end opens it again after a short pause (``WAITING``). After a refusal
  (``REFUSED``) the end opens it again when the reason for the refusal may be gone.

:data:`TRANSITIONS` has a row for every state and event. :func:`diagram` and :func:`table` print it for
``docs/links.md``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """The state of one end of a link."""

    IDLE = "idle"
    """There is no link, and this end does not want one."""
    WAITING = "waiting"
    """A wanted link was lost; this end opens it again after a short while."""
    REFUSED = "refused"
    """The neighbour has refused a wanted link, or has ended it."""
    ASKING = "asking"
    """This end has asked for a link and waits for the answer."""
    ANSWERING = "answering"
    """This end has accepted a link that the neighbour has not confirmed yet."""
    UP = "up"
    """The link is established."""
    DOUBTED = "doubted"
    """The link is established. This end asks whether the neighbour still knows it, and sends no messages meanwhile."""

    @property
    def has_link(self) -> bool:
        """Whether the link accepts messages to send."""
        return self in (State.UP, State.DOUBTED)

    @property
    def has_session(self) -> bool:
        """Whether this end has accepted a session, confirmed or not."""
        return self in (State.ANSWERING, State.UP, State.DOUBTED)


class Event(Enum):
    """An event at one end. A frame is a different event if it belongs to another session than the end has now."""

    CONNECT = "connect"
    """The operator or the driver asks for the link."""
    BLOCKED = "blocked"
    """This end wants the link and knows a reason against it, for instance that it would close a cycle."""
    DISCONNECT = "disconnect"
    """The operator ends the link and does not want it any more."""
    DOUBT = "doubt"
    """The driver has reconnected to the neighbour, or this server was restarted."""
    LOSE = "lose"
    """The neighbour was unreachable for too long, or too many messages wait for it."""
    BREAK = "break"
    """The neighbour violates the protocol, or the link closes a cycle."""
    DUE = "due"
    """The pause before the next attempt is over."""
    RETRY = "retry"
    """The reason for a refusal may be gone."""
    OPEN = "Open"
    """The neighbour asks for a link that this end can accept."""
    OPEN_REFUSED = "Open, refused"
    """The neighbour asks for a link that this end must refuse."""
    OPEN_AGAIN = "Open, again"
    """A copy of the ``Open`` of the session that this end has."""
    OPEN_OTHER = "Open, other session"
    """The neighbour asks for another session than this end has, or the frame is late."""
    OPEN_YOUNGER = "Open, younger"
    """Both ends have asked, and the session of the neighbour is the younger one."""
    OPEN_ENDED = "Open, ended session"
    """The neighbour asks for a session that this end has closed."""
    ACCEPT = "Accept"
    ACCEPT_REFUSED = "Accept, refused"
    """The neighbour accepts, but this end cannot have the link any more."""
    ACCEPT_AGAIN = "Accept, again"
    """A copy of the ``Accept``; no messages have been sent yet, so both ends agree that the session is new."""
    ACCEPT_LATE = "Accept, late"
    """A copy of the ``Accept`` after messages were sent: it is late, or the neighbour has lost its state."""
    ACCEPT_OTHER = "Accept, other session"
    REFUSE = "Refuse"
    REFUSE_OTHER = "Refuse, other session"
    CLOSE = "Close, unknown"
    """The neighbour does not know the session, or has given it up."""
    CLOSE_ENDED = "Close, ended"
    """The operator of the neighbour ended the link, this end violated the protocol, or the link closes a cycle."""
    CLOSE_OTHER = "Close, other session"
    CLOSED = "Closed"
    PROBE = "Probe"
    PROBE_OTHER = "Probe, other session"
    KNOWN = "Known"
    """The neighbour knows the session, and both ends agree about it."""
    KNOWN_ELSE = "Known, contradiction"
    """The neighbour knows the session, but one of the two ends was restored from an older state of it."""
    KNOWN_OTHER = "Known, other question"
    CONFIRM = "Data, first"
    """The first data of the session: the server that opened it has received the ``Accept``."""
    CONFIRM_REFUSED = "Data, first, refused"
    """The same, but this end cannot have the link any more."""
    DATA = "Data"
    DATA_BROKEN = "Data, contradiction"
    """The neighbour acknowledges messages that this end never sent."""
    DATA_EARLY = "Data, early"
    """Data of a session that is not established at this end yet."""
    DATA_OTHER = "Data, other session"


class Action(Enum):
    """An action of one end. An end performs the actions of a row in their order."""

    ASK = "send Open until it is answered"
    ANSWER = "send Accept until it is confirmed"
    ANSWER_AGAIN = "send Accept"
    REFUSE = "send Refuse"
    ESTABLISH = "report that the link is up"
    ACKNOWLEDGE = "send an acknowledgement"
    PROBE = "send Probe until it is answered"
    TRUST = "resume sending messages"
    REPLY_KNOWN = "send Known"
    REPLY_UNKNOWN = "send Close"
    REPLY_CLOSED = "send Closed"
    HASTEN = "repeat questions now"
    TAKE = "accept the messages"
    FORGET_CLOSED = "stop repeating Close"
    END = "drop the session; send Close (ended) until it is answered"
    DROP = "drop the session; send Close (unknown) until it is answered"
    FORGET = "drop the session"
    REPORT = "report the refusal, if the link is wanted"


class Next(NamedTuple):
    """A row of the table: the next state, and the actions on the way to it.

    ``WAITING`` and ``REFUSED`` are states of wanted links. If this end does not want the link, it becomes ``IDLE``.
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
"""States, an event, the next state (``None``: unchanged), and the actions."""

TRANSITIONS: dict[tuple[State, Event], Next] = {
    (state, event): Next(state if target is None else target, actions)
    for states, event, target, actions in _ROWS
    for state in states
}
"""The next state and the actions for a state and an event. Events that cannot happen in a state have no row;
:data:`IMPOSSIBLE` gives the reasons.
"""

IMPOSSIBLE: dict[Event, str] = {
    Event.OPEN: "for an end that has a session, another Open is OPEN_OTHER",
    Event.OPEN_REFUSED: "for an end that has a session, another Open is OPEN_OTHER",
    Event.OPEN_AGAIN: "an end without a session cannot receive a copy of its Open",
    Event.OPEN_OTHER: "for an end that has not accepted a session, an Open is OPEN, OPEN_REFUSED or OPEN_YOUNGER",
    Event.OPEN_YOUNGER: "only an end that has asked can have asked first",
    Event.ACCEPT: "only an end that has asked can be answered",
    Event.ACCEPT_REFUSED: "only an end that has asked can be answered",
    Event.ACCEPT_AGAIN: "only an end whose link is up was answered before",
    Event.ACCEPT_LATE: "only an end whose link is up was answered before",
    Event.REFUSE: "only an end that has asked can be refused",
    Event.CLOSE: "an end without a session has nothing to close",
    Event.CLOSE_ENDED: "an end without a session has nothing to close",
    Event.PROBE: "a neighbour asks only about sessions that this end has accepted or opened",
    Event.KNOWN: "only an end that has asked with Probe is answered",
    Event.KNOWN_ELSE: "only an end that has asked with Probe is answered",
    Event.CONFIRM: "only an end that has accepted a session waits for its confirmation",
    Event.CONFIRM_REFUSED: "only an end that has accepted a session waits for its confirmation",
    Event.DATA: "only an end whose link is up accepts messages",
    Event.DATA_BROKEN: "only an end whose link is up accepts messages",
    Event.DATA_EARLY: "for an end whose link is up, data is DATA",
}


def diagram() -> str:
    """Return the table as a Mermaid state diagram. It shows the transitions that change the state.

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
    """Return the table as Markdown, one row for each state and event that changes the state or has actions.

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
