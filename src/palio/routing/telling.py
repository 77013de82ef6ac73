"""Between what tables say and what neighbours hear: changes may wait for each other, and be merged.

What waits was not told; what is undone while it waits never is. When it is told, what is new goes before what is taken
back: make before break.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from palio.errors import CallerError
from palio.routing.lanes import Key, Lanes
from palio.routing.messages import Advertise, Control, Standing, Subscribe, begun, ended
from palio.routing.unions import Merging, check_merging

Said = list[tuple[str, list[Control]]]
"""Messages by neighbour."""


class TellingSettings(NamedTuple):
    """How neighbours are told of changes."""

    merging: Merging | None = None
    """Whether, and how far, several filters or advertisements become one."""
    delay: int = 0
    """For how many microseconds a change may wait for others."""


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
        self._waiting: dict[str, dict[Standing, bool]] = {}
        """By neighbour: what it has to be told, or has to be told no longer."""
        self._lanes = Lanes(settings.merging, "told", is_kept=is_kept)
        self._noted: dict[tuple[str, Standing], None] = {}
        """What has begun or ended to wait since records were asked for."""
        self.deadline: int | None = None
        """When what waits has to be told."""

    # -- what is told --------------------------------------------------------------------------------------------------

    def take(self, changes: Said, now: int, *, pressing: bool = False) -> Said:
        """Take what tables say is to be told, and say what is told now; if it is pressing, that is all."""
        if self._settings == _AT_ONCE and self._lanes.is_idle and not self._waiting:
            return changes
        for peer, messages in changes:
            for message in messages:
                self._note(peer, message)
        if not self._waiting:
            self.deadline = None
            return []
        if self.deadline is None:
            self.deadline = now + self._settings.delay
        if now < self.deadline and not pressing:
            return []
        return self._flush()

    def is_due(self, now: int) -> bool:
        """Whether something has waited long enough."""
        return self.deadline is not None and self.deadline <= now

    def _note(self, peer: str, message: Control) -> None:
        standing = begun(message)
        waiting = self._waiting.setdefault(peer, {})
        if waiting.pop(standing, None) is None:
            waiting[standing] = standing is message
        elif not waiting:
            del self._waiting[peer]
        if self._settings.delay:
            self._noted[peer, standing] = None

    def _flush(self) -> Said:
        waiting, self._waiting = self._waiting, {}
        self.deadline = None
        said = []
        for peer, changes in waiting.items():
            self._noted.update(dict.fromkeys((peer, each) for each in changes) if self._settings.delay else {})
            messages = self._messages(peer, changes)
            if messages:
                said.append((peer, messages))
        if not self._is_kept:
            self._noted.clear()
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

    def forget(self, peer: str) -> None:
        """A neighbour is gone."""
        self._lanes.forget(peer)
        for standing in self._waiting.pop(peer, ()):
            self._noted[peer, standing] = None
        if not self._waiting:
            self.deadline = None

    def told(self, peer: str, required: Iterable[Standing]) -> list[Standing]:
        """What a neighbour was told, where the tables say what it is required to know."""
        known = dict.fromkeys(required)
        for standing, has_to_be_told in self._waiting.get(peer, {}).items():
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

    # -- records -------------------------------------------------------------------------------------------------------

    def records(self) -> dict[Key, Any]:
        """What has changed since the last call, as records: merged elements with their parts, and what waits."""
        found = self._lanes.records()
        for peer, standing in self._noted:
            found["untold", peer, standing] = self._waiting.get(peer, {}).get(standing)
        self._noted.clear()
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
            self._waiting.setdefault(peer, {})[standing] = has_to_be_told
            if has_to_be_told:
                del told[standing]
            else:
                told[standing] = None
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


_AT_ONCE = TellingSettings()


def _of_kind(records: Mapping[tuple[Any, ...], Any], kind: str) -> list[tuple[tuple[Any, ...], Any]]:
    return [(key, value) for key, value in records.items() if key[0] == kind]


def _stands(whole: Standing, parts: Iterable[Standing], told: Mapping[Control, None]) -> bool:
    """Whether something may stand for parts: a neighbour was told all of them, and the whole only as one of them."""
    parts = list(parts)
    return all(part in told for part in parts) and (whole not in told or whole in parts)


def _check(settings: TellingSettings) -> None:
    if settings.delay < 0:
        raise CallerError(f"telling.delay: {settings.delay}; changes wait for 0 microseconds or more")
    check_merging(settings.merging, "telling.merging")
