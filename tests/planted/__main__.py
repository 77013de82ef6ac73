"""Search for histories that catch the planted bugs: ``python -m tests.planted [--store] [NAME ...]``.

With ``--store`` each history is made small and takes the place of the stored one.
"""

from __future__ import annotations

import argparse
import sys

from tests.planted.catalogue import MOST_SEEDS, PLANTED, catch_all, store_all


def _tell(done: int, total: int) -> None:
    print(f"{done} of {total}", file=sys.stderr, flush=True)


def main() -> int:
    """Search, and print one line for each bug; 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--store", action="store_true", help="store the histories that are found, made small")
    parser.add_argument("--processes", type=int, help="how many work at a time; default: one for each core")
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs; default: all")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in PLANTED]
    if unknown:
        parser.error(f"there is no planted bug {unknown[0]!r}")
    names = given.names or list(PLANTED)
    search = store_all if given.store else catch_all
    caught = search(progress=_tell, processes=given.processes, names=names)
    for each in caught:
        print(f"{each.name}: {each.case or f'not found in {MOST_SEEDS} seeds'}")
    return int(any(each.case is None for each in caught))


if __name__ == "__main__":
    sys.exit(main())
