"""``palio net explain``: the way of a notification, and why a party did or did not get it."""

from __future__ import annotations

import json
from typing import Any

import click

from palio.cli.party import Party, observing, party_options
from palio.errors import printable_document

_MOST_SHOWN = 20
"""Parties that are named below a server."""


_EPILOG = """\b
Example:  palio net explain milan/1751500000000000/41 --party eva
          palio net explain --last-of adam --party eva
"""


@click.command(epilog=_EPILOG)
@click.argument("notification", metavar="[ID]", required=False)
@click.option("--last-of", metavar="NAME", help="What this party has published last at the server, in place of an ID.")
@click.option("--party", "whom", metavar="NAME", help="Say why this party did, or did not, get it.")
@party_options()
@click.option(
    "--seconds", type=click.FloatRange(0, 10, min_open=True), default=4.0, show_default=True,
    help="How long to wait for the answers of servers.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def explain(  # noqa: PLR0913 (one for each option)
    *, notification: str | None, last_of: str | None, whom: str | None, party: Party, seconds: float, as_json: bool
) -> None:
    """Tell the way of a notification, and why a party got it or not.

    The ID is origin/incarnation/sequence; 'palio sub --json' prints these in each envelope. Servers remember what came
    lately (history_bytes in their configuration). Ends with 1 if nothing is known of it.
    """
    if (notification is None) is (last_of is None):
        raise click.UsageError("give an ID, or --last-of and the name of a party")
    arguments = {"id": notification, "last_of": last_of, "party": whom, "seconds": seconds}
    with observing(party) as client:
        found = client.query("explain", **{name: given for name, given in arguments.items() if given is not None})
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    if not any(each["came"] for each in found["servers"]):
        raise SystemExit(1)


def _show(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    found = {**printable_document(document), "notification": document["notification"]}
    console = Console(highlight=False, soft_wrap=True)
    accounts = {each["server"]: each for each in found["servers"] if each["came"]}
    if accounts:
        console.print(Text(f"{found['id']}: {_attributes(found['notification'])}"))
        for server, account in accounts.items():
            if account["came"][0]["name"] not in accounts or account["came"][0]["origin"] == "party":
                console.print(_tree(server, accounts))
    for name, reason in sorted(found["silent"].items()):
        console.print(Text(f"no answer of {name}: {reason}", "red"))
    verdict = found["verdict"]
    if verdict is not None:
        console.print(Text(verdict["text"], "green" if verdict["code"] == "delivered" else "yellow"))
        for detail in verdict["details"]:
            console.print(Text(f"  {detail}"))


def _attributes(document: dict[str, Any] | None) -> str:
    from palio.codec import json as json_form
    from palio.model import Notification

    if document is None:
        return "what it was is not known any more"
    return str(json_form.decode(Notification, json.dumps(document)))


def _tree(server: str, accounts: dict[str, dict[str, Any]]) -> Any:
    """The servers that a notification came to, each below the one that sent it."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(_head(accounts[server])))
    waiting, seen = [(server, root)], {server}
    while waiting:
        here, node = waiting.pop()
        account = accounts[here]
        for line in _deliveries(account):
            node.add(Text(line))
        for each in account["sent"]:
            below = accounts.get(each["to"])
            if below is None or each["to"] in seen:
                node.add(Text(f"sent to {each['to']} at {_time(each['at'])}, which does not know of it"))
            else:
                seen.add(each["to"])
                waiting.append((each["to"], node.add(Text(_head(below)))))
    return root


def _head(account: dict[str, Any]) -> str:
    came = account["came"][0]
    who = came["name"] or "a party"
    if came["origin"] == "party":
        return f"{account['server']}: published by {who} at {came['at']}"
    return f"{account['server']}: from {who} at {_time(came['at'])}" + ("" if came["let_in"] else ", not let in")


def _deliveries(account: dict[str, Any]) -> list[str]:
    lines = []
    for each in account["delivered"][:_MOST_SHOWN]:
        how = " (in a sequence)" if each["form"] == "sequence" else ""
        lines.append(f"to {each['party']} at {_time(each['at'])}{how}")
    more = len(account["delivered"]) - _MOST_SHOWN + account["delivered_left_out"]
    if more > 0:
        lines.append(f"and to {more:,} parties more")
    lines += [f"not to {each['party']}: {each['reason']}" for each in account["lost"][:_MOST_SHOWN]]
    more = len(account["lost"]) - _MOST_SHOWN + account["lost_left_out"]
    if more > 0:
        lines.append(f"and not to {more:,} parties more")
    return lines


def _time(text: str) -> str:
    """The time of the day, as long as the date is clear."""
    return text.partition("T")[2].removesuffix("Z")
