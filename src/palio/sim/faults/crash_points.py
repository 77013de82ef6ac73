"""Servers that die exactly between two effects: after a write and before the reply, between two frames, and so on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from palio.node.ports import Acknowledged, Deliver, Fetch, Output, Persist, Position, Reply, Send

Effect = Literal[
    "write", "written", "reply", "replied", "send", "sent", "deliver", "delivered",
    "fetch", "fetched", "position", "positioned", "acknowledge", "acknowledged",
]  # fmt: skip
"""Just before a write or a read of the log begins, a reply, a frame, a delivery, a position or an acknowledgement goes
out; or just after it. *written* is when the records are safe, and the server has not heard of it; so is *fetched*.
"""

_BEFORE: dict[type[Output], Effect] = {
    Persist: "write", Reply: "reply", Send: "send", Deliver: "deliver", Fetch: "fetch", Position: "position",
    Acknowledged: "acknowledge",
}  # fmt: skip
_AFTER: dict[type[Output], Effect] = {
    Reply: "replied", Send: "sent", Deliver: "delivered", Position: "positioned", Acknowledged: "acknowledged",
}  # fmt: skip


class CrashPoint:
    """The end of a server: the next effect of a kind, or the n-th from now on.

    >>> point = CrashPoint("written", 2)
    >>> point.strikes("written"), point.strikes("write"), point.strikes("written")
    (False, False, True)
    """

    def __init__(self, effect: Effect, nth: int = 1) -> None:
        self._effect = effect
        self._left = nth

    def strikes(self, effect: Effect | None) -> bool:
        """Whether the server dies of this."""
        if effect != self._effect:
            return False
        self._left -= 1
        return self._left == 0

    def before(self, outputs: Iterable[Output]) -> Iterator[Output]:
        """The outputs that the server lives to carry out; those for several parties one by one."""
        for output in _one_by_one(outputs):
            if self.strikes(_BEFORE.get(type(output))):
                return
            yield output
            if self.strikes(_AFTER.get(type(output))):
                return

    @property
    def is_over(self) -> bool:
        """Whether it has come true."""
        return self._left <= 0


def _one_by_one(outputs: Iterable[Output]) -> Iterator[Output]:
    for output in outputs:
        if isinstance(output, Deliver):
            for place, party in enumerate(output.parties):
                here = slice(place, place + 1)
                yield Deliver((party,), output.notification, output.numbers[here], output.readings[here])
        else:
            yield output
