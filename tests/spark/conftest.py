"""One Spark session for all of these tests of a process: starting one takes many times as long as a test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from palio import spark

# Most code of Spark runs a few times only in these tests, and optimizing it takes more time than it saves. What is
# started in processes of its own inherits this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    tables = str(tmp_path_factory.mktemp("tables"))  # not in the folder from which the tests are run
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.warehouse.dir": tables}
    started = spark.session("local[2]", settings=settings)
    yield started
    started.stop()
