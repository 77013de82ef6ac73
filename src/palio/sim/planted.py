"""The planted bugs of a checkout: they are part of the tests, and not installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import palio
from palio.errors import CallerError
from palio.sim.check import Case

_ROOT = Path(palio.__file__).parents[2]


class Catch(NamedTuple):
    """How a planted bug was found."""

    name: str
    case: Case | None
    """The first case that found it; ``None`` if none did."""
    violations: tuple[str, ...] = ()


def catalogue(root: Path = _ROOT) -> ModuleType:
    """The module ``tests.planted.catalogue`` of the checkout that this package is run from."""
    file = root / "tests" / "planted" / "catalogue.py"
    if not file.is_file():
        raise CallerError(
            f"planted bugs are part of Palio's tests, and {str(root)!r} is no checkout of its repository; "
            "run this in a checkout after `make setup`"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module("tests.planted.catalogue")
