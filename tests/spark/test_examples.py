"""The example of the lab, as its readers run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from palio.lab.sweep import runs_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "lab_figure.py"
TWICE = """
import runpy, sys
path = sys.argv.pop(1)
runpy.run_path(path, run_name="__main__")
print("-- again --")
runpy.run_path(path, run_name="__main__")
"""


def test_the_figure_of_a_few_runs(session: SparkSession, tmp_path: Path) -> None:
    """Runs are played, and then they are there; in one process, since starting Java takes longer than the example."""
    command = [sys.executable, "-c", TWICE, str(EXAMPLE), str(tmp_path), "--parties", "1", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    played, there = done.stdout.split("-- again --")
    assert "of 12 runs" in played
    assert "of 12 runs" not in there
    for shown in (played, there):
        assert shown.strip().endswith(f"{tmp_path / 'figure.png'}: 36 shares")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert runs_table(session, tmp_path).count() == 12
