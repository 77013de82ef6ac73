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

from palio import Constraint, Filter, Notification
from palio.codec import msgpack
from palio.errors import FileFormatError, PalioError
from palio.matching import FilterIndex
from tests.matching.index_files import ENTRIES, PREDICATES, IndexFile
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
        rows, ids, *_ = index.match_batch(body_batch(notifications), bodies="body")
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


NEEDLE = "a needle of more than thirty-two bytes"
FAR = 2**32 - 16
"""An offset to which 32 can be added without leaving the literals, if only 32 bits of the sum are kept."""


def far_literal(file: IndexFile) -> None:
    file.set_word(file.record(0), PREDICATES + 8, FAR)
    file.set_word(file.record(0), PREDICATES + 12, 32)


def far_literal_of_a_group(file: IndexFile) -> None:
    file.set_word(file.first_partition(file.root), 8 + 8, FAR)


def short_wide_interval(file: IndexFile) -> None:
    file.set_word(file.record(0), PREDICATES + 12, 8)


def unknown_slot(file: IndexFile) -> None:
    file.set_word(file.root, ENTRIES, 2**32 - 1)


def empty_chunk_before_itself(file: IndexFile) -> None:
    first = file.word(file.last_chunk(file.root), 8)
    file.set_word(first, 8, first)
    file.set_word(first, 16, 0)


def chunk_before_itself(file: IndexFile) -> None:
    first = file.word(file.last_chunk(file.root), 8)
    file.set_word(first, 8, first)


def first_digest(file: IndexFile) -> int:
    digest = file.word(file.word(file.last_chunk(file.root), 8), 20)
    assert digest
    return digest


def digest_beyond_the_end(file: IndexFile) -> None:
    file.set_word(file.word(file.last_chunk(file.root), 8), 20, 2**32 - 1)


def digest_of_all_names(file: IndexFile) -> None:
    file.set_word(first_digest(file), 0, 2**32 - 1)


def digest_of_all_parts(file: IndexFile) -> None:
    file.set_word(first_digest(file), 4, 2**32 - 1)


def digest_of_all_values(file: IndexFile) -> None:
    file.set_word(first_digest(file), 8, 2**32 - 1)


def digest_of_fewer_values(file: IndexFile) -> None:
    file.set_word(first_digest(file), 8, 0)


FIRST_PART = 32 + 16
"""Of a digest with one outline: a name, a form, eight bytes of sizes, the longest, and an end."""


def digest_of_another_form(file: IndexFile) -> None:
    file.set_word(first_digest(file), FIRST_PART + 4, 3)


def digest_of_no_size(file: IndexFile) -> None:
    file.set_word(first_digest(file), FIRST_PART + 16, 0)


def digest_of_a_size_beyond_all(file: IndexFile) -> None:
    file.set_word(first_digest(file), FIRST_PART + 16, 4097)


def digest_of_more_parts_than_it_has(file: IndexFile) -> None:
    file.set_word(first_digest(file), FIRST_PART + 24, 193)


def part_of_another_form(file: IndexFile) -> None:
    """Of the first entry, in its first unit: the upper bits of its last word say the form."""
    first = file.word(file.last_chunk(file.root), 8)
    file.set_word(first, 20, 0)  # without a digest the entry is looked at
    file.set_word(first, 32 + 64 * 4 + 8, 3 << 30 | 6)


def group_above_itself(file: IndexFile) -> None:
    file.set_word(file.first_partition(file.root), 0, file.root)


def buckets_before_themselves(file: IndexFile) -> None:
    found = list(file.overflows())
    assert found
    for ref in found:
        file.set_word(ref, 60, ref)


def partitions_beyond_the_end(file: IndexFile) -> None:
    file.set_word(file.root, 20, 2**32 - 1)


MANY = Notification({f"n{number}": 1 for number in range(500)})
NEVER_PREFIX = Filter([Constraint("x", "!>*", NEEDLE)])
LACKING = [Filter([Constraint("x", "!*", f"part{number:04}")]) for number in range(200)]
UNEQUAL = [Filter([Constraint("x", "!=", number)]) for number in range(200)]
LIES: list[tuple[Callable[[IndexFile], None], list[Filter], Notification]] = [
    (far_literal, [Filter([Constraint("x", "*", NEEDLE)])], Notification(x=NEEDLE * 2)),
    (far_literal_of_a_group, [NEVER_PREFIX] * 40, Notification(x="-" * 40)),
    (short_wide_interval, [Filter([Constraint("x", "<=", 2**60)])], Notification(x=1)),
    (unknown_slot, [Filter([Constraint("x", "=", "a")])], Notification(x="a")),
    (unknown_slot, [Filter()], Notification()),
    (empty_chunk_before_itself, [Filter()] * 200, Notification()),
    (chunk_before_itself, [Filter()] * 200, Notification()),
    (digest_beyond_the_end, UNEQUAL, Notification(x=-1)),
    (digest_of_all_names, UNEQUAL, Notification(x=-1)),
    (digest_of_all_values, UNEQUAL, Notification(x=-1)),
    (digest_of_fewer_values, UNEQUAL, Notification(x=-1)),
    (digest_of_all_parts, LACKING, Notification(x="text")),
    (digest_of_another_form, LACKING, Notification(x="text")),
    (digest_of_no_size, LACKING, Notification(x="text")),
    (digest_of_a_size_beyond_all, LACKING, Notification(x="text")),
    (digest_of_more_parts_than_it_has, LACKING, Notification(x="text")),
    (part_of_another_form, LACKING, Notification(x="text")),
    (group_above_itself, [NEVER_PREFIX] * 40, Notification(x="-")),
    (buckets_before_themselves, [Filter([Constraint(f"n{i}", "any")]) for i in range(500)], MANY),
    (partitions_beyond_the_end, [NEVER_PREFIX] * 40, Notification(x="-")),
]


def lies(folder: Path, seed: int, count: int) -> Iterator[str]:
    """Files whose sums are right, each with one reference that leads astray."""
    path = folder / "lie"
    for lie, filters, notification in LIES:
        index = FilterIndex([*filters, Filter()])
        index.remove(len(filters))  # so that ids have generations, which are looked up
        file = IndexFile(index.dumps())
        lie(file)
        path.write_bytes(file.sealed())
        opened = FilterIndex.open(path)
        try:
            check_ids(opened.match(notification))
        except FileFormatError:
            yield f"{lie.__name__}:failed"
        else:
            yield f"{lie.__name__}:answered"
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
    "lies": lies,
    "overwritten": overwritten,
    "digest": digest,
}

if __name__ == "__main__":
    faulthandler.enable()
    task, folder, seed, count = sys.argv[1:]
    for line in TASKS[task](Path(folder), int(seed), int(count)):
        print(line)
