"""``palio lab play``: one scenario file, without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click

from palio.cli.output import json_text
from palio.cli.spark_session import errors_in_a_line

if TYPE_CHECKING:  # the help must not wait for Arrow
    from palio.lab.scenario import Scenario

_ENDLESS = 1 << 62


@click.command(epilog="Example:  palio lab play flights.scenario -D PARTIES=100 --network waxman:1")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-D", "macros", multiple=True, metavar="NAME=VALUE", help="A macro of a specification; may be repeated.")
@click.option("--network", default="transit-stub:1", show_default=True, help="Of a specification, which has none.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of placement and behaviour.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Keep all messages in a Parquet file.")
@click.option(
    "--expand", type=click.Path(dir_okay=False, path_type=Path), help="Write the scenario in all detail, play nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def play(  # noqa: PLR0913, PLR0917 (as many as options)
    file: Path,
    macros: tuple[str, ...],
    network: str,
    seed: int,
    trace: Path | None,
    expand: Path | None,
    as_json: bool,
) -> None:
    """Play one scenario, and print what its messages cost.

    FILE is a specification (servers = ...; objects { ... }; parties { ... };), which is placed on a network at random,
    or a scenario in all detail (sites: ..., servers, objects: ..., parties: ...).
    """
    with errors_in_a_line():
        scenario = _read(file, macros, network, seed)
        if expand is not None:
            from palio.lab.scenario_text import write_scenario

            expand.write_text(write_scenario(scenario), encoding="utf-8")
            return
        from palio.lab.work import TraceFile, played

        kept = None if trace is None else TraceFile(trace, file.name, _ENDLESS)
        figures = played(scenario, seed, kept).figures()
    if as_json:
        click.echo(json_text(figures, indent=2))
        return
    for name, value in figures.items():
        click.echo(f"{name:20}{value:16,.2f}")


def _read(file: Path, macros: tuple[str, ...], network: str, seed: int) -> Scenario:
    from palio.lab.networks import named
    from palio.lab.scenario import expand
    from palio.lab.scenario_text import ScenarioError, read_scenario, read_specification

    defined = {}
    for macro in macros:
        name, equals, value = macro.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{macro!r} is not NAME=VALUE", param_hint="-D")
        defined[name] = value
    try:
        text = file.read_text(encoding="utf-8")
        if re.search(r"^\s*sites\s*:", text, re.MULTILINE):
            return read_scenario(text)
        return expand(read_specification(text, defined), named(network)[1], Random(seed))
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file}: it is no text: {error}") from error
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from error
