"""The table of available patterns: what is advertised where, and into which parts a pattern can be taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palio.model import Advertisement, Filter, Pattern
from palio.routing.router import Router


class Available:
    """From which neighbours the notifications come that a filter matches.

    They come from where something relevant is advertised; this server's own parties count as local.

    >>> from palio.routing.architectures import ARCHITECTURES
    >>> router = ARCHITECTURES["aa"]("milan")
    >>> router.advertise("me", Advertisement.parse("x any"))
    >>> Available(router).providers(Filter.parse("x > 3"))
    ('',)
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._version: object = None
        self._offers: dict[str, list[Advertisement]] = {}
        self._providers: dict[Filter, tuple[str, ...]] = {}
        """Of the filters that were asked for."""
        self.refresh()

    def refresh(self) -> list[Filter]:
        """Look at what is advertised now; the filters whose providers may have changed."""
        if self._version == self._router.offers_version:
            return []
        self._version = self._router.offers_version
        before, self._offers = self._offers, self._router.offers()
        old = {(peer, each): None for peer, offers in before.items() for each in offers}
        new = {(peer, each): None for peer, offers in self._offers.items() for each in offers}
        changed = dict.fromkeys(each for (_, each) in [*old, *new] if (_, each) not in old or (_, each) not in new)
        stale = [filter for filter in self._providers if any(each.relevant_to(filter) for each in changed)]
        for filter in stale:
            del self._providers[filter]
        return stale

    def providers(self, filter: Filter) -> tuple[str, ...]:
        """The neighbours from which a filter is available."""
        found = self._providers.get(filter)
        if found is None:
            found = self._providers[filter] = tuple(
                peer for peer, offers in self._offers.items() if any(each.relevant_to(filter) for each in offers)
            )
        return found

    def forget(self, filter: Filter) -> None:
        """A filter will not be asked for any more."""
        self._providers.pop(filter, None)

    def only_provider(self, filters: Sequence[Filter]) -> str | None:
        """The one from which all filters are available, if all are, and none from anybody else."""
        found = self.providers(filters[0])
        if len(found) != 1 or any(self.providers(filter) != found for filter in filters[1:]):
            return None
        return found[0]

    def factor(self, pattern: Pattern, may_ask: Callable[[str], bool]) -> tuple[Filter | Pattern, ...]:
        """Take a pattern apart into filters, and groups of them that can be left to a neighbour.

        A group is contiguous; all of it is available from one neighbour and from nobody else; and nothing of it is of
        use elsewhere in the pattern but in groups like it, for as a part of a group it does not come alone.
        """
        filters = pattern.filters
        found: list[Filter | Pattern] = []
        begin = 0
        while begin < len(filters):
            end = self._end_of_group(filters, begin, may_ask)
            found.append(Pattern(filters[begin:end]) if end > begin + 1 else filters[begin])
            begin = end
        return tuple(found)

    def _end_of_group(self, filters: tuple[Filter, ...], begin: int, may_ask: Callable[[str], bool]) -> int:
        """Where the longest group ends that begins at a place; one filter is always left to itself."""
        for end in range(len(filters), begin + 1, -1):
            group = filters[begin:end]
            peer = self.only_provider(group) if len(group) < len(filters) else None
            if peer is not None and may_ask(peer) and self._stands_alone(filters, group):
                return end
        return begin + 1

    def _stands_alone(self, filters: tuple[Filter, ...], group: tuple[Filter, ...]) -> bool:
        offers = dict.fromkeys(each for filter in group for each in self._relevant(filter))
        place = 0
        while place < len(filters):
            if filters[place : place + len(group)] == group:
                place += len(group)
            elif any(each in offers for each in self._relevant(filters[place])):
                return False
            else:
                place += 1
        return True

    def _relevant(self, filter: Filter) -> list[Advertisement]:
        return [each for offers in self._offers.values() for each in offers if each.relevant_to(filter)]
