"""Log lines go to a stream that may fail: its disk is full, or its reader has gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TextIO

import structlog

from palio.errors import stack_of

_MOST_TEXT = 200
"""Characters of a message of a library that a line shows."""


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


class LibraryLogs(logging.Handler):
    """Makes events of what libraries log, asyncio among them, so that every line of the log has the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event. Of an exception only its class and the calls are shown, because values may hold content."""
        details = {"library": record.name, "message": record.getMessage()[:_MOST_TEXT]}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            details["stack"] = stack_of(error)
        structlog.get_logger().log(record.levelno, "library", **details)

    @classmethod
    def install(cls) -> None:
        """Take what all libraries log, from warnings on; installed again, it takes the place of the earlier one."""
        root = logging.getLogger()
        for handler in [each for each in root.handlers if isinstance(each, cls)]:
            root.removeHandler(handler)
        root.addHandler(cls(logging.WARNING))
