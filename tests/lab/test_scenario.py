"""Scenario files in both forms: the papers' examples, round trips, and what is wrong with a file."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import CallerError
from palio.lab.scenario import NAMES, Delay, Objects, Parties, Scenario, Specification, expand
from palio.lab.scenario_text import (
    ScenarioError,
    read_scenario,
    read_specification,
    write_scenario,
    write_specification,
)
from palio.lab.topology import Cable, Topology, transit_stub

SPECIFICATION = """
//
// scenario spec file
//
#define CYCLES 10
servers = acyclic adv_fwd;

objects {
  event = "A";
  number = 1000;
  pub/adv = 20;
  time/pub = 2000~2500;
  cycles = CYCLES;
};

parties {
  pattern = "A";
  number = PARTIES;
  notif/sub = 15;           // these two are mutex
// time/sub = 10000~15000 //
  cycles = 10;
  init_delay = 2000~2500;
};

parties { pattern = "B"; number = 3; time/sub = 10000~15000; cycles = 1; };
"""

SCENARIO = """
//
// detailed scenario configuration
//
sites:
    s0 - s4 = 31;
    s0 - s2 = 45;
    s0 - s10 = 25;
// event servers type and connections
acyclic adv_fwd:
    S@s0;
    S@s2 -> S@s0;
    S@s4 -> S@s0;
    S@s10 -> S@s0;
