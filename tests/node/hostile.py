"""A neighbour that follows no rules: valid frames and messages, at random, in any order.

It looks into the node that it plays against, so that most of what it says fits the state of the link: else the link
would be given up before anything interesting is said.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from palio.link.frames import Accept, Close, Closed, Data, Frame, Known, Open, Probe, Refuse, Why
from palio.link.states import State
from palio.model import Advertisement, Envelope, Filter, Notification, NotificationId, Pattern
from palio.model.limits import PROTOCOL_LIMITS, VERSION_1_LIMITS, to_wire
from palio.node.node import Node
from palio.routing import messages
from palio.routing.messages import Message, Stamp, ended

_TEXTS = ("x any", "x > 3", "x = 1", "y any", "x > 3 and y any", "y any and x > 3", "x > 3 and x < 2", 's >* "a"')
FILTERS = (Filter(), *map(Filter.parse, _TEXTS))
OFFERS = tuple(map(Advertisement.parse, ("x any", "x > 3", "x any and y any", "y any", "x = 1")))
PATTERNS = tuple(map(Pattern.parse, ("x = 1 then x = 2", "x any then y any then x = 1", "x any", "y any then y any")))
CONTENTS: tuple[dict[str, int | str], ...] = ({"x": 1}, {"x": 5}, {"x": 2}, {"y": 1}, {"x": 7, "y": 2}, {"s": "ab"}, {})
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_NUMBERS = (2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -1)
_LIMITS = (to_wire(PROTOCOL_LIMITS), (), to_wire(VERSION_1_LIMITS), (3,) * 9, (0,) * 9, (-5,))
_RARELY = 0.02
"""How often it says something for which the link must be given up."""


class Hostile:
    """One such neighbour."""

    def __init__(self, name: str, random: Random, *, is_gateway: bool = False) -> None:
        self.name = name
        self._random = random
        self._is_gateway = is_gateway
        self._age = 0
        self._sequence = 0
        self._opened: list[Stamp] = []
        """Sessions that it has asked for."""
        self.asked: Open | None = None
        """What the node has asked for last."""
        self.probed: Probe | None = None
        self.forget()

    def forget(self) -> None:
        """There is a new link, or none any more."""
        self._said: list[messages.Standing] = []
        self._tags: list[int] = []
        self._lent: list[int] = []
        self._waves: list[int] = []

    def hear(self, frame: Frame) -> None:
        """The node has sent a frame."""
        match frame:
            case Open():
                self.asked = frame
            case Probe():
                self.probed = frame
            case Data():
                self._lent += [each.tag for each in frame.messages if isinstance(each, messages.Delegate)]
                self._waves += [each.token for each in frame.messages if isinstance(each, messages.Spread)]

    # -- values --------------------------------------------------------------------------------------------------------

    def _is(self, share: float) -> bool:
        return self._random.random() < share

    def _number(self) -> int:
        return self._random.choice(_NUMBERS) if self._is(0.2) else self._random.randrange(6)

    def _name(self) -> str:
        return self._random.choice([self.name, "rome", "bari", "gate", "milan", "ghost", "", "\0"])

    def _stamp(self) -> Stamp:
        return self._number(), self._name(), self._number()

    def _members(self) -> tuple[tuple[str, Stamp], ...]:
        if self._is(_RARELY):
            return tuple((self._name(), self._stamp()) for _ in range(3))
        far = [f"{self.name}-{n}" for n in range(3) if self._is(0.3)]
        return (self.name, (0, "", 0)), *((name, (self._random.randrange(9), self.name, 1)) for name in far)

    def _notification(self) -> Notification:
        self._sequence += 1
        random = self._random
        origin = random.choice([self.name, self.name, "ghost", "milan", "é" * 512])
        published = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=self._sequence)
        if self._is(0.1):
            published = _LAST if self._is(_RARELY) else _FIRST
        id = NotificationId(origin, random.choice([0, 1, 7]), random.choice([self._sequence] * 5 + [0, 2**63 - 1]))
        envelope = Envelope(
            id, published, "eva", random.choice([None, None, _FIRST, _LAST]), random.choice([None, "k"])
        )
        return Notification(random.choice(CONTENTS)).with_envelope(envelope)

    # -- messages ------------------------------------------------------------------------------------------------------

    def message(self, node: Node) -> Message:
        """Something that it may say now, or rarely something that it may not."""
        choices: list[Callable[[Node], Message]] = [self._control, self._control, self._publish, self._publish]
        choices += [self._wave, self._network]
        is_watching = node.router.advertisements_spread and not self._is_gateway
        if is_watching or self._is(_RARELY):
            choices += [self._pattern, self._pattern]
        return self._random.choice(choices)(node)

    def _control(self, node: Node) -> Message:
        if self._said and self._is(0.45):
            return ended(self._said.pop(self._random.randrange(len(self._said))))
        has_source = node.router.names_sources(self.name) is not self._is(_RARELY / 2)
        source = self._random.choice([self.name, "ghost", "bari", "gate"]) if has_source else ""
        said: messages.Standing = messages.Subscribe(self._random.choice(FILTERS), source)
        if self._is(0.4):
            said = messages.Advertise(self._random.choice(OFFERS), source)
        if said in self._said and not self._is(_RARELY):
            return ended(self._said.pop(self._said.index(said)))
        self._said.append(said)
        return said

    def _publish(self, node: Node) -> Message:
        entry = self._random.choice(["", self.name, "ghost", "milan"]) if node.router.topology is not None else ""
        is_watching = node.router.advertisements_spread and not self._is_gateway
        tags = tuple(self._lent[-2:]) if is_watching and self._is(0.3) else ()
        return messages.Publish(self._notification(), entry, self._random.choice([255, 3, 1, 0, -1, 2**63 - 1]), tags)

    def _wave(self, _: Node) -> Message:
        if self._waves and self._is(0.5):
            return messages.Spreaded(self._random.choice(self._waves))
        wave = self._name(), self._number(), self._number()
        return messages.Spread(self._number(), self._random.choice([self.name, "ghost", "milan", ""]), wave)

    def _network(self, node: Node) -> Message:
        if (node.router.topology is None or self._is_gateway) is not self._is(_RARELY / 2):
            left = tuple(f"{self.name}-{n}" for n in range(3) if self._is(0.3))
            return messages.Members(self._members(), left)
        server = self._random.choice([self.name, "ghost", "bari", "milan" if self._is(_RARELY) else self.name])
        end = node.links._ends.get(server)
        stamp = end.session if end is not None and end.session is not None else self._stamp()
        links: dict[str, tuple[str, int, Stamp]] = {}
        for name in ("milan", "ghost", "bari", "far"):
            if name != server and self._is(0.5):
                links[name] = name, self._random.choice([1, 2, 2**63 - 1]), stamp if self._is(0.8) else self._stamp()
        number = self._random.randrange(30)
        return messages.Account(server, self._random.choice([0, 1, 7, 2**62]), number, tuple(links.values()))

    def _pattern(self, _: Node) -> Message:
        random = self._random
        held = tuple(self._notification() for _ in range(random.choice([0, 0, 1, 3])))
        after = None if self._is(0.6) else (random.choice([_FIRST, _LAST]), NotificationId("ghost", 1, 3))
        pattern = random.choice(PATTERNS)
        lent = random.choice(self._lent) if self._lent and self._is(0.9) else self._number()
        tag = random.choice(self._tags) if self._tags else self._number()
        go_on = messages.Continue(tag, random.randrange(len(pattern) + self._is(_RARELY)), after, held)
        made: list[Message] = [
            messages.Accepted(lent),
            messages.Element(self._notification(), (lent,)),
            messages.Returned(lent, held),
            messages.Release(tag),
        ]
        if self._tags or self._is(_RARELY):
            made += [go_on, messages.Recall(tag)]
        new = self._number()
        if new not in self._tags or self._is(_RARELY):
            self._tags.append(new)
            made += [messages.Delegate(pattern, new, (self._name(),), None)]
            made += [messages.Delegate(pattern, new, (), messages.Continue(new, go_on.position, after, held))]
        return random.choice(made)

    # -- frames --------------------------------------------------------------------------------------------------------

    def frame(self, node: Node) -> Frame:
        """Most often messages, if there is a link; else what may lead to one; now and then anything."""
        end = node.links._ends.get(self.name)
        if end is not None and end.session is not None and self._is(0.85):
            return self._data(node, end)
        has_link = end is not None and end.state.has_link
        if (not has_link and self._is(0.8)) or self._is(_RARELY):
            return self._open_or_accept(node)
        if end is not None and end.state is State.DOUBTED and self.probed is not None and self._is(0.75):
            session = end.link.session if end.link is not None else None
            base, behind, expected = session.positions if session is not None else (0, 0, 0)
            return Known(
                self.probed.session, self.probed.number, expected, expected, self._random.choice([base, behind])
            )
        known = [*self._opened, *([end.session] if end is not None and end.session is not None else []), self._stamp()]
        return self._anything(self._random.choice(known))

    def _data(self, node: Node, end: Any) -> Data:
        base, behind, expected = end.link.session.positions if end.link is not None else (0, 0, 0)
        first, heard = expected, self._random.randint(base, behind)
        if self._is(_RARELY):
            first += self._random.choice([-3, -1, 1, 5])
        if self._is(_RARELY / 2):
            heard = self._random.choice([behind + 1, -1, 2**63 - 1])
        said = tuple(self.message(node) for _ in range(self._random.choice([0, 1, 1, 2, 4])))
        return Data(end.session, first, said, heard, self._is(0.9))

    def _open_or_accept(self, node: Node) -> Frame:
        if self.asked is not None and self._is(0.5):
            return Accept(self.asked.session, self._members(), self._random.choice(_LIMITS))
        self._age += 1
        session = (self._age, self.name, 1) if self._is(0.9) else self._stamp()
        self._opened = [*self._opened[-5:], session]
        role = "gateway" if self._is_gateway else "peer"
        if node.router.name == "hs" and not self._is_gateway:
            role = self._random.choice(["master", "client", "client"])
        if self._is(_RARELY):
            role = self._random.choice(["", "x", "gateway", "master"])
        latency = self._random.choice([0, -1, 2, 2**63 - 1]) if self._is(0.1) else 1
        return Open(session, role, node.router.name, self._members(), latency, self._random.choice(_LIMITS[:4]))

    def _anything(self, session: Stamp) -> Frame:
        number = self._number
        return self._random.choice(
            [
                Refuse(session, "no"),
                Close(session, self._random.choice([Why.ENDED, Why.UNKNOWN]), "bye"),
                Closed(session),
                Probe(session, number()),
                Known(session, number(), number(), number(), number()),
                Data(session, number(), (), number()),
                Accept(session, self._members()),
            ]
        )
