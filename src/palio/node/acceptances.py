"""What publishers are told, and when: refusals at once, each promise as soon as it holds and those before it do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from palio.model import Mode
from palio.node.ports import AcceptedUpTo, Duplicate, Output, Reply

_Waiting = deque[tuple[int, AcceptedUpTo]]


class Acceptances:
    """Answers to publications that wait until what they depend on is written, or on disk.

    >>> answers = Acceptances()
    >>> answers.add(AcceptedUpTo("me", 1, Mode.LOCAL))
    >>> list(answers.due(1)), list(answers.written(1))
    ([], [AcceptedUpTo(party='me', number=1, mode=<Mode.LOCAL: 'local'>, source=0)])
    """

    __slots__ = ("_fresh", "_synced", "_waiting", "_written")

    def __init__(self) -> None:
        self._fresh: list[AcceptedUpTo | Duplicate | Reply] = []
        """Those of this turn, which has no token yet."""
        self._waiting: dict[str, _Waiting] = {}
        """By party, because no promise may be given before an earlier one: that would be taken for given, too."""
        self._written = self._synced = 0

    def add(self, answer: AcceptedUpTo | Duplicate | Reply) -> None:
        """There is an answer."""
        self._fresh.append(answer)

    def due(self, token: int) -> Iterator[Output]:
        """What can be said at once; the promises of this turn depend on what has a token, and all before it.

        A refusal depends on nothing. On a full disk, promises wait until there is room, and who is refused hears of it.
        That a publication is a duplicate promises nothing: its acceptance does, which follows.
        """
        fresh, self._fresh = self._fresh, []
        for answer in fresh:
            if isinstance(answer, Reply | Duplicate) or (
                answer.party not in self._waiting and self._holds(token, answer.mode)
            ):
                yield answer
            else:
                self._waiting.setdefault(answer.party, deque()).append((token, answer))

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
            while waiting and self._holds(waiting[0][0], waiting[0][1].mode):
                yield waiting.popleft()[1]
            if not waiting:
                del self._waiting[party]
