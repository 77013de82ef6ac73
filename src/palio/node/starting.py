"""How a node is made from what a store holds: by the server that goes on, and by whoever wants to know how it would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from palio.node.keeping import tail_from
from palio.node.loading import Loaded
from palio.node.node import Node
from palio.node.settings import NodeSettings

_PIECE_BYTES = 64 << 20
"""Of entries that are read at once."""


class MessageLog(NamedTuple):
    """The message log of a store."""

    first: int
    """The position of the first entry that there is."""
    end: int
    """The position behind the last one."""
    read: Callable[[int, int, int], Sequence[tuple[int, bytes]]]
    """Gives the entries from a position up to another, at least one and not many more bytes than a number."""


def start(settings: NodeSettings, loaded: Loaded, log: MessageLog, now: int) -> Node:
    """The node as it was when it was last written; records that do not fit are in :attr:`Node.quarantined`."""
    needed = 0 if loaded.quarantined else tail_from(loaded.records, settings.incarnation, log.end)
    begin = max(needed, log.first)
    tail: list[tuple[int, bytes]] = []
    while begin < log.end:
        found = log.read(begin, log.end, _PIECE_BYTES)
        if not found:
            break  # a server that writes to the store has trimmed it meanwhile
        tail += found
        begin = tail[-1][0] + 1
    return Node(settings, loaded.records, now, tail, log.first, log.end, loaded.quarantine)
