"""Readers and a writer who now and then has to be alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Several may be inside together. Who wants to be alone goes next: nobody else gets in before it.

    >>> gate = Gate()
    >>> with gate.together(), gate.together():
    ...     pass
    >>> with gate.alone():
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_wanted = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Be inside with others."""
        with self._changed:
            while self._is_wanted:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be inside without others; there is only one who ever wants that."""
        with self._changed:
            self._is_wanted = True
            while self._inside:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._is_wanted = False
                self._changed.notify_all()
