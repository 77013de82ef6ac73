"""What the commands of a party share: who it is and where its server is, and errors in a line."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palio.errors import PalioError

if TYPE_CHECKING:  # the help must not wait for the client
    from palio.client.sync import SyncClient


_ADVICE = {
    "replaced": "; a party has one connection at a time, so give each command another --name, or none",
}
"""What to do about some of the codes of servers."""


class Party(NamedTuple):
    """Who connects, and where."""

    server: str
    name: str | None
    token: str


def party_options(*, needs_name: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options ``--server``, ``--name`` and ``--token``, which the command gets as a :class:`Party`."""
    who = "The party." if needs_name else "The party; by default one that exists only as long as the command runs."
    options = (
        click.option(
            "--server",
            envvar="PALIO_SERVER",
            default="palio://127.0.0.1:7400",
            show_default=True,
            metavar="URL",
            help="Where the server is; or PALIO_SERVER.",
        ),
        click.option("--name", required=needs_name, metavar="NAME", help=who),
        click.option(
            "--token", envvar="PALIO_TOKEN", default="", metavar="TOKEN", help="The party's token; or PALIO_TOKEN."
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_party(*, server: str, name: str | None, token: str, **others: Any) -> None:
            command(party=Party(server, name, token), **others)

        made: Callable[..., None] = with_party
        for option in reversed(options):
            made = option(made)
        return made

    return add


@contextmanager
def connected(party: Party, **options: Any) -> Iterator[SyncClient]:
    """A client; what goes wrong with it ends the command with one line. A request to terminate is an interruption."""
    from palio.client import CannotConnectError
    from palio.client.sync import connect_sync

    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with connect_sync(party.server, name=party.name, token=party.token, **options) as client:
            yield client
    except CannotConnectError as error:
        advice = "" if error.code else "; start one with 'palio serve', or say with --server where one is"
        raise click.ClickException(f"{error}{advice}") from error
    except PalioError as error:
        raise click.ClickException(in_a_line(error) + _ADVICE.get(getattr(error, "code", ""), "")) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def in_a_line(error: PalioError) -> str:
    """What was wrong, without the text in which it was."""
    return str(error).partition("\n")[0]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
