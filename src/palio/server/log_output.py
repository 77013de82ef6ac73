"""Log lines go to a stream that may fail: its disk is full, or its reader has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import structlog


class LogOutput:
    """Makes loggers that write lines to a stream. A line that cannot be written is counted, and never an error.

    The first line that can be written again is preceded by one that says how many are missing.

    >>> import sys
    >>> LogOutput(sys.stdout, "{} lines are missing".format)().info("listening")
    listening
    """

    def __init__(self, stream: TextIO, missing: Callable[[int], str]) -> None:
        """Write to a stream; ``missing`` makes the line that says how many could not be written."""
        self._plain = structlog.PrintLogger(stream)
        self._missing = missing
        self.lost = 0
        """Lines that could not be written since the last one that was."""

    def __call__(self, *_: Any) -> _Lines:
        """What structlog calls to make a logger."""
        return _Lines(self)

    def write(self, line: str) -> None:
        """Write a line if that is possible."""
        try:
            if self.lost:
                self._plain.msg(self._missing(self.lost))
                self.lost = 0
            self._plain.msg(line)
        except (OSError, ValueError):  # a full disk, a closed pipe; a stream that was closed
            self.lost += 1


class _Lines:
    """What structlog calls with the line of an event, whatever its level."""

    def __init__(self, output: LogOutput) -> None:
        self._output = output

    def msg(self, message: str) -> None:
        self._output.write(message)

    debug = info = warning = warn = error = critical = fatal = exception = log = msg
