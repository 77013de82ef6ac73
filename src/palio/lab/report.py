"""Reports: a page about studies with figures, claims and parameters, and the data beside it.

The page needs nothing but itself, and is the same for the same results.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from palio.errors import CallerError
from palio.lab.drawing import svg
from palio.lab.estimates import estimate
from palio.lab.figures import figure_of
from palio.lab.page import Shown, page
from palio.lab.study import Experiment, MissingRunsError, Results, Setting, Study
from palio.lab.verify import Judged


class Written(NamedTuple):
    """The files of a report."""

    page: Path
    figures: tuple[Path, ...]


class Report(NamedTuple):
    """Studies, with all that is known of them."""

    studies: tuple[Study, ...]
    experiments: tuple[Experiment, ...]
    results: Results
    judged: tuple[Judged, ...]
    is_quick: bool

    def write(self, out: str) -> Written:
        """Write the page, its figures with their data, the claims and the results into a folder."""
        folder = Path(out)
        try:
            (folder / "figures").mkdir(parents=True, exist_ok=True)
            return self._write(folder)
        except OSError as error:
            raise CallerError(f"the report cannot be written: {error}") from error

    def _write(self, folder: Path) -> Written:
        shown = {study.name: self._shown(study) for study in self.studies}
        paths = [_write_figure(folder / "figures", each) for figures in shown.values() for each in figures]
        _write_json(folder / "claims.json", {"claims": [each.document() for each in self.judged]})
        self._write_results(folder / "results.csv")
        index = folder / "index.html"
        index.write_text(page(self.studies, shown, self.judged, self.experiments, is_quick=self.is_quick), "utf-8")
        return Written(index, tuple(paths))

    def _shown(self, study: Study) -> list[Shown]:
        """The figures that the results are enough for."""
        found = []
        for plot in study.plots:
            try:
                figure = figure_of(plot, self.results)
            except MissingRunsError:
                continue
            found.append(Shown(plot, figure, svg(figure)))
        return found

    def _write_results(self, path: Path) -> None:
        """A row a setting and metric."""
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["experiment", *Setting._fields, "metric", "mean", "low", "high", "runs"])
            for experiment, setting, runs in self.results.groups():
                for metric in runs[0].figures:
                    found = estimate(each.figures[metric] for each in runs)
                    table.writerow([experiment, *setting, metric, *(f"{value:.6g}" for value in found), len(runs)])


def _write_figure(folder: Path, shown: Shown) -> Path:
    path = folder / f"{shown.figure.name}.svg"
    path.write_text(shown.svg, "utf-8")
    _write_json(path.with_suffix(".json"), shown.figure.document() | {"original": shown.plot.original})
    return path


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
