"""``palio net``: the servers and links of a running network."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from palio.cli.figures import amount, duration, size
from palio.cli.net_explain import explain
from palio.cli.output import echo
from palio.cli.party import Party, observing, party_options
from palio.errors import printable_document

if TYPE_CHECKING:  # the help must not wait for the client
    from rich.table import Table

    from palio.client.sync import SyncClient

_LOOK_SECONDS = 0.05
_MOST_LOGS = 20
"""Durable parties that are shown: those for which most waits."""
_WAIT = click.option(
    "--seconds", type=click.FloatRange(0, 10, min_open=True), default=2.0, show_default=True,
    help="How long to wait for the answers of servers.",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")


@click.group()
def net() -> None:
    """Look at a running network, and change its links."""


net.add_command(explain)


# -- status ------------------------------------------------------------------------------------------------------------


@net.command(epilog="Example:  palio net status")
@party_options()
@_WAIT
@_JSON
def status(*, party: Party, seconds: float, as_json: bool) -> None:
    """Show all servers that can be reached, and the links between them.

    Ends with 1 if some server did not answer.
    """
    with observing(party) as client:
        found = client.query("network", seconds=seconds)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print_network(found)
    if found["silent"]:
        raise SystemExit(1)


def _print_network(document: dict[str, Any]) -> None:
    from rich.console import Console

    found = printable_document(document)
    console = Console(highlight=False)
    console.print(_servers(found["servers"]))
    links = _links(found["servers"])
    if links:
        console.print(_table_of_links(links))
    logs = [(server["server"], log) for server in found["servers"] for log in server.get("durable", ())]
    if logs:
        console.print(_table_of_logs(logs))
    for each in links:
        if each["reason"]:
            console.print(f"{' - '.join(each['ends'])} is {each['state']}: {each['reason']}", style="red", markup=False)
    for server in sorted(found["servers"], key=lambda each: each["server"]):
        for problem in _store_problems(server.get("store") or {}):
            console.print(f"{server['server']}: {problem}", style="red", markup=False)
        for link in server["links"]:
            if link.get("letters"):  # a server of an earlier release does not say it
                told = f"{server['server']} has {link['letters']:,} letters that {link['name']} cannot take"
                console.print(f"{told}: palio letters list --link {link['name']}", style="red", markup=False)
    for name, reason in sorted(found["silent"].items()):
        console.print(f"no answer of {name}: {reason}", style="red", markup=False)
    if found["left_out"]:
        console.print(f"and {found['left_out']:,} more servers, which are left out")


def _store_problems(store: dict[str, Any]) -> Iterator[str]:
    """Problems of a store and an archive that an operator has to solve."""
    if store.get("is_full"):
        yield "the store has no room, and publications are refused"
    if store.get("damage"):
        yield f"damage was found in the store ({len(store['damage'])}): palio store show"
    if store.get("quarantined"):
        yield f"{store['quarantined']:,} records of the store are in quarantine: palio store quarantine"
    if store.get("archive_problem"):
        yield f"the archiver cannot write: {store['archive_problem']}"


def _table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in (*columns, *numbers):
        is_number = name in numbers
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
    return table


def _servers(servers: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    table = _table("server", numbers=("up for", "parties", "filters", "published", "delivered", "dropped", "waiting"))
    for each in sorted(servers, key=lambda each: each["server"]):
        counts = each["counts"]
        table.add_row(
            Text(each["server"]),
            duration(each["uptime_seconds"]),
            f"{counts['parties']:,}",
            f"{counts['subscriptions']:,}",
            amount(counts["publications"]),
            amount(counts["deliveries"]),
            amount(counts["dropped"]),
            size(counts["waiting_bytes"]),
        )
    return table


def _links(servers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each link once, as both ends see it; if they disagree, the worse state counts."""
    links: dict[tuple[str, str], dict[str, Any]] = {}
    for server in servers:
        for link in server["links"]:
            low, high = sorted((server["server"], link["name"]))
            before = links.get((low, high))
            worse = link if before is None or before["state"] == "up" else before
            waiting = link["unacknowledged"] + (before["unacknowledged"] if before else 0)
            opener = server["server"] if link["url"] else (before or {}).get("opened_by", "")
            known = link["known_from"] if link["url"] else (before or {}).get("source", "")
            made = {"ends": (low, high), "state": worse["state"], "reason": worse["reason"], "role": link["role"]}
            links[low, high] = {
                **made, "latency": link["latency"], "unacknowledged": waiting, "opened_by": opener, "source": known
            }  # fmt: skip
    return [links[ends] for ends in sorted(links)]


