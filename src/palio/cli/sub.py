"""``palio sub``: subscribe from the shell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from palio.cli.durations import TimeOrDuration
from palio.cli.output import echo
from palio.cli.party import Party, connected, party_options

if TYPE_CHECKING:  # the help must not wait for the model
    from palio.client.sync import SyncClient, SyncDelivery
    from palio.model import Filter, Notification, Pattern

    Element = Notification | tuple[Notification, ...] | SyncDelivery

_EPILOG = """\b
Example:  palio sub 'event = "alarm" and level > 3'
          palio sub --json --count 10 'symbol = "DIS"' 'symbol = "MSFT"'
          palio sub --pattern 'change < 0' 'change > 0'
          palio sub --durable --name eva --since 2h 'event = "alarm"'
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
    help="Print this for each: {name} is an attribute; {@id}, {@time}, {@publisher}, {@payload}, {@all}, {@number} "
    "and {@cursor} are more.",
)
@click.option("--raw", is_flag=True, help="Print payloads and nothing else, as they are, a new line after each.")
@click.option("--durable", is_flag=True, help="What comes for the party NAME waits for it while nobody takes it.")
@click.option("--since", type=TimeOrDuration(), help="Of a durable party: once more from a time, or as long ago as 2h.")
@click.option("--last", type=click.IntRange(1), help="Of a durable party: the last so many once more.")
@click.option("--from", "first", type=click.IntRange(0), help="Of a durable party: once more from this number on.")
@click.option("--no-ack", is_flag=True, help="Of a durable party: do not acknowledge, so that it comes again.")
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
    durable: bool,
    since: datetime | timedelta | None,
    last: int | None,
    first: int | None,
    no_ack: bool,
) -> None:
    """Print what matches any of the filters as it comes, one a line, until interrupted; without a FILTER, everything.

    A filter with 'then' is a pattern, and sequences of notifications that match it are printed. What is printed
    without other options can be published with 'palio pub' (but for payloads). Traces come before it, in lines that
    begin with #.

    With --durable, what is printed is acknowledged, and the subscription stays when the command ends, so that nothing
    is missed until it is called again; 'palio unsub' cancels it.
    """
    line = _lines(as_json, format_text, raw)
    wanted_again: dict[str, Any] = {"first": first, "since": since, "last": last}
    _check_durable(durable, party, wanted_again, no_ack)
    with suppress(KeyboardInterrupt), connected(party, durable=durable) as client:
        if any(each is not None for each in wanted_again.values()):
            client.replay(**wanted_again)  # before anything is taken that would come again
        with client.subscribe(_wanted(filters, pattern), wait=wait) as events:
            echo(f"subscribed at {party.server} as {client.name}{_log_of(client)}", err=True)
            element: Any  # deliveries to a durable party, notifications or sequences to others
            for element in islice(events, count):
                click.echo(line(element))
                if durable and not no_ack:
                    element.ack()


def _check_durable(durable: bool, party: Party, wanted_again: dict[str, Any], no_ack: bool) -> None:
    given = [each is not None for each in wanted_again.values()]
    if not durable and (any(given) or no_ack):
        raise click.UsageError("--since, --last, --from and --no-ack are for durable parties; say --durable")
    if durable and party.name is None:
        raise click.UsageError("--durable needs a --name, by which the party is known when it comes back")
    if sum(given) > 1:
        raise click.UsageError("--since, --last and --from exclude each other")


def _log_of(client: SyncClient) -> str:
    """Where a durable party is in its log, and what it has missed so far."""
    position = client.position
    if position is None:
        return ""
    told = f", from delivery {position.log}/{position.first} on"
    if position.dropped or position.expired:
        told += f"; so far {position.dropped:,} have fallen out of its log, and {position.expired:,} were too old"
    return told


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
        return _json
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
    return lambda element: "  then  ".join(show(each, _delivery(element)) for each in _each(element))


def _delivery(element: Element) -> SyncDelivery | None:
    from palio.client.sync import SyncDelivery

    return element if isinstance(element, SyncDelivery) else None


def _content(element: Element) -> Notification | tuple[Notification, ...]:
    """A notification or a sequence, without what is said of its delivery."""
    from palio.client.sync import SyncDelivery

    return element.element if isinstance(element, SyncDelivery) else element


def _each(element: Element) -> tuple[Notification, ...]:
    """The notifications of a sequence, or the only one."""
    content = _content(element)
    return content if isinstance(content, tuple) else (content,)


def _json(element: Element) -> str:
    from palio.cli import json_lines

    return json_lines.write(_content(element), _delivery(element))


def _plain(element: Element) -> str:
    sequence = _each(element)
    traces = [str(each.envelope.trace) for each in sequence if each.envelope is not None and each.envelope.trace]
    return "\n".join([*(f"# trace {trace}" for trace in traces), "  then  ".join(map(str, sequence))])
