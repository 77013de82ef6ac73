"""Long campaigns against the store: ``damage`` spoils files at random places, ``power`` loses power at random moments.

Each ends with what came of it; a wrong outcome is told with its seed, and then it ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.store import flips, losses
from tests.store.conftest import MEMORY

_TRIALS, _LOSSES = 40, 40  # of each store that is made, of each story


def main() -> int:
    """Run the campaigns; whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.store", description=__doc__)
    parser.add_argument("campaign", nargs="?", choices=["damage", "power"], help="default: both")
    parser.add_argument("--trials", type=int, default=10_000, help="of each campaign (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    given = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for name in [given.campaign] if given.campaign else ["damage", "power"]:
            found = _damage(Path(folder), given) if name == "damage" else _power(Path(folder), given)
            failures += found["wrong"]
            print(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in found.most_common()), flush=True)
    return 1 if failures else 0


def _damage(folder: Path, given: argparse.Namespace) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.trials):
        if (seed - given.first) % _TRIALS == 0:
            template = folder / f"store-{seed}"
            history = flips.make(template, seed, is_closed=seed // _TRIALS % 3 == 0)
        try:
            found[flips.trial(template, history, folder / "trial", seed)] += 1
        except Exception:  # noqa: BLE001 (whatever it is, it is told, and the next one tried)
            found["wrong"] += 1
            traceback.print_exc()
    return found


def _power(folder: Path, given: argparse.Namespace) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.trials // _LOSSES):
        try:
            losses.play(folder / f"story-{seed}", seed, _LOSSES)
            found["losses survived"] += _LOSSES
        except Exception:  # noqa: BLE001 (as above)
            found["wrong"] += 1
            traceback.print_exc()
    return found


if __name__ == "__main__":
    sys.exit(main())
