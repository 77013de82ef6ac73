"""The page of a report as HTML: it holds its figures and its style, and asks for nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from palio.lab.figures import Figure
from palio.lab.networks import USUAL_NETWORK, parameters
from palio.lab.study import Experiment, Plot, Setting, Study
from palio.lab.verify import Judged, summary

_BARS = {
    "interval": "error bars are 95 % confidence intervals of the mean",
    "deviation": "error bars are one standard deviation over runs",
}
_ARCHITECTURES = {
    "ce": "one centralized server",
    "hs": "a hierarchy of servers, subscriptions forwarded to the root",
    "as": "acyclic peers, subscriptions forwarded",
    "aa": "acyclic peers, advertisements forwarded",
}
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --back: #fff; --soft: #f3f3f1; --line: #d5d5d0; --faint: #5f5f5a;
  --yes: #0b6b4f; --no: #a33a00; --link: #00599c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e4; --back: #161616; --soft: #222220; --line: #3c3c38;
  --faint: #a5a59e; --yes: #4fc79c; --no: #ff9f66; --link: #7cc0f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--back); overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 3rem; padding-top: 1rem; border-top: 2px solid var(--line); }
a { color: var(--link); }
code, pre { font: 0.9em ui-monospace, monospace; background: var(--soft); }
pre { padding: 0.6rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--line); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; border: 1px solid var(--line); }
figure svg { display: block; width: 100%; height: auto; background: #fff; }
figcaption { padding: 0.4rem 0.6rem; font-size: 0.85rem; color: var(--faint); }
.claim { margin: 0 0 1rem; padding: 0.6rem 0.8rem; background: var(--soft); border-left: 4px solid var(--line); }
.claim h4 { margin: 0; font-size: 1rem; }
.claim p { margin: 0.2rem 0 0; }
.claim .name { color: var(--faint); }
.yes { border-left-color: var(--yes); } .no { border-left-color: var(--no); }
b.yes { color: var(--yes); } b.no { color: var(--no); } b.open { color: var(--faint); }
summary { margin: 1.5rem 0 0.5rem; font-size: 1.17rem; font-weight: bold; cursor: pointer; }
.wide { overflow-x: auto; }
"""


class Shown(NamedTuple):
    """A figure as it is in the page."""

    plot: Plot
    figure: Figure
    svg: str


def page(
    studies: Sequence[Study],
    shown: Mapping[str, Sequence[Shown]],
    judged: Sequence[Judged],
    experiments: Sequence[Experiment],
    *,
    is_quick: bool,
) -> str:
    """All of it; ``shown`` are the figures, by study."""
    title = "The papers' studies, run again"
    body = [
        f"<h1>{escape(title)}</h1>",
        _opening(judged, is_quick=is_quick),
        *(_study(study, shown[study.name], judged, experiments, is_quick=is_quick) for study in studies),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    content = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{content}\n</body>\n</html>\n'


def _opening(judged: Sequence[Judged], *, is_quick: bool) -> str:
    grid = "the quick grid" if is_quick else "the full grid"
    names = "; ".join(f"<b>{escape(name)}</b> {escape(text)}" for name, text in _ARCHITECTURES.items())
    rows = [
        [f'<a href="#{escape(each.study)}">{escape(each.study)}</a>', escape(each.claim.words), _answer(each)]
        for each in judged
    ]
    return (
        f"<p>{escape(summary(judged))}, on {grid}. Architectures: {names}.</p>"
        f"<p>Data: <a href='claims.json'>claims.json</a>, <a href='results.csv'>results.csv</a> "
        f"(a row a setting and metric), and a file beside each figure.</p>"
        + _table(["study", "the paper says", "here"], rows)
    )


def _answer(judged: Judged) -> str:
    return f'<b class="{_kind(judged)}">{_words(judged)}</b>'


def _kind(judged: Judged) -> str:
    return "open" if judged.verdict is None else "yes" if judged.verdict.holds else "no"


def _words(judged: Judged) -> str:
    return {"open": "not in this grid", "yes": "✓ holds", "no": "✗ does not hold"}[_kind(judged)]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells are HTML."""
    top = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _study(
    study: Study,
    shown: Sequence[Shown],
    judged: Sequence[Judged],
    experiments: Sequence[Experiment],
    *,
    is_quick: bool,
) -> str:
    claims = [_claim(each) for each in judged if each.study == study.name]
    names = {each.plot.name for each in shown}
    missing = [plot.title for plot in study.plots if plot.name not in names]
    option = _options(experiments[0].settings[0], is_quick=is_quick)
    parts = [
        f'<section id="{escape(study.name)}"><h2>{escape(study.title)}</h2>',
        f"<p><code>{escape(study.name)}</code></p>",
        f'<div class="figures">{"".join(_figure(each) for each in shown)}</div>',
        f"<p>Not in this grid: {escape('; '.join(missing))}.</p>" if missing else "",
        f"<h3>Claims</h3>{''.join(claims)}" if claims else "",
        "<details><summary>Parameters</summary>",
        *(_parameters(each) for each in experiments if each.name in study.experiments),
        _network(experiments[0].settings[0].network),
        "</details>",
        "<h3>Run it again</h3>",
        f"<pre>palio lab verify {escape(study.name + option)}\npalio lab report {escape(study.name + option)}</pre>",
        _left_open(study),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _figure(shown: Shown) -> str:
    plot = shown.plot
    original = f"After: {plot.original}" if plot.original else "Not in the papers"
    name = escape(plot.name)
    drawing = shown.svg[shown.svg.index("<svg") :]
    return (
        f'<figure id="{name}">{drawing}<figcaption>{escape(plot.title)}. {escape(original)}; {_BARS[plot.bars]}. '
        f'<a href="figures/{name}.svg">SVG</a>, <a href="figures/{name}.json">data</a></figcaption></figure>'
    )


def _claim(judged: Judged) -> str:
    figure = f"<p>Here: {escape(judged.verdict.figure)}</p>" if judged.verdict else ""
    return (
        f'<div class="claim {_kind(judged)}"><h4>{escape(judged.claim.words)}</h4>'
        f'<p>{_answer(judged)} <span class="name">{escape(judged.claim.name)}</span></p>'
        f"<p>Predicate: {escape(judged.claim.predicate)}.</p>{figure}</div>\n"
    )


def _parameters(experiment: Experiment) -> str:
    """The grid: what values each setting has."""
    rows = []
    for name in Setting._fields:
        values = dict.fromkeys(getattr(setting, name) for setting in experiment.settings)
        shown = values if name == "architecture" else sorted(values)
        rows.append([escape(name.replace("_", " ")), escape(", ".join(_value(each) for each in shown))])
    rows.append(["repetitions", _value(experiment.repetitions)])
    return f"<h4>Experiment {escape(experiment.name)}</h4>" + _table(["setting", "values"], rows)


def _options(setting: Setting, *, is_quick: bool) -> str:
    """What a command is told for this; network and delays are the same in all settings of a report."""
    given = [" --quick"] if is_quick else []
    given += [f" --network {setting.network}"] if setting.network != USUAL_NETWORK else []
    given += [" --poisson"] if setting.is_poisson else []
    return "".join(given)


def _network(label: str) -> str:
    rows = [[escape(name.replace("_", " ")), escape(_value(value))] for name, value in parameters(label).items()]
    return "<h4>Network</h4>" + _table(["parameter", "value"], rows)


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _left_open(study: Study) -> str:
    if not study.left_open:
        return ""
    return (
        "<h3>What the papers left open</h3>\n<ul>"
        + "".join(f"<li>{escape(each)}</li>" for each in study.left_open)
        + "</ul>"
    )
