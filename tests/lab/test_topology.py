"""Networks of the studies: connected, always the same, in the shape that was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import CallerError
from palio.lab.topology import Cable, Topology, TransitStub, Waxman, check, transit_stub, waxman

shapes = st.builds(
    TransitStub,
    transit_domains=st.integers(1, 3),
    transit_nodes=st.integers(1, 4),
    stubs=st.integers(0, 3),
    stub_nodes=st.integers(0, 4),
    transit_share=st.sampled_from([0.0, 0.3, 1.0]),
    stub_share=st.sampled_from([0.0, 0.5, 1.0]),
    transit_scale=st.sampled_from([0.0, 50.0]),
    stub_distance=st.sampled_from([0.0, 16.0]),
    stub_scale=st.sampled_from([0.0, 8.0]),
)


@given(st.integers(0, 1_000), shapes)
def test_a_transit_stub_network_is_connected_and_as_large_as_its_shape_says(seed: int, shape: TransitStub) -> None:
    made = transit_stub(seed, shape)
    transit = shape.transit_domains * shape.transit_nodes
    assert len(made.names) == transit + transit * shape.stubs * shape.stub_nodes
    assert made.names == tuple(f"s{number}" for number in range(len(made.names)))
    assert set(made.tree()) == set(made.names[1:])
    assert made == transit_stub(seed, shape)


def test_stubs_are_reached_over_transit_nodes_only() -> None:
    made = transit_stub(7)
    core = set(made.names[:4])
    stubs = [set(made.names[4 + 8 * number : 12 + 8 * number]) for number in range(12)]
    for one, other, _ in made.cables:
        ends = {one, other}
        assert ends <= core or any(ends <= stub for stub in stubs) or len(ends & core) == 1
    for number, stub in enumerate(stubs):
        gates = [cable for cable in made.cables if len({cable.one, cable.other} & stub) == 1]
        assert len(gates) == 1
        assert f"s{number // 3}" in gates[0]


@given(st.integers(0, 1_000), st.integers(1, 40))
def test_a_waxman_network_is_connected(seed: int, sites: int) -> None:
    made = waxman(seed, Waxman(sites))
    assert len(made.names) == sites
    assert set(made.tree()) == set(made.names[1:])


def test_near_sites_are_linked_more_often() -> None:
    made = waxman(1, Waxman(200))
    costs = sorted(cable.cost for cable in made.cables)
    assert costs[len(costs) // 2] < 30  # the mean distance of two points of the square is 52


@given(st.integers(0, 200))
def test_the_tree_is_of_least_cost(seed: int) -> None:
    made = waxman(seed, Waxman(12))
    costs = made.neighbours()
    cost = sum(costs[site][parent] for site, parent in made.tree().items())
    pieces = {name: name for name in made.names}
    least = 0
    for one, other, each in sorted(made.cables, key=lambda cable: cable.cost):  # Kruskal
        if pieces[one] != pieces[other]:
            least += each
            gone = pieces[other]
            pieces = {name: pieces[one] if piece == gone else piece for name, piece in pieces.items()}
    assert cost == least


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: transit_stub(1, TransitStub(transit_nodes=0)), "transit_nodes: 0"),
        (lambda: transit_stub(1, TransitStub(stub_share=1.5)), "stub_share: 1.5"),
        (lambda: transit_stub(1, TransitStub(stub_scale=float("nan"))), "stub_scale: nan"),
        (lambda: waxman(1, Waxman(0)), "sites: 0"),
        (lambda: waxman(1, Waxman(5, alpha=0)), "alpha"),
        (lambda: check(Topology((), ())), "there is no site"),
        (lambda: check(Topology(("a", "b"), ())), "b cannot be reached from a"),
        (lambda: check(Topology(("a",), (Cable("a", "x", 1),))), "'x', which is no site"),
        (lambda: check(Topology(("a", "b"), (Cable("a", "b", 0),))), "costs 1 at least"),
    ],
)
def test_what_cannot_be_is_refused(make: object, reason: str) -> None:
    with pytest.raises(CallerError, match=reason):
        make()  # type: ignore[operator]
