"""A process that tests a mutant: ``python -m tests.mutation.victim MODULE FILE`` reads its text from a file.

It ends with 0 if nothing was noticed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one module from other text than it has."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, f"<mutant of {self.name}>", "exec"), module.__dict__)


_PATIENCE = 600
"""Seconds of the processor; who takes longer goes round in circles, and that is noticed."""


def main(name: str, path: str) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (_PATIENCE, _PATIENCE))
    sys.meta_path.insert(0, Finder(name, Path(path).read_text(encoding="utf-8")))
    import pytest  # noqa: PLC0415 (after the finder, so that nothing is loaded too early)

    near = f"tests/{name.split('.')[1]}"  # most are noticed there
    quick = [near, *(each for each in ("tests/link", "tests/node", "tests/routing") if each != near)]
    if pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *quick]) != 0:
        return 1
    from palio.sim.run import run  # noqa: PLC0415
    from palio.sim.suites import SUITES  # noqa: PLC0415

    for seed in range(3):
        for suite in SUITES.values():
            for architecture in suite.architectures:
                for faults in suite.faults:
                    if run(suite.generate(seed, architecture, faults, 60)).violations:
                        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