objects:
10 @ s0 server=S@s0 event=A cycles=10 count=20 delay=2185;
13 @ s2 server=S@s2 event=A cycles=10 count=20 delay=2250P;
// (delay = 15N means cycle "after 15 notifications")
parties:
95 @ s0 server=S@s0 pattern=A cycles=10 delay=15N init_delay=2461;
92 @ s10 server=S@s10 pattern=A cycles=10 delay=12000 init_delay=2029;
"""


def test_the_specification_of_the_thesis() -> None:
    made = read_specification(SPECIFICATION, {"PARTIES": 500})
    assert made == Specification(
        "aa",
        (Objects("A", 1000, 20, Delay(2000, 2500), 10),),
        (
            Parties("A", 500, 10, Delay(2000, 2500), 15),
            Parties("B", 3, 1, Delay(0), None, Delay(10000, 15000)),
        ),
    )
    assert read_specification(SPECIFICATION, {"PARTIES": 1, "CYCLES": 2}).objects[0].cycles == 2


def test_the_scenario_of_the_thesis() -> None:
    made = read_scenario(SCENARIO)
    assert made.architecture == "aa"
    assert made.topology.names == ("s0", "s2", "s4", "s10")
    assert made.links == (("s2", "s0"), ("s4", "s0"), ("s10", "s0"))
    assert [group.delay for group in made.objects] == [Delay(2185), Delay(2250, is_poisson=True)]
    assert [(group.notifications, group.time) for group in made.parties] == [(15, None), (None, Delay(12000))]
    assert read_scenario(write_scenario(made)) == made


delays = st.one_of(
    st.integers(1, 50).map(Delay),
    st.tuples(st.integers(1, 50), st.integers(51, 99)).map(lambda pair: Delay(*pair)),
    st.integers(1, 50).map(lambda mean: Delay(mean, is_poisson=True)),
)
names = st.sampled_from("ABC")
counts = st.integers(0, 30)
specifications = st.builds(
    Specification,
    st.sampled_from(sorted(NAMES)),
    st.lists(st.builds(Objects, names, counts, counts, delays, counts), max_size=2).map(tuple),
    st.lists(
        st.one_of(
            st.builds(Parties, names, counts, counts, delays, st.integers(1, 20), st.none()),
            st.builds(Parties, names, counts, counts, delays, st.none(), delays),
        ),
        max_size=2,
    ).map(tuple),
)


@given(specifications)
def test_a_specification_is_read_as_it_was_written(specification: Specification) -> None:
    assert read_specification(write_specification(specification)) == specification


@given(specifications, st.integers(0, 99))
def test_a_specification_is_expanded(specification: Specification, seed: int) -> None:
    network = transit_stub(seed)
    made = expand(specification, network, Random(seed))
    assert made == expand(specification, network, Random(seed))
    assert sum(group.number for group in made.objects) == sum(each.number for each in specification.objects)
    assert sum(group.number for group in made.parties) == sum(each.number for each in specification.parties)
    assert all(group.delay.high is None for group in made.objects)
    assert len(made.servers) == (1 if specification.architecture == "ce" else 100)
    assert len(made.links) == {"ce": 0, "gs": len(network.cables), "ga": len(network.cables)}.get(
        specification.architecture, 99
    )
    again = read_scenario(write_scenario(made))
    assert again._replace(topology=network, links=made.links) == made
    assert set(again.links) == set(made.links)


def without(text: str, part: str, instead: str = "") -> str:
    assert part in text
    return text.replace(part, instead)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SPECIFICATION, "line 18: number: 'PARTIES' is no number; is a macro missing?"),
        (without(SPECIFICATION, "20;", "x;"), "line 11: pub/adv: 'x' is no number"),
        (without(SPECIFICATION, "  pub/adv = 20;\n"), "line 13: pub/adv is missing"),
        (without(SPECIFICATION, "acyclic adv_fwd", "cyclic"), "line 6: 'cyclic' is none of centralized"),
        (without(SPECIFICATION, 'event = "A";', 'event = "A"; event = "B";'), "line 9: event is said twice"),
        (without(SPECIFICATION, "number = 1000", "weight = 3"), "line 10: 'weight' is none of event"),
        (without(SPECIFICATION, "#define CYCLES 10", "#include x"), "line 5: '#include x' is no #define"),
        (without(SPECIFICATION, "2000~2500;", "2500~2000;"), "2500~2000 ends before it begins"),
        (without(SPECIFICATION, "// these two are mutex", "time/sub = 3;"), "one of notif/sub and time/sub"),
        (without(SPECIFICATION, "servers = acyclic adv_fwd;"), "it is not said what servers"),
        (without(SPECIFICATION, "objects {", "objects ?"), "line 8: '?' begins with nothing that belongs here"),
        (SPECIFICATION.strip().removesuffix("};"), "the file ends where"),
    ],
)
def test_specifications_that_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_specification(text, {} if "PARTIES" in reason else {"PARTIES": 1})
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (without(SCENARIO, "s0 - s4 = 31;", "s0 - s4 = ;"), "line 6: ';' stands where a word is expected"),
        (without(SCENARIO, "s0 - s4 = 31;", "s7 - s4 = 31;"), "sites: s4 cannot be reached from s0"),
        (without(SCENARIO, "S@s10 -> S@s0;", "S@s10 -> S@s99;"), "a link to 's99', where there is no server"),
        (without(SCENARIO, "13 @ s2 server=S@s2", "13 @ s2 server=S@s3"), "there is no server at 's3'"),
        (without(SCENARIO, "13 @ s2", "13 @ s3"), "'s3' is no site"),
        (without(SCENARIO, "count=20 delay=2185", "delay=2185"), "line 16: count is missing"),
        (without(SCENARIO, "delay=2185", "delay=2185 colour=red"), "line 16: 'colour' does not belong here"),
        (without(SCENARIO, "15N", "15X"), "line 20: delay: '15X' is no number"),
        (without(SCENARIO, "acyclic adv_fwd:", "objects:"), "'S' is no number"),
    ],
)
def test_scenarios_that_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text)
    assert reason in str(caught.value)


def test_what_cannot_be_played_is_refused() -> None:
    line = Topology(("s0", "s1"), (Cable("s0", "s1", 1),))
    with pytest.raises(CallerError, match="'nf' is none of ce"):
        expand(Specification("nf"), line, Random(0))
    with pytest.raises(CallerError, match="objects, number: -1"):
        expand(Specification("ce", (Objects("A", -1, 1, Delay(1), 1),)), line, Random(0))
    with pytest.raises(CallerError, match="objects, time/pub: 0 is below 1"):
        expand(Specification("ce", (Objects("A", 1, 1, Delay(0), 1),)), line, Random(0))
    assert isinstance(expand(Specification("ce"), line, Random(0)), Scenario)
