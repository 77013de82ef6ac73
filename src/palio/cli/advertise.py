"""``palio advertise``, ``unadvertise`` and ``unsub``: what a named party offers and holds, changed from the shell."""

from __future__ import annotations

import click

from palio.cli.party import Party, connected, party_options


@click.command(epilog="""Example:  palio advertise --name eva 'event = "alarm" and level any'""")
@click.argument("advertisements", nargs=-1, required=True, metavar="ADVERTISEMENT...")
@party_options(needs_name=True)
@click.option("--wait", is_flag=True, help="Until it has spread through the network.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was done.")
def advertise(*, advertisements: tuple[str, ...], party: Party, wait: bool, as_json: bool) -> None:
    """Say what a party may publish; that stands until it is cancelled.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client:
        for each in advertisements:
            client.advertise(each, wait=wait)
    _tell("advertised", advertisements, as_json)


@click.command(epilog="""Example:  palio unadvertise --name eva 'event any and level any'""")
@click.argument("advertisements", nargs=-1, required=True, metavar="ADVERTISEMENT...")
@party_options(needs_name=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was done.")
def unadvertise(*, advertisements: tuple[str, ...], party: Party, as_json: bool) -> None:
    """Cancel all advertisements of a party that one of these covers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client:
        for each in advertisements:
            client.unadvertise(each)
    _tell("cancelled", advertisements, as_json)


@click.command(epilog="""Example:  palio unsub --name eva 'event = "alarm"'""")
@click.argument("filters", nargs=-1, required=True, metavar="FILTER...")
@party_options(needs_name=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON what was done.")
def unsub(*, filters: tuple[str, ...], party: Party, as_json: bool) -> None:
    """Cancel all subscriptions of a party that one of these filters, or patterns, covers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client:
        for each in filters:
            client.unsubscribe(each)
    _tell("cancelled", filters, as_json)


def _tell(done: str, what: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({done: what}))
