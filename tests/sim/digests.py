"""What a program prints, whatever the seed of Python's hashes is."""

from __future__ import annotations

import os
import subprocess
import sys


def printed_under_any_hash_seed(program: str) -> list[str]:
    """The words that it prints, the same under two seeds."""
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert told[0] == told[1]
    return told[0].split()
