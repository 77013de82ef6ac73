"""Between what tables say and what neighbours hear: changes may wait for each other, and be merged.

What waits was not told; what is undone while it waits never is. When it is told, what is new goes before what is taken
back: make before break.

Changes also wait for a neighbour that has not handled the earlier ones yet. Then they are told in rounds: a round is
all that waited when it began, first what is new, then what is taken back, a part at a time. Changes that come meanwhile
are for the next round.

A wave finds out that earlier changes have spread, so it must not overtake them: it waits behind those that wait
(:meth:`Telling.hold`), and goes out with the last of them. It does not make them go out sooner. Otherwise a party that
waits for its subscription would send thousands of changes of others, and notifications would wait behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palio.errors import CallerError
from palio.routing.lanes import Key, Lanes
from palio.routing.messages import Advertise, Control, Spread, Spreaded, Standing, Subscribe, begun, ended
from palio.routing.pacing import FIRST, Pacing
from palio.routing.unions import Merging, check_merging

Said = list[tuple[str, list[Control]]]
"""Changes by neighbour."""
Behind = Spread | Spreaded
"""Messages that must not overtake the changes before them."""


class TellingSettings(NamedTuple):
    """How neighbours are told of changes."""

    merging: Merging | None = None
    """Whether, and how far, several filters or advertisements become one."""
    delay: int = 0
    """For how many microseconds a change may wait for others."""
    in_flight: int = FIRST
    """The number of changes that may at first be in flight to a neighbour; see :mod:`palio.routing.pacing`."""


class Telling:
    """What the neighbours of one server were told, as far as that is not what its tables say.

    >>> from palio.model import Filter
    >>> telling = Telling(TellingSettings(Merging(), delay=10))
    >>> one, two = (Subscribe(Filter.parse(f"integer x = {number}")) for number in (1, 2))
    >>> telling.take([("rome", [one])], now=0), telling.take([("rome", [two])], now=5)
    ([], [])
    >>> telling.deadline, telling.take([], now=10)
    (10, [('rome', [Subscribe(filter=Filter.parse('integer x >= 1 and integer x <= 2'))])])
    """

    def __init__(self, settings: TellingSettings, *, is_kept: bool = False) -> None:
        _check(settings)
        self._settings = settings
        self._is_kept = is_kept
        """Whether anybody asks for records."""
        self._waiting: dict[str, _Changes] = {}
        """By neighbour."""
        self._lanes = Lanes(settings.merging, "told", is_kept=is_kept)
        self._noted: dict[tuple[str, Standing], None] = {}
        """What has begun or ended to wait since records were asked for."""
        self._recorded: dict[tuple[str, Standing], None] = {}
        """The changes that wait, according to the records."""
        self._held = 0
        """The number of the next message that is held: it is part of the keys of records."""
        self._held_records: dict[Key, Behind | None] = {}
        """The messages that have been held or released since records were asked for."""
        self._pacing = Pacing(settings.in_flight)
        self.deadline: int | None = None
        """When what waits has to be told; ``None`` if it waits for neighbours alone."""

    # -- what is told --------------------------------------------------------------------------------------------------

    def take(
        self, changes: Said, now: int, *, pressing: bool = False, whole: bool = False
    ) -> Sequence[tuple[str, Sequence[Control | Behind]]]:
        """Take the changes that the tables ask for, and return what is sent now.

        Pressing changes do not wait for others, only for neighbours; ``whole`` sends all that waits.
        """
        is_late = bool(self._waiting) and self.deadline is None
        is_direct = not self._settings.delay and self._lanes.is_idle and not self._waiting
        if is_direct and (whole or all(len(said) <= self._pacing.room(peer) for peer, said in changes)):
            return changes
        for peer, messages in changes:
            for message in messages:
                self._note(peer, message)
        if not self._waiting:
            self.deadline = None
            return []
        if self.deadline is None:
            self.deadline = now if is_late else now + self._settings.delay
        if now < self.deadline and not pressing and not whole:
            return []
        return self._flush(whole=whole)

    def hold(self, peer: str, message: Behind) -> bool:
        """Hold a message back until all changes that wait for a neighbour have been sent; false if none wait."""
        changes = self._waiting.get(peer)
        if changes is None:
            return False
        key = "behind", peer, self._held
        self._held += 1
        changes.hold(message, key)
        if self._is_kept:
            self._held_records[key] = message
        return True

    def is_due(self, now: int) -> bool:
        """Whether something has waited long enough, and its neighbour can take it."""
        if self.deadline is not None:
            return self.deadline <= now
        return any(map(self._pacing.room, self._waiting))

    def room(self, peer: str) -> int:
        """How many changes may be sent to a neighbour now."""
        return self._pacing.room(peer)

    def sent(self, peer: str, end: int, changes: int, now: int) -> None:
        """Changes were sent; ``end`` is the number of the message of the link behind them."""
        self._pacing.send(peer, end, changes, now)

    def acknowledge(self, base_of: Callable[[str], int], now: int) -> None:
        """Note which changes were acknowledged: those before the number that ``base_of`` returns for a neighbour."""
        self._pacing.acknowledge(base_of, now)

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything that was not told yet."""
        return bool(self._waiting)

    def _note(self, peer: str, message: Control) -> None:
        standing = begun(message)
        changes = self._waiting.get(peer)
        if changes is None:
            changes = self._waiting[peer] = _Changes()
        changes.note(standing, is_begun=standing is message)
        if not changes:
            del self._waiting[peer]
        if self._is_kept:
            self._noted[peer, standing] = None

    def _flush(self, *, whole: bool) -> list[tuple[str, list[Control | Behind]]]:
        """Send all changes that wait, or as many as the neighbours can take. Merged changes are sent together."""
        self.deadline = None
        said = []
        whole |= not self._lanes.is_idle
        for peer, changes in list(self._waiting.items()):
            part = changes.take(None if whole else self._pacing.room(peer))
            released = changes.release()
            if not changes:
                del self._waiting[peer]
            if self._is_kept:
                self._noted.update(dict.fromkeys((peer, each) for each in part))
                self._forget_held(key for key, _ in released)
            messages = [*self._messages(peer, part), *(message for _, message in released)]
            if messages:
                said.append((peer, messages))
        return said

    def _messages(self, peer: str, changes: Mapping[Standing, bool]) -> list[Control]:
        begins = [standing for standing, is_begun in changes.items() if is_begun]
        ends = [standing for standing, is_begun in changes.items() if not is_begun]
        new, over = self._lanes.change(peer, begins, ends)
        return [
            *(each for each in new if isinstance(each, Advertise)),
            *(each for each in new if isinstance(each, Subscribe)),
            *(ended(each) for each in over if isinstance(each, Subscribe)),
            *(ended(each) for each in over if isinstance(each, Advertise)),
        ]

    def _forget_held(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if self._held_records.get(key) is not None:
                del self._held_records[key]  # no record has been written of it
            else:
                self._held_records[key] = None

    def forget(self, peer: str) -> None:
        """A neighbour is gone."""
        self._lanes.forget(peer)
        self._pacing.forget(peer)
        changes = self._waiting.pop(peer, None)
        if changes is not None and self._is_kept:
            self._noted.update(dict.fromkeys((peer, each) for each in changes.whole()))
            self._forget_held(changes.held())
        if not self._waiting:
            self.deadline = None

    def told(self, peer: str, required: Iterable[Standing]) -> list[Standing]:
        """What a neighbour was told, where the tables say what it is required to know."""
        known = dict.fromkeys(required)
        for standing, has_to_be_told in self._untold(peer).items():
            if has_to_be_told:
                known.pop(standing, None)
            else:
                known[standing] = None
        for standing, parts in self.groups(peer):
            for part in parts:
                known.pop(part, None)
            known[standing] = None
        return list(known)

    def groups(self, peer: str) -> Iterator[tuple[Standing, tuple[Standing, ...]]]:
        """What a neighbour was told instead of several others, and these."""
        return self._lanes.groups(peer)

    def _untold(self, peer: str) -> dict[Standing, bool]:
        """The changes that a neighbour was not told yet: true for what has begun, false for what has ended."""
        changes = self._waiting.get(peer)
        return {} if changes is None else changes.whole()

    # -- records -------------------------------------------------------------------------------------------------------

    def records(self) -> dict[Key, Any]:
        """What has changed since the last call, as records: merged elements with their parts, and what waits."""
        found = self._lanes.records()
        for peer, standing in self._noted:
            changes = self._waiting.get(peer)
            value = None if changes is None else changes.get(standing)
            if value is not None:
                self._recorded[peer, standing] = None
            elif self._recorded.pop((peer, standing), _ABSENT) is _ABSENT:
                continue
            found["untold", peer, standing] = value
        self._noted.clear()
        found.update(self._held_records)
        self._held_records.clear()
        return found

    def restore(self, required: Said, records: Mapping[tuple[Any, ...], Any], now: int) -> tuple[Said, list[Key]]:
        """Take back what was kept, where the tables say what is required; what neighbours were told until then.

        Records that do not fit the tables do not count, and are returned as well.
        """
        misfits: list[Key] = []
        known: dict[str, dict[Control, None]] = {peer: dict.fromkeys(messages) for peer, messages in required}
        for key, has_to_be_told in _of_kind(records, "untold"):
            _, peer, standing = key
            told = known.setdefault(peer, {})
            if (standing in told) is not has_to_be_told:
                misfits.append(key)
                continue
            self._waiting.setdefault(peer, _Changes()).note(standing, is_begun=has_to_be_told)
            self._recorded[peer, standing] = None
            if has_to_be_told:
                del told[standing]
            else:
                told[standing] = None
        for key, message in sorted(_of_kind(records, "behind"), key=lambda record: record[0][2]):
            self._waiting.setdefault(key[1], _Changes()).hold(message, key)
            self._held = key[2] + 1
        kept = dict(_of_kind(records, "told"))
        misfits += [key for key, (_, parts) in kept.items() if not _stands(key[2], parts, known.get(key[1], {}))]
        merged: list[tuple[str, Standing]] = []
        for peer, standing, parts in self._lanes.restore({key: kept[key] for key in kept if key not in misfits}):
            for part in parts:
                del known[peer][part]
            merged.append((peer, standing))
        for peer, messages in known.items():
            for message in messages:
                self._lanes.restore_single(peer, begun(message))
        for peer, standing in merged:
            known[peer][standing] = None
        if self._waiting:
            self.deadline = now + self._settings.delay
        self.records()
        return [(peer, list(told)) for peer, told in known.items()], misfits


_ABSENT = object()


class _Changes:
    """The changes that one neighbour was not told yet.

    The neighbour has all that it knew before a round until it has all that is new in it. So nothing that was new when a
    round began is left out, even if it has ended since; that is for the next round. Else what has begun in its place
    might come too late, after the end of a filter that covered both.
    """

    __slots__ = ("_begins", "_ends", "_held", "_next", "_round")

    def __init__(self) -> None:
        self._round = 0
        """The number of the round."""
        self._held: deque[tuple[int, Key, Behind]] = deque()
        """Messages that wait for the end of a round, with its number and the key of the record."""
        self._begins: dict[Standing, None] = {}
        self._ends: dict[Standing, None] = {}
        """The rest of the round, the earliest change last: so it is taken out without a search."""
        self._next: dict[Standing, bool] = {}
        """The changes since the round began: true for an element that begins, false for one that ends."""

    def __bool__(self) -> bool:
        return bool(self._begins or self._ends or self._next or self._held)

    def note(self, standing: Standing, *, is_begun: bool) -> None:
        """Something has to be told from now on, or no longer; before it was the other way round."""
        if is_begun and standing in self._ends:
            del self._ends[standing]
        elif self._next.pop(standing, None) is None:
            self._next[standing] = is_begun

    def hold(self, message: Behind, key: Key) -> None:
        """A message must not be sent before the changes that wait now."""
        self._held.append((self._round + bool(self._next), key, message))

    def held(self) -> list[Key]:
        """The keys of the messages that wait for changes."""
        return [key for _, key, _ in self._held]

    def release(self) -> list[tuple[Key, Behind]]:
        """Take out the messages that need not wait any more."""
        found = []
        is_over = not self._begins and not self._ends
        while self._held and is_over and (self._held[0][0] <= self._round or not self._next):
            found.append(self._held.popleft()[1:])
        return found

    def get(self, standing: Standing) -> bool | None:
        """Whether something has to be told, or (false) has to be told no longer; ``None`` if there is nothing to do."""
        since = self._next.get(standing)
        if standing in self._begins:
            return True if since is None else None
        return False if standing in self._ends else since

    def whole(self) -> dict[Standing, bool]:
        """All that has to be told, or no longer, as if there were no rounds."""
        found = {each: True for each in reversed(self._begins) if each not in self._next}
        found.update(dict.fromkeys(self._ends, False))
        found.update((each, value) for each, value in self._next.items() if each not in self._begins)
        return found

    def take(self, room: int | None) -> dict[Standing, bool]:
        """Take out as much as there is room for: all of it (``None``), or the next part."""
        if room is None or len(self._begins) + len(self._ends) + len(self._next) <= room:
            taken = self.whole()
            self._begins, self._ends, self._next = {}, {}, {}
            return taken
        if room and not self._begins and not self._ends:
            self._round += 1
            self._begins = {each: None for each, is_begun in reversed(self._next.items()) if is_begun}
            self._ends = {each: None for each, is_begun in reversed(self._next.items()) if not is_begun}
            self._next = {}
        taken = {}
        while self._begins and len(taken) < room:
            taken[self._begins.popitem()[0]] = True
        while self._ends and len(taken) < room:
            taken[self._ends.popitem()[0]] = False
        return taken


def _of_kind(records: Mapping[tuple[Any, ...], Any], kind: str) -> list[tuple[tuple[Any, ...], Any]]:
    return [(key, value) for key, value in records.items() if key[0] == kind]


def _stands(whole: Standing, parts: Iterable[Standing], told: Mapping[Control, None]) -> bool:
    """Whether something may stand for parts: a neighbour was told all of them, and the whole only as one of them."""
    parts = list(parts)
    return all(part in told for part in parts) and (whole not in told or whole in parts)


def _check(settings: TellingSettings) -> None:
    if settings.delay < 0:
        raise CallerError(f"telling.delay: {settings.delay}; changes wait for 0 microseconds or more")
    if settings.in_flight < 1:
        raise CallerError(f"telling.in_flight: {settings.in_flight}; one change is in flight at least")
    check_merging(settings.merging, "telling.merging")
