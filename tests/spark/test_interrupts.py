"""Ctrl-C while Spark works."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable
from threading import Event, Thread, main_thread

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from palio.spark.interrupts import plain_interrupts

TAG = "to-be-interrupted"


def wait(rows: Iterable[int]) -> Iterable[int]:
    time.sleep(60)
    return rows


class Interrupter(Thread):
    """Presses Ctrl-C when a job runs."""

    def __init__(self, context: SparkContext) -> None:
        super().__init__(daemon=True)
        self.tracker, self.is_over = context.statusTracker(), Event()

    def run(self) -> None:
        while not self.tracker.getActiveJobsIds() and not self.is_over.wait(0.05):
            pass
        number = main_thread().ident
        assert number is not None
        signal.pthread_kill(number, signal.SIGINT)


def test_an_interrupt_cancels_nothing_and_leaves_no_traces(
    session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    context, handler = session.sparkContext, signal.getsignal(signal.SIGINT)
    interrupter = Interrupter(context)
    context.addJobTag(TAG)
    try:
        with pytest.raises(KeyboardInterrupt), plain_interrupts():  # noqa: PT012
            interrupter.start()
            context.parallelize([1], 1).mapPartitions(wait).collect()
        assert context.statusTracker().getActiveJobsIds()
    finally:
        interrupter.is_over.set()
        context.cancelJobsWithTag(TAG)
        context.removeJobTag(TAG)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not caplog.records
    assert session.range(3).count() == 3
    logging.getLogger().warning("still heard")
    assert [record.getMessage() for record in caplog.records] == ["still heard"]


def test_what_an_interrupt_breaks_is_an_interrupt(session: SparkSession) -> None:
    assert session.sparkContext is not None  # which sets the handler
    with pytest.raises(KeyboardInterrupt), plain_interrupts():  # noqa: PT012
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("no answer")
    with pytest.raises(OSError, match="no answer"), plain_interrupts():
        raise OSError("no answer")
