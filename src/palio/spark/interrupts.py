"""Ctrl-C while Spark works."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread

_LOGGERS = (None, "py4j.java_gateway", "py4j.clientserver")
"""Those that Py4J uses; the first is the root."""


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C only raise ``KeyboardInterrupt``, without traces in the log.

    The handler that PySpark sets also cancels all jobs of the session, whoever started them. For this it asks Java, in
    the middle of another question if need be, which breaks the connection.
    """
    before = signal.getsignal(signal.SIGINT)
    is_of_spark = (getattr(before, "__module__", None) or "").startswith("pyspark.")
    if not is_of_spark or current_thread() is not main_thread():  # other threads may not set handlers
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with no_traces():
            yield
    except Exception as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def no_traces() -> Iterator[None]:
    """Keep the traces out of the log that Py4J writes when a question to Java is interrupted."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_not_of_py4j)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether something went wrong because PySpark asked Java for more when a question had been interrupted."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs interrupts, and whatever they break, as errors; what is to be known of them is raised, too."""
    return Path(record.pathname).parent.name != "py4j"
