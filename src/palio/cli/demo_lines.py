"""The demonstration in lines: coloured for people, JSON for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from palio.cli import json_lines
from palio.cli.output import json_text
from palio.client.subscriptions import read_wanted
from palio.demo.happenings import Back, Delivery, Died, Ended, Happening, Reader, Site, Started
from palio.model import Notification, Operator, Pattern

_COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
_WHO = 15
"""Columns for who it is and where."""
_MOST_WHY = 0.5
"""Of the rest, how much the filter may take."""
_NARROWEST = 60


# -- for programs ------------------------------------------------------------------------------------------------------


def json_line(happening: Happening) -> str:
    """What happens as an object in a line; ``event`` says what it is.

    >>> json_line(Died("rome", "killed by SIGKILL"))
    '{"event":"died","server":"rome","reason":"killed by SIGKILL"}'
    """
    return json_text({"event": type(happening).__name__.lower(), **_fields(happening)})


def _fields(happening: Happening) -> dict[str, Any]:
    match happening:
        case Started():
            servers = [
                {"name": each.name, "url": each.url, "above": each.above, "pid": happening.pids[each.name]}
                for each in happening.sites
            ]
            writers = [each._asdict() for each in happening.writers]
            readers = [each._asdict() for each in happening.readers]
            return {"servers": servers, "writers": writers, "readers": readers, "metrics": happening.metrics}
        case Delivery(reader, element):
            return {**reader._asdict(), **json_lines.form(element)}
        case _:
            return happening._asdict()


# -- for people --------------------------------------------------------------------------------------------------------


def painter() -> Callable[[Happening], str]:
    """How things are shown: cut to the width of the terminal, if it is one, and otherwise whole."""
    is_terminal = sys.stdout.isatty()
    colours: dict[str, str] = {}

    def paint(happening: Happening) -> str:
        width = max(_NARROWEST, shutil.get_terminal_size().columns) if is_terminal else None
        match happening:
            case Started():
                colours.update(zip((each.name for each in happening.readers), _COLOURS * 9, strict=False))
                return "\n".join(_beginning(happening, colours))
            case Delivery(reader, element):
                return _delivery(reader, element, colours[reader.name], width)
            case Died(server, reason):
                return click.style(f"{server} has died: {reason}; starting it again", fg="red", bold=True)
            case Back(server):
                return click.style(f"{server} is back, and the network goes on", fg="green", bold=True)
            case Ended():
                return _end(happening)

    return paint


def _delivery(reader: Reader, element: Notification | tuple[Notification, ...], colour: str, width: int | None) -> str:
    who = click.style(f"{reader.name:<7} {reader.server:<7}", fg=colour)
    what = described(element, reader.wanted)
    if width is None:
        return f"{who}{what}  <- {reader.wanted}"
    why = _cut(reader.wanted, int((width - _WHO) * _MOST_WHY))
    what_width = width - _WHO - len(why) - len("  <- ")
    return f"{who}{_cut(what, what_width):<{what_width}}  {click.style('<- ' + why, dim=True)}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def described(element: Notification | tuple[Notification, ...], wanted: str) -> str:
    """What was delivered, with what the filter asks about first; of sequences, only what differs.

    >>> described(Notification(price=9.5, change=1.5, symbol="DIS"), 'symbol = "DIS" and change > 0')
    'change = 1.5; symbol = "DIS"; price = 9.5'
    >>> described((Notification(x=1, y=2), Notification(x=2, y=3)), "x = 1 then y > 2")
    'y = 2 then y = 3'
    """
    given, asked = _names(wanted)
    if isinstance(element, Notification):
        rest = [name for name in element if name not in asked and name not in given]
        return _attributes(element, [*asked, *given, *rest])
    return " then ".join(_attributes(each, asked) for each in element)


def _names(wanted: str) -> tuple[list[str], list[str]]:
    """The attributes that a filter or pattern pins to a value, and the others that it mentions."""
    read = read_wanted(wanted)
    filters = [filter for each in read for filter in (each.filters if isinstance(each, Pattern) else (each,))]
    constraints = [each for filter in filters for each in filter.constraints]
    asked = list(dict.fromkeys(each.name for each in constraints if each.operator is not Operator.EQ))
    given = list(dict.fromkeys(each.name for each in constraints if each.name not in asked))
    return given, asked


def _attributes(notification: Notification, names: list[str]) -> str:
    return "; ".join(str(Notification({name: notification[name]})) for name in names if name in notification)


# -- the beginning and the end -----------------------------------------------------------------------------------------


def _beginning(started: Started, colours: dict[str, str]) -> list[str]:
    title = f"{len(started.sites)} servers, {len(started.writers)} feeds, {len(started.readers)} readers."
    lines = [click.style(title, bold=True) + " Ctrl-C ends it.", "", *_tree(started.sites), ""]
    lines += [f"  {each.name:<8} at {each.server:<6} publishes  {each.feed}" for each in started.writers]
    for reader in started.readers:
        name = click.style(f"{reader.name:<8}", fg=colours[reader.name])
        first, *then = reader.wanted.split(" then ")
        lines.append(f"  {name} at {reader.server:<6} wants      {first}")
        lines += [f"{'then':>28}  {each}" for each in then]
    lines += ["", click.style("Try this in another shell:", bold=True)]
    for command, remark in suggestions(started):
        lines += [f"  {command}", click.style(f"      {remark}", dim=True)]
    return [*lines, ""]


def _tree(sites: tuple[Site, ...]) -> list[str]:
    """The network as a drawing."""
    first = next(each for each in sites if each.above is None)
    rows = [_chain(each, sites) for each in sites if each.above == first.name]
    root = f"  {first.name} :{first.port} "
    branches = ["─┬─", *["─├─"] * (len(rows) - 2), " └─"]
    indents = [root, *[" " * len(root)] * (len(rows) - 1)]
    return [f"{indent}{branch} {row}" for indent, branch, row in zip(indents, branches, rows, strict=True)]


def _chain(site: Site, sites: tuple[Site, ...]) -> str:
    below = [_chain(each, sites) for each in sites if each.above == site.name]
    return " ─── ".join([f"{site.name} :{site.port}", *below])


def suggestions(started: Started) -> list[tuple[str, str]]:
    """Commands that work as they are, when copied into another shell, each with what it shows."""
    from palio.cli.main import palio

    urls = {each.name: each.url for each in started.sites}
    program = _program()
    first = started.sites[0]
    at_first = "" if first.port == 7400 else f"--server {first.url} "
    offered = (
        ("sub", f"""{at_first}'symbol = "DIS"'""", f"what {first.name} knows of one stock"),
        ("sub", f"--server {urls['naples']} 'celsius > 22'", "warm rooms, seen from naples"),
        (
            "pub",
            f"""{at_first}'event = "fire"; room = "cellar"; level = 9'""",
            "vigili at naples will get it",
        ),
        ("net", f"status {at_first}".rstrip(), "the servers and the links between them"),
        ("top", at_first.rstrip(), "how busy they are"),
    )
    known = palio.list_commands(click.Context(palio))
    lines = [(f"{program} {name} {rest}".rstrip(), remark) for name, rest, remark in offered if name in known]
    return [*lines, (f"kill -9 {started.pids['rome']}", "rome dies; see what becomes of it")]


def _program() -> str:
    """How this program is called from the folder where we are."""
    if shutil.which("palio"):
        return "palio"
    path = Path(sys.executable).parent / "palio"
    if not path.exists():
        return f"{sys.executable} -m palio"
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _end(ended: Ended) -> str:
    got = ", ".join(f"{name} {count}" for name, count in ended.deliveries.items())
    return f"\n{ended.published} notifications published in {ended.seconds:.0f} s. Delivered: {got}."
