"""The examples of docs/spark.md, which need a session."""

from __future__ import annotations

import doctest
from pathlib import Path

from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_examples_of_the_documentation(session: SparkSession) -> None:
    failures, tried = doctest.testfile(str(DOCS), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert failures == 0
    assert tried > 8
