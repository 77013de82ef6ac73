"""Networks by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio.errors import CallerError
from palio.lab.graph_files import GraphFileError, write_dot, write_graphbase
from palio.lab.networks import USUAL_NETWORK, named, parameters
from palio.lab.siena_claims import SITES
from palio.lab.topology import Cable, Topology, TransitStub, Waxman, transit_stub, waxman
from palio.lab.verify import check_network

LINE = Topology(("s0", "s1", "s2"), (Cable("s0", "s1", 3), Cable("s1", "s2", 4)))


def test_generated_ones_are_told_from_each_other_by_their_seeds() -> None:
    assert named(USUAL_NETWORK) == ("transit-stub:1", transit_stub(1))
    assert named("transit-stub") == named(USUAL_NETWORK)
    assert named("transit-stub:2") == ("transit-stub:2", transit_stub(2))
    assert named("waxman:7") == ("waxman:7", waxman(7))


@pytest.mark.parametrize(("suffix", "write"), [("dot", write_dot), ("gb", write_graphbase)])
def test_files_are_told_from_each_other_by_what_is_in_them(suffix: str, write: object, tmp_path: Path) -> None:
    assert callable(write)
    path = tmp_path / f"line.{suffix}"
    path.write_text(write(LINE))
    label, network = named(str(path))
    assert network == LINE
    assert label.startswith(f"line.{suffix}#")
    path.write_text(write(LINE._replace(cables=(Cable("s0", "s1", 3), Cable("s1", "s2", 5)))))
    assert named(str(path))[0] != label


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    for name in ("ring", "waxman:x", "waxman:-1", "", "transit-stub:1.dat"):
        with pytest.raises(CallerError, match="is none; transit-stub:1, waxman:1, a file"):
            named(name)
    with pytest.raises(CallerError, match="cannot be read"):
        named(str(tmp_path / "none.dot"))
    path = tmp_path / "broken.dot"
    path.write_text("graph { a -- }")
    with pytest.raises(GraphFileError, match=r"broken\.dot: line 1"):
        named(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CallerError, match="cannot be read"):
        named(str(path))


def test_how_a_network_was_made_is_known() -> None:
    assert parameters("transit-stub:7") == {"generator": "transit-stub", "seed": 7} | TransitStub()._asdict()
    assert parameters("waxman:2") == {"generator": "waxman", "seed": 2} | Waxman()._asdict()
    assert parameters("line.dot#12345678") == {"file": "line.dot#12345678"}


def test_claims_are_about_a_hundred_sites() -> None:
    check_network(waxman(1))
    for sites in (SITES - 1, SITES + 1):
        with pytest.raises(CallerError, match=f"are about 100 sites, and it has {sites}"):
            check_network(waxman(1, Waxman(sites)))
