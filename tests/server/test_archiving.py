"""A server with an archive: all that is published there is in it, and the log is trimmed behind it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from palio.archive.reading import notifications
from palio.server.config import ConfigError, read_config
from tests.serving import Raw, run, serving, until


@pytest.mark.slow
def test_everything_that_is_published_is_archived_once_also_if_the_archiver_dies(tmp_path: Path) -> None:
    tables = {
        "store": {"path": str(tmp_path / "milan.db")},
        "archive": {"path": str(tmp_path / "archive"), "seconds": 0.1},
    }

    def archived() -> list[object]:
        folder = tmp_path / "archive"
        return [each["x"] for each in notifications(folder)] if folder.exists() else []

    async def story() -> None:
        for life in range(2):
            async with serving(**tables) as server:
                adam = await Raw.party(server, "adam")
                for number in range(50):
                    adam.publish(number + 1, x=50 * life + number)
                while await adam.until(int) < 50:
                    pass
                await until(lambda least=25 + 50 * life: len(archived()) >= least)  # type: ignore[misc]
                assert server.archiving is not None
                await until(lambda: server.archiving is not None and server.archiving.position > 0)
                if not life:
                    for pid in children():
                        os.kill(pid, signal.SIGKILL)
                    await until(children)
        assert archived() == list(range(100))

    def running() -> set[int]:
        return {int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}

    def children() -> set[int]:
        return running() - others

    others = running()  # such as that of Spark, which tests before have started
    run(story(), 60)


def test_an_archive_needs_a_store() -> None:
    with pytest.raises(ConfigError, match="archive: there is no store"):
        read_config('server = "milan"\n[archive]\npath = "a"')
