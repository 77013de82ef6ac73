"""``palio``: the root of the command line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from palio import __version__
from palio.cli.output import JSON_ERRORS, make_printable, run_with_json_errors, wants_json

_COMMANDS = {
    "advertise": "palio.cli.advertise:advertise",
    "archive": "palio.cli.archive:archive",
    "bench": "palio.cli.bench:bench",
    "demo": "palio.cli.demo:demo",
    "lab": "palio.cli.lab:lab",
    "letters": "palio.cli.letters:letters",
    "match": "palio.cli.match:match",
    "net": "palio.cli.net:net",
    "serve": "palio.cli.serve:serve",
    "token": "palio.cli.serve:token",
    "pub": "palio.cli.pub:pub",
    "sim": "palio.cli.sim:sim",
    "store": "palio.cli.store:store",
    "sub": "palio.cli.sub:sub",
    "top": "palio.cli.top:top",
    "tour": "palio.cli.tour:tour",
    "unadvertise": "palio.cli.advertise:unadvertise",
    "unsub": "palio.cli.advertise:unsub",
}
"""Where each command lives; loading them one by one keeps the start quick."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; with ``--json`` its errors are JSON, too."""
        arguments = list(sys.argv[1:] if args is None else args)
        if standalone_mode and wants_json(arguments):
            run_with_json_errors(self, arguments, prog_name=prog_name, complete_var=complete_var, **extra)
        return super().main(arguments, prog_name, complete_var, standalone_mode, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was chosen; its errors are fit for terminals."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            make_printable(error)
            raise
        except (KeyboardInterrupt, EOFError) as error:
            if ctx.obj is JSON_ERRORS:  # click would print an empty line
                raise click.Abort from error
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example:  palio demo",
)
@click.version_option(__version__, prog_name="palio")
def palio() -> None:
    """An event notification service: say what you want, not which topic."""
