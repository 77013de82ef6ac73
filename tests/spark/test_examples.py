"""The example of the lab, as its readers run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from palio.lab.sweep import runs_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "lab_figure.py"


def test_the_figure_of_a_few_runs(session: SparkSession, tmp_path: Path) -> None:
    for attempt in range(2):  # runs are played, and then they are there
        command = [sys.executable, str(EXAMPLE), str(tmp_path), "--parties", "1", "3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert ("of 12 runs" in done.stdout) == (attempt == 0)
        assert done.stdout.strip().endswith(f"{tmp_path / 'figure.png'}: 36 shares")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert runs_table(session, tmp_path).count() == 12
