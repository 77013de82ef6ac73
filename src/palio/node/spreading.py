"""Waves of a node: they go out behind all that was said, and whoever waits for one is told when it has come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from palio.errors import LimitError, PeerError, brief
from palio.node.ports import Reply
from palio.node.waves import Asked, Passed, Waves
from palio.routing import messages
from palio.routing.messages import WaveName

if TYPE_CHECKING:
    from palio.node.node import Node


MOST_WAVES = 100_000
"""Waves that have not come back. With more, a request that waits is refused, and a link that brings more ends."""


class Spreading:
    """What has to spread from a node, or through it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.waves: Waves[Asked | Passed] = Waves()

    def spread(self, waiting: Asked | Passed, source: str | None, origin: str) -> None:
        """Send a wave behind all that was said; if there is nowhere to go, it has come back already."""
        node = self._node
        node.tell(pressing=True)
        if source is not None and source not in node.router.peers:
            return  # its link closed a cycle and was cut: nobody waits for the wave any more
        peers = [peer for peer in node.router.hearing(origin) if peer != source]
        if not peers:
            self.come_back([waiting])
            return
        token = self.waves.begin(waiting, peers)
        begun = node.settings.server, node.settings.start, token
        wave = waiting.wave if isinstance(waiting, Passed) else begun
        for peer in peers:
            node.send_behind(peer, messages.Spread(token, origin, wave))

    def check_room(self) -> None:
        """Refuse a request that wants to wait until it has spread, if too many do."""
        if len(self.waves) >= MOST_WAVES:
            raise LimitError("waves", MOST_WAVES, len(self.waves) + 1, "requests that wait until they have spread")

    def pass_on(self, peer: str, message: messages.Spread) -> None:
        """A neighbour's wave has come."""
        if len(self.waves) >= MOST_WAVES:
            raise PeerError(f"more than {MOST_WAVES:,} waves have not come back; {brief(peer)} sends another one")
        passed, is_border = Passed(peer, message.token, message.wave), peer in self._node.neighbours.borders
        if is_border and self._is_out(message.wave):
            self.come_back([passed])  # there is a loop between networks, which is not cut yet
        else:
            self.spread(passed, peer, self._node.settings.server if is_border else message.origin)

    def _is_out(self, wave: WaveName) -> bool:
        """Whether a wave has begun here, or was passed on and has not come back."""
        is_own = wave[:2] == (self._node.settings.server, self._node.settings.start)
        return is_own or any(isinstance(each, Passed) and each.wave == wave for each in self.waves.waiting())

    def lost(self, peer: str) -> None:
        """A neighbour is gone, with its waves and all that had to come back from it."""
        self.come_back(self.waves.lost(peer, lambda each: isinstance(each, Passed) and each.peer == peer))

    def come_back(self, waiting: Iterable[Asked | Passed]) -> None:
        """Tell those for whom waves have come back."""
        for each in waiting:
            match each:
                case Asked(party, number):
                    self._node.emit(Reply(party, number))
                case Passed(peer, token):
                    self._node.tell(pressing=True)  # the answer comes behind all that was said
                    self._node.send_behind(peer, messages.Spreaded(token))
