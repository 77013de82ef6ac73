"""The README's tour, run word for word against a demonstration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from palio.demo.servers import TREE
from tests.demo.demos import DEADLINE, wait_for

README = (Path(__file__).parents[2] / "README.md").read_text()
TOUR = README.partition("## A tour")[2].partition("\n## ")[0]
PORTS = ("7400", "7410", "7420", "7430", "7440")
"""Of the servers, if nobody else is there."""


class Step(NamedTuple):
    """A command with what it prints."""

    command: str
    expected: list[str]


def blocks(kind: str) -> list[list[str]]:
    return [found.splitlines() for found in re.findall(rf"^```{kind}\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)]


def steps() -> list[Step]:
    made: list[Step] = []
    for block in blocks("console"):
        assert block[0].startswith("$ "), block
        for line in block:
            if line.startswith("$ "):
                made.append(Step(line[2:], []))
            else:
                made[-1].expected.append(line)
    return made


def in_substance(line: str) -> str:
    """A line without what is another time each time: names of parties, times, numbers, truth."""
    line = re.sub(r"urn:uuid:[0-9a-f-]{36}", "PARTY", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "0", line)
    return re.sub(r"\b(true|false)\b", "TRUTH", line)


@contextmanager
def shown(folder: Path) -> Iterator[list[str]]:
    """What a demonstration prints for people; the list grows."""
    process = subprocess.Popen(
        [sys.executable, "-m", "palio", "demo", "--rate", "20", "--seed", "1", "--for", str(4 * DEADLINE)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        wait_for(lambda: any("<-" in line for line in list(lines)))
        yield lines
    finally:
        process.terminate()
        process.wait(DEADLINE)
        reader.join(DEADLINE)
        process.stdout.close()


def test_the_tour(tmp_path: Path) -> None:
    with shown(tmp_path) as lines:
        found = dict(re.findall(r"(\w+) :(\d+)", "".join(lines)))
        ports = {known: found[name] for known, name in zip(PORTS, TREE, strict=True)}
        for step in steps():
            command = re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda port: ports[port[0]], step.command)
            done = subprocess.run(
                command, shell=True, check=False, text=True, timeout=DEADLINE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "PALIO_SERVER": f"palio://127.0.0.1:{ports['7400']}",
                },
            )  # fmt: skip
            assert list(map(in_substance, done.stdout.splitlines())) == list(map(in_substance, step.expected)), step
            assert done.returncode == any(line.startswith("Error") for line in step.expected), step
        for line in (line for block in blocks("text") for line in block):
            wait_for(lambda line=line: f"{line}\n" in list(lines))  # type: ignore[misc]


def test_there_is_a_tour() -> None:
    assert len(steps()) >= 6
    assert blocks("text")
    assert any("palio sub" in step.command and len(step.expected) > 1 for step in steps())


def test_substance_is_more_than_form() -> None:
    one, other = 'change = 0.04; lit = true; symbol = "DIS"', 'change = -4; lit = false; symbol = "DIS"'
    assert in_substance(one) == in_substance(other)
    assert in_substance(one) != in_substance(one.replace("DIS", "MSFT"))
    assert in_substance(one) != in_substance(one.replace("change", "price"))
