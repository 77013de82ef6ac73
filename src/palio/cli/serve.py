"""``palio serve`` and ``palio token``: one event server, and whom it lets in."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from palio.cli.output import echo
from palio.errors import PalioError, printable

_MOST_NAME = 1_024
"""Bytes of the name of a party."""


class _UnusableError(click.ClickException):
    """What was given cannot be used."""

    exit_code = 2


@contextmanager
def importing_server(command: str) -> Iterator[None]:
    """Around imports of what only ``palio[server]`` brings along: if that is missing, say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        advice = "install them with: pip install 'palio[server]'"
        raise _UnusableError(f"{command} needs the server's libraries; {advice} ({error})") from error


@click.command(epilog="Example:  palio serve --config palio.toml")
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("palio.toml"),
    show_default=True,
    help="The configuration, in TOML; PALIO_PORT and the like in the environment count more.",
)
@click.option("--check-config", is_flag=True, help="Say whether the configuration can be used, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print logs, or the checked configuration, as JSON.")
def serve(*, path: Path, check_config: bool, as_json: bool) -> None:
    """Run one event server.

    SIGHUP makes it read its configuration again, SIGTERM makes it stop in good order.
    """
    with importing_server("palio serve"):
        from palio.server import config as configuration
        from palio.server import process
    try:
        if not check_config:
            process.serve(path, logs_json=as_json)
            return
        config = configuration.load_config(path, os.environ, process.check)
    except PalioError as error:
        raise _UnusableError(str(error).partition("\n")[0]) from error
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        advice = "; stop the process that uses the port, or configure another one (port, http.port)" if taken else ""
        raise _UnusableError(f"cannot listen: {error}{advice}") from error
    if as_json:
        click.echo(json.dumps(configuration.document(config), indent=2))
    else:
        echo(f"{path} can be used: server {config.server}, {config.architecture}, {config.host}:{config.port}")


@click.command(epilog="Example:  palio token eva")
@click.argument("name")
@click.option("--server", "is_server", is_flag=True, help="For a server, not for a party.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def token(*, name: str, is_server: bool, as_json: bool) -> None:
    """Make a token for a party or a server: the token itself, and what the configuration needs to know of it."""
    if not name.strip():
        raise click.BadParameter("the name of the party or server is empty", param_hint="NAME")
    if len(name.encode("utf-8", "replace")) > _MOST_NAME:
        raise click.BadParameter(f"names have at most {_MOST_NAME:,} bytes", param_hint="NAME")
    with importing_server("palio token"):
        from palio.server.credentials import hash_of, new_token
    made = new_token()
    hashed = hash_of(made)
    table = "server_tokens" if is_server else "tokens"
    if as_json:
        click.echo(json.dumps({"name": name, "table": table, "token": made, "hash": hashed}))
        return
    click.echo(f"token, for {printable(name)} alone; it is shown only now:\n  {made}\n")
    click.echo(f"for the configuration of the server:\n  [{table}]\n  {json.dumps(name)} = {json.dumps(hashed)}")
