"""``palio demo``: a network of servers on this machine, live."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from palio.cli.serve import importing_server

if TYPE_CHECKING:  # the help must not wait for them
    from palio.demo.happenings import Happening
    from palio.demo.show import Plan

_EPILOG = """\b
Example:  palio demo
          palio demo --for 10 --rate 20 --json
"""


@click.command(epilog=_EPILOG)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the feeds: the same seed, the same feeds.")
@click.option(
    "--rate",
    type=click.FloatRange(0, 1000, min_open=True),
    default=2.0,
    show_default=True,
    help="Notifications a second of each feed.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End after so long; by default, when interrupted.",
)
@click.option(
    "--architecture",
    type=click.Choice(["hs", "as", "aa", "nf", "gs", "ga"]),
    default="as",
    show_default=True,
    help="How servers tell each other what is wanted.",
)
@click.option("-J", "--json", "as_json", is_flag=True, help="Print what happens as JSON, an object a line.")
def demo(*, seed: int, rate: float, seconds: float | None, architecture: str, as_json: bool) -> None:
    """Run five servers on this machine, with live feeds and parties who get what they want of them.

    The servers are processes of their own and listen on 127.0.0.1 only; the first one at port 7400, if that is free.
    One that dies is started again. Nothing is left of them in the end.
    """
    with importing_server("palio demo"):
        from palio.server import process as _  # noqa: F401 (whether its libraries are there)
    from palio.cli.demo_lines import json_line, painter
    from palio.demo.show import Plan

    if not as_json:
        click.echo("Starting servers ...", err=True)
    shown = json_line if as_json else painter()
    _run(Plan(seed, rate, seconds, architecture), lambda happening: click.echo(shown(happening)))


def _run(plan: Plan, tell: Callable[[Happening], None]) -> None:
    import asyncio
    import logging
    import signal

    from palio.demo.servers import DemoError
    from palio.demo.show import Demo

    logging.getLogger("palio.client").addHandler(logging.NullHandler())  # what servers do is told by us

    async def run() -> None:
        show = Demo(plan, tell)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, show.stop)
        await show.run()

    try:
        asyncio.run(run())
    except DemoError as error:
        raise click.ClickException(str(error)) from error
