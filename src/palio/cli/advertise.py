"""``palio advertise``, ``unadvertise`` and ``unsub``: what a named party offers and holds, changed from the shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from palio.cli.output import json_text
from palio.cli.party import Party, connected, party_options

if TYPE_CHECKING:  # the help must not wait for the client
    from palio.client.sync import SyncClient


@click.command(epilog="""Example:  palio advertise --name eva 'event = "alarm" and level any'""")
@click.argument("advertisements", nargs=-1, required=True, metavar="ADVERTISEMENT...")
@party_options(needs_name=True)
@click.option("--wait", is_flag=True, help="Until it has spread through the network.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was advertised.")
def advertise(*, advertisements: tuple[str, ...], party: Party, wait: bool, as_json: bool) -> None:
    """Say what a party may publish; that stands until it is cancelled.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client:
        for each in advertisements:
            client.advertise(each, wait=wait)
    if as_json:
        click.echo(json_text({"advertised": advertisements}))


@click.command(epilog="""Example:  palio unadvertise --name eva 'event any and level any'""")
@click.argument("advertisements", nargs=-1, required=True, metavar="ADVERTISEMENT...")
@party_options(needs_name=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was cancelled.")
def unadvertise(*, advertisements: tuple[str, ...], party: Party, as_json: bool) -> None:
    """Cancel all advertisements of a party that one of these covers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client, _telling(client, "advertisements", as_json=as_json):
        for each in advertisements:
            client.unadvertise(each)


@click.command(epilog="""Example:  palio unsub --name eva 'event = "alarm"'""")
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...")
@party_options(needs_name=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was cancelled.")
def unsub(*, filters: tuple[str, ...], party: Party, as_json: bool) -> None:
    """Cancel all subscriptions of a party that one of these filters, or patterns, covers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client, _telling(client, "subscriptions", as_json=as_json):
        for each in filters:
            client.unsubscribe(each)


@contextmanager
def _telling(client: SyncClient, what: str, *, as_json: bool) -> Iterator[None]:
    """Tell which subscriptions, or advertisements, of the party are gone afterwards."""
    before = client.query("holdings")
    yield
    after = client.query("holdings")
    gone = sorted({*before[what]} - {*after[what]})
    count = _count(before, what) - _count(after, what)
    if as_json:
        click.echo(json_text({"cancelled": gone, "count": count}))
    elif not count:
        click.echo(f"nothing was cancelled: no {what.removesuffix('s')} of the party is covered", err=True)


def _count(holdings: dict[str, Any], what: str) -> int:
    left_out: int = holdings[f"{what}_left_out"]
    return len(holdings[what]) + left_out
