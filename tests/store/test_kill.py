"""A process that commits in a loop is killed: what it was told to be done is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from palio.store import Store

_WRITER = """
import sys
from palio.store import Batch, Committer, Store
store = Store.open(sys.argv[1], name="rome", incarnation=7)
assert store.damage == [], store.damage
def done(position, is_synced):
    assert is_synced
    sys.stdout.write(f"{position}\\n")
    sys.stdout.flush()
committer = Committer(store, done, print)
position = store.next
while True:
    if committer.waiting_bytes < 200_000:
        size = 100 + position * 7919 % 20_000
        batch = Batch(
            [(b"last", b"%d" % position), (b"%d" % (position % 50), b"%d" % position)],
            [(position, b"%d " % position * (size // 8))],
            max(0, position - 100),
            position % 3 != 0,
        )
        committer.submit(batch, position)
        position += 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kills(in_memory: Path, seed: int) -> None:
    path = in_memory / "rome.db"
    random = Random(seed)
    least = -1
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(random.randrange(1, 100)):
                least = int(writer.stdout.readline())
            writer.kill()
            for line in writer.stdout:
                if line.endswith("\n"):
                    least = int(line)
        with Store.open(path, name="rome", incarnation=9) as store:
            assert store.damage == []
            assert store.incarnation == 7
            assert store.next > least
            state = dict(store.records())
            assert int(state[b"last"]) == store.next - 1
            for position, value in store.read(0, 1 << 40, 1 << 40):
                size = 100 + position * 7919 % 20_000
                assert value == b"%d " % position * (size // 8)
            assert store.check().damage == []
