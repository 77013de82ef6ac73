"""What neighbours say, message by message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from palio.errors import PeerError, brief
from palio.model import Notification
from palio.routing import messages
from palio.routing.messages import Message

if TYPE_CHECKING:
    from palio.node.keeping import Keeping
    from palio.node.node import Node


class Hearing:
    """Handles the messages of neighbours of one node."""

    def __init__(self, node: Node, keeping: Keeping | None) -> None:
        self._node = node
        self._keeping = keeping

    def take(self, peer: str, message: Message) -> None:
        """Handle a message. It is a :class:`~palio.errors.PeerError` if the neighbour could not say that."""
        if isinstance(message, messages.Publish):
            self._pass_on(peer, message)
        elif isinstance(message, messages.Element):
            self._take_over(peer, message, (message.notification,))
            self._node.talk_of_patterns()
        else:
            self._node.note_news()
            self._receive(peer, message)

    def _receive(self, peer: str, message: Message) -> None:
        spreading = self._node.spreading
        match message:
            case messages.Continue() | messages.Returned():
                self._take_over(peer, message, message.held)
            case messages.Delegate(_, _, _, state):
                self._take_over(peer, message, () if state is None else state.held)
            case messages.Accepted() | messages.Recall() | messages.Release():
                self._take_over(peer, message)
            case messages.Spread():
                spreading.pass_on(peer, message)
            case messages.Spreaded(token):
                spreading.come_back(spreading.waves.answered(peer, token))
            case _:
                self._node.neighbours.hear(peer, message)
                if self._keeping:
                    self._keeping.heard(peer, message)

    def _take_over(
        self, peer: str, message: messages.MonitorMessage, notifications: Sequence[Notification] = ()
    ) -> None:
        """A neighbour says something about patterns that one watches for the other."""
        node = self._node
        for each in notifications:
            if each.envelope is None:
                raise PeerError(f"{brief(peer)} sends a notification without an envelope")
            node.publishing.clock.saw(each.envelope.published)
        node.delegating.receive(peer, message, node.now)
        node.deliver_sequences(node.monitors.found())

    def _pass_on(self, peer: str, message: messages.Publish) -> None:
        """A neighbour sends a notification; while there is a cycle it may have been here before."""
        node, envelope = self._node, message.notification.envelope
        if envelope is None:
            raise PeerError(f"{brief(peer)} sends a notification without an envelope")
        border, id = node.neighbours.borders.get(peer), envelope.id
        if border is not None and not border.lets_in(message):
            return
        if message.tags:
            self._take_over(peer, messages.Element(message.notification, message.tags), (message.notification,))
            message = msgspec.structs.replace(message, tags=())
        if node.seen.is_new(id.origin, id.incarnation, id.sequence):
            if self._keeping:
                self._keeping.seen(node.seen, id)
            node.publishing.clock.saw(envelope.published)
            node.forward(message, peer)
        elif node.monitors.has_elements:
            node.talk_of_patterns()
