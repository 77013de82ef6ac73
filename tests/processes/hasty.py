"""``palio serve`` with a planted fault: it says that all is on disk a while before it is.

The kill campaign must notice that; ``python -m tests.processes.hasty`` takes the arguments of ``palio``.
"""

from __future__ import annotations

from palio.cli.main import palio
from palio.node.ports import Persist, Persisted
from palio.server.storage import Storage

_LATE = 3.0
"""Seconds until what is said to be on disk is written."""


def plant() -> None:
    """Let stores of this process be late."""
    write = Storage.persist

    def persist(self: Storage, wish: Persist) -> None:
        self._loop.call_later(_LATE, write, self, wish)
        self._loop.call_soon(self._give, Persisted(wish.token))

    Storage.persist = persist  # type: ignore[method-assign]
    Storage._done = lambda *_: None  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    palio()
