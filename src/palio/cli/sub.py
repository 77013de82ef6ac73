"""``palio sub``: subscribe from the shell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import click

from palio.cli.party import Party, connected, party_options

if TYPE_CHECKING:  # the help must not wait for the model
    from palio.model import Filter, Notification, Pattern

    Element = Notification | tuple[Notification, ...]

_EPILOG = """\b
Example:  palio sub 'event = "alarm" and level > 3'
          palio sub --json --count 10 'symbol = "DIS"' 'symbol = "MSFT"'
          palio sub --pattern 'change < 0' 'change > 0'
          palio sub -F '{@time} {symbol}: {price}' 'symbol any'
"""


@click.command(epilog=_EPILOG)
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@party_options()
@click.option("--pattern", is_flag=True, help="The filters are a sequence: the first one, then the second, ...")
@click.option("--count", type=click.IntRange(1), help="End after so many notifications or sequences.")
@click.option("--wait", is_flag=True, help="Begin when the subscription has spread through the network.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print JSON, an object a line, with envelopes.")
@click.option(
    "-F",
    "--format",
    "format_text",
    metavar="FORMAT",
    help="Print this for each: {name} is an attribute; {@id}, {@time}, {@publisher}, {@payload} and {@all} are more.",
)
@click.option("--raw", is_flag=True, help="Print payloads and nothing else, as they are, a new line after each.")
def sub(  # noqa: PLR0913 (one for each option)
    *,
    filters: tuple[str, ...],
    party: Party,
    pattern: bool,
    count: int | None,
    wait: bool,
    as_json: bool,
    format_text: str | None,
    raw: bool,
) -> None:
    """Print what matches any of the filters as it comes, one a line, until interrupted; without a FILTER, everything.

    A filter with 'then' is a pattern, and sequences of notifications that match it are printed. What is printed
    without other options can be published with 'palio pub' (but for payloads). Traces come before it, in lines that
    begin with #.
    """
    line = _lines(as_json, format_text, raw)
    with (
        suppress(KeyboardInterrupt),
        connected(party) as client,
        client.subscribe(_wanted(filters, pattern), wait=wait) as events,
    ):
        click.echo(f"subscribed at {party.server} as {client.name}", err=True)
        for element in islice(events, count):
            click.echo(line(element))


def _wanted(filters: tuple[str, ...], is_pattern: bool) -> Filter | Pattern | list[Filter]:
    from palio.client.subscriptions import read_wanted
    from palio.errors import CallerError
    from palio.model import Filter, Pattern

    if not filters:
        return Filter()
    if is_pattern:
        return Pattern(map(Filter.parse, filters))
    read = [each for text in filters for each in read_wanted(text)]
    if len(read) == 1:
        return read[0]
    either = [each for each in read if isinstance(each, Filter)]
    if len(either) < len(read):
        raise CallerError("one pattern at a time, and no filters beside it; start the command twice")
    return either


def _lines(as_json: bool, format_text: str | None, raw: bool) -> Callable[[Element], str | bytes]:
    """How what comes is printed."""
    if as_json + raw + (format_text is not None) > 1:
        raise click.UsageError("--json, --format and --raw exclude each other")
    if as_json:
        from palio.cli import json_lines

        return json_lines.write
    if raw:
        return lambda element: b"\n".join(each.payload.data if each.payload else b"" for each in _each(element))
    if format_text is None:
        return _plain

    from palio.cli.formats import read_format
    from palio.errors import CallerError

    try:
        show = read_format(format_text)
    except CallerError as error:
        raise click.UsageError(str(error)) from error
    return lambda element: "  then  ".join(map(show, _each(element)))


def _each(element: Element) -> tuple[Notification, ...]:
    """The notifications of a sequence, or the only one."""
    return element if isinstance(element, tuple) else (element,)


def _plain(element: Element) -> str:
    sequence = _each(element)
    traces = [str(each.envelope.trace) for each in sequence if each.envelope is not None and each.envelope.trace]
    return "\n".join([*(f"# trace {trace}" for trace in traces), "  then  ".join(map(str, sequence))])
