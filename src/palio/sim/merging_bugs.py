"""Planted bugs of merging, of waiting, and of what parties are told about demand and offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from palio.node.keeping import Keeping
from palio.routing.merging import Merged
from palio.routing.messages import Advertise, Control, Standing, Subscribe
from palio.routing.outlooks import _Side
from palio.routing.telling import Said, Telling
from palio.routing.unions import Merging
from palio.sim.bugs import TREES, Bugs

BUGS = Bugs("merging")
_Right = Callable[..., Any]
_GENTLE = ("none", "weather", "slow")
_WATCHED = ("as", "aa")
"""The trees in which servers can tell what the outlook is."""


@BUGS.plant(Merged, "change", TREES)
def _merged_not_split(right: _Right) -> _Right:
    """A merged filter stays as it is as long as a part of it is left."""

    def change(merged: Merged[Any], begun: Iterable[Any], ended: Iterable[Any]) -> tuple[list[Any], list[Any]]:
        alone = []
        for each in ended:
            whole = merged._merged_of.get(each)
            if whole is None or len(merged._parts[whole]) == 1:
                alone.append(each)
            else:
                del merged._parts[whole][each], merged._merged_of[each]
        return right(merged, begun, alone)  # type: ignore[no-any-return]

    return change


@BUGS.plant(Merged, "split", TREES)
def _parts_forgotten(right: _Right) -> _Right:
    """When a part of a merged filter is cancelled, the other parts are not told again."""

    def split(merged: Merged[Any], whole: Any) -> dict[Any, None]:
        right(merged, whole)
        return {}

    return split


@BUGS.plant(Telling, "_messages", TREES, _GENTLE)
def _merged_taken_back_before_its_parts_are_told(right: _Right) -> _Right:
    """A merged filter is taken back before what takes its place is told."""

    def messages(telling: Telling, peer: str, changes: Mapping[Standing, bool]) -> list[Control]:
        said = right(telling, peer, changes)
        return [each for each in said if not isinstance(each, Subscribe | Advertise)] + [
            each for each in said if isinstance(each, Subscribe | Advertise)
        ]

    return messages


@BUGS.plant(Merged, "_form", TREES)
def _union_too_narrow(right: _Right) -> _Right:
    """A merged filter lacks what its last part selects."""

    def form(merged: Merged[Any], fresh: list[Any]) -> dict[Any, None]:
        told = right(merged, fresh)
        for each in [each for each in told if each in merged._parts]:
            parts = merged.split(each)
            del told[each]
            narrow = next(iter(parts))
            merged.combine(narrow, parts)
            told[narrow] = None
        return told  # type: ignore[no-any-return]

    return form


@BUGS.plant(Merged, "__init__", TREES)
def _beyond_the_budget(right: _Right) -> _Right:
    """Where merging may be imperfect, it knows no bounds."""

    def init(merged: Merged[Any], kind: type[Any], limits: Merging) -> None:
        right(merged, kind, limits._replace(slack=100) if limits.slack else limits)

    return init


@BUGS.plant(Merged, "_absorb", TREES)
def _absorbed_not_noted(right: _Right) -> _Right:
    """What a merged filter covers already is not told, and not noted as a part of it either."""

    def absorb(merged: Merged[Any], fresh: Iterable[Any]) -> list[Any]:
        given = list(fresh)
        left = right(merged, given)
        for each in given:
            if each not in left:
                del merged._parts[merged._merged_of.pop(each)][each]
        return left  # type: ignore[no-any-return]

    return absorb


@BUGS.plant(Telling, "take", TREES)
def _flush_timer_forgotten(right: _Right) -> _Right:
    """What waits is told when there is something else to do, however long that takes."""

    def take(telling: Telling, changes: Said, now: int, **pressing: bool) -> Said:
        said = right(telling, changes, now, **pressing)
        telling.deadline = None
        return said  # type: ignore[no-any-return]

    return take


@BUGS.plant(Telling, "take", ("hs", "as"), ("races",))
def _wave_does_not_flush(right: _Right) -> _Right:
    """A wave goes out though something that it is to follow still waits."""
    return lambda telling, changes, now, **_: right(telling, changes, now)


@BUGS.plant(Telling, "_note", TREES)
def _undone_and_told_all_the_same(_right: _Right) -> _Right:
    """What is cancelled before it was told is taken back all the same."""

    def note(telling: Telling, peer: str, message: Control) -> None:
        standing: Any = message
        if not isinstance(message, Subscribe | Advertise):
            standing = Subscribe(message.filter) if hasattr(message, "filter") else Advertise(message.advertisement)
        telling._waiting.setdefault(peer, {})[standing] = standing is message

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
    return lambda side, subject: side._hopeless.add(subject)


@BUGS.plant(Keeping, "watches", _WATCHED, ("crashes", "disks"))
def _watches_not_kept(_right: _Right) -> _Right:
    """Who asks for the outlook is not written."""
    return lambda _keeping, _node, _name: None
