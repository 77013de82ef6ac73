"""How bugs are planted: methods of the real classes are replaced for a while; the core itself has no switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

Make = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Takes the right method and gives the wrong one."""

TREES = ("hs", "as", "aa")
"""The architectures in which servers tell each other of subscriptions."""


class Bug(NamedTuple):
    """A fault that the checker has to find."""

    name: str
    description: str
    architectures: tuple[str, ...]
    """Where it shows."""
    faults: tuple[str, ...]
    """Under which faults it shows."""
    owner: type | ModuleType
    method: str
    make: Make
    suite: str = "trees"
    """The kind of histories in which it shows."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The bug is in the code until the end of the ``with`` block."""
        own = vars(self.owner).get(self.method)  # as it stands there: it may be a class method
        right = getattr(self.owner, self.method)
        setattr(self.owner, self.method, self.make(right))
        try:
            yield
        finally:
            if own is None:
                delattr(self.owner, self.method)  # it was inherited
            else:
                setattr(self.owner, self.method, own)


class Bugs:
    """A list of bugs, filled by a decorator of the functions that make the wrong methods."""

    def __init__(self, suite: str = "trees") -> None:
        self._suite = suite
        self.all: list[Bug] = []

    def plant(
        self, owner: type | ModuleType, method: str, architectures: tuple[str, ...], faults: tuple[str, ...] = ("none",)
    ) -> Callable[[Make], Make]:
        """The name of the bug is that of the function, its description the docstring."""

        def add(make: Make) -> Make:
            name, description = make.__name__.strip("_").replace("_", "-"), (make.__doc__ or "").rstrip(".")
            self.all.append(Bug(name, description, architectures, faults, owner, method, make, self._suite))
            return make

        return add
