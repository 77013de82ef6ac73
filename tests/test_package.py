"""The package as it is installed: light, typed, pinned, and in step with its own files."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from nanobind.stubgen import StubGen

import palio

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = {"pyspark", "starlette", "uvicorn", "rich", "click", "numpy", "pandas", "pyarrow"}


def modules_after(code: str) -> set[str]:
    """The top-level modules that are loaded after running some code in a new interpreter."""
    report = f"{code}\nimport sys; print('modules:', *sorted(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in printed.rpartition("modules:")[2].split()}


def test_importing_palio_is_light() -> None:
    assert not modules_after("import palio") & HEAVY


def test_all_that_palio_offers_is_loaded_when_it_is_used() -> None:
    assert "msgspec" not in modules_after("import palio; dir(palio); palio.__version__")
    assert set(palio.__all__) <= set(dir(palio))
    assert all(getattr(palio, name) is not None for name in palio.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Notice'"):
        _ = palio.Notice


def test_the_command_line_starts_light() -> None:
    code = "from palio.cli.main import palio\ntry: palio(['--help'])\nexcept SystemExit: pass"
    assert not modules_after(code) & (HEAVY - {"click"})


def test_version_is_one() -> None:
    assert palio.__version__ == PROJECT["project"]["version"] == metadata.version("palio")
    assert f"## {palio.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["palio._core", "palio.bench._baselines"])
def test_stubs_of_compiled_modules_are_current(name: str) -> None:
    module = importlib.import_module(name)
    generator = StubGen(module)
    generator.put(module)
    stub = ROOT / "src" / f"{name.replace('.', '/')}.pyi"
    assert generator.get() == stub.read_text(), "run: make stubs"


def test_the_client_needs_neither_spark_nor_the_server() -> None:
    names = {re.match(r"[\w-]+", need)[0] for need in PROJECT["project"]["dependencies"]}  # type: ignore[index]
    assert names == {"click", "msgspec", "rich"}
    locked = (ROOT / "locks/run.txt").read_text()
    assert "pyspark" not in locked
    assert "pytest" not in locked


@pytest.mark.parametrize("lock", sorted((ROOT / "locks").iterdir()), ids=lambda path: path.name)
def test_locks_have_hashes_and_no_addresses(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"https?:|file:|--index|--find-links|--extra", text)
    requirements = [block for block in re.split(r"\n(?=\w)", text) if "==" in block.splitlines()[0]]
    assert len(requirements) > 5
    assert all("--hash=sha256:" in block for block in requirements)


def test_locks_pin_what_the_project_asks_for() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    groups = {
        "run.txt": project["dependencies"] + PROJECT["dependency-groups"]["build"],
        "dev.txt": project["dependencies"] + extras["server"] + extras["tracing"] + extras["dev"],
        "spark.txt": project["dependencies"] + extras["spark"],
    }
    for name, needs in groups.items():
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "locks" / name).read_text(), re.MULTILINE))
        for need in (need for need in needs if need != "palio[tracing]"):
            assert re.match(r"[\w-]+", need)[0] in locked, f"{need} is not pinned in {name}; run: make lock"  # type: ignore[index]


def test_make_without_a_target_lists_the_targets() -> None:
    printed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "run", "test", "lint", "bench", "soak", "clean"):
        assert f"make {target} " in printed
