"""Planted bugs of patterns: monitors, windows, what of them is kept, and times of publication."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palio.codec import frames
from palio.model import Filter, Notification, Pattern
from palio.node.holdback import Arrival, HoldBack, order_of
from palio.node.hybrid import HybridClock
from palio.node.keeping import Keeping
from palio.node.monitors import Monitors
from palio.node.node import Node
from palio.node.party_log import PartyLog
from palio.node.reading import Reading
from palio.node.watches import Found, Watch
from palio.routing.architectures import AdvertisementForwarding
from palio.routing.router import MONITORS, Router
from tests.planted.bugs import Bugs

BUGS = Bugs("patterns")
_Right = Callable[..., Any]
_Taken = tuple[Notification, ...]
_Known = Mapping[tuple[Any, ...], Any]
_SERVERS = ("hs", "as", "aa", "nf")
_CRASHES = ("crashes", "disks", "all")

# -- monitors ----------------------------------------------------------------------------------------------------------


@BUGS.plant(Watch, "accepts", _SERVERS)
def _earlier_part_accepted(_right: _Right) -> _Right:
    """A monitor takes what is before the element that it took last."""

    def accepts(watch: Watch, arrival: Arrival) -> bool:
        return arrival.number >= watch.since and (watch.after is None or arrival.order != watch.after)

    return accepts


@BUGS.plant(Watch, "accepts", ("ce", "as"))
def _taken_twice(_right: _Right) -> _Right:
    """A notification that matches two filters one after the other is taken for both."""

    def accepts(watch: Watch, arrival: Arrival) -> bool:
        return arrival.number >= watch.since and (watch.after is None or arrival.order >= watch.after)

    return accepts


@BUGS.plant(Watch, "take", ("ce", "as"))
def _not_begun_anew(right: _Right) -> _Right:
    """A monitor that has found a sequence finds no other one."""

    def take(watch: Watch, notifications: _Taken, begun: int) -> _Taken | None:
        found: _Taken | None = right(watch, notifications, begun)
        if found is not None:
            watch.since = 1 << 62
        return found

    return take


@BUGS.plant(Watch, "take", ("ce", "as"))
def _last_element_begins_the_next(right: _Right) -> _Right:
    """The last element of a sequence is taken as the first of the next one, if it matches."""

    def take(watch: Watch, notifications: _Taken, begun: int) -> _Taken | None:
        found: _Taken | None = right(watch, notifications, begun)
        if found is not None and watch.pattern.filters[0].matches(notifications[0]):
            watch.taken, watch.position, watch.ahead = notifications, 1, watch.ahead[1:]
        return found

    return take


@BUGS.plant(Watch, "take", ("ce", "as"))
def _latest_instead_of_first(right: _Right) -> _Right:
    """A monitor that waits for its second element takes a further first one instead of the one that it has."""

    def take(watch: Watch, notifications: _Taken, begun: int) -> _Taken | None:
        if watch.position == 1 and watch.pattern.filters[0].matches(notifications[0]):
            watch.taken, watch.position, watch.ahead = (), 0, watch.factors
        found: _Taken | None = right(watch, notifications, begun)
        return found

    return take


# -- patterns of parties -----------------------------------------------------------------------------------------------


@BUGS.plant(Monitors, "subscribe", ("ce", "as"))
def _begun_before_its_subscriber(right: _Right) -> _Right:
    """A party that subscribes for a pattern shares what an equal one of another party has got already."""

    def subscribe(monitors: Monitors, party: str, pattern: Pattern) -> None:
        others = [known.watches[pattern] for known in monitors._parties.values() if pattern in known.watches]
        had = monitors.patterns(party)
        right(monitors, party, pattern)
        if others and pattern not in had and pattern in monitors.patterns(party):
            watch = monitors._parties[party].watches[pattern]
            monitors._leave(watch)
            watch.taken, watch.after, watch.position = others[0].taken, others[0].after, others[0].position
            watch.regroup(watch.factors)
            monitors._enter(watch)

    return subscribe


@BUGS.plant(Watch, "accepts", ("ce", "as"))
def _held_back_for_whoever_comes(_right: _Right) -> _Right:
    """What was held back when a party subscribed counts for it."""
    return lambda watch, arrival: watch.after is None or arrival.order > watch.after


@BUGS.plant(Monitors, "subscribe", ("ce", "as"))
def _second_party_gets_none(right: _Right) -> _Right:
    """A pattern that another party of the server has already is not watched again."""

    def subscribe(monitors: Monitors, party: str, pattern: Pattern) -> None:
        if not any(pattern in known.watches for name, known in monitors._parties.items() if name != party):
            right(monitors, party, pattern)

    return subscribe


@BUGS.plant(Monitors, "subscribe", ("ce", "as"))
def _begins_anew_when_asked_again(right: _Right) -> _Right:
    """A party that subscribes once more for a pattern that it has loses what was found so far."""

    def subscribe(monitors: Monitors, party: str, pattern: Pattern) -> None:
        if pattern in monitors.patterns(party):
            monitors._drop(party, pattern)
        right(monitors, party, pattern)

    return subscribe


@BUGS.plant(Monitors, "subscribe", ("ce", "as"))
def _broader_pattern_beside_narrower(_right: _Right) -> _Right:
    """A party keeps its narrower patterns beside a broader one."""

    def subscribe(monitors: Monitors, party: str, pattern: Pattern) -> None:
        if not any(each.covers(pattern) for each in monitors.patterns(party)):
            monitors._hold(Watch(party, pattern, monitors._arrivals))

    return subscribe


@BUGS.plant(Monitors, "unsubscribe", ("ce", "as"))
def _cancelled_goes_on(_right: _Right) -> _Right:
    """A pattern that was cancelled goes on."""
    return lambda _monitors, _party, _pattern: None


@BUGS.plant(Router, "unwatch", ("ce", "hs", "as", "aa"))
def _filters_of_patterns_stay(_right: _Right) -> _Right:
    """The filters of a pattern stay in the tables when it is cancelled."""
    return lambda _router, _filter: None


@BUGS.plant(Router, "unwatch", ("hs", "as", "aa"))
def _shared_filter_goes(_right: _Right) -> _Right:
    """A filter goes with the first pattern that does not need it any more, though others do."""

    def unwatch(router: Router, filter: Filter) -> None:
        if router._watched.pop(filter, 0):
            del router._watched_slots[router._slots[filter]]
            router._end(filter, MONITORS)

    return unwatch


@BUGS.plant(AdvertisementForwarding, "is_wanted_beyond", ("aa",))
def _one_provider_forgotten(right: _Right) -> _Right:
    """Of several neighbours that offer what a pattern needs only the first is asked."""

    def is_wanted_beyond(router: AdvertisementForwarding, peer: str, filter: Filter) -> bool:
        providers = [each for each in router.peers if right(router, each, filter)]
        return peer in (providers[:1] if filter in router._watched else providers)

    return is_wanted_beyond


# -- windows -----------------------------------------------------------------------------------------------------------


@BUGS.plant(Monitors, "arrive", _SERVERS)
def _window_ignored(_right: _Right) -> _Right:
    """Nothing is held back."""

    def arrive(monitors: Monitors, notification: Notification, met: tuple[Filter, ...], _now: int) -> list[Found]:
        monitors._offer(Arrival(order_of(notification), monitors.next_number(), notification, met))
        return monitors.found()

    return arrive


@BUGS.plant(HoldBack, "_take_first", _SERVERS)
def _held_back_in_vain(_right: _Right) -> _Right:
    """What was held back goes in the order in which it came."""

    def take_first(held: HoldBack) -> list[Arrival]:
        _, order = held._due.popleft()
        found = [each for each in held._heap if each.order == order]
        held._heap = sorted(each for each in held._heap if each.order != order)
        return found

    return take_first


@BUGS.plant(Node, "_earliest", ("ce", "as"))
def _held_back_for_ever(_right: _Right) -> _Right:
    """A node does not say when what it holds back has to go."""
    return lambda node, _due: node.links.deadline


# -- what is kept ------------------------------------------------------------------------------------------------------


@BUGS.plant(Monitors, "keep", ("ce", "as"), _CRASHES)
def _patterns_not_kept(_right: _Right) -> _Right:
    """Patterns and what was found of them is not written."""
    return lambda _monitors, _watch: None


@BUGS.plant(Monitors, "restore", ("ce", "as"), _CRASHES)
def _taken_forgotten_in_a_crash(right: _Right) -> _Right:
    """What monitors had taken is lost in a crash."""

    def restore(monitors: Monitors, known: _Known, now: int) -> Any:
        bare = {key: (*value[:2], 0, (), *value[4:]) if key[0] == "pattern" else value for key, value in known.items()}
        return right(monitors, bare, now)

    return restore


@BUGS.plant(Monitors, "restore", ("ce", "as"), _CRASHES)
def _held_back_forgotten_in_a_crash(right: _Right) -> _Right:
    """What was held back is lost in a crash."""

    def restore(monitors: Monitors, known: _Known, now: int) -> Any:
        return right(monitors, {key: value for key, value in known.items() if key[0] != "held back"}, now)

    return restore


@BUGS.plant(Reading, "_deliver", ("ce", "as"), _CRASHES)
def _sequences_not_read_again(right: _Right) -> _Right:
    """Sequences that were not acknowledged are passed over when a party comes back."""

    def deliver(reading: Reading, log: PartyLog, share: Any, content: bytes, *place: int) -> None:
        if any(kind != frames.DELIVER for kind, _ in frames.frames_of(content)):
            log.jump(place[0])
        else:
            right(reading, log, share, content, *place)

    return deliver


# -- time --------------------------------------------------------------------------------------------------------------


@BUGS.plant(HybridClock, "saw", _SERVERS, ("slow",))
def _clock_alone(_right: _Right) -> _Right:
    """Publications have the time of the clock, though others were here that are later."""
    return lambda _clock, _published: None


@BUGS.plant(Keeping, "restore", ("ce", "as"), ("disks", "all"))
def _hybrid_time_not_kept(right: _Right) -> _Right:
    """A server that comes back forgets how late the latest publication was."""

    def restore(keeping: Keeping, node: Node, records: Any, now: int) -> None:
        latest = node.publishing.clock.latest
        right(keeping, node, records, now)
        node.publishing.clock.latest = latest

    return restore
