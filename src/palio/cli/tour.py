"""``palio tour``: the model at work, in a minute."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import click

from palio import codec
from palio.cli.output import json_text
from palio.errors import TextSyntaxError
from palio.model import Advertisement, Filter, Notification, Pattern


class Step(NamedTuple):
    """One stop of the tour: what it shows, and lines of code with what they gave when the tour ran them."""

    title: str
    remark: str
    lines: tuple[tuple[str, str], ...]


_NAMES = {
    "Advertisement": Advertisement,
    "Filter": Filter,
    "Notification": Notification,
    "Pattern": Pattern,
    "codec": codec,
}

_STEPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "A notification is a set of typed attributes; a filter says which ones are wanted",
        "Filters read the content. There are no topics to agree on beforehand.",
        (
            'n = Notification(event="alarm", level=5, room="B12")',
            "f = Filter.parse('event = \"alarm\" and level > 3')",
            "f.matches(n)",
        ),
    ),
    (
        "When a filter does not match, ask why",
        "Every constraint is judged on its own; the answer is data as well as text.",
        ('print(f.explain(Notification(event="alarm", level="high")))',),
    ),
    (
        "Filters are compared by meaning, not by wording",
        "Servers forward only what is not covered already, so covering must be exact.",
        (
            "f.covers(Filter.parse('event = \"alarm\" and level >= 7 and room any'))",
            "Filter.parse('integer x > 3; integer x < 5') == Filter.parse('integer x = 4')",
            'Filter.parse(\'x >= "ab" and x < "ac"\').canonical()',
            "Filter.parse('x > 3 and x < 2').is_satisfiable()",
        ),
    ),
    (
        "Two filters become one when one can say both",
        "This keeps routing tables small.",
        (
            "Filter.parse('integer x = 1').merge(Filter.parse('integer x > 1'))",
            'Filter.parse_union(\'room in ("B12", "B13") and level > 3\')',
        ),
    ),
    (
        "Publishers announce what they may publish",
        "Subscriptions then travel only to where something relevant is announced.",
        (
            'a = Advertisement.parse(\'event in ("alarm", "login"); integer level > 0; room any\')',
            "a.announces(n)",
            "a.relevant_to(f)",
            "a.relevant_to(Filter.parse('user = \"eva\"'))",
        ),
    ),
    (
        "Patterns are sequences: this, then that",
        "",
        (
            'p = Pattern.parse(\'symbol = "MSFT" and change < 0 then symbol = "NSCP" and change > 0\')',
            'p.covers(Pattern.parse(\'symbol = "MSFT" and change < -1 then symbol = "NSCP" and change > 0\'))',
        ),
    ),
    (
        "Mistakes are pointed at",
        "",
        ("Filter.parse('event = \"alarm\" and level => 3')",),
    ),
    (
        "Everything has a strict, versioned encoding",
        "docs/protocol.md specifies it.",
        ("codec.msgpack.encode(n).hex(' ')", "codec.json.encode(f)"),
    ),
)


def steps() -> Iterator[Step]:
    """Run the code of the tour and yield each stop with what it gave."""
    names: dict[str, object] = dict(_NAMES)
    for title, remark, codes in _STEPS:
        yield Step(title, remark, tuple((code, _run(code, names)) for code in codes))


def _as_data(step: Step) -> dict[str, object]:
    lines = [{"code": code, "result": result} for code, result in step.lines]
    return {"title": step.title, "remark": step.remark, "lines": lines}


def _run(code: str, names: dict[str, object]) -> str:
    """What the line would show at a Python prompt."""
    try:
        if code.startswith("print("):
            return str(eval(code[len("print(") : -1], names))  # noqa: S307 (only the code above)
        target, assigns, expression = code.partition(" = ")
        if assigns and target.isidentifier():
            names[target] = eval(expression, names)  # noqa: S307
            return ""
        return repr(eval(code, names))  # noqa: S307
    except TextSyntaxError as error:
        return f"{type(error).__name__}: {error}"


@click.command(epilog="Example:  palio tour --json")
@click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
def tour(as_json: bool) -> None:
    """Show what notifications, filters, advertisements and patterns do, in a minute."""
    if as_json:
        click.echo(json_text(list(map(_as_data, steps())), indent=2))
        return
    for number, step in enumerate(steps(), 1):
        click.echo()
        click.secho(f"{number}. {step.title}", bold=True)
        if step.remark:
            click.secho(textwrap.indent(step.remark, "   "), dim=True)
        for code, result in step.lines:
            click.echo("   " + click.style(">>> ", fg="cyan") + code)
            if result:
                click.secho(textwrap.indent(result, "   "), fg="green")
    click.echo()
    click.echo("Next: the README has the same at more length; docs/semantics.md says what everything means.")
