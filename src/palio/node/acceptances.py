"""What publishers are told, and when: each promise as soon as it holds, and in the order of their publications."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from palio.model import Mode
from palio.node.ports import AcceptedUpTo, Output, Reply

_Waiting = deque[tuple[int, Mode, Output]]


class Acceptances:
    """Answers to publications that wait until what they depend on is written, or on disk.

    >>> answers = Acceptances()
    >>> answers.add(AcceptedUpTo("me", 1, Mode.LOCAL))
    >>> list(answers.due(1)), list(answers.written(1))
    ([], [AcceptedUpTo(party='me', number=1, mode=<Mode.LOCAL: 'local'>, source=0)])
    """

    __slots__ = ("_fresh", "_synced", "_waiting", "_written")

    def __init__(self) -> None:
        self._fresh: list[tuple[str, Mode, Output]] = []
        """Those of this turn, which has no token yet."""
        self._waiting: dict[str, _Waiting] = {}
        """By party, because nothing may be said before what came earlier: it would be taken for accepted."""
        self._written = self._synced = 0

    def add(self, answer: AcceptedUpTo | Reply) -> None:
        """There is an answer; a refusal depends on nothing."""
        mode = answer.mode if isinstance(answer, AcceptedUpTo) else Mode.MEMORY
        self._fresh.append((answer.party, mode, answer))

    def due(self, token: int) -> Iterator[Output]:
        """What can be said at once; the answers of this turn depend on what has a token, and all before it."""
        fresh, self._fresh = self._fresh, []
        for party, mode, answer in fresh:
            waiting = self._waiting.get(party)
            if waiting is None and self._holds(token, mode):
                yield answer
            else:
                self._waiting.setdefault(party, deque()).append((token, mode, answer))

    def written(self, token: int) -> Iterator[Output]:
        """All up to a token is written: what can be said because of it."""
        self._written = max(self._written, token)
        yield from self._release()

    def synced(self, token: int) -> Iterator[Output]:
        """All up to a token is on disk."""
        self._synced = max(self._synced, token)
        yield from self.written(token)

    def _holds(self, token: int, mode: Mode) -> bool:
        match mode:
            case Mode.MEMORY:
                return True
            case Mode.LOCAL:
                return token <= self._written
            case Mode.SYNCED:
                return token <= self._synced

    def _release(self) -> Iterator[Output]:
        for party in list(self._waiting):
            waiting = self._waiting[party]
            while waiting and self._holds(*waiting[0][:2]):
                yield waiting.popleft()[2]
            if not waiting:
                del self._waiting[party]
