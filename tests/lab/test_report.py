"""Reports: one page that needs nothing else, and the data beside it."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from palio.errors import CallerError
from palio.lab import drawing
from palio.lab.estimates import estimate
from palio.lab.figures import figure_of
from palio.lab.page import page
from palio.lab.report import Report, Written
from palio.lab.siena import STUDIES, experiments
from palio.lab.study import Claim, Curve, Experiment, Measured, Plot, Results, Setting, Study, Verdict
from palio.lab.verify import Judged, judge

HOSTILE = "<script>alert(\"1\")</script> & '$x$'"


def holds(results: Results) -> Verdict:
    """It is <b>so</b>."""
    return Verdict(True, f"1 < 2 {HOSTILE}")


def fails(results: Results) -> Verdict:
    """It is not."""
    return Verdict(False, "2 > 1")


def lacks(results: Results) -> Verdict:
    """There is such a run."""
    results.select("none")
    raise AssertionError


CURVES = tuple(Curve(f"{name} {HOSTILE}", style, {"architecture": name}) for style, name in enumerate(("as", "hs")))
PLOT = Plot("costs", f"Costs {HOSTILE}", f"thesis, figure 1 {HOSTILE}", "e", "cost", CURVES, "cost")
STUDY = Study(
    "study",
    f"Title {HOSTILE}",
    ("e",),
    (
        Claim("right", f"right {HOSTILE}", holds),
        Claim("wrong", "wrong", fails),
        Claim("missing", "missing", lacks),
    ),
    (PLOT, PLOT._replace(name="absent", title="Absent", experiment="none")),
    (f"Open {HOSTILE}",),
)
GRID = Experiment("e", tuple(Setting(name, 1, many) for name in ("as", "hs") for many in (1, 1_000)), 3)
RESULTS = Results(Measured(run, {"cost": run.repetition + 0.1, "messages": 4.0}, {"s0": 1.0}) for run in GRID.runs())


def report(*, is_quick: bool = True) -> Report:
    return Report((STUDY,), (GRID,), RESULTS, tuple(judge([STUDY], RESULTS)), is_quick)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "deep" / "er"
    written = report().write(str(out))
    assert written == Written(out / "index.html", (out / "figures" / "costs.svg",))
    return out


class Reader(HTMLParser):
    """What there is in a page, and that all is closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def read(folder: Path) -> Reader:
    return Reader((folder / "index.html").read_text("utf-8"))


def test_the_page_asks_for_nothing_from_elsewhere(folder: Path, read: Reader) -> None:
    assert not {"script", "link", "img", "image", "iframe", "object", "embed", "base"} & set(read.tags)
    assert not [each for each in read.attributes if each[1].startswith("on") or each[1] in ("src", "srcset", "action")]
    names = {value for _, key, value in read.attributes if key == "id"}
    for tag, key, value in read.attributes:
        if key in ("href", "xlink:href"):
            is_here = value.startswith("#") and value[1:] in names
            assert is_here or (folder / value).is_file(), (tag, value)
        elif "://" in value:
            assert key.startswith("xmlns")
    text = (folder / "index.html").read_text("utf-8")
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []


def test_identifiers_are_unique(read: Reader) -> None:
    names = [value for _, key, value in read.attributes if key == "id"]
    assert len(names) == len(set(names))


def test_everything_is_escaped(folder: Path, read: Reader) -> None:
    assert "<script" not in (folder / "index.html").read_text("utf-8")
    for what in ("Title", "right", "1 < 2", "Costs", "thesis, figure 1", "Open", "as"):
        assert f"{what} {HOSTILE}" in read.words, what
    assert "It is <b>so</b>." in read.words


def test_the_page_says_all_of_a_study(read: Reader) -> None:
    words = read.words
    assert "1 of 2 claims hold, on the quick grid" in words
    for verdict in ("✓ holds right", "✗ does not hold wrong", "not in this grid missing"):
        assert verdict in words
    assert "Predicate: It is not. Here: 2 > 1" in words
    assert "Not in this grid: Absent." in words
    assert "architecture as, hs objects 1 parties 1, 1,000 publications 20" in words
    assert "palio lab report study --quick" in words
    assert "error bars are 95 % confidence intervals of the mean" in words
    for name in ("transit-stub", "stub distance", "16.0", "repetitions"):
        assert name in words
    full = Reader(page((STUDY,), {"study": []}, report().judged, (GRID,), is_quick=False)).words
    assert "palio lab report study" in full
    assert "--quick" not in full


def test_the_data_of_a_figure_are_what_is_drawn(folder: Path) -> None:
    figure = figure_of(PLOT, RESULTS)
    document = json.loads((folder / "figures" / "costs.json").read_bytes())
    assert document == figure.document() | {"original": PLOT.original}
    assert document["series"][0]["points"][0] == {"x": 1} | estimate([0.1, 1.1, 2.1])._asdict()
    drawn = (folder / "figures" / "costs.svg").read_text("utf-8")
    assert drawn == drawing.svg(figure)
    assert drawn[drawn.index("<svg") :] in (folder / "index.html").read_text("utf-8")


def test_claims_and_results_are_beside_the_page(folder: Path) -> None:
    claims = json.loads((folder / "claims.json").read_bytes())["claims"]
    assert [(each["claim"], each["holds"]) for each in claims] == [("right", True), ("wrong", False), ("missing", None)]
    rows = list(csv.DictReader((folder / "results.csv").read_text("utf-8").splitlines()))
    assert len(rows) == len(GRID.settings) * 2
    first = rows[0]
    assert (first["experiment"], first["architecture"], first["parties"], first["metric"]) == ("e", "as", "1", "cost")
    found = [float(first[name]) for name in ("mean", "low", "high")]
    assert found == pytest.approx(estimate([0.1, 1.1, 2.1]), rel=1e-5)
    assert first["runs"] == "3"


def test_the_same_results_give_the_same_report(folder: Path, tmp_path: Path) -> None:
    report().write(str(tmp_path))
    one, other = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (folder, tmp_path)
    )
    assert len(one) == 5
    assert one == other


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CallerError, match=r"the report cannot be written: .*file"):
        report().write(str(tmp_path / "file"))


def test_all_studies_and_claims_are_in_the_page() -> None:
    judged = [Judged(study.name, claim, None) for study in STUDIES for claim in study.claims]
    nothing = {study.name: [] for study in STUDIES}
    words = Reader(page(STUDIES, nothing, judged, experiments(quick=False), is_quick=False)).words
    for study in STUDIES:
        assert study.title in words
        assert study.left_open
        assert all(each in words for each in study.left_open)
        assert all(f"Experiment {name}" in words for name in study.experiments)
        assert all(claim.words in words and claim.predicate in words for claim in study.claims)
        assert all(plot.title in words for plot in study.plots)
    assert "0 of 0 claims hold" in words
