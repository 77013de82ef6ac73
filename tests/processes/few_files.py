"""``palio`` that may open few files, for tests: ``FEW_FILES=160 python -m tests.processes.few_files serve ...``."""

from __future__ import annotations

import os
import resource

from palio.cli.main import palio

VARIABLE = "FEW_FILES"
"""The environment variable that says how many."""


if __name__ == "__main__":
    most = int(os.environ[VARIABLE])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the hard limit too, which a server cannot raise
    palio(prog_name="palio")