def _table_of_links(links: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    table = _table("link", "state", "opened by", "from", numbers=("latency", "unacknowledged"))
    for each in links:
        state = Text(each["state"], "green" if each["state"] == "up" else "red")
        source = "a command" if each["source"] == "command" else each["source"]
        table.add_row(
            Text(" - ".join(each["ends"])), state, Text(each["opened_by"]), source,
            str(each["latency"]), f"{each['unacknowledged']:,}",
        )  # fmt: skip
    return table


def _table_of_logs(logs: list[tuple[str, dict[str, Any]]]) -> Table:
    """Durable parties, those first for which most waits."""
    from rich.text import Text

    table = _table("durable party", "server", "", numbers=("waiting", "bytes", "oldest", "letters", "lost"))
    ranked = sorted(logs, key=lambda each: (-each[1]["waiting"], each[1]["name"]))
    for server, log in ranked[:_MOST_LOGS]:
        table.add_row(
            Text(log["name"]), Text(server), "" if log["connected"] else "away", amount(log["waiting"]),
            size(log["waiting_bytes"]), duration(log.get("oldest_seconds", 0)), amount(log["letters"]),
            amount(log["dropped"] + log["expired"]),
        )  # fmt: skip
    if len(ranked) > _MOST_LOGS:
        table.caption = f"and {len(ranked) - _MOST_LOGS:,} more; --json has them"
    return table


# -- links -------------------------------------------------------------------------------------------------------------


@net.group()
def link() -> None:
    """Add or remove links of a server while it runs."""


@link.command(epilog="Example:  palio net link add rome palio://127.0.0.1:7401")
@click.argument("neighbour", metavar="NAME")
@click.argument("url", default="")
@party_options()
@click.option(
    "--role", type=click.Choice(["peer", "master", "client"]), default="peer", show_default=True,
    help="What it is to the server.",
)  # fmt: skip
@click.option(
    "--latency", type=click.IntRange(1, 1_000_000_000), default=1, show_default=True, help="What the link counts for."
)
@click.option("--link-token", default="", metavar="TOKEN", help="The token by which the server is known there.")
@click.option(
    "--wait", type=click.FloatRange(0), default=5.0, show_default=True, help="Seconds to wait until the link is up."
)
@_JSON
def add(  # noqa: PLR0913 (one for each option)
    *,
    neighbour: str,
    url: str,
    party: Party,
    role: str,
    latency: int,
    link_token: str,
    wait: float,
    as_json: bool,
) -> None:
    """Open a link to the server NAME at URL, and keep it until the server stops.

    Without URL: accept the link of a neighbour again that opens it itself and that was removed here.

    Ends with 1 if the link is not up in time; the server goes on trying.
    """
    given = {"name": neighbour, "url": url, "role": role, "latency": latency, "token": link_token}
    with observing(party) as client:
        done = client.query("link", action="add", **given)
        standing = _wait_for(client, neighbour, wait)
    is_up = standing["state"] == "up"
    if as_json:
        click.echo(json.dumps({**done, "state": standing["state"], "reason": standing["reason"]}))
    else:
        why = f": {standing['reason']}" if standing["reason"] else ""
        state = "is up" if is_up else f"is not up yet ({standing['state']}{why}); the server goes on trying"
        echo(f"the link to {neighbour} {state}")
        echo(done["remark"])
    if not is_up:
        raise SystemExit(1)


def _wait_for(client: SyncClient, neighbour: str, seconds: float) -> dict[str, Any]:
    """How a link stands when it is up, or when that takes too long."""
    end = time.monotonic() + seconds
    while True:
        links = client.query("status")["links"]
        found: dict[str, Any] = next(
            (each for each in links if each["name"] == neighbour), {"state": "down", "reason": "it was removed again"}
        )
        if found["state"] == "up" or time.monotonic() >= end:
            return found
        time.sleep(_LOOK_SECONDS)


@link.command(epilog="Example:  palio net link remove rome")
@click.argument("neighbour", metavar="NAME")
@party_options()
@_JSON
def remove(*, neighbour: str, party: Party, as_json: bool) -> None:
    """End the link to the server NAME."""
    with observing(party) as client:
        done = client.query("link", action="remove", name=neighbour)
    if as_json:
        click.echo(json.dumps(done))
    else:
        echo(f"{neighbour} is no neighbour any more" + (f"; {done['remark']}" if done["remark"] else ""))
