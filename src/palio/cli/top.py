"""``palio top``: what goes through a server, live."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from palio.cli.figures import amount, duration, size
from palio.cli.party import Party, observing, party_options
from palio.errors import printable_document

if TYPE_CHECKING:  # the help must not wait for the client
    from rich.console import Group
    from rich.table import Table

    from palio.client.sync import SyncClient

_RATES = ("publications", "deliveries", "dropped", "refused", "received_bytes", "sent_bytes")
_LONGEST_NAME = 24
"""Longer ones are cut, so that the figures have room."""
_OF_PARTIES = ("deliveries", "dropped", "received_bytes", "sent_bytes")


@click.command(epilog="Example:  palio top --interval 2")
@party_options()
@click.option(
    "--interval", type=click.FloatRange(0.05, 3600), default=1.0, show_default=True, help="Seconds between two looks."
)
@click.option("--rows", type=click.IntRange(1, 200), default=20, show_default=True, help="Parties that are shown.")
@click.option("--once", is_flag=True, help="Show one sample, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object for each look.")
def top(*, party: Party, interval: float, rows: int, once: bool, as_json: bool) -> None:
    """Show the rates of a server and its busiest parties, again and again until interrupted.

    Parties for which most waits come first, then those that get most. Those that are slow are marked.
    """
    with suppress(KeyboardInterrupt), observing(party) as client:
        samples = _samples(client, interval)
        if as_json:
            for sample in samples:
                click.echo(json.dumps(sample))
                if once:
                    return
        else:
            _show(samples, rows, once)


def _samples(client: SyncClient, interval: float) -> Iterator[dict[str, Any]]:
    before, began = client.query("status"), time.monotonic()
    while True:
        time.sleep(max(0.0, began + interval - time.monotonic()))
        now, looked = client.query("status"), time.monotonic()
        yield rates(before, now, looked - began)
        before, began = now, looked


def rates(before: dict[str, Any], now: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What happened a second between two looks at the status of a server; after a restart, since that."""
    is_same = before["incarnation"] == now["incarnation"]
    earlier = {each["name"]: each for each in before["parties"]} if is_same else {}
    return {
        "server": now["server"],
        "architecture": now["architecture"],
        "uptime_seconds": now["uptime_seconds"],
        "seconds": round(seconds, 3),
        "per_second": _per_second(_RATES, before["counts"] if is_same else {}, now["counts"], seconds),
        "counts": now["counts"],
        "lag_seconds": now["lag_seconds"],
        "parties": [
            {
                "name": each["name"],
                "slow": each["slow"],
                "waiting_bytes": each["waiting_bytes"],
                "per_second": _per_second(_OF_PARTIES, earlier.get(each["name"], {}), each, seconds),
            }
            for each in now["parties"]
        ],
        "parties_left_out": now["parties_left_out"],
        "durable": now.get("durable", []),  # a server of an earlier release does not say it
    }


def _per_second(
    names: tuple[str, ...], before: dict[str, Any], now: dict[str, Any], seconds: float
) -> dict[str, float]:
    """A party that has connected again counts from zero."""
    found = {}
    for name in names:
        begin = before.get(name, 0)
        found[name] = round((now[name] - (begin if begin <= now[name] else 0)) / seconds, 3)
    return found


def _show(samples: Iterator[dict[str, Any]], rows: int, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if once or not console.is_terminal:
        for sample in samples:
            console.print(_view(sample, rows))
            if once:
                return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        live.update("looking ...", refresh=True)
        for sample in samples:
            live.update(_view(sample, rows), refresh=True)


def _view(document: dict[str, Any], rows: int) -> Group:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sample = printable_document(document)
    a_second, counts = sample["per_second"], sample["counts"]
    head = Text.assemble(
        (sample["server"], "bold"),
        f"  {sample['architecture']}  up for {duration(sample['uptime_seconds'])}  "
        f"{counts['parties']:,} parties  {counts['links']:,} links  {counts['subscriptions']:,} filters",
    )
    flow = Text(
        f"a second: {amount(a_second['publications'])} published, {amount(a_second['deliveries'])} delivered, "
        f"{size(a_second['received_bytes'])} in, {size(a_second['sent_bytes'])} out; "
        f"{size(counts['waiting_bytes'])} waiting, {sample['lag_seconds'] * 1e3:.0f} ms late"
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("party")
    for name in ("delivered/s", "out/s", "in/s", "waiting", "dropped/s", ""):
        table.add_column(name, justify="right", no_wrap=True)
    ranked = sorted(sample["parties"], key=_rank, reverse=True)
    for each in ranked[:rows]:
        rate = each["per_second"]
        table.add_row(
            Text(_short(each["name"])),
            amount(rate["deliveries"]),
            size(rate["sent_bytes"]),
            size(rate["received_bytes"]),
            size(each["waiting_bytes"]),
            amount(rate["dropped"]),
            "slow" if each["slow"] else "",
            style="red" if each["slow"] else "",
        )
    more = max(0, len(ranked) - rows) + sample["parties_left_out"]
    rest = [Text(f"and {more:,} more")] if more else []
    return Group(head, flow, table, *rest, *([_logs(sample["durable"], rows)] if sample["durable"] else []))


def _logs(logs: list[dict[str, Any]], rows: int) -> Table:
    """What waits for durable parties; the server names those first for which most waits."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("durable party")
    for name in ("waiting", "bytes", "oldest", "letters", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for each in logs[:rows]:
        table.add_row(
            Text(_short(each["name"])), amount(each["waiting"]), size(each["waiting_bytes"]),
            duration(each.get("oldest_seconds", 0)), amount(each["letters"]), "" if each["connected"] else "away",
        )  # fmt: skip
    return table


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _rank(party: dict[str, Any]) -> tuple[bool, int, float]:
    rate = party["per_second"]
    return party["slow"], party["waiting_bytes"], rate["deliveries"] + rate["sent_bytes"] + rate["received_bytes"]
