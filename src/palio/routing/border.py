"""What passes from one network to another over a gateway, and what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from palio.model import Advertisement, Filter, Notification
from palio.routing.messages import Advertise, Control, Standing, Subscribe, begun, ended


class Gateway(msgspec.Struct, frozen=True):
    """How a server is joined with one of another network."""

    imports: Filter | None = None
    """Only what this matches comes in; all if there is none."""
    exports: Filter | None = None
    """Only what this matches goes out."""
    offers: tuple[Advertisement, ...] = ()
    """What the other network may publish, if it is one in which advertisements do not spread."""


class _Way:
    """What is said in one direction, narrowed to what may pass. Several filters may become one: it stands as long as
    one of them does.
    """

    def __init__(self, wanted: Filter | None, offered: Filter | None) -> None:
        self._wanted = wanted
        self._offered = offered
        self._counts: Counter[Standing] = Counter()

    def pass_on(self, said: Iterable[Control]) -> Iterator[Control]:
        """What is to be said instead."""
        for message in said:
            narrowed = self._narrowed(begun(message))
            if narrowed is None:
                continue
            if isinstance(message, Subscribe | Advertise):
                self._counts[narrowed] += 1
                if self._counts[narrowed] == 1:
                    yield narrowed
            else:
                self._counts[narrowed] -= 1
                if not self._counts[narrowed]:
                    del self._counts[narrowed]
                    yield ended(narrowed)

    def _narrowed(self, message: Standing) -> Standing | None:
        if isinstance(message, Advertise):
            is_relevant = self._offered is None or message.advertisement.relevant_to(self._offered)
            return Advertise(message.advertisement) if is_relevant else None
        if self._wanted is None:
            return Subscribe(message.filter)
        filter = Filter([*message.filter.constraints, *self._wanted.constraints])
        return Subscribe(filter) if filter.is_satisfiable() else None


class Border:
    """One end of a gateway.

    >>> border = Border(Gateway(exports=Filter.parse("level < 5")))
    >>> [str(each.filter) for each in border.take_in([Subscribe(Filter.parse("level > 2"))])]
    ['level > 2 and level < 5']
    >>> list(border.take_in([Subscribe(Filter.parse("level > 7"))]))
    []
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._out = _Way(gateway.imports, gateway.exports)
        self._in = _Way(gateway.exports, gateway.imports)

    def tell(self, said: Iterable[Control]) -> list[Control]:
        """What the other network gets to know of what this one says."""
        return list(self._out.pass_on(said))

    def take_in(self, said: Iterable[Control]) -> list[Control]:
        """What this network gets to know of what the other one says."""
        return list(self._in.pass_on(said))

    def lets_out(self, notification: Notification) -> bool:
        """Whether a notification may leave this network."""
        return self._gateway.exports is None or self._gateway.exports.matches(notification)

    def lets_in(self, notification: Notification) -> bool:
        """Whether a notification of the other network may come into this one."""
        return self._gateway.imports is None or self._gateway.imports.matches(notification)
