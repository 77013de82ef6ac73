"""The long campaign can be begun as the Makefile begins it."""

from __future__ import annotations

import subprocess
import sys


def test_without_arguments_all_campaigns_are_meant() -> None:
    command = [sys.executable, "-m", "tests.processes", "--seeds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0 failed\n"
