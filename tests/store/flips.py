"""Damage done to the files of a store at random places, and what has to come of it.

A store may say that it is damaged, and then names what it lost and keeps the damaged files as they are; or everything
in it is as it was written. Anything else is a failure.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw

from palio.store import Batch, FailedStoreError, Kind, Store, files

NAME = "rome.db"
FILES = (NAME, f"{NAME}-wal", f"{NAME}.witness")


@dataclass
class History:
    """All that was ever written to a store, and what is there at the end."""

    state: dict[bytes, bytes] = field(default_factory=dict)
    ever: dict[bytes, set[bytes | None]] = field(default_factory=dict)
    log: dict[int, bytes] = field(default_factory=dict)
    first: int = 0
    incarnation: int = 1_000

    def write(self, batch: Batch) -> Batch:
        for key, value in batch.records:
            self.ever.setdefault(key, {None}).add(value)
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self.log.update(batch.entries)
        self.first = max(self.first, batch.trim or 0)
        return batch


def make(folder: Path, seed: int, *, is_closed: bool) -> History:
    """A store in a folder, closed in good order or as a process leaves it that is killed."""
    random, history = Random(seed), History()
    work = folder.with_name(folder.name + "-work")
    work.mkdir()
    folder.mkdir()
    store = Store.open(work / NAME, name="rome", incarnation=history.incarnation)
    if random.random() < 0.3:  # a store that has survived something, and remembers it
        store.close()
        files.beside(work / NAME, ".witness").unlink()
        store = Store.open(work / NAME, name="rome", incarnation=0)
        history.incarnation = store.incarnation
    for _ in range(random.randrange(3, 40)):
        next_position = len(history.log)
        records = [
            (b"key/%d" % random.randrange(400), random.randbytes(random.choice((0, 10, 100, 100, 3_000))) or None)
            for _ in range(random.randrange(20))
        ]
        entries = [
            (next_position + each, random.randbytes(random.choice((1, 200, 200, 9_000, 60_000))))
            for each in range(random.randrange(4))
        ]
        trim = random.choice((None, None, None, max(0, next_position - 30)))
        store.commit([history.write(Batch(records, entries, trim))])
        if random.random() < 0.05:
            store._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
    if is_closed:
        store.close()
    for each in FILES:
        if (work / each).exists():
            shutil.copy(work / each, folder / each)
    if not is_closed:
        store.close()
    shutil.rmtree(work)
    return history


def spoil(path: Path, random: Random) -> str:
    """Change a file somehow; what was done."""
    before = path.read_bytes()
    while True:
        data = bytearray(before)
        what = _spoil(data, random)
        if data != before:
            path.write_bytes(data)
            return f"{path.name} {what}"


def _spoil(data: bytearray, random: Random) -> str:
    place = random.randrange(len(data) if random.random() < 0.8 else min(len(data), 4_096))
    match random.choice(("bit", "bit", "bit", "bytes", "sector", "truncated", "moved")):
        case "bit":
            data[place] ^= 1 << random.randrange(8)
            what = "a bit"
        case "bytes":
            size = random.randrange(1, 40)
            data[place : place + size] = random.randbytes(len(data[place : place + size]))
            what = f"{size} bytes"
        case "sector":
            place -= place % 512
            data[place : place + 512] = bytes(len(data[place : place + 512]))
            what = "zeros in a sector"
        case "truncated":
            del data[place:]
            what = "the end is gone"
        case _:  # a page that was written to the wrong place
            source = random.randrange(max(1, len(data) // 8_192)) * 8_192
            place -= place % 8_192
            data[place : place + 8_192] = data[source : source + 8_192][: len(data[place : place + 8_192])]
            what = f"a page from {source}"
    return f"at {place}: {what}"


def trial(template: Path, history: History, folder: Path, seed: int) -> str:
    """Spoil a copy of a store and open it; what came of it. A wrong outcome is an AssertionError."""
    random = Random(seed)
    shutil.copytree(template, folder)
    present = [each for each in FILES if (folder / each).exists() and (folder / each).stat().st_size]
    what = spoil(folder / random.choices(present, [6, 3, 1][: len(present)])[0], random)
    damaged = {each: (folder / each).read_bytes() for each in FILES[:2] if (folder / each).exists()}
    try:
        return judge(folder, history, damaged)
    except Exception as error:
        error.add_note(f"{what}, seed {seed}")
        raise
    finally:
        shutil.rmtree(folder)


def judge(folder: Path, history: History, damaged: dict[str, bytes]) -> str:
    store = Store.open(folder / NAME, name="rome", incarnation=7)
    found = bool(store.damage)
    asides = sorted(each for each in folder.iterdir() if ".damaged-" in each.name and not each.name.endswith("-shm"))
    if found:
        assert store.is_new_incarnation
        assert store.incarnation > history.incarnation
        kept = {each.name.endswith("-wal"): each.read_bytes() for each in asides}
        assert kept == {name.endswith("-wal"): data for name, data in damaged.items()}
    else:
        assert asides == []
        assert not store.is_new_incarnation
        assert store.incarnation == history.incarnation
        assert (store.first, store.next) == (history.first, len(history.log))
    records = dict(store.records())
    for key, value in records.items():
        assert value in history.ever[key]
    if records != history.state:
        assert found
        _lost_is_named(store, history, records)
    _judge_log(store, history)
    _judge_afterwards(store, folder)
    if not found:
        return "found when read" if store.damage else "harmless"
    whole = records == history.state and store.first == history.first and store.next == len(history.log)
    return "found, nothing lost" if whole and not _lost(store) else "found"


def _lost(store: Store) -> set[int]:
    ranges = [(each.first, each.end) for each in store.damage if each.kind is Kind.ENTRIES]
    return {position for first, end in ranges for position in range(first, end)}


def _lost_is_named(store: Store, history: History, records: dict[bytes, bytes]) -> None:
    """State records that are missing or old are named, or a report says that some are lost that cannot be named."""
    named = {each.key for each in store.damage if each.key is not None}
    keys = history.state.keys() | records.keys()
    wrong = {key for key in keys if records.get(key) != history.state.get(key)}
    misnamed = named - wrong  # a key may be what was damaged
    texts = [each.text for each in store.damage if each.key is None and each.kind is not Kind.ENTRIES]
    assert len(wrong - named) <= len(misnamed) or texts, (wrong, named)


def _judge_log(store: Store, history: History) -> None:
    for position, value in store.read(0, 1 << 40, 1 << 40):
        if value:
            assert value == history.log[position]
        else:
            assert position in _lost(store)
    is_shorter = (store.first, store.next) != (history.first, len(history.log))
    assert not is_shorter or any(each.kind is Kind.FILE for each in store.damage)


def _judge_afterwards(store: Store, folder: Path) -> None:
    """It can be written, and the same damage is not found again."""
    incarnation, reported = store.incarnation, len(store.damage)
    store.commit([Batch([(b"after", b"all")], [(store.next, b"more")])])
    lost = _lost(store)
    store.close()
    with Store.open(folder / NAME, name="rome", incarnation=8) as again:
        if reported and again.is_new_incarnation:  # an entry that could not be read before it was written to
            assert _lost(again) <= lost or again.incarnation > incarnation
        elif not reported:
            assert again.damage == []
        assert dict(again.records())[b"after"] == b"all"
    _judge_trimming(folder)


def _judge_trimming(folder: Path) -> None:
    """Entries are removed, damaged ones among them; if SQLite finds pages malformed then, the next opening mends it."""
    for _ in range(2):
        store = Store.open(folder / NAME, name="rome", incarnation=9)
        try:
            store.commit([Batch([(b"more", b"yet" * 9_000)], [(store.next, b"e" * 50_000)], store.next)])
            while store.tidy():
                pass
        except FailedStoreError:
            assert files.is_suspect(folder / NAME)
            continue
        finally:
            store.close()
        with Store.open(folder / NAME, name="rome", incarnation=10) as again:
            assert again.damage == []
            assert again.read(0, 1 << 40, 1) == [(again.next - 1, b"e" * 50_000)]
        return
    raise AssertionError("it cannot be written")
