"""One Spark session for all of these tests: starting one takes many times as long as a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from palio import spark


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    started = spark.session("local[2]", settings={"spark.sql.adaptive.enabled": "false"})
    yield started
    started.stop()
