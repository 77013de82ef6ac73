"""``palio bench``: figures, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from palio.cli.bench_tables import (
    BROKER_TABLES,
    DELEGATION_TABLE,
    DURABLE_TABLES,
    GRAPHS_TABLE,
    LAB_TABLES,
    MATCH_TABLES,
    MERGING_TABLE,
    ROUTING_TABLE,
    SIMULATION_TABLE,
    SPARK_TABLES,
    print_report,
)
from palio.cli.spark_session import errors_in_a_line, running
from palio.errors import CallerError


@click.group()
def bench() -> None:
    """Measure how fast Palio is on this machine."""


@bench.command(epilog="Example:  palio bench model --json > model.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def model(as_json: bool) -> None:
    """Parse, match and covers, in operations per second of one Python thread.

    "ratio" compares with other work done in the same run; lower is better. The baselines: json.loads of the
    filter's JSON form; the same test written by hand in Python; covering constraint by constraint, as in the papers;
    covering of filters whose canonical forms are known; and "64 x 4": as many constraints in 64 pairs of filters, so
    that 1 means that the time grows with the number of constraints, and not faster.
    """
    from palio.bench.model import run

    print_report(run(lambda step: click.echo(f"  {step}", err=True)), as_json)


@bench.command(epilog="Example:  palio bench archive --notifications 100000 --json > archive.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--notifications", type=click.IntRange(100), default=200_000, show_default=True, help="How many.")
def archive(as_json: bool, notifications: int) -> None:
    """The archive: notifications of ten attributes a second, from the log of a store to complete Parquet files.

    For 1, 10 and 100 of them in an entry of the log; and compaction of ten rolls. "times decoding" compares the time of
    the processor with that of decoding each notification in Python, and doing nothing with it.
    """
    from palio.bench.archive import run

    print_report(run(lambda step: click.echo(f"  {step}", err=True), notifications), as_json)


@bench.command(epilog="Example:  palio bench covering --sizes 12500,25000 --json > covering.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--sizes", default="12500,25000,50000,100000", show_default=True, help="Numbers of elements, separated by commas."
)
@click.option("--population", "populations", multiple=True, help="Measure this population only; may be repeated.")
def covering(as_json: bool, sizes: str, populations: tuple[str, ...]) -> None:
    """The covering order at several sizes: insert, ask for what covers and what is covered, remove.

    "found" is how many elements an answer has on average: for insert how many are maximal in the end, for remove how
    many became so. "of a walk" compares with walking through all elements once. "of half" compares with half as many
    elements: all the insertions, or a quarter of them removed, or the same questions; the goal is at most 2.3.
    Times are the processor's; canonical forms are measured separately. Takes about ten minutes at the usual sizes.
    """
    from palio.bench.covering import POPULATIONS, run

    unknown = [name for name in populations if name not in POPULATIONS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(POPULATIONS)}", param_hint="--population")
    print_report(
        run(lambda step: click.echo(f"  {step}", err=True), _sizes(sizes), populations or POPULATIONS), as_json
    )


def _sizes(given: str) -> list[int]:
    try:
        numbers = [int(size) for size in given.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 100:
        raise click.BadParameter("give integers of at least 100, separated by commas", param_hint="--sizes")
    return numbers


def _names_of_parts(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    from palio.bench.routing import PARTS

    return _parts(given, PARTS) or list(PARTS)


def _numbers_of_servers(_context: click.Context, _option: click.Parameter, given: str) -> list[int]:
    parts = [part.strip().replace("_", "") for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() and 5 <= int(part) <= 10_000 for part in parts):
        raise click.BadParameter(f"{given!r} is no list of numbers from 5 to 10000, such as 10,100")
    return sorted(set(map(int, parts)))


@bench.command(epilog="Example:  palio bench routing --part graphs --servers 10,100 --json > graphs.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--sizes", default="25000,50000,100000", show_default=True, help="Numbers of filters.")
@click.option(
    "--servers",
    default="10,30,100,300,1000",
    show_default=True,
    callback=_numbers_of_servers,
    help="Numbers of servers in networks of any shape.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    callback=_names_of_parts,
    help="tables, notifications, patterns, merging, graphs; default: all.",
)
def routing(as_json: bool, sizes: str, servers: list[int], parts: list[str]) -> None:
    """A server with full tables: subscriptions a second, and notifications a second beside its index alone.

    "subscribe" is from parties, "hear" from neighbours; "connect" one more neighbour when all are there; "unsubscribe"
    a tenth. "told" is how many messages the neighbours get about it; "of half" compares with half as many
    subscriptions; "of the index" with the rate of its single calls. Patterns have three filters each, beside the same
    filters as plain subscriptions.

    Then what it spares to let neighbours watch patterns: notifications between servers ("carried") and sequences that
    are found, as shares of those with all monitors at the parties' servers, and of those that one monitor finds.

    Then, for the smallest number, what a neighbour is told by covering alone, and with merging, perfect or with a
    budget: messages ("told") and filters that it holds ("held") as shares of the subscriptions, and the share of
    notifications that it sends in vain.

    At the end, how servers get to know a network of any shape: when all start at once, when a link fails, when a server
    dies. "accounts" are what they say of their links, counted on every link; "of least" compares with every server
    hearing once of every other; simulated milliseconds until all know the network; seconds of the processor for all
    servers together. Takes about a quarter of an hour.
    """
    from palio.bench.routing import run

    report = run(lambda step: click.echo(f"  {step}", err=True), _sizes(sizes), servers, parts)
    print_report(report, as_json, [ROUTING_TABLE, DELEGATION_TABLE, MERGING_TABLE, GRAPHS_TABLE])


@bench.command(epilog="Example:  palio bench sim --json > sim.json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--large", is_flag=True, help="1,000 servers and 100,000 parties; takes minutes and gigabytes.")
def sim(as_json: bool, large: bool) -> None:
    """The simulator: messages a second through the real nodes, on random trees of servers.

    Counted are requests of parties, messages between servers, and deliveries; seconds are the processor's.
    """
    from palio.bench.simulation import LARGE, SCENARIOS, run

    report = run(lambda step: click.echo(f"  {step}", err=True), LARGE if large else SCENARIOS)
    print_report(report, as_json, [SIMULATION_TABLE])


def _names_of_workloads(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    from palio.bench.workloads import WORKLOADS

    hostile = [name for name in WORKLOADS if name.startswith("W5")]
    names = _parts(given, [*WORKLOADS, "W5"]) or list(WORKLOADS)
    return list(dict.fromkeys(each for name in names for each in (hostile if name == "W5" else [name])))


def _names_of_engines(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    from palio.bench.match import ENGINES

    return _parts(given, ENGINES) or None


def _names_of_modes(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    from palio.bench.match import MODES

    return _parts(given, MODES) or list(MODES)


def _parts(given: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """The names in an option that may be repeated and may hold several, each once."""
    names = [part.strip() for each in given for part in each.split(",")]
    for name in names:
        if name not in allowed:
            raise click.BadParameter(f"{name!r} is none of {', '.join(allowed)}")
    return list(dict.fromkeys(names))


_MOST_FILTERS = 10_000_000


def _numbers_of_filters(_context: click.Context, _option: click.Parameter, given: str) -> list[int]:
    numbers = [part.strip().replace("_", "") for part in given.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= _MOST_FILTERS for part in numbers):
        raise click.BadParameter(f"{given!r} is no list of numbers from 1 to {_MOST_FILTERS}, such as 1000,10000")
    return sorted(set(map(int, numbers)))


@bench.command(epilog="Example:  palio bench match --workload W1 --filters 1000,100000 --json > match.json")
@click.option("--workload", "workloads", multiple=True, callback=_names_of_workloads, help="W1 to W5; default: all.")
@click.option(
    "--filters", default="1000,10000,100000", show_default=True, callback=_numbers_of_filters, help="How many of them."
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    callback=_names_of_engines,
    help="index, linear, counting, pairhash; default: all.",
)
@click.option("--mode", "modes", multiple=True, callback=_names_of_modes, help="single, encoded, batch; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def match(workloads: list[str], filters: list[int], engines: list[str] | None, modes: list[str], as_json: bool) -> None:
    """Which of many filters match an event: events per second of one thread, and what keeping the filters costs.

    Workloads: W1 two equalities and a range, W2 stock ticks, W3 ranges, W4 strings, W5 hostile (W5a to W5c); W1e and
    W3e match two filters an event at every size. Options that name things may be repeated or name several with commas.

    Modes of the index: single calls from Python with notifications, or with encoded bodies; a batch of events in a
    record batch. The engines it is compared with match prepared events in a batch. "times" is time an event over that
    of the pair hash, of the linear scan, of writing out the known result, or of the same engine with 10,000 filters;
    lower is better.
    """
    from palio.bench.match import run

    def tell(step: str) -> None:
        click.echo(f"  {step}", err=True)

    report = run(workloads, filters, engines=engines, modes=modes, progress=tell)
    if not report.results:
        raise click.UsageError(
            "nothing to measure: pairhash is for W1 and W1e, and all engines but the index are for --mode batch"
        )
    print_report(report, as_json, MATCH_TABLES)


_SPARK_WORKLOADS = ("W1", "W2", "W3", "W4", "unions", "archives")
_SPARK_ENGINES = ("palio-spark", "palio-process", "pass-through", "sql-join", "folder-stream")
_QUICK: dict[str, list[Any]] = {"workloads": ["W1", "W3", "unions", "archives"], "filters": [1000, 10_000]}
_LARGE: dict[str, list[Any]] = {
    "workloads": ["W1"],
    "filters": [1_000_000],
    "engines": ["palio-spark", "palio-process", "pass-through"],
}
"""What the modes of ``palio bench spark`` measure if nothing else is asked for."""


def _chosen(allowed: Sequence[str]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], list[str]]:
    return lambda _context, _option, given: _parts(given, allowed)


def _numbers_if_given(context: click.Context, option: click.Parameter, given: str | None) -> list[int]:
    return [] if given is None else _numbers_of_filters(context, option, given)


@bench.command(epilog="Example:  palio bench spark --workload W1 --filters 10000,100000 --json > spark.json")
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    callback=_chosen(_SPARK_WORKLOADS),
    help="W1 to W4, unions, archives; default: all.",
)
@click.option("--filters", callback=_numbers_if_given, help="How many of them.  [default: 10000,100000,1000000]")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    callback=_chosen(_SPARK_ENGINES),
    help="palio-spark, palio-process, pass-through, sql-join, folder-stream; default: all.",
)
@click.option("--events", type=click.IntRange(1000, 1_000_000_000), help="The most in a round.  [default: 4000000]")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs; it must see this disk.")
@click.option("--quick", is_flag=True, help="W1 and W3 with few filters, unions, archives; a minute or so.")
@click.option("--large", is_flag=True, help="100 million events of W1 with a million filters: long, 1 GB of disk.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def spark(  # noqa: PLR0913, PLR0917 - each is an option
    workloads: list[str],
    filters: list[int],
    engines: list[str],
    events: int | None,
    master: str,
    quick: bool,
    large: bool,
    as_json: bool,
) -> None:
    """Matching on Spark: events per second on all cores, counted by filter, and what preparing the filters costs.

    "of" compares palio-spark with the others, higher is better: with one process without Spark that only matches,
    times the number of cores; with handing the same columns to Python and counting rows; with a join of Spark SQL. All
    engines must count the same before they are measured. "unions" compares sets of 75,000 filters with and without
    unions; "times plain" is over the time without. "archives" opens an archive of 500 column sets. Needs palio[spark]
    and a Java runtime; takes an hour or so.
    """
    if quick and large:
        raise click.UsageError("--quick and --large are different things; give one of them")
    try:
        from palio.bench import spark as benchmark
    except ImportError as error:
        raise click.ClickException(f"this needs the extra palio[spark]: {error}") from error
    preset = _QUICK if quick else _LARGE if large else {}
    pace = benchmark.QUICK if quick else benchmark.LARGE if large else benchmark.USUAL
    try:
        report = benchmark.run(
            workloads or preset.get("workloads", benchmark.WORKLOAD_NAMES),
            filters or preset.get("filters", benchmark.SIZES),
            engines=engines or preset.get("engines", benchmark.ENGINES),
            pace=pace._replace(events=events or pace.events),
            master=master,
            progress=lambda step: click.echo(f"  {step}", err=True),
        )
    except CallerError as error:
        raise click.ClickException(str(error)) from error
    print_report(report, as_json, SPARK_TABLES)


def _names_of_lab_parts(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    allowed = ("sweep", "aggregation", "grid")
    return _parts(given, allowed) or list(allowed)


@bench.command(epilog="Example:  palio bench lab --quick --json > lab.json")
@click.option(
    "--part", "parts", multiple=True, callback=_names_of_lab_parts, help="sweep, aggregation, grid; default: all."
)
@click.option("--quick", is_flag=True, help="Fewer runs and shorter traces, without the grid, in two minutes or so.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def lab(parts: list[str], quick: bool, as_json: bool) -> None:
    """Studies on Spark: runs a minute, and tables of traces of 20 million messages beside duckdb on the same files.

    "busy" is the share of the cores that played runs: their processor time over cores times the time from the start of
    the sweep to its end. The start of Spark is not part of it, that of its workers is; the goal is 85 %. "times duckdb"
    compares times with as many threads, lower is better; the goal is 5. Both must make the same tables. The quick grid
    should take less than ten minutes. Needs palio[spark], a Java runtime and duckdb; takes twenty minutes or so.
    """
    if quick and parts == ["grid"]:
        raise click.UsageError("nothing to measure: --quick leaves the grid out")
    with errors_in_a_line():
        from palio.bench import lab as benchmark

        with running("local[*]") as session:
            pace = benchmark.QUICK if quick else benchmark.USUAL
            report = benchmark.run(session, parts, pace, lambda step: click.echo(f"  {step}", err=True))
    print_report(report, as_json, LAB_TABLES)


def _names_of_brokers(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    allowed = ("palio", "mosquitto", "nats", "rabbitmq", "copy")
    return _parts(given, allowed) or list(allowed)


def _names_of_broker_parts(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str]:
    allowed = ("1:1", "1:100", "filters", "idle")
    return _parts(given, allowed) or list(allowed)


@bench.command(epilog="Example:  palio bench broker --quick --json > broker.json")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    callback=_names_of_brokers,
    help="palio, mosquitto, nats, rabbitmq, copy; default: all that are installed.",
)
@click.option(
    "--part", "parts", multiple=True, callback=_names_of_broker_parts, help="1:1, 1:100, filters, idle; default: all."
)
@click.option("--durable", is_flag=True, help="A server with a store, beside the same without one.")
@click.option("--quick", is_flag=True, help="Shorter, and with less in stores and fewer idle connections.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def broker(brokers: list[str], parts: list[str], durable: bool, quick: bool, as_json: bool) -> None:
    """A server beside Mosquitto, NATS and RabbitMQ: messages a second, latencies, memory of idle connections.

    One publisher to one party, to 100 parties, and to 100 parties with 10,000 filters of the workload W1 together.
    Payloads have 100 bytes and nothing is durable. Brokers are started as processes of their own on this machine; the
    load is sent and counted by compiled code, with as many messages in flight for all. A case in which a delivery is
    lost has failed and has no figures.

    "cpu" is the time of all processors that a broker takes for a message; latencies are measured at 1,000 messages a
    second. Memory is what a broker's processes grow by for each connection that says nothing. "copy" is no broker: what
    is sent is copied to all, so it shows what the load generator could do. Needs Linux and palio[server]; takes five
    minutes or so.

    With --durable: one publisher who waits for each acknowledgement, or for 1,000 at most, and one durable party or
    100; every publication is on disk before it is acknowledged. Then how fast a party gets what waits for it, and how
    soon a server delivers again that was killed with 10 million messages in its store. "lag" is how late the server's
    loop was at worst.
    """
    if durable:
        _broker_durable(quick, as_json)
        return
    try:
        from palio.bench import broker as benchmark
    except ImportError as error:
        raise click.ClickException(f"this needs Linux, and the extra palio[server]: {error}") from error
    report = benchmark.run(
        brokers,
        parts,
        benchmark.QUICK if quick else benchmark.USUAL,
        lambda step: click.echo(f"  {step}", err=True),
    )
    if not report.results and not as_json:
        raise click.ClickException("; ".join(report.notes) or "nothing to measure")
    print_report(report, as_json, BROKER_TABLES)
    if any(row["failure"] and row["broker"] == "palio" for row in report.results):
        raise click.exceptions.Exit(1)


def _broker_durable(quick: bool, as_json: bool) -> None:
    try:
        from palio.bench.broker import durable
    except ImportError as error:
        raise click.ClickException(f"this needs Linux, and the extra palio[server]: {error}") from error
    report = durable.run(durable.QUICK if quick else durable.USUAL, lambda step: click.echo(f"  {step}", err=True))
    print_report(report, as_json, DURABLE_TABLES)
    if any(row["failure"] for row in report.results):
        raise click.exceptions.Exit(1)
