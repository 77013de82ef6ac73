"""``palio letters``: what a durable party could do nothing with, and what a peer of a server could not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from palio.cli.output import echo, json_text
from palio.cli.party import Party, observing, party_options

if TYPE_CHECKING:  # the help must not wait for the client
    from palio.client import DeadLetters, Letter
    from palio.client.sync import SyncClient

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_ALL = click.option("--all", "take_all", is_flag=True, help="All of them.")
_LINK = click.option(
    "--link", "peer", metavar="PEER", help="Those of the server's link to this peer; you have to be an admin."
)
_OF = click.option(
    "--party", "other", metavar="NAME", help="Those of another party than --name; you have to be an admin."
)
_NUMBERS = click.argument("numbers", nargs=-1, type=click.IntRange(0), metavar="[NUMBER]...")


@click.group()
def letters() -> None:
    """Look at the dead letters of a durable party, deliver them again, or forget them.

    With --link: the publications that did not go over a link, because the peer cannot take them.
    """


@letters.command("list", epilog="Example:  palio letters list --name eva;  palio letters list --link rome")
@party_options()
@_OF
@_LINK
@_JSON
def list_letters(*, party: Party, other: str | None, peer: str | None, as_json: bool) -> None:
    """Print what the party has rejected, or was sent too often in vain, and why.

    A client of that party that is connected at the moment stays connected.
    """
    if peer is not None:
        _list_of_link(party, peer, as_json=as_json)
        return
    if other is None:
        _check_name(party)
    with observing(party) as client:
        found = client.letters(other)
    if as_json:
        document = {"letters": [_form(each) for each in found.letters], "forgotten": found.forgotten}
        click.echo(json_text(document))
    else:
        _print(found)


@letters.command(epilog="Example:  palio letters requeue --name eva 0 4")
@_NUMBERS
@party_options(needs_name=True)
@_ALL
@_JSON
def requeue(**given: Any) -> None:
    """Deliver dead letters again, by their numbers.

    A client of that party that is connected at the moment stays connected.
    """
    _do("requeued", **given)


@letters.command(epilog="Example:  palio letters discard --name eva --all;  palio letters discard --link rome 0 4")
@_NUMBERS
@party_options()
@_LINK
@_ALL
@_JSON
def discard(*, party: Party, peer: str | None, **given: Any) -> None:
    """Forget dead letters, by their numbers.

    A client of that party that is connected at the moment stays connected.
    """
    if peer is not None:
        _discard_of_link(party, peer, **given)
        return
    _check_name(party)
    _do("discarded", party=party, **given)


def _check_name(party: Party) -> None:
    if party.name is None:
        raise click.UsageError(
            "Missing option '--name': whose dead letters, '--party', or '--link': those of which link."
        )


def _do(
    done: Literal["requeued", "discarded"], *, numbers: tuple[int, ...], party: Party, take_all: bool, as_json: bool
) -> None:
    """Do something with some dead letters, and tell with which."""
    _check_choice(numbers, take_all=take_all)
    with observing(party) as client:
        chosen = [each.number for each in client.letters().letters] if take_all else list(numbers)
        if chosen:
            (client.requeue if done == "requeued" else client.discard)(chosen)
    _tell(done, chosen, as_json=as_json)


def _discard_of_link(party: Party, peer: str, *, numbers: tuple[int, ...], take_all: bool, as_json: bool) -> None:
    _check_choice(numbers, take_all=take_all)
    with observing(party) as client:
        chosen = [each["letter"] for each in _of_link(client, peer)["letters"]] if take_all else list(numbers)
        client.query("letters", link=peer, discard=chosen)
    _tell("discarded", chosen, as_json=as_json)


def _check_choice(numbers: tuple[int, ...], *, take_all: bool) -> None:
    if take_all == bool(numbers):
        raise click.UsageError("name dead letters by their numbers, or take --all of them")


def _tell(done: str, chosen: list[int], *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text({done: chosen}))
    else:
        click.echo(f"{done}: {', '.join(map(str, chosen)) or 'none'}", err=True)


def _of_link(client: SyncClient, peer: str) -> dict[str, Any]:
    return client.query("letters", link=peer)


def _list_of_link(party: Party, peer: str, *, as_json: bool) -> None:
    with observing(party) as client:
        found = _of_link(client, peer)
    if as_json:
        click.echo(json_text(found))
        return
    from palio.model.syntax.printer import print_literal

    for letter in found["letters"]:
        (form,) = letter["notifications"]
        envelope = form["envelope"]
        id = f"{envelope['origin']}/{envelope['incarnation']}/{envelope['sequence']}"
        echo(f"{letter['letter']}  {letter['time']}  {id}  {print_literal(letter['reason'])}")
    if found["left_out"]:
        click.echo(f"and {found['left_out']:,} more; discard some of these to see them", err=True)
    if found["forgotten"]:
        click.echo(f"and {found['forgotten']:,} more, which the server did not keep", err=True)


def _form(letter: Letter) -> dict[str, object]:
    from palio.cli import json_lines

    return {
        "letter": letter.number,
        "delivery": letter.delivery,
        "reason": letter.reason,
        "time": letter.time.isoformat(),
        "notifications": [json_lines.form(each) for each in letter.notifications],
    }


def _print(found: DeadLetters) -> None:
    from palio.model.syntax.printer import print_literal

    for letter in found.letters:
        content = "  then  ".join(map(str, letter.notifications))
        head = f"{letter.number}  {print_literal(letter.time)}  delivery {letter.delivery}"
        echo(f"{head}  {print_literal(letter.reason)}  {content}")
    if found.forgotten:
        click.echo(f"and {found.forgotten:,} more, which the server did not keep", err=True)
