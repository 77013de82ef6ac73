"""What passes from one network to another over a gateway, and what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from palio.codec import msgpack
from palio.errors import brief
from palio.model import PROTOCOL_LIMITS, Advertisement, Filter
from palio.routing.messages import Advertise, Control, Message, Publish, Standing, Subscribe, begun, ended
from palio.routing.router import UnexpectedMessageError

_SURELY_WITHIN = 128
"""So many constraints are within the maxima, however long they are."""


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

    def pass_on(self, message: Control) -> tuple[Control, ...]:
        """What is to be said instead, if anything is."""
        narrowed = self._narrowed(begun(message))
        if narrowed is None:
            return ()
        if isinstance(message, Subscribe | Advertise):
            return self.begin(narrowed)
        self._counts[narrowed] -= 1
        if self._counts[narrowed]:
            return ()
        del self._counts[narrowed]
        return (ended(narrowed),)

    def foresee(self, message: Control) -> tuple[Control, ...]:
        """What :meth:`pass_on` would return; nothing changes."""
        standing = begun(message)
        narrowed = self._narrowed(standing)
        if narrowed is None:
            return ()
        if standing is message:
            return () if self._counts[narrowed] else (narrowed,)
        return (ended(narrowed),) if self._counts[narrowed] == 1 else ()

    def begin(self, standing: Standing) -> tuple[Control, ...]:
        """Something is said as it is; what is news of it."""
        self._counts[standing] += 1
        return (standing,) if self._counts[standing] == 1 else ()

    def standing(self) -> tuple[Standing, ...]:
        """All that was said instead and not taken back."""
        return tuple(self._counts)

    def _narrowed(self, message: Standing) -> Standing | None:
        if isinstance(message, Advertise):
            is_relevant = self._offered is None or message.advertisement.relevant_to(self._offered)
            return Advertise(message.advertisement) if is_relevant else None
        if self._wanted is None:
            return Subscribe(message.filter)
        filter = Filter([*message.filter.constraints, *self._wanted.constraints]).canonical()
        if not filter.is_satisfiable():
            return None
        return Subscribe(filter if _is_within_maxima(filter) else message.filter)


def _is_within_maxima(filter: Filter) -> bool:
    """Whether the protocol allows for a filter. If it does not, the wider one serves: notifications are looked at, too,
    when they pass.
    """
    count = len(filter.constraints)
    if count <= _SURELY_WITHIN:
        return True
    return count <= PROTOCOL_LIMITS.constraints and len(msgpack.encode(filter)) <= PROTOCOL_LIMITS.document_bytes


class Border:
    """One end of a gateway.

    >>> border = Border(Gateway(exports=Filter.parse("level < 5")))
    >>> border.take_in(Subscribe(Filter.parse("level > 2")))
    [Subscribe(filter=Filter.parse('level > 2 and level < 5'))]
    >>> border.take_in(Subscribe(Filter.parse("level > 7")))
    []
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._out = _Way(gateway.imports, gateway.exports)
        self._in = _Way(gateway.exports, gateway.imports)
        self.heard: dict[Standing, None] = {}
        """What the other network has said and not taken back, as it was said."""

    def offers(self) -> list[Control]:
        """What the other network is configured to offer; it counts as said from the beginning."""
        return [each for offer in self.gateway.offers for each in self._in.begin(Advertise(offer.canonical()))]

    @property
    def counting(self) -> tuple[Standing, ...]:
        """What counts in this network of what the other one says or is configured to offer."""
        return self._in.standing()

    @property
    def told(self) -> Iterable[Standing]:
        """What the other network was told and not told to forget."""
        return self._out.standing()

    def let_out(self, said: Iterable[Message]) -> list[Message]:
        """What the other network gets of what this one says."""
        return [each for message in said for each in self._out_of(message)]

    def _out_of(self, message: Message) -> Iterable[Message]:
        if isinstance(message, Publish):
            exports = self.gateway.exports
            return (message,) if exports is None or exports.matches(message.notification) else ()
        return self._out.pass_on(message) if isinstance(message, Control) else (message,)

    def lets_in(self, message: Publish) -> bool:
        """Whether a notification of the other network may come into this one."""
        return self.gateway.imports is None or self.gateway.imports.matches(message.notification)

    def foresee(self, message: Control) -> tuple[Control, ...]:
        """What :meth:`take_in` would return for a message that is possible now; nothing changes."""
        return self._in.foresee(message)

    def take_in(self, message: Control) -> list[Control]:
        """What this network gets to know of what the other one says."""
        standing = begun(message)
        if (standing in self.heard) is (standing is message):
            raise UnexpectedMessageError(f"a gateway cannot say {brief(message)} now")
        if standing is message:
            self.heard[standing] = None
        else:
            del self.heard[standing]
        return list(self._in.pass_on(message))
