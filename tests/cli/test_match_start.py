"""``palio match`` as far as it comes without Spark: help, and what it refuses at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio

EVENTS = "examples/data/events.parquet"
FILTERS = "examples/data/filters.txt"


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments", [["--help"], ["match", "--help"]])
def test_help_does_not_wait_for_spark(arguments: list[str]) -> None:
    done = run_python(
        "import sys; from palio.cli.main import palio\n"
        f"palio({arguments!r}, standalone_mode=False)\n"
        "sys.exit(bool({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "numpy"])
def test_without_spark_the_extra_is_named(missing: str) -> None:
    done = run_python(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from palio.cli.main import palio\n"
        f"palio(['match', '--events', {EVENTS!r}, '--filters', {FILTERS!r}, '--out', 'nowhere'])"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"Error: this command needs Spark, and {missing!r} is not installed; install Palio with the extra palio[spark]"
    ]


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(palio, ["match", *map(str, arguments)])


def refused(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def test_missing_files(tmp_path: Path) -> None:
    gone, out = tmp_path / "gone.parquet", tmp_path / "out"
    assert refused("--events", gone, "--filters", FILTERS, "--out", out) == (
        f"--events: there is no file or folder '{gone}'"
    )
    assert refused("--events", EVENTS, "--filters", gone, "--out", out) == (
        f"--filters: there is no file or folder '{gone}'"
    )


def test_events_of_no_known_kind(tmp_path: Path) -> None:
    told = refused("--events", FILTERS, "--filters", FILTERS, "--out", tmp_path / "out")
    assert "say with --format what it is" in told


@pytest.mark.parametrize("master", ["", "localhost", "local[0]", "local[", "http://host:7077"])
def test_a_master_that_is_none(master: str, tmp_path: Path) -> None:
    told = refused("--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--master", master)
    assert told.startswith(f"--master: {master!r} is none")


@pytest.mark.parametrize("result", ["wide", "counts"])
def test_keys_are_for_narrow_results(result: str, tmp_path: Path) -> None:
    told = refused(
        "--events", EVENTS, "--filters", FILTERS, "--out", tmp_path / "out", "--key", "origin", "--result", result
    )
    assert told == f"--key: {result} results need none; leave it out"


def out_refused(out: Path, *more: str) -> str:
    return refused("--events", EVENTS, "--filters", FILTERS, "--out", out, *more)


def test_results_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").touch()
    assert out_refused(tmp_path) == f"--out: '{tmp_path}' is not empty; name another folder, or say --overwrite"


def test_rejects_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "out.rejects" / "filters").mkdir(parents=True)
    assert "out.rejects' is not empty" in out_refused(tmp_path / "out")


def test_other_things_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    assert out_refused(tmp_path, "--overwrite").endswith("holds other things than results; name another folder")
    assert (tmp_path / "thesis.tex").exists()
    assert out_refused(tmp_path / "thesis.tex", "--overwrite").endswith("is a file; name a folder")


@pytest.mark.parametrize("out", ["examples/data", "examples", "."])
def test_what_is_read_is_never_written_over(out: str) -> None:
    assert "holds what is to be read" in out_refused(Path(out), "--overwrite")
    assert Path(EVENTS).exists()
