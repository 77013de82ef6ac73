"""One way to start Spark, with the settings that matching needs."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from palio.errors import CallerError, brief

_LOG = logging.getLogger("palio.spark")
_ANY_MASTER = "local[*]"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # a crash in compiled code gives a traceback
    "spark.python.worker.reuse": "true",  # a worker opens an index once, not once a task
    "spark.driver.maxResultSize": "0",  # the parts of a large index come to the driver
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.log.structuredLogging.enabled": "false",
}
_NEEDED = {name: _SETTINGS[name] for name in ("spark.sql.session.timeZone", "spark.python.worker.reuse")}
"""Results are others without the first, and matching is much slower without the second."""
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
}
_ENVIRONMENT = "environment"


def session(
    master: str = _ANY_MASTER,
    *,
    app: str = "palio",
    settings: Mapping[str, str] | None = None,
    packed: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """The Spark session of this process; it is started if there is none.

    A session that exists is used as it is. The logger ``palio.spark`` warns if its settings differ from those that
    matching needs, or from those that are given here.

    ``settings`` are Spark's, and go before ours. On a cluster whose machines do not have Palio, ``packed`` names an
    archive of a Python environment that has it (``scripts/pack-environment`` makes one); executors unpack and use it.
    """
    if not isinstance(master, str) or not master:
        raise CallerError(f"master: {brief(master)} is no address of a Spark master, such as 'local[2]'")
    existing = _existing()
    if existing is not None:
        _tell_differences(existing, master, {**_NEEDED, **(settings or {})}, packed)
        return existing
    _check_java()
    is_local = re.match(r"local(\[|$)", master) is not None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local or master.startswith("local-cluster"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java = f"-Dlog4j2.configurationFile={_log_configuration()}"
    chosen = dict(_SETTINGS)
    if is_local:
        java += " -XX:+UseParallelGC"  # rows on their way to Python die young: a sixth more of them come through
        chosen |= _LOCAL | {"spark.sql.shuffle.partitions": str(_cores(master))}
    chosen["spark.driver.extraJavaOptions"] = java
    if packed is not None:
        chosen |= _packed_settings(packed)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _existing() -> SparkSession | None:
    """The session of this process, if there is one; a builder without settings changes none."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None or context._jsc.sc().isStopped():
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _tell_differences(
    existing: SparkSession, master: str, wanted: Mapping[str, str], packed: str | os.PathLike[str] | None
) -> None:
    found = {name: existing.conf.get(name, None) for name in wanted}
    told = [f"{name} is {found[name]}, not {value}" for name, value in wanted.items() if found[name] != str(value)]
    if master not in {_ANY_MASTER, existing.sparkContext.master}:
        told.append(f"its master is {existing.sparkContext.master}, not {master}")
    if packed is not None and existing.conf.get("spark.archives", None) != _packed_settings(packed)["spark.archives"]:
        told.append(f"it does not use {os.fspath(packed)}")
    if told:
        _LOG.warning(
            "there is a session already, which stays as it is: %s; stop it first to start another", "; ".join(told)
        )


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise CallerError(
            f"no Java runtime {where}: Spark needs Java 17 or newer, for instance Debian's openjdk-17-jre-headless"
        )


def _cores(master: str) -> int:
    given = re.match(r"local\[(\d+)", master)
    if given:
        return int(given[1])
    return (os.cpu_count() or 1) if master.startswith("local[*") else 1


def _log_configuration() -> str:
    return Path(str(files("palio.spark") / "log4j2.properties")).as_uri()


def _packed_settings(packed: str | os.PathLike[str]) -> dict[str, str]:
    if not Path(packed).is_file():
        raise CallerError(f"packed: there is no file {brief(os.fspath(packed))}")
    return {
        "spark.archives": f"{os.fspath(packed)}#{_ENVIRONMENT}",
        "spark.pyspark.python": f"./{_ENVIRONMENT}/bin/python",
        "spark.pyspark.driver.python": sys.executable,
    }
