"""An archive belongs to its owner alone, whatever the umask says, and writes nothing through links."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from palio.archive.archiver import Archiver
from palio.archive.compaction import compact
from palio.archive.disk import Disk
from palio.archive.errors import ArchiveError
from palio.archive.progress import FILE
from palio.archive.settings import ArchiveSettings
from tests.archive.logs import ListedLog, in_entries, some


def archive(folder: Path, count: int = 20) -> None:
    with Archiver(ListedLog(in_entries(some(count))), Disk(folder), ArchiveSettings(rows=5)) as archiver:
        while archiver.step():
            pass
        archiver.write()


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        archive(tmp_path / "above" / "archive")
        compact(Disk(tmp_path / "above" / "archive"), ArchiveSettings())
    finally:
        os.umask(before)
    found = list((tmp_path / "above").rglob("*"))
    assert any(path.suffix == ".parquet" for path in found)
    for path in (tmp_path / "above", *found):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive").chmod(0o750)
    archive(tmp_path / "archive")
    assert stat.S_IMODE((tmp_path / "archive").stat().st_mode) == 0o750


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "archive"
    victim.write_text("precious")
    archive(tmp_path / "other")
    names = [path.name for path in (tmp_path / "other").iterdir() if path.is_file()]
    folder.mkdir()
    locks = [name for name in names if "lock" in name]
    assert locks
    for name in locks:
        (folder / name).symlink_to(victim)
        with pytest.raises(ArchiveError, match="is a link; remove it"):
            archive(folder)
        (folder / name).unlink()
    (folder / f".{FILE}").symlink_to(victim)  # where the new progress is written
    archive(folder)
    disk = Disk(folder)
    (folder / ".new").symlink_to(victim)
    disk.create(".new", lambda file: file.write(b"x") and None)
    assert (folder / ".new").read_bytes() == b"x"
    assert victim.read_text() == "precious"
