"""What commands print: JSON that is safe to show on a terminal, and errors, which are JSON too with ``--json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from palio.errors import PalioError, printable

JSON_ERRORS = object()
"""The object of a click context whose errors are printed as JSON."""


def json_text(document: object, *, indent: int = 0) -> str:
    r"""A document as JSON, in which every character that a terminal could act on is escaped.

    >>> print(json_text({"name": "eva\x1b[2J\u202e"}))
    {"name":"eva\u001b[2J\u202e"}
    """
    import msgspec

    encoded = msgspec.json.encode(document)
    text = (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def echo(text: str, *, err: bool = False) -> None:
    """Print one line that holds names, reasons and the like from elsewhere."""
    click.echo(printable(text), err=err)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON; known before it is parsed, because it may be wrong.

    >>> wants_json(["pub", "--json", "x = 1"]), wants_json(["pub", "--", "--json"])
    (True, False)
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in before or "-J" in before


def run_with_json_errors(group: click.Group, arguments: Sequence[str], **options: Any) -> NoReturn:
    """Run a command whose errors are JSON: one object, in one line, on the standard error."""
    try:
        code = click.Group.main(group, args=list(arguments), standalone_mode=False, obj=JSON_ERRORS, **options)
    except click.ClickException as error:
        _fail(error.format_message(), _code_of(error), error.exit_code)
    except click.Abort:
        _fail("interrupted", "interrupted", 1)
    except PalioError as error:
        _fail(str(error), _code_of(error), 1)
    except OSError as error:
        _fail(str(error), "", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _code_of(error: Exception) -> str:
    """For programs: what the server said, or that the command line is wrong."""
    if isinstance(error, click.UsageError):
        return "usage"
    code = getattr(error, "code", "") or getattr(error.__cause__, "code", "")
    return code if isinstance(code, str) else ""


def _fail(text: str, code: str, exit_code: int) -> NoReturn:
    click.echo(json.dumps({"error": text, "code": code}), err=True)
    sys.exit(exit_code)


def make_printable(error: click.ClickException) -> None:
    """Escape what a terminal could act on; line ends are ours, because names are escaped where they come in."""
    vars(error)["message"] = "\n".join(map(printable, error.message.split("\n")))
