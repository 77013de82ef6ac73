"""A process that matches a stream and can be killed: ``python -m tests.spark.stream_worker FOLDER``.

It writes the number of each batch to standard output when its results are there, before Spark has noted that, and then
waits for a line on standard input.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame

from palio import spark
from palio.spark.stream import _BatchWriter

SCHEMA = "k long, x double"


def main(folder: str) -> None:
    session = spark.session("local[1]")
    events = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/events")
    write = _BatchWriter.__call__

    def write_and_tell(self: _BatchWriter, batch: DataFrame, number: int) -> None:
        write(self, batch, number)
        print(number, flush=True)
        sys.stdin.readline()

    _BatchWriter.__call__ = write_and_tell  # type: ignore[method-assign]
    source = spark.FilterDirectory(session, f"{folder}/filters")
    query = spark.match_stream(events, source, f"{folder}/out", checkpoint=f"{folder}/checkpoint", key="k")
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
