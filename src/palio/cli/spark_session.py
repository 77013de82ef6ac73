"""Spark for commands: started and stopped, and its errors told in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from palio.errors import CallerError, PalioError, brief

if TYPE_CHECKING:  # the commands' help must not wait for Spark
    from pyspark.sql import SparkSession

_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn")


def require_spark() -> None:
    """Refuse to go on without the libraries that the pipeline needs."""
    try:
        import palio.spark  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("palio"):
            raise
        missing = (error.name or "").partition(".")[0]
        raise click.ClickException(
            f"this command needs Spark, and {missing!r} is not installed; install Palio with the extra palio[spark]"
        ) from error


def check_master(master: str) -> None:
    """Refuse what is no master before Spark takes seconds to find that out.

    >>> check_master("local[2]")
    >>> check_master("localhost")
    Traceback (most recent call last):
    palio.errors.CallerError: --master: 'localhost' is none; local[*], local[2], spark://host:7077 and yarn are some
    """
    if not _MASTER.fullmatch(master):
        raise CallerError(f"--master: {brief(master)} is none; local[*], local[2], spark://host:7077 and yarn are some")


@contextmanager
def running(master: str) -> Iterator[SparkSession]:
    """The session of this process. One that is started here leaves telling errors to us, and is stopped in the end."""
    from pyspark.sql import SparkSession

    from palio.spark import session
    from palio.spark.interrupts import no_traces, plain_interrupts

    is_ours = SparkSession.getActiveSession() is None
    with no_traces():  # PySpark sets its handler long before the session is there
        started = session(master)
    if not is_ours:
        yield started
        return
    started.sparkContext.setLogLevel("FATAL")
    try:
        with plain_interrupts():
            yield started
    finally:
        started.stop()


@contextmanager
def errors_in_a_line() -> Iterator[None]:
    """Let errors that are no faults of ours end a command with one line: a user's mistake needs no stack trace."""
    require_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PalioError as error:
        raise click.ClickException(str(error).partition("\n")[0]) from error
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(spark_reason(str(error))) from error


def spark_reason(text: str) -> str:
    r"""What went wrong, out of all that Spark says about it: the last cause, without classes, codes and traces.

    >>> spark_reason("[PATH_NOT_FOUND] Path does not exist: file:/a. SQLSTATE: 42K03")
    'Path does not exist: file:/a.'
    >>> spark_reason('''An error occurred while calling o7.load.
    ... : org.apache.spark.SparkException: Job aborted
    ... \tat org.apache.spark.Some.method(Some.scala:1)
    ... Caused by: java.io.IOException: disk full''')
    'disk full'

    A file that Spark could not read is named.

    >>> spark_reason('''An error occurred while calling o7.save.
    ... : org.apache.spark.SparkException: [FAILED_READ_FILE] Encountered error while reading file file:/a.  SQLSTATE
    ... Caused by: java.io.IOException: no such page''')
    'file:/a: no such page'
    """
    causes = re.findall(r"^(?:Caused by)?: [\w.$]+: (.+)$", text, re.MULTILINE)
    raised = re.findall(r"^[\w.]+(?:Error|Exception): (.+)$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()] or ["Spark failed and did not say why"]
    last = (causes or raised or lines)[-1 if causes or raised else 0]
    told = re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+$", "", last.strip())
    file = re.search(r"\[FAILED_READ_FILE[\w.]*\] Encountered error while reading file (.+?)\. ", text)
    return told if file is None or file[1] in told else f"{file[1]}: {told}"
