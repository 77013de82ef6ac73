"""What the commands of a party share: who it is and where its server is, and errors in a line."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palio.errors import PalioError, printable

if TYPE_CHECKING:  # the help must not wait for the client
    from ssl import SSLContext

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
    tls: Tls | None = None


class Tls(NamedTuple):
    """Files for an encrypted connection; an empty name stands for none."""

    ca: str
    certificate: str
    key: str

    def context(self) -> SSLContext:
        """How the connection is encrypted."""
        from ssl import create_default_context

        if self.key and not self.certificate:
            raise click.UsageError("--cert-key is the key of a certificate; say which with --cert")
        try:
            context = create_default_context(cafile=self._file("--ca", self.ca))
        except OSError as error:  # errors of TLS are among them
            raise click.UsageError(f"--ca: {printable(self.ca)} cannot be used: {error}") from error
        if self.certificate:
            certificate, key = self._file("--cert", self.certificate), self._file("--cert-key", self.key)
            try:
                context.load_cert_chain(str(certificate), key)
            except OSError as error:  # errors of TLS are among them
                raise click.UsageError(f"--cert: {printable(self.certificate)} cannot be used: {error}") from error
        return context

    @staticmethod
    def _file(option: str, path: str) -> str | None:
        """A file that can be read; errors of TLS do not name it."""
        from pathlib import Path

        if not path:
            return None
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise click.UsageError(f"{option}: {printable(path)} cannot be read: {error.strerror}") from error
        return path


_TLS_OPTIONS = (
    ("--ca", "PALIO_CA", "For palios://: certificates of the authorities to trust, in place of the system's"),
    ("--cert", "PALIO_CERT", "For palios://: the certificate of the party, for servers that ask for one"),
    ("--cert-key", "PALIO_CERT_KEY", "The key of that certificate, if it is in another file"),
)
"""Option, environment and meaning; ``--key`` alone is the idempotency key of ``palio pub``."""


def party_options(*, needs_name: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a connection (server, name, token, files for TLS), which the command gets as a :class:`Party`."""
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
        *(
            click.option(option, envvar=variable, default="", metavar="FILE", help=f"{text}; or {variable}.")
            for option, variable, text in _TLS_OPTIONS
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_party(*, server: str, name: str | None, token: str, **others: Any) -> None:
            files = Tls(others.pop("ca"), others.pop("cert"), others.pop("cert_key"))
            command(party=Party(server, name, token, files if any(files) else None), **others)

        made: Callable[..., None] = with_party
        for option in reversed(options):
            made = option(made)
        return made

    return add


@contextmanager
def connected(party: Party, **options: Any) -> Iterator[SyncClient]:
    """A client; what goes wrong with it ends the command with one line. A request to terminate is an interruption."""
    import ssl

    from palio.client import CannotConnectError
    from palio.client.sync import connect_sync

    if party.tls is not None:
        options["ssl"] = party.tls.context()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with connect_sync(party.server, name=party.name, token=party.token, **options) as client:
            yield client
    except CannotConnectError as error:
        advice = "" if error.code else "; start one with 'palio serve', or say with --server where one is"
        if isinstance(error.__cause__, ssl.SSLError):
            is_untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            advice = "; name the authority of its certificate with --ca" if is_untrusted else ""
        raise click.ClickException(f"{error}{_ADVICE.get(error.code, advice)}") from error
    except PalioError as error:
        raise click.ClickException(in_a_line(error) + _ADVICE.get(getattr(error, "code", ""), "")) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def observing(party: Party) -> AbstractContextManager[SyncClient]:
    """A client that looks, and takes the place of no client of the same name."""
    return connected(party, observe=party.name is not None)


def in_a_line(error: PalioError) -> str:
    """What was wrong, without the text in which it was."""
    return str(error).partition("\n")[0]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
