"""Planted bugs of merging, of waiting, and of what parties are told about demand and offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from palio.matching.preparation import Steps
from palio.node.keeping import Keeping
from palio.routing import unions
from palio.routing.compression import Compression
from palio.routing.merging import Merged
from palio.routing.messages import Advertise, Control, Standing, Subscribe, begun
from palio.routing.outlooks import _Side
from palio.routing.pool import Pool
from palio.routing.telling import Telling, _Changes
from palio.routing.unions import Merging, United
from tests.planted.bugs import TREES, Bugs

BUGS = Bugs("merging")
_Right = Callable[..., Any]
_GENTLE = ("none", "weather", "slow")
_WATCHED = ("as", "aa")
"""The trees in which servers can tell what the outlook is."""


def _without(united: United[Any], part: Any) -> United[Any]:
    return united._replace(parts=tuple(each for each in united.parts if each != part))


@BUGS.plant(Merged, "_take_apart", TREES)
def _merged_not_split(right: _Right) -> _Right:
    """A merged filter stays as it is as long as a part of it is left."""

    def take_apart(merged: Merged[Any], ended: Iterable[Any]) -> dict[Any, None]:
        alone = []
        for each in ended:
            united = merged._pool[merged._stands_as[each]]
            if len(united.parts) == 1:
                alone.append(each)
            else:
                del merged._stands_as[each]
                merged._pool._all[united.element] = _without(united, each)
        return right(merged, alone)  # type: ignore[no-any-return]

    return take_apart


@BUGS.plant(Merged, "_take_apart", TREES)
def _parts_forgotten(right: _Right) -> _Right:
    """When a part of a merged filter is cancelled, the other parts are not told again."""

    def take_apart(merged: Merged[Any], ended: Iterable[Any]) -> dict[Any, None]:
        for each in right(merged, ended):
            del merged._stands_as[each]
        return {}

    return take_apart


@BUGS.plant(Merged, "_settle", TREES)
def _part_lost_when_merged_twice(right: _Right) -> _Right:
    """When a merged filter is merged once more, the first of its parts counts as told by itself."""

    def settle(merged: Merged[Any], element: Any, *may_join: Any) -> Any:
        whole = right(merged, element, *may_join)
        united = merged._pool[whole]
        if len(united.parts) > 2:
            lost = united.parts[0]
            merged._pool._all[united.element] = _without(united, lost)
            merged._pool.add(United(lost, (lost,)))
            merged._stands_as[lost] = lost
        return whole

    return settle


@BUGS.plant(Merged, "_settle", TREES)
def _taken_back_too_little(right: _Right) -> _Right:
    """What was told before stays told when it is merged with something new."""

    def settle(merged: Merged[Any], element: Any, *may_join: Any) -> Any:
        before = dict(merged._before)
        whole = right(merged, element, *may_join)
        for each in [each for each in merged._before if each not in before]:
            if merged._before[each] and each not in merged._pool:
                del merged._before[each]
        return whole

    return settle


@BUGS.plant(Compression, "take", (*TREES, "gs+hs", "as+hs+gs"))
def _compressed_not_split(right: _Right) -> _Right:
    """When a neighbour takes back a part of what was compressed, the compressed filter stays."""

    def take(compression: Compression, peer: str, message: Control) -> list[Control]:
        wholes = [whole for whole, parts in compression.groups(peer) if begun(message) in parts]
        return [each for each in right(compression, peer, message) if begun(each) not in wholes]

    return take


@BUGS.plant(Compression, "take", TREES)
def _rest_of_the_compressed_lost(right: _Right) -> _Right:
    """When a neighbour takes back a part of what was compressed, the other parts are lost with it."""

    def take(compression: Compression, peer: str, message: Control) -> list[Control]:
        is_end = message is not begun(message)
        return [each for each in right(compression, peer, message) if not is_end or each is not begun(each)]

    return take


@BUGS.plant(Compression, "records", TREES, ("crashes", "disks"))
def _compressed_not_kept(_right: _Right) -> _Right:
    """Which filters count as one is not written."""
    return lambda _compression: {}


@BUGS.plant(Compression, "forget", TREES, ("links", "crashes"))
def _compressed_outlives_the_link(_right: _Right) -> _Right:
    """What counted as one still does when the link has ended and begun again."""
    return lambda _compression, _peer: None


@BUGS.plant(unions, "_wasted", ("as", "hs"))
def _earlier_waste_forgotten(_right: _Right) -> _Right:
    """What a merged filter selects in vain does not count when it is merged once more."""
    return lambda _left, _right, ratios: max(0.0, 1 - ratios.left - ratios.right + ratios.common)


@BUGS.plant(Telling, "_messages", TREES, _GENTLE)
def _merged_taken_back_before_its_parts_are_told(right: _Right) -> _Right:
    """A merged filter is taken back before what takes its place is told."""

    def messages(telling: Telling, peer: str, changes: Mapping[Standing, bool]) -> list[Control]:
        said = right(telling, peer, changes)
        return [each for each in said if not isinstance(each, Subscribe | Advertise)] + [
            each for each in said if isinstance(each, Subscribe | Advertise)
        ]

    return messages


@BUGS.plant(Pool, "grow", TREES)
def _union_too_narrow(right: _Right) -> _Right:
    """A merged filter lacks what its last part selects."""

    def grow(pool: Pool[Any], united: United[Any], *may_join: Any) -> tuple[United[Any], list[United[Any]]]:
        whole, taken = right(pool, united, *may_join)
        return (whole._replace(element=taken[0].element) if taken else whole), taken

    return grow


@BUGS.plant(Merged, "__init__", TREES)
def _beyond_the_budget(right: _Right) -> _Right:
    """Where merging may be imperfect, it knows no bounds."""

    def init(merged: Merged[Any], kind: type[Any], limits: Merging) -> None:
        right(merged, kind, limits._replace(slack=100) if limits.slack else limits)

    return init


@BUGS.plant(Pool, "add_part", TREES)
def _absorbed_not_noted(_right: _Right) -> _Right:
    """What a merged filter covers already is not told, and not noted as a part of it either."""
    return lambda _pool, _element, _part: None


@BUGS.plant(Telling, "is_due", TREES)
def _flush_timer_forgotten(right: _Right) -> _Right:
    """What waits is told when there is something else to do, however long that takes."""
    return lambda telling, now: telling.deadline is None and right(telling, now)


@BUGS.plant(Telling, "_note", TREES)
def _undone_and_told_all_the_same(right: _Right) -> _Right:
    """What is cancelled before it was told is taken back all the same."""

    def note(telling: Telling, peer: str, message: Control) -> None:
        if telling._settings.merging is not None:  # what is merged has to be known
            right(telling, peer, message)
            return
        standing: Any = message
        if not isinstance(message, Subscribe | Advertise):
            standing = Subscribe(message.filter) if hasattr(message, "filter") else Advertise(message.advertisement)
        telling._waiting.setdefault(peer, _Changes())._next[standing] = standing is message

    return note


@BUGS.plant(Telling, "forget", TREES, ("links", "crashes"))
def _merged_outlives_the_link(_right: _Right) -> _Right:
    """What a neighbour was told as one counts as told when the link to it has ended and begun again."""
    return lambda telling, peer: telling._waiting.pop(peer, None)


@BUGS.plant(Telling, "records", TREES, ("crashes", "disks"))
def _merged_not_kept(right: _Right) -> _Right:
    """Which filters were told as one is not written."""
    return lambda telling: {key: value for key, value in right(telling).items() if key[0] != "told"}


@BUGS.plant(Telling, "records", TREES, ("crashes", "disks"))
def _waiting_not_kept(right: _Right) -> _Right:
    """What was not told yet is not written."""
    return lambda telling: {key: value for key, value in right(telling).items() if key[0] != "untold"}


@BUGS.plant(_Side, "changed", _WATCHED)
def _change_of_outlook_not_told(_right: _Right) -> _Right:
    """Who asks for the outlook is told at once, and never again."""
    return lambda _side: []


@BUGS.plant(_Side, "changed", _WATCHED, ("none", "links"))
def _only_good_news(right: _Right) -> _Right:
    """Who asks for the outlook is not told that it has become bad."""
    return lambda side: [subject for subject in right(side) if side.is_good(subject)]


@BUGS.plant(_Side, "_search", _WATCHED)
def _no_other_witness(_right: _Right) -> _Right:
    """When the filter or the advertisement that an outlook relies on is gone, no other one is looked for."""

    def search(side: _Side[Any, Any], subject: Any) -> Steps:
        yield 1
        if subject in side._open:
            side._hopeless.add(subject)
            side._settle(subject)

    return search


@BUGS.plant(_Side, "work", _WATCHED)
def _pending_news_forgotten(right: _Right) -> _Right:
    """Filters and advertisements that a turn has no time to compare with the questions are forgotten."""

    def work(side: _Side[Any, Any]) -> Steps:
        try:
            yield from right(side)
        finally:
            side._waiting.clear()

    return work


@BUGS.plant(Keeping, "asks", _WATCHED, ("crashes", "disks"))
def _watches_not_kept(_right: _Right) -> _Right:
    """Who asks for the outlook is not written."""
    return lambda _keeping, _node, _party, _subject: None
