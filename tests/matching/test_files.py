"""Files of indexes: kept faithfully, the same for the same operations, and harmless whatever is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from palio import Constraint, Filter, Limits, Notification
from palio.errors import CallerError, FileFormatError, PalioError, PeerError, ReadOnlyError
from palio.matching import FilterIndex
from tests.matching.index_files import IndexFile
from tests.matching.populations import TEMPLATES, events, population
from tests.matching.strategies import examples
from tests.matching.twins import Twins

ROOT = Path(__file__).parents[2]
DEADLINE = 300
EFFORT = examples(200).max_examples // 2  # 1 usually, 50 in a soak


def run_worker(task: str, folder: Path, seed: int, count: int, **environment: str) -> list[str]:
    """The lines that a task prints. A crash or a hang is reported with what the process said last."""
    command = [sys.executable, "-m", "tests.matching.file_worker", task, str(folder), str(seed), str(count)]
    printed = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE * EFFORT,
        check=False,
    )
    assert printed.returncode == 0, f"{task} {seed} ended with {printed.returncode}:\n{printed.stderr[-4000:]}"
    return printed.stdout.split()


SMALL = [Filter.parse('event = "alarm" and level > 3'), Filter.parse('x * "needle"'), Filter(), Filter.parse("x any")]


@pytest.fixture
def small() -> bytes:
    return FilterIndex(SMALL).dumps()


@pytest.fixture
def large() -> bytes:
    return FilterIndex(population(Random(1), "mixture", 1500)).dumps()


# -- kept faithfully ---------------------------------------------------------------------------------------------------


def test_dump_writes_what_dumps_returns(tmp_path):
    index = FilterIndex(SMALL)
    path = tmp_path / "index"
    index.dump(path)
    assert type(index.dumps()) is bytes
    assert path.read_bytes() == index.dumps()
    index.dump(str(path))
    assert path.read_bytes() == index.dumps()
    assert [each.name for each in tmp_path.iterdir()] == ["index"]


def test_a_dump_is_a_copy(tmp_path):
    """What happens to the index afterwards does not reach the file."""
    index = FilterIndex()
    first, second = index.add_many([Filter(), Filter()])
    index.dump(tmp_path / "index")
    opened = FilterIndex.open(tmp_path / "index")
    index.remove(first)
    index.add(Filter())
    for each in (opened, FilterIndex.open(tmp_path / "index")):
        assert each.match(Notification()) == [first, second]


def test_opening_twice(tmp_path):
    twins = Twins(population(Random(2), "mixture", 300))
    notifications = events(Random(2), list(twins.scan._filters.values()), 20)
    one, two = twins.reopened(tmp_path / "index"), FilterIndex.open(tmp_path / "index")
    twins.check(notifications, one)
    del one
    twins.check(notifications, two)


def test_the_file_was_deleted(tmp_path):
    twins = Twins(population(Random(3), "mixture", 300))
    notifications = events(Random(3), list(twins.scan._filters.values()), 20)
    opened = twins.reopened(tmp_path / "index")
    (tmp_path / "index").unlink()
    twins.check(notifications, opened)


def test_an_opened_index_is_read_only(tmp_path):
    index = FilterIndex()
    id = index.add(Filter())
    index.dump(tmp_path / "index")
    before = (tmp_path / "index").read_bytes()
    opened = FilterIndex.open(tmp_path / "index")
    for change in (
        lambda: opened.add(Filter()),
        lambda: opened.add_many([Filter()]),
        lambda: opened.remove(id),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            change()
        assert isinstance(caught.value, CallerError)
    assert opened.match(Notification()) == [id]
    assert (tmp_path / "index").read_bytes() == before


def test_a_file_that_may_not_be_written(tmp_path):
    path = tmp_path / "index"
    FilterIndex(SMALL).dump(path)
    path.chmod(0o400)
    assert FilterIndex.open(path).match_any(Notification())


def test_the_largest_names_and_literals_are_kept(tmp_path):
    limits = Limits(name_bytes=100_000, literal_bytes=100_000)
    name, literal = "n" * 100_000, "é" * 50_000
    index = FilterIndex([Filter([Constraint(name, "*", literal)])], limits=limits)
    index.dump(tmp_path / "index")
    opened = FilterIndex.open(tmp_path / "index", limits=limits)
    assert opened.match_any(Notification({name: f"a{literal}b"}))
    assert not opened.match_any(Notification({name: literal[1:]}))


def test_dumping_over_an_opened_file(tmp_path):
    """The opened index goes on with what it had; in place, the file would change or vanish under it."""
    assert set(run_worker("overwritten", tmp_path, 4, 20)) == {"answered"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(EFFORT))
def test_the_same_operations_give_the_same_bytes(tmp_path, seed):
    """Under any seed of Python's hashes, and twice in one process."""
    first = run_worker("digest", tmp_path, seed, 4, PYTHONHASHSEED="1")
    second = run_worker("digest", tmp_path, seed, 4, PYTHONHASHSEED="2")
    assert first == second
    assert len(set(first)) == 4


