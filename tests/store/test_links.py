"""Links and pipes that others have put in the place of a store's files: what they point to stays as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palio.store import Store
from palio.store.errors import StorePathError


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    made = tmp_path / "victim"
    made.write_text("precious")
    made.chmod(0o644)
    return made


def test_a_link_in_place_of_the_lock(tmp_path: Path, victim: Path) -> None:
    lock = tmp_path / "rome.db.lock"
    for target in (victim, tmp_path / "not-there"):
        lock.symlink_to(target)
        with pytest.raises(StorePathError, match=r"rome\.db\.lock is a link; remove it"):
            Store.open(tmp_path / "rome.db", name="rome")
        lock.unlink()
    assert victim.read_text() == "precious"
    assert not (tmp_path / "not-there").exists()
    os.mkfifo(lock)
    with pytest.raises(StorePathError, match="is no plain file"):
        Store.open(tmp_path / "rome.db", name="rome")


@pytest.mark.parametrize("suffix", [".witness", ".witness.building", ".building", ".suspect.building"])
def test_links_in_place_of_other_files(tmp_path: Path, victim: Path, suffix: str) -> None:
    (tmp_path / f"rome.db{suffix}").symlink_to(victim)
    with Store.open(tmp_path / "rome.db", name="rome"):
        pass
    assert victim.read_text() == "precious"


def test_all_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Store.open(tmp_path / "rome.db", name="rome"):
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert len(modes) >= 4
    assert set(modes.values()) == {0o600}, modes
