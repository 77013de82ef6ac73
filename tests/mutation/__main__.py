"""Mutants of routing, links and nodes, and whether tests and simulator notice them: ``make mutate``.

``python -m tests.mutation [MODULE ...] [--every N]``: all of ``palio.routing``, ``palio.link`` and ``palio.node``
unless modules are named; with ``--every`` only each n-th mutant. Survivors are listed; those that change no behaviour
are in ``equivalent.txt``, with the reason.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
MODULES = tuple(
    f"palio.{package}.{path.stem}"
    for package in ("routing", "link", "node")
    for path in sorted((ROOT / "src/palio" / package).glob("[a-z]*.py"))
)
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Fate(NamedTuple):
    module: str
    mutant: Mutant
    survives: bool

    def __str__(self) -> str:
        """By the text of the line, because numbers of lines change."""
        text = source_of(self.module).splitlines()[self.mutant.line - 1]
        return f"{self.module}: {text.strip()}: {self.mutant.change}"


def source_of(module: str) -> str:
    return (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")


def try_mutant(module: str, mutant: Mutant) -> Fate:
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(mutant.source)
        file.flush()
        command = [sys.executable, "-m", "tests.mutation.victim", module, file.name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return Fate(module, mutant, done.returncode == 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    work = [(module, mutant) for module in given.modules for mutant in mutants(source_of(module))][:: given.every]
    known = {line.partition("  #")[0] for line in EQUIVALENT.read_text(encoding="utf-8").splitlines()}
    survivors, equivalent = [], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, fate in enumerate(pool.map(lambda each: try_mutant(*each), work), 1):
            if fate.survives and str(fate) in known:
                equivalent += 1
            elif fate.survives:
                survivors.append(fate)
                print(f"\r\033[K{fate.mutant.line}: {fate}")
            print(f"\r{number} of {len(work)}, {len(survivors)} survive", end="", flush=True)
    counted = len(work) - equivalent
    print(f"\r\033[K{counted - len(survivors)} of {counted} mutants were noticed; {equivalent} more change nothing")
    if len(survivors) > counted / 10:
        raise SystemExit("fewer than nine tenths")


if __name__ == "__main__":
    main()
