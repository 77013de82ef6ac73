"""Between what neighbours say and what tables hold: several filters of one neighbour may count as one.

That saves room in the table, and what is passed on is what the table holds. It needs no consent: the neighbour takes
back what it said, and what counts instead comes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from palio.errors import brief
from palio.routing.lanes import Key, Lanes
from palio.routing.messages import Control, Standing, begun, ended
from palio.routing.router import UnexpectedMessageError
from palio.routing.unions import Merging, check_merging


class Compression:
    """What counts of what the neighbours of one server say.

    >>> from palio.model import Filter
    >>> from palio.routing.messages import Subscribe
    >>> one, two = (Subscribe(Filter.parse(f"integer x = {number}")) for number in (1, 2))
    >>> compression = Compression(Merging())
    >>> [str(each.filter) for each in compression.take("rome", one)]
    ['integer x = 1']
    >>> [(type(each).__name__, str(each.filter)) for each in compression.take("rome", two)]
    [('Subscribe', 'integer x >= 1 and integer x <= 2'), ('Unsubscribe', 'integer x = 1')]
    """

    def __init__(self, limits: Merging | None, *, is_kept: bool = False) -> None:
        check_merging(limits, "compression")
        self._lanes = Lanes(limits, "compressed", is_kept=is_kept)

    def take(self, peer: str, message: Control) -> list[Control]:
        """What is to be put into the table, and taken out of it, when a neighbour says something."""
        if self._lanes.is_idle:
            return [message]
        standing = begun(message)
        is_begun = standing is message
        if self._lanes.knows(peer, standing) is is_begun:
            raise UnexpectedMessageError(f"{brief(peer)} cannot say {brief(message)} now")
        new, over = self._lanes.change(peer, *(([standing], []) if is_begun else ([], [standing])))
        return [*new, *map(ended, over)]

    def forget(self, peer: str) -> None:
        """A neighbour is gone."""
        self._lanes.forget(peer)

    def groups(self, peer: str) -> Iterator[tuple[Standing, tuple[Standing, ...]]]:
        """What counts instead of several others that a neighbour has said, and these."""
        return self._lanes.groups(peer)

    def said(self, peer: str, counting: Iterable[Standing]) -> list[Standing]:
        """What a neighbour has said, where it is known what counts."""
        if self._lanes.is_idle:
            return list(counting)
        groups = dict(self.groups(peer))
        return [part for each in counting for part in groups.get(each, (each,))]

    # -- records -------------------------------------------------------------------------------------------------------

    def records(self) -> dict[Key, Any]:
        """What has changed since the last call, as records."""
        return self._lanes.records()

    def restore(self, records: Mapping[tuple[Any, ...], Any]) -> list[tuple[str, Standing]]:
        """Take back what was kept: what is to be put into the table for neighbours. What they said is still to come."""
        return [(peer, standing) for peer, standing, _ in self._lanes.restore(records)]

    def recall(self, peer: str, standing: Standing) -> list[Control]:
        """What is to be put into the table for something that a neighbour said in an earlier life of this server."""
        if self._lanes.knows(peer, standing):
            return []
        self._lanes.restore_single(peer, standing)
        return [standing]
