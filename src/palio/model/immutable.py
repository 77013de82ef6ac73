"""Values of the model never change once they are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class Immutable:
    """Base of classes whose slots are filled once, through ``object.__setattr__``."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")


fill = object.__setattr__
"""How a constructor (and nothing else) sets the slots of an :class:`Immutable`."""


def setters(cls: type[Immutable], *slots: str) -> tuple[Callable[[Any, Any], None], ...]:
    """What sets single slots: for constructors that are called so often that :data:`fill` looking up names counts."""
    return tuple(cls.__dict__[slot].__set__ for slot in slots)
