"""``palio sub``: subscribe from the shell."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import click

from palio.cli.party import Party, connected, party_options

if TYPE_CHECKING:  # the help must not wait for the model
    from palio.model import Filter, Notification, Pattern

_EPILOG = """\b
Example:  palio sub 'event = "alarm" and level > 3'
          palio sub --json --count 10 'symbol = "DIS"' 'symbol = "MSFT"'
          palio sub --pattern 'change < 0' 'change > 0'
"""


@click.command(epilog=_EPILOG)
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@party_options()
@click.option("--pattern", is_flag=True, help="The filters are a sequence: the first one, then the second, ...")
@click.option("--count", type=click.IntRange(1), help="End after so many notifications or sequences.")
@click.option("--wait", is_flag=True, help="Begin when the subscription has spread through the network.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print JSON, an object a line, with envelopes.")
def sub(  # noqa: PLR0913 (one for each option)
    *,
    filters: tuple[str, ...],
    party: Party,
    pattern: bool,
    count: int | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Print what matches any of the filters as it comes, one a line, until interrupted; without a FILTER, everything.

    A filter with 'then' is a pattern, and sequences of notifications that match it are printed. What is printed without
    --json can be published with 'palio pub' (but for payloads). Traces come before it, in lines that begin with #.
    """
    with (
        suppress(KeyboardInterrupt),
        connected(party) as client,
        client.subscribe(_wanted(filters, pattern), wait=wait) as events,
    ):
        click.echo(f"subscribed at {party.server} as {client.name}", err=True)
        for element in islice(events, count):
            click.echo(_line(element, as_json))


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


def _line(element: Notification | tuple[Notification, ...], as_json: bool) -> str:
    if as_json:
        from palio.cli import json_lines

        return json_lines.write(element)
    sequence = element if isinstance(element, tuple) else (element,)
    traces = [str(each.envelope.trace) for each in sequence if each.envelope is not None and each.envelope.trace]
    return "\n".join([*(f"# trace {trace}" for trace in traces), "  then  ".join(map(str, sequence))])
