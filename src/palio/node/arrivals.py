"""The messages of neighbours that are not handled yet, because they need many comparisons of filters.

A subscription of a neighbour, or the end of one, may need as many comparisons as one of a party. They are made ahead,
in slices, and the message is handled when all are made. The messages that arrive behind it on the same link wait for
it; other links and parties do not.

The link takes a message when it is handled, and not before. So a message that waits is not acknowledged: if the server
stops, the neighbour sends it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from palio.link.frames import Data, Frame
from palio.link.session import Session, size_of
from palio.matching.preparation import Preparation, Steps
from palio.node.ports import FromPeer
from palio.node.preparing import Allowance, Job
from palio.routing import messages
from palio.routing.messages import Message

if TYPE_CHECKING:
    from palio.node.node import Node

_COMPARING = frozenset(
    (messages.Subscribe, messages.Unsubscribe, messages.Advertise, messages.Unadvertise, messages.Delegate)
)
"""The messages that may need comparisons. All others are handled at once, unless they come behind one that waits."""

MOST_BYTES = 16 << 20
"""About so many bytes of messages wait for each neighbour at most; the last one may exceed that."""


class _Queue:
    """The messages of one neighbour that wait, in their order."""

    __slots__ = ("bytes", "is_long", "job", "messages")

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.bytes = 0
        self.is_long = False
        """Whether several messages have waited together."""
        self.job: Job | None = None
        """The comparisons for the first message, if they have begun."""

    def take(self) -> Message:
        """Take out the first message."""
        first = self.messages.popleft()
        self.bytes -= size_of(first)
        return first


class Arrivals:
    """Handles the frames of all neighbours; what does not fit into a turn goes on in the next ones."""

    def __init__(self, node: Node, allowance: Allowance) -> None:
        self._node = node
        self._allowance = allowance
        self._queues: dict[str, _Queue] = {}

    def __len__(self) -> int:
        """The number of neighbours with messages that wait."""
        return len(self._queues)

    def waiting(self, peer: str) -> int:
        """How many messages of a neighbour wait."""
        queue = self._queues.get(peer)
        return 0 if queue is None else len(queue.messages)

    def take(self, peer: str, frame: Frame) -> None:
        """Handle a frame, as far as this turn permits."""
        if not isinstance(frame, Data) or not self._may_take_long(peer, frame):
            self._pass(peer, frame)
            return
        self._pass(peer, msgspec.structs.replace(frame, messages=()))  # acknowledgements do not wait
        session = self._node.links.session(peer)
        if session is not None and session.stamp == frame.session:
            self._append(peer, session, frame)
            self._work(peer)

    def resume(self) -> None:
        """Go on with what earlier turns have left."""
        for peer in list(self._queues):
            if peer not in self._queues:
                continue  # its link has ended because of what another neighbour said
            try:
                self._work(peer)
            except Exception as error:  # noqa: BLE001 (it must not reach the other neighbours)
                self._node.containment.contain(FromPeer(peer, self._frame(peer, ())), error)

    def forget(self, peer: str) -> None:
        """The link has ended; what waits was never acknowledged."""
        queue = self._queues.pop(peer, None)
        if queue is not None and queue.job is not None:
            self._node.router.preparations.close(queue.job.preparation)

    def _may_take_long(self, peer: str, frame: Data) -> bool:
        if not frame.messages:
            return False
        return peer in self._queues or any(each.__class__ in _COMPARING for each in frame.messages)

    def _pass(self, peer: str, frame: Frame) -> None:
        events = self._node.links.receive(peer, frame, self._node.now)
        if events:
            self._node.happened(events)

    def _append(self, peer: str, session: Session, frame: Data) -> None:
        """Keep the messages of a frame that are next, if there is room for them; else the neighbour sends them again.

        A neighbour that keeps to its window, and is configured like this server, never sends so much.
        """
        queue, settings = self._queues.setdefault(peer, _Queue()), self._node.settings.link
        known = session.expected + len(queue.messages) - frame.first
        if not 0 <= known < len(frame.messages):
            self._node.links.acknowledge(peer, self._node.now)  # a frame or an acknowledgement was lost
            return
        for message in frame.messages[known:]:
            if queue.messages and (len(queue.messages) >= settings.window or queue.bytes >= MOST_BYTES):
                break
            queue.is_long |= bool(queue.messages)
            queue.messages.append(message)
            queue.bytes += size_of(message)

    def _work(self, peer: str) -> None:
        """Handle messages in their order until one needs more comparisons than this turn permits."""
        queue = self._queues[peer]
        while queue.messages:
            if queue.messages[0].__class__ not in _COMPARING:
                ready = [queue.take()]
                while queue.messages and queue.messages[0].__class__ not in _COMPARING:
                    ready.append(queue.take())
                self._pass(peer, self._frame(peer, ready))
            elif (preparation := self._prepare(peer, queue)) is not None:
                with self._node.router.prepared(preparation):
                    self._pass(peer, self._frame(peer, (queue.take(),)))
            else:
                return
            if self._queues.get(peer) is not queue:
                return  # the link has ended
        del self._queues[peer]
        if queue.is_long:
            self._node.links.acknowledge(peer, self._node.now)  # the neighbour has more changes, and waits for that

    def _prepare(self, peer: str, queue: _Queue) -> Preparation | None:
        """Make comparisons for the first message; ``None`` if they are not finished in this turn."""
        preparations = self._node.router.preparations
        job, queue.job = queue.job, None
        if job is None:
            preparation = preparations.open()
            job = Job.begin(preparation, self._steps(preparation, peer, queue.messages[0]))
        try:
            # all requests of parties count as one: notifications wait behind this message, and none behind them
            others = len(self._queues) - 1 + bool(self._node.preparing)
            is_done = self._allowance.work(("neighbour", peer), job.steps, others)
        except Exception:
            preparations.close(job.preparation)
            raise
        if is_done:
            return job.preparation
        queue.job = job
        return None

    def _steps(self, preparation: Preparation, peer: str, message: Message) -> Steps:
        if isinstance(message, messages.Delegate):
            return self._node.router.prepare_watched(
                preparation, [each.canonical() for each in message.pattern.filters]
            )
        assert isinstance(message, messages.Control)
        return self._node.neighbours.prepare(preparation, peer, message)

    def _frame(self, peer: str, ready: Sequence[Message]) -> Data:
        """Messages as the next ones of the link; what the frame says besides is known already."""
        session = self._node.links.session(peer)
        assert session is not None
        return Data(session.stamp, session.expected, tuple(ready), session.base, not session.is_held)
