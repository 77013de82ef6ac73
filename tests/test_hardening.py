"""How the compiled core is built: with what makes mistakes in it harder to use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from palio import _core

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and (sys.platform != "linux" or shutil.which("readelf") is None),
    reason="this looks at ELF files with readelf",
)


def told(*options: str) -> str:
    assert _core.__file__ is not None
    return subprocess.run(
        ["readelf", "-W", *options, _core.__file__], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def is_sanitized() -> bool:
    return "__asan_" in told("--dyn-syms")


def test_the_core_is_hardened() -> None:
    if is_sanitized():
        pytest.skip("sanitizers do more")
    (stack,) = [line for line in told("-l").splitlines() if "GNU_STACK" in line]
    assert stack.split()[-2] == "RW"  # not executable
    assert "GNU_RELRO" in told("-l")
    assert "BIND_NOW" in told("-d")
    symbols = told("--dyn-syms")
    assert "__stack_chk_fail" in symbols
    assert "_chk@" in symbols.replace("__stack_chk_fail", "")  # checked functions of the C library
