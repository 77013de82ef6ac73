"""One way to start Spark, with the settings that matching needs."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark.sql import SparkSession

from palio.errors import CallerError, brief

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
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
}
_ENVIRONMENT = "environment"


def session(
    master: str = "local[*]",
    *,
    app: str = "palio",
    settings: Mapping[str, str] | None = None,
    packed: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """The Spark session of this process; it is started if there is none.

    ``settings`` are Spark's, and go before ours. On a cluster whose machines do not have Palio, ``packed`` names an
    archive of a Python environment that has it (``scripts/pack-environment`` makes one); executors unpack and use it.
    """
    if not isinstance(master, str) or not master:
        raise CallerError(f"master: {brief(master)} is no address of a Spark master, such as 'local[2]'")
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
