"""What can be merged with each other: of one class, said to or by one neighbour, and of one source."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from palio.model import Advertisement, Filter
from palio.routing.merging import Merged
from palio.routing.messages import Advertise, Standing, Subscribe
from palio.routing.unions import Merging, United

Key = tuple[Hashable, ...]
"""Of a record."""
_Lane = tuple[str, type[Filter] | type[Advertisement], str]
_APART = Merging(parts=1)


class Lanes:
    """For each neighbour, what stands instead of what is said to it, or by it.

    If nothing is to be merged, everything stands for itself, but for what was merged in an earlier life of the server
    with other settings: that comes apart when something of it is cancelled.
    """

    def __init__(self, limits: Merging | None, tag: str, *, is_kept: bool) -> None:
        self._limits, self._tag = limits, tag
        self._is_kept = is_kept
        """Whether anybody asks for records."""
        self._lanes: dict[_Lane, Merged[Any]] = {}
        self._touched: dict[_Lane, None] = {}
        self._gone: dict[Key, None] = {}
        """Records of neighbours that are gone."""

    @property
    def is_idle(self) -> bool:
        """Whether everything stands for itself."""
        return self._limits is None and not self._lanes

    def knows(self, peer: str, standing: Standing) -> bool | None:
        """Whether something stands, for itself or as a part; nothing if what is like it is not merged."""
        merged = self._lane(_lane(peer, standing))
        return None if merged is None else _element(standing) in merged

    def change(
        self, peer: str, begun: Iterable[Standing], ended: Iterable[Standing]
    ) -> tuple[list[Standing], list[Standing]]:
        """What is said has changed: what stands from now on, and then what does no longer."""
        sorted_out: dict[_Lane, tuple[list[Standing], list[Standing]]] = {}
        for number, each_side in enumerate((begun, ended)):
            for standing in each_side:
                sorted_out.setdefault(_lane(peer, standing), ([], []))[number].append(standing)
        new: list[Standing] = []
        over: list[Standing] = []
        for lane, (begins, ends) in sorted_out.items():
            merged = self._lane(lane)
            if merged is None:
                new += begins
                over += ends
            else:
                told, taken_back = merged.change(map(_element, begins), map(_element, ends))
                new += [_said(lane, each) for each in told]
                over += [_said(lane, each) for each in taken_back]
                self._touch(lane, merged)
        return new, over

    def _touch(self, lane: _Lane, merged: Merged[Any]) -> None:
        if self._is_kept:
            self._touched[lane] = None
        else:
            merged.touched()

    def _lane(self, lane: _Lane) -> Merged[Any] | None:
        if lane not in self._lanes and self._limits is not None:
            self._lanes[lane] = Merged(lane[1], self._limits)
        return self._lanes.get(lane)

    def forget(self, peer: str) -> None:
        """A neighbour is gone."""
        for lane in [lane for lane in self._lanes if lane[0] == peer]:
            merged = self._lanes.pop(lane)
            self._touched.pop(lane, None)
            known = [*(each.element for each in merged.groups()), *merged.touched()]
            self._gone.update(dict.fromkeys((self._tag, peer, _said(lane, each)) for each in known))
        if not self._is_kept:
            self._gone.clear()

    def groups(self, peer: str) -> Iterator[tuple[Standing, tuple[Standing, ...]]]:
        """What stands for several others, and these."""
        for lane, merged in self._lanes.items():
            if lane[0] == peer:
                for each in merged.groups():
                    yield _said(lane, each.element), tuple(_said(lane, part) for part in each.parts)

    # -- records -------------------------------------------------------------------------------------------------------

    def records(self) -> dict[Key, Any]:
        """What has changed since the last call, as records: what stands for others, with its waste and its parts."""
        found: dict[Key, Any] = dict.fromkeys(self._gone)
        for lane in self._touched:
            for each, united in self._lanes[lane].touched().items():
                value = None if united is None else (united.waste, tuple(_said(lane, part) for part in united.parts))
                found[self._tag, lane[0], _said(lane, each)] = value
        self._gone.clear()
        self._touched.clear()
        return found

    def restore(self, records: Mapping[tuple[Any, ...], Any]) -> Iterator[tuple[str, Standing, tuple[Standing, ...]]]:
        """Take back what was kept: for which neighbour what stands for others, and for which."""
        for key, value in records.items():
            if key[0] == self._tag:
                (_, peer, standing), (waste, parts) = key, value
                self._begin(_lane(peer, standing), United(_element(standing), tuple(map(_element, parts)), waste))
                yield peer, standing, parts

    def restore_single(self, peer: str, standing: Standing) -> None:
        """Take back what stands for itself."""
        element = _element(standing)
        lane = _lane(peer, standing)
        if lane in self._lanes or self._limits is not None:
            self._begin(lane, United(element, (element,)))

    def _begin(self, lane: _Lane, united: United[Any]) -> None:
        merged = self._lanes.setdefault(lane, Merged(lane[1], self._limits or _APART))
        merged.begin(united)
        merged.touched()


def _lane(peer: str, standing: Standing) -> _Lane:
    return peer, Filter if isinstance(standing, Subscribe) else Advertisement, standing.source


def _element(standing: Standing) -> Filter | Advertisement:
    return standing.filter if isinstance(standing, Subscribe) else standing.advertisement


def _said(lane: _Lane, element: Any) -> Standing:
    _, kind, source = lane
    return Subscribe(element, source) if kind is Filter else Advertise(element, source)