@pytest.mark.parametrize("template", sorted(TEMPLATES)[::7])
def test_the_same_operations_give_the_same_bytes_in_one_process(template):
    def build() -> bytes:
        index = FilterIndex()
        ids = index.add_many(population(Random(5), template, 200))
        for id in ids[::3]:
            index.remove(id)
        return index.dumps()

    first, unrelated, second = build(), FilterIndex(population(Random(6), template, 50)), build()
    assert first == second != unrelated.dumps()


def test_a_file_tells_what_the_index_is_made_of(tmp_path):
    index = FilterIndex(population(Random(7), "mixture", 300))
    index.dump(tmp_path / "index")
    told, known = FilterIndex.open(tmp_path / "index").stats(), index.stats()
    assert any(known.partitions.values())
    assert (told.filters, told.names, told.nodes, told.partitions) == known[:4]


def test_a_dump_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        FilterIndex(SMALL).dump(tmp_path / "folder")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


# -- what is no such file ----------------------------------------------------------------------------------------------


def refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(FileFormatError) as caught:
        FilterIndex.open(path)
    assert isinstance(caught.value, PeerError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value)
    path.unlink()


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        FilterIndex.open(tmp_path / "missing")
    with pytest.raises((OSError, PalioError)):
        FilterIndex.open(tmp_path)
    with pytest.raises(OSError):
        FilterIndex().dump(tmp_path / "missing" / "index")


@pytest.mark.parametrize("wrong", [None, 5.5, ["index"], Filter()], ids=repr)
def test_paths_that_are_none(wrong):
    with pytest.raises((CallerError, TypeError)):
        FilterIndex.open(wrong)
    with pytest.raises((CallerError, TypeError)):
        FilterIndex().dump(wrong)


FOREIGN: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "one byte": lambda: b"\0",
    "zeros": lambda: bytes(65_536),
    "ones": lambda: b"\xff" * 65_536,
    "text": lambda: b"event = alarm\n" * 1000,
    "random": lambda: Random(9).randbytes(65_536),
    "encoded notification": lambda: bytes.fromhex("920182a56576656e74a5616c61726da56c6576656c05"),
    "arrow": lambda: (
        pa.ipc.new_file(sink := pa.BufferOutputStream(), pa.schema([("x", pa.int64())])).close()
        or sink.getvalue().to_pybytes()
    ),
    "this program": lambda: Path(__file__).read_bytes(),
    "a library": lambda: Path(sys.executable).read_bytes()[:200_000],
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(tmp_path, kind):
    refused(tmp_path / "index", FOREIGN[kind]())


@pytest.mark.slow
def test_files_cut_anywhere(tmp_path):
    """In a process of its own: what is mapped beyond the end of a file ends the process that reads it."""
    outcomes = run_worker("cuts", tmp_path, 1, 1)
    assert len(outcomes) > 500
    assert set(outcomes) == {"refused"}


