"""What the tests of files do in a process of their own, so that a crash is a failed test and not the end of all.

    python -m tests.matching.file_worker <task> <folder> <seed> <count>

Each task prints what it found; anything wrong is an exception. The damaged file of the moment stays in the folder.
"""

from __future__ import annotations

import faulthandler
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from palio import Filter, Notification
from palio.codec import msgpack
from palio.errors import FileFormatError, PalioError
from palio.matching import FilterIndex
from tests.matching.populations import events, population
from tests.matching.twins import body_batch

INTERESTING = [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF]


def built(seed: int, size: int) -> tuple[FilterIndex, list[Notification]]:
    """An index after adds and removes, and events for it."""
    random = Random(seed)
    filters: list[Filter] = []
    index = FilterIndex()
    ids: list[int] = []
    for template in ("mixture", "distinct_strings", "wide_integer", "short_needles", "long_conjunctions", "anything"):
        group = population(random, template, size // 6)
        ids += index.add_many(group)
        filters += group
    for id in random.sample(ids, len(ids) // 4):
        index.remove(id)
    for filter in random.sample(filters, len(filters) // 8):
        index.add(filter)
    return index, events(random, filters, 12)


def damaged(random: Random, whole: bytes) -> bytes:
    """The file with a flipped bit, bytes overwritten, or a piece moved."""
    data = bytearray(whole)
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        size = min(random.choice([1, 1, 2, 4, 8, 16]), len(data))
        # Half of the damage goes to the beginning, where headers and directories are.
        place = random.randrange(min(len(data), 4096) if random.random() < 0.5 else len(data))
        place = min(place, len(data) - size)
        match random.randrange(5):
            case 0:
                data[place] ^= 1 << random.randrange(8)
            case 1:
                data[place : place + size] = random.randbytes(size)
            case 2:
                data[place : place + size] = bytes([random.choice(INTERESTING)]) * size
            case 3:
                number = int.from_bytes(data[place : place + size], "little") + random.choice([-16, -1, 1, 16])
                data[place : place + size] = (number % 256**size).to_bytes(size, "little")
            case 4:
                other = random.randrange(len(data) - size + 1)
                data[place : place + size] = data[other : other + size]
    return bytes(data)


def try_file(path: Path, notifications: list[Notification]) -> str:
    """Open a doubtful file and ask it everything: typed errors are fine, and so are numbers, right or wrong."""
    try:
        index = FilterIndex.open(path)
    except FileFormatError:
        return "refused"
    try:
        for notification in notifications:
            check_ids(index.match(notification))
            assert type(index.match_any(notification)) is bool
            check_ids(index.match_encoded(msgpack.encode(notification)))
        rows, ids, _ = index.match_batch(body_batch(notifications), bodies="body")
        check_ids(list(rows))
        check_ids(list(ids))
        check_ids(list(index.match_counts(body_batch(notifications), bodies="body")))
        assert len(index) >= 0
        assert type(0 in index) is bool
        assert type(index.dumps()) is bytes
        assert index.stats() is not None
        assert type(index.memory_usage()) is int
    except PalioError:
        return "failed"
    return "answered"


def check_ids(ids: object) -> None:
    assert type(ids) is list
    assert all(type(id) is int and id >= 0 for id in ids)


def flips(folder: Path, seed: int, count: int) -> Iterator[str]:
    """Damage a file in so many ways."""
    index, notifications = built(seed, 120)
    whole = index.dumps()
    random = Random(seed)
    path = folder / "damaged"
    for _ in range(count):
        path.write_bytes(damaged(random, whole))
        yield try_file(path, notifications[:4])
        path.unlink()  # never change a file that may still be mapped


def cuts(folder: Path, seed: int, count: int) -> Iterator[str]:
    """Cut a small file almost everywhere, and a large one where an end is likely."""
    path = folder / "cut"
    for number in range(count):
        (one, notifications), (other, _) = built(seed + number, 12), built(seed + number, 1500)
        small, large = one.dumps(), other.dumps()
        places = {*range(0, len(small), max(1, len(small) // 1500)), *range(300), *range(len(small) - 64, len(small))}
        boundaries = {unit * number for unit in (64, 512, 4096, 65_536) for number in range(20)} | {len(large)}
        boundaries |= {len(large) * part // 16 for part in range(16)} | {len(large) // 4096 * 4096}
        edges = {place + d for place in boundaries for d in (-1, 0, 1)}
        for whole, sizes in ((small, places), (large, edges)):
            for size in sorted(size for size in sizes if 0 <= size < len(whole)):
                path.write_bytes(whole[:size])
                yield try_file(path, notifications)
                path.unlink()


def pieces(folder: Path, seed: int, count: int) -> Iterator[str]:
    """Put files together from the beginning of one and the rest of another, or of nothing."""
    path = folder / "pieces"
    for number in range(count):
        (one, notifications), (other, _) = built(seed + number, 60), built(seed + number, 600)
        small, large = one.dumps(), other.dumps()
        for place in (8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 1024, 4096, len(small) // 2, len(small) - 16):
            for data in (
                small[:place] + large[place:],
                large[:place] + small[place:],
                small[:place] + bytes(len(small) - place),
                large[:place] + b"\xff" * (len(large) - place),
            ):
                path.write_bytes(data)
                yield try_file(path, notifications)
                path.unlink()


def overwritten(folder: Path, seed: int, count: int) -> Iterator[str]:
    """Write an index to the file that another one is opened from."""
    index, notifications = built(seed, 300)
    path = folder / "index"
    index.dump(path)
    opened = FilterIndex.open(path)
    before = [opened.match(notification) for notification in notifications]
    FilterIndex().dump(path)
    for _ in range(count):
        assert [opened.match(notification) for notification in notifications] == before
        yield "answered"
    assert len(FilterIndex.open(path)) == 0


def digest(folder: Path, seed: int, count: int) -> Iterator[str]:
    """What the bytes of an index are, after a fixed sequence of operations."""
    for number in range(count):
        index, notifications = built(seed + number, 400)
        for notification in notifications:
            index.match(notification)
        yield hashlib.sha256(index.dumps()).hexdigest()


TASKS: dict[str, Callable[[Path, int, int], Iterator[str]]] = {
    "flips": flips,
    "cuts": cuts,
    "pieces": pieces,
    "overwritten": overwritten,
    "digest": digest,
}

if __name__ == "__main__":
    faulthandler.enable()
    task, folder, seed, count = sys.argv[1:]
    for line in TASKS[task](Path(folder), int(seed), int(count)):
        print(line)
