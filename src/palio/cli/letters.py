"""``palio letters``: what a durable party could do nothing with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from palio.cli.party import Party, connected, party_options

if TYPE_CHECKING:  # the help must not wait for the client
    from palio.client import DeadLetters, Letter

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_ALL = click.option("--all", "take_all", is_flag=True, help="All of them.")
_NUMBERS = click.argument("numbers", nargs=-1, type=click.IntRange(0), metavar="[NUMBER]...")


@click.group()
def letters() -> None:
    """Look at the dead letters of a durable party, deliver them again, or forget them."""


@letters.command("list", epilog="Example:  palio letters list --name eva")
@party_options(needs_name=True)
@_JSON
def list_letters(*, party: Party, as_json: bool) -> None:
    """Print what the party has rejected, or was sent too often in vain, and why.

    A client of that party that is connected at the moment is disconnected by this.
    """
    with connected(party) as client:
        found = client.letters()
    if as_json:
        import msgspec

        document = {"letters": [_form(each) for each in found.letters], "forgotten": found.forgotten}
        click.echo(msgspec.json.encode(document))
    else:
        _print(found)


@letters.command(epilog="Example:  palio letters requeue --name eva 0 4")
@_NUMBERS
@party_options(needs_name=True)
@_ALL
@_JSON
def requeue(**given: Any) -> None:
    """Deliver dead letters again, by their numbers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    _do("requeued", **given)


@letters.command(epilog="Example:  palio letters discard --name eva --all")
@_NUMBERS
@party_options(needs_name=True)
@_ALL
@_JSON
def discard(**given: Any) -> None:
    """Forget dead letters, by their numbers.

    A client of that party that is connected at the moment is disconnected by this.
    """
    _do("discarded", **given)


def _do(
    done: Literal["requeued", "discarded"], *, numbers: tuple[int, ...], party: Party, take_all: bool, as_json: bool
) -> None:
    """Do something with some dead letters, and tell with which."""
    if take_all == bool(numbers):
        raise click.UsageError("name dead letters by their numbers, or take --all of them")
    with connected(party) as client:
        chosen = [each.number for each in client.letters().letters] if take_all else list(numbers)
        if chosen:
            (client.requeue if done == "requeued" else client.discard)(chosen)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({done: chosen}))
    else:
        click.echo(f"{done}: {', '.join(map(str, chosen)) or 'none'}", err=True)


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
        click.echo(f"{head}  {print_literal(letter.reason)}  {content}")
    if found.forgotten:
        click.echo(f"and {found.forgotten:,} more, which the server did not keep", err=True)