def test_every_bit_of_the_magic(tmp_path, small):
    """Whatever the first eight bytes are, they are what tells such files from others."""
    for bit in range(64):
        changed = bytearray(small)
        changed[bit // 8] ^= 1 << bit % 8
        refused(tmp_path / "index", bytes(changed))


@pytest.mark.parametrize("word", [2, 4, 8])
def test_the_other_byte_order(tmp_path, small, word):
    """As a machine of the other byte order would have written the numbers, with the magic as it is or swapped."""
    small += bytes(-len(small) % word)
    swapped = b"".join(small[place : place + word][::-1] for place in range(0, len(small), word))
    refused(tmp_path / "index", swapped)
    refused(tmp_path / "index", small[:8] + swapped[8:])


def test_bodies_without_a_header(tmp_path, large):
    for size in (8, 16, 32, 64, 128):
        refused(tmp_path / "index", large[size:])


def test_files_that_grew(tmp_path, small):
    """Refused, or read as they were; the bytes at the end are nobody's."""
    path = tmp_path / "index"
    expected = FilterIndex(SMALL).match(Notification(x="a needle"))
    for extra in (b"\0", bytes(16), bytes(4096), b"\xff" * 5000, small):
        path.write_bytes(small + extra)
        with suppress(FileFormatError):
            assert FilterIndex.open(path).match(Notification(x="a needle")) == expected
        path.unlink()


CONTRADICTIONS: dict[str, Callable[[IndexFile], None]] = {
    "another version": lambda file: file.set_header("version", 3),
    "another byte order": lambda file: file.set_header("byte_order", 0x04030201),
    "another size": lambda file: file.set_header("file_size", len(file.data) + 4096),
    "arena between pages": lambda file: file.set_header("arena_offset", file.header("arena_offset") + 8),
    "arena beyond the end": lambda file: file.set_header("arena_size", len(file.data)),
    "arena of all memory": lambda file: file.set_header("arena_size", 2**64 - 1),
    "table between pages": lambda file: file.set_header("table_offset", file.header("table_offset") + 8),
    "table beyond the end": lambda file: file.set_header("table_offset", len(file.data) + 4096),
    "table of all memory": lambda file: file.set_header("buckets", 2**58),
    "table without buckets": lambda file: file.set_header("buckets", 0),
    "fewer buckets than the mask reaches": lambda file: file.set_header("mask", 4 * file.header("mask") + 3),
    "mask with a gap": lambda file: file.set_header("mask", file.header("mask") - 1),
    "mask of more than a hash": lambda file: file.set_header("mask", 2**64 - 1),
    "directory between pages": lambda file: file.set_header("directory_offset", file.header("directory_offset") + 8),
    "directory of all memory": lambda file: file.set_header("slots", 2**61),
    "more filters than places": lambda file: file.set_header("filters", file.header("slots") + 1),
    "more nodes than memory": lambda file: file.set_header("nodes", file.header("arena_size") // 16 + 1),
    "root beyond all references": lambda file: file.set_header("root", 2**32 + file.header("root")),
}


@pytest.mark.parametrize("contradiction", CONTRADICTIONS)
def test_headers_that_add_up_but_contradict_themselves(tmp_path, large, contradiction):
    """The sum over a header keeps accidents out; whoever means harm gets it right."""
    assert IndexFile(large).sealed() == large
    file = IndexFile(large)
    CONTRADICTIONS[contradiction](file)
    refused(tmp_path / "index", file.sealed())


def test_contents_that_lead_astray(tmp_path):
    """References out of the file, round in circles, and beyond what belongs to them."""
    outcomes = run_worker("lies", tmp_path, 0, 1)
    assert len(outcomes) == 20
    assert all(outcome.endswith(":failed") for outcome in outcomes), outcomes


@pytest.mark.parametrize("part", ["arena", "table", "directory"])
def test_verifying_finds_what_opening_does_not(tmp_path, large, part):
    path = tmp_path / "index"
    path.write_bytes(large)
    FilterIndex.open(path, verify=True)
    data = bytearray(large)
    data[IndexFile(large).header(f"{part}_offset") + 40] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    FilterIndex.open(damaged)
    with pytest.raises(FileFormatError, match="checksum"):
        FilterIndex.open(damaged, verify=True)


@pytest.mark.slow
def test_pieces_of_files(tmp_path):
    """Headers before nothing but zeros, and the beginning of one index before the rest of another."""
    outcomes = run_worker("pieces", tmp_path, 8, 1)
    assert len(outcomes) > 50
    assert set(outcomes) <= {"refused", "failed", "answered"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100 * worker + run for worker in range(4) for run in range(EFFORT)])
def test_damaged_files(tmp_path, seed):
    """Thousands of files with damage anywhere: a typed error or numbers, never a crash, a hang or another error."""
    outcomes = run_worker("flips", tmp_path, seed, 1000)
    assert len(outcomes) == 1000
    assert set(outcomes) <= {"refused", "failed", "answered"}
    assert "refused" in outcomes


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_may_read_a_file_is_for_its_writer_to_say(tmp_path, mask, mode):
    usual = os.umask(mask)
    try:
        FilterIndex(SMALL).dump(tmp_path / "index")
    finally:
        os.umask(usual)
    assert (tmp_path / "index").stat().st_mode & 0o777 == mode


def test_nothing_of_a_filter_that_went_is_in_a_file():
    index = FilterIndex(SMALL)
    index.remove(index.add(Filter((Constraint("a name that goes", "=", "a text that goes"),))))
    assert b"that goes" not in index.dumps()
