"""Random histories of a store with a power loss at any moment of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw

from palio.store import Batch, Reader, Store
from tests.store.power import Disk, Operation, recording

NAME = "rome.db"
Content = tuple[dict[bytes, bytes], dict[int, bytes], int, int]


class Story:
    """A store that is written, closed and opened, and what has to be there at each moment of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._path = folder / NAME
        self.contents: list[Content] = [({}, {}, 0, 0)]
        """After each commit."""
        self.promises: list[tuple[int, int]] = []
        """From a place in the journal on: so many commits are safe."""
        self.begun: list[tuple[int, int]] = []
        """From a place in the journal on: so many commits may be there."""
        self.synced: list[tuple[int, int]] = []
        """From a place in the journal on: readers were told that entries before this position are safe."""
        with recording() as self.journal:
            self._play()

    def _play(self) -> None:
        random = self._random
        store = Store.open(self._path, name="rome", incarnation=7)
        self.opened = len(self.journal)
        for _ in range(random.randrange(5, 25)):
            batches = [self._batch() for _ in range(random.choice((1, 1, 3)))]
            self.begun.append((len(self.journal), len(self.contents) - 1))
            store.commit(batches, then_tidy=random.random() < 0.7)
            self.synced.append((len(self.journal), self._told()))
            if any(each.is_synced for each in batches):
                self.promises.append((len(self.journal), len(self.contents) - 1))
            if random.random() < 0.15:
                store._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
            if random.random() < 0.1:
                store.close()
                self.promises.append((len(self.journal), len(self.contents) - 1))
                store = Store.open(self._path, name="rome", incarnation=8)
        store.close()
        self.promises.append((len(self.journal), len(self.contents) - 1))

    def _told(self) -> int:
        with Reader.open(self._path) as reader:
            return reader.synced

    def _batch(self) -> Batch:
        random = self._random
        state, log, first, behind = self.contents[-1]
        records = {
            b"%d" % random.randrange(60): random.randbytes(random.choice((0, 20, 20, 4_000))) or None
            for _ in range(random.randrange(6))
        }
        entries = [
            (behind + each, random.randbytes(random.choice((1, 300, 300, 20_000))))
            for each in range(random.randrange(3))
        ]
        behind += len(entries)
        trim = random.choice((None, None, random.randrange(behind + 1)))
        state = {key: value for key, value in {**state, **records}.items() if value is not None}
        first = max(first, trim or 0)
        log = {position: value for position, value in {**log, **dict(entries)}.items() if position >= first}
        self.contents.append((state, log, first, behind))
        return Batch(list(records.items()), entries, trim, random.random() < 0.6)

    def judge(self, place: int, folder: Path) -> None:
        """What is found after a power loss at some place of the journal."""
        least = max((count for begin, count in self.promises if begin <= place), default=0)
        most = max((count for begin, count in self.begun if begin <= place), default=0)
        with Store.open(folder / NAME, name="rome", incarnation=9) as store:
            assert store.damage == [], [str(each) for each in store.damage]
            if place >= self.opened:
                assert store.incarnation == 7
            assert store.next >= max((position for begin, position in self.synced if begin <= place), default=0)
            log = dict(store.read(0, 1 << 40, 1 << 40))
            found = dict(store.records()), log, store.first, store.next
            assert store.check().damage == []
        assert found in self.contents[least : most + 1], (least, most)
        assert not [each for each in folder.iterdir() if ".damaged" in each.name]


def play(folder: Path, seed: int, losses: int, leave_out: Operation | None = None) -> None:
    """One story with so many power losses, in which certain operations may be left out."""
    folder.mkdir()
    story = Story(folder, seed)
    story.journal = [("nothing",) if each == leave_out else each for each in story.journal]
    random = Random(seed)
    places = sorted(random.randrange(len(story.journal) + 1) for _ in range(losses))
    for index, place, target in walk(story.journal, places, folder / "found", Disk(), random):
        try:
            story.judge(place, target)
        except Exception as error:
            error.add_note(f"seed {seed}, loss {index} at {place} of {len(story.journal)}")
            raise
        shutil.rmtree(target)
    shutil.rmtree(folder)


def walk(
    journal: list[Operation], places: list[int], target: Path, disk: Disk, random: Random
) -> Iterator[tuple[int, int, Path]]:
    """What power losses at these places of a journal leave."""
    done = 0
    for index, place in enumerate(places):
        for operation in journal[done:place]:
            disk.do(operation)
        done = place
        disk.lose_power(target, random)
        yield index, place, target
