"""How figures of benchmarks are shown: which of them side by side, under which heads."""

from __future__ import annotations

from collections.abc import Sequence

import click

from palio.bench.report import Report, format_figure, machine

_SUBJECT = ("workload", "filters", "engine")
_SUBJECTS = {
    *(
        *_SUBJECT,
        "part",
        "subject",
        "case",
        "broker",
        "version",
        "mode",
        "in_flight",
        "population",
        "operation",
        "size",
    ),
    *("set", "result"),
    *("delegation", "patterns", "servers", "links", "architecture", "parties"),
}
"""What was measured; a row with nothing else has no figures in a table."""
MATCH_TABLES = [
    (
        *_SUBJECT,
        "mode",
        "events_per_second",
        "matches_per_event",
        "times_pairhash",
        "times_linear",
        "times_write_out",
        "times_10k",
    ),
    (
        *_SUBJECT,
        "bytes_per_filter",
        "adds_per_second",
        "bulk_adds_per_second",
        "removes_per_second",
        "open_milliseconds",
    ),
    (
        *_SUBJECT,
        "add_p9999_microseconds",
        "add_max_microseconds",
        "remove_p9999_microseconds",
        "remove_max_microseconds",
    ),
]
"""What fits side by side into a terminal of usual width; JSON has everything together."""
SPARK_TABLES = [
    (*_SUBJECT, "events_per_second", "events", "of_process", "of_pass_through", "of_join"),
    (*_SUBJECT, "cores", "prepare_seconds", "parse_seconds", "build_seconds", "ship_seconds", "read_seconds"),
    (*_SUBJECT, "open_milliseconds", "index_bytes", "worker_peak_bytes", "worker_anonymous_bytes"),
    (*_SUBJECT, "of_file_stream"),
    ("workload", "filters", "set", "result", "seconds", "times_plain"),
]
LAB_TABLES = [
    ("part", "subject", "runs", "seconds", "runs_per_minute", "messages_per_second", "busy_share"),
    ("part", "subject", "rows", "groups", "spark_seconds", "duckdb_seconds", "times_duckdb"),
]
BROKER_TABLES = [
    (
        *("case", "broker", "version", "filters", "messages_per_second", "deliveries_per_second", "processor_us"),
        *("p50_us", "p99_us"),
    ),
    ("case", "broker", "version", "connections", "bytes_per_connection"),
]
DURABLE_TABLES = [
    (
        *("case", "mode", "in_flight", "publications_per_second", "deliveries_per_second", "p50_us", "p99_us"),
        "lag_ms",
    ),
    ("case", "stored", "seconds", "per_second"),
]
ROUTING_TABLE = (
    *("population", "operation", "size", "neighbours", "per_second", "seconds", "told", "times_half", "of_matcher"),
)
DELEGATION_TABLE = "population", "delegation", "patterns", "control", "carried", "carried_share", "found_share"
MERGING_TABLE = "population", "operation", "size", "told_share", "held_share", "in_vain"
GRAPHS_TABLE = (
    *(
        "operation",
        "servers",
        "links",
        "filters",
        "accounts",
        "accounts_per_link",
        "of_least",
        "filters_told",
        "frames",
    ),
    *("milliseconds", "processor_seconds"),
)
SIMULATION_TABLE = (
    *("architecture", "servers", "parties", "phase", "requests", "server_messages", "deliveries"),
    *("messages_per_second", "peak_mib"),
)

_LABELS = {
    "constraints": "n",
    "size": "n",
    "answers": "found",
    "times_walk": "of a walk",
    "times_half": "of half",
    "per_second": "a second",
    "told_share": "told",
    "accounts_per_link": "a link",
    "of_least": "of\nleast",
    "filters_told": "filters\ntold",
    "milliseconds": "ms",
    "processor_seconds": "pro-\ncessor s",
    "held_share": "held",
    "carried_share": "of\nnone",
    "found_share": "of one\nmonitor",
    "in_vain": "in vain",
    "of_matcher": "of the\nindex",
    "runs_per_minute": "runs/\nminute",
    "busy_share": "busy",
    "spark_seconds": "Spark\ns",
    "duckdb_seconds": "duckdb\ns",
    "times_duckdb": "times\nduckdb",
    "publications_per_second": "publica-\ntions/s",
    "in_flight": "in\nflight",
    "lag_ms": "lag\nms",
    "deliveries_per_second": "deliveries/s",
    "processor_us": "cpu\nµs",
    "p50_us": "p50\nµs",
    "p99_us": "p99\nµs",
    "connections": "idle",
    "bytes_per_connection": "bytes each",
    "architecture": "arch",
    "neighbours": "neigh-\nbours",
    "server_messages": "between\nservers",
    "messages_per_second": "messages/s",
    "peak_mib": "peak\nMiB",
    "operations_per_second": "a second",
    "microseconds": "µs",
    "times_baseline": "ratio",
    "events_per_second": "events/s",
    "matches_per_event": "matches",
    "times_pairhash": "times\npairs",
    "times_linear": "times\nlinear",
    "times_write_out": "times\nwrite",
    "times_10k": "times\n10k",
    "times_plain": "times\nplain",
    "workload": "work\nload",
    "bytes_per_filter": "bytes",
    "adds_per_second": "adds/s",
    "bulk_adds_per_second": "bulk\nadds/s",
    "removes_per_second": "removes/s",
    "add_p9999_microseconds": "add µs\n99.99%",
    "add_max_microseconds": "add µs\nmost",
    "remove_p9999_microseconds": "remove µs\n99.99%",
    "remove_max_microseconds": "remove µs\nmost",
    "open_milliseconds": "open\nms",
    "of_process": "of\nprocess",
    "of_pass_through": "of\npass",
    "of_join": "of\njoin",
    "prepare_seconds": "prepare\ns",
    "parse_seconds": "parse\ns",
    "build_seconds": "build\ns",
    "ship_seconds": "ship\ns",
    "read_seconds": "read\ns",
    "index_bytes": "index\nbytes",
    "worker_peak_bytes": "worker\npeak bytes",
    "worker_anonymous_bytes": "anonymous\nbytes",
}


def print_report(report: Report, as_json: bool, tables: Sequence[Sequence[str]] | None = None) -> None:
    """As JSON, or as one table of all figures, or as several of some."""
    if as_json:
        click.echo(report.to_json())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(emoji=False)  # 1:100: is none
    about = machine()
    size = f"{about['cores']} cores, {about['memory_gib']} GiB"
    console.print(f"{about['cpu']}, {size}; Python {about['python']}; {about['date']}", highlight=False)
    for keys in tables or [list(report.results[0])]:
        columns = {key: [row[key] for row in report.results] for key in keys}
        columns = {key: figures for key, figures in columns.items() if any(each is not None for each in figures)}
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 0) if tables else (0, 1))
        for key, figures in columns.items():
            is_text = isinstance(next(each for each in figures if each is not None), str)
            table.add_column(_LABELS.get(key, key), justify="left" if is_text else "right", no_wrap=True)
        for row in dict.fromkeys(zip(*columns.values(), strict=True)):
            if any(figure is not None for key, figure in zip(columns, row, strict=True) if key not in _SUBJECTS):
                table.add_row(*map(format_figure, row))
        if table.row_count:
            console.print(table)
    for note in report.notes:
        console.print(note, highlight=False)
