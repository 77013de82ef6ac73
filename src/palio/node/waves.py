"""Finding out when what was said has spread: a wave that runs over the tree and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from palio.routing.messages import WaveName

W = TypeVar("W")


class Asked(NamedTuple):
    """A request that waits until it has spread."""

    party: str
    number: int


class Passed(NamedTuple):
    """A neighbour's wave that was passed on."""

    peer: str
    token: int
    wave: WaveName


class _Wave(NamedTuple, Generic[W]):
    waiting: W
    """Who is to be told when the wave has come back."""
    missing: dict[str, None]
    """The neighbours from which it has not."""


class Waves(Generic[W]):
    """The waves that have gone out from here; each has a number of its own.

    >>> waves = Waves()
    >>> waves.begin("me", ["rome", "bari"])
    0
    >>> waves.answered("rome", 0), waves.lost("bari")
    ([], ['me'])
    """

    def __init__(self) -> None:
        self._waves: dict[int, _Wave[W]] = {}
        self._next = 0

    def restore(self, waves: Mapping[int, tuple[W, Iterable[str]]]) -> None:
        """Take back waves that had gone out."""
        for number, (waiting, missing) in waves.items():
            self._waves[number] = _Wave(waiting, dict.fromkeys(missing))
        self._next = max(self._waves, default=-1) + 1

    def __len__(self) -> int:
        return len(self._waves)

    def kept(self) -> dict[int, tuple[W, tuple[str, ...]]]:
        """The waves that have gone out and not come back."""
        return {number: (wave.waiting, tuple(wave.missing)) for number, wave in self._waves.items()}

    def waiting(self) -> Iterator[W]:
        """Who is to be told of waves that have not come back."""
        return (wave.waiting for wave in self._waves.values())

    def begin(self, waiting: W, peers: Iterable[str]) -> int:
        """A wave goes out to some neighbours, at least one."""
        number, self._next = self._next, self._next + 1
        self._waves[number] = _Wave(waiting, dict.fromkeys(peers))
        return number

    def answered(self, peer: str, number: int) -> list[W]:
        """A wave has come back from a neighbour; who is to be told."""
        wave = self._waves.get(number)
        if wave is None or peer not in wave.missing:
            return []
        del wave.missing[peer]
        return self._finished([number])

    def lost(self, peer: str, is_void: Callable[[W], bool] = lambda _: False) -> list[W]:
        """A neighbour is gone: nothing has to spread there any more, and some need not be told any more."""
        for number in [number for number, wave in self._waves.items() if is_void(wave.waiting)]:
            del self._waves[number]
        touched = [number for number, wave in self._waves.items() if peer in wave.missing]
        for number in touched:
            del self._waves[number].missing[peer]
        return self._finished(touched)

    def _finished(self, numbers: list[int]) -> list[W]:
        return [self._waves.pop(number).waiting for number in numbers if not self._waves[number].missing]
