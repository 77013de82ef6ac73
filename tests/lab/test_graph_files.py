"""Files with networks: round trips, what others write, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import CallerError
from palio.lab.graph_files import GraphFileError, read_dot, read_graphbase, write_dot, write_graphbase
from palio.lab.topology import Cable, Topology, Waxman, waxman

GRAPHBASE = """* GraphBase graph (util_types ZZZIIZIZZZZZZZ,3V,4A)
"transtub(1,0,{1,20,3,1.000,0.000,0.000},{2,20,3,0.6\\
00,0.000,0.000})",3,4,0,10
* Vertices
"T:0",A0,4,9
"S:1",A2,7,2
"S:2",A3,7,5
* Arcs
V1,A1,31,0
V2,0,45,0
V0,0,31,0
V0,0,45,0
"""


@given(st.integers(0, 500), st.integers(1, 25))
def test_what_is_written_is_read(seed: int, sites: int) -> None:
    made = waxman(seed, Waxman(sites))
    assert read_dot(write_dot(made)) == made
    again = read_graphbase(write_graphbase(made))
    assert again.names == made.names
    assert {frozenset((one, other)): cost for one, other, cost in again.cables} == {
        frozenset((one, other)): cost for one, other, cost in made.cables
    }


def test_a_dot_file_of_somebody_else() -> None:
    made = read_dot(
        """
        /* made by
           hand */
        strict graph "a net" {
          rankdir = LR; node [shape=circle, label="x"];
          uci [label="UC Irvine"]; colorado; # not a comment, but for the C preprocessor
          uci -- colorado [weight=2.6, color=red]
          colorado -> polimi [label="7"];
          polimi -- uci -- colorado
        }
    """.replace("# not a comment, but for the C preprocessor", "// one")
    )
    assert made == Topology(
        ("uci", "colorado", "polimi"),
        (Cable("uci", "colorado", 3), Cable("colorado", "polimi", 7), Cable("polimi", "uci", 1)),
    )


def test_a_graphbase_file_as_generators_write_it() -> None:
    made = read_graphbase(GRAPHBASE)
    assert made == Topology(("T:0", "S:1", "S:2"), (Cable("T:0", "S:1", 31), Cable("T:0", "S:2", 45)))
    assert read_graphbase(GRAPHBASE.replace('"S:2"', '"S:1"')).names == ("s0", "s1", "s2")


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (read_dot, "graph { a -- b", "the file ends too early"),
        (read_dot, "graph {\n a -- ; }", "line 2: ';' stands where a name"),
        (read_dot, "graph {\n\n a ? b }", "line 3: '? b }' is nothing that belongs here"),
        (read_dot, "graph { a -- b [len=far]; }", "costs 'far', which is no number"),
        (read_dot, "graph { a -- b [len=0]; }", "costs 1 at least"),
        (read_dot, "graph { a; b; }", "b cannot be reached from a"),
        (read_dot, "tree { a -- b }", "'tree' stands where graph or digraph"),
        (read_dot, "graph { }", "there is no site"),
        (read_graphbase, "nothing", "line 1: that is not how"),
        (read_graphbase, GRAPHBASE.replace("* Arcs", "* Bows"), "no line * Arcs"),
        (read_graphbase, GRAPHBASE.replace('"S:2",A3,7,5\n', ""), "line 7: there are fewer vertices"),
        (read_graphbase, GRAPHBASE.replace("3V,4A", "2V,4A"), "line 7: there are more vertices"),
        (read_graphbase, GRAPHBASE.replace("V1,A1,31", "V9,A1,31"), "line 9: 'V9' is no V with a number below 3"),
        (read_graphbase, GRAPHBASE.replace("V1,A1,31", "V1,A0,31"), "go round in a circle"),
        (read_graphbase, GRAPHBASE.replace("V1,A1,31", "V1,A1,x"), "line 9: 'V1,A1,x,0' is no arc"),
        (read_graphbase, write_graphbase(waxman(1, Waxman(5))).replace('"s0"', '"t0"'), "the file is damaged"),
    ],
)
def test_files_that_cannot_be_read(read: Callable[[str], Topology], text: str, reason: str) -> None:
    with pytest.raises(CallerError) as caught:
        read(text)
    assert reason in str(caught.value)


def test_errors_are_of_one_kind() -> None:
    assert issubclass(GraphFileError, CallerError)
