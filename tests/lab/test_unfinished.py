"""Files of a sweep, and histories, are not written through links that others have left under their names."""

from __future__ import annotations

import os
from pathlib import Path

from palio.lab.work import _appearing
from palio.sim.histories import stored


class _History:
    def to_json(self) -> bytes:
        return b"{}"


def test_an_unfinished_file_is_a_new_one(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "results" / "run.parquet"
    victim.write_text("precious")
    path.parent.mkdir()
    (path.parent / f".{path.name}.{os.getpid()}").symlink_to(victim)
    with _appearing(path) as unfinished:
        unfinished.write_text("figures")
    assert path.read_text() == "figures"
    assert victim.read_text() == "precious"


def test_a_history_is_a_new_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "case.json").symlink_to(victim)
    stored.write(_History(), tmp_path, "case")  # type: ignore[arg-type]
    assert (tmp_path / "case.json").read_bytes() == b"{}\n"
    assert victim.read_text() == "precious"
