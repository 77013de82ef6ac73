"""What durable parties hear of deliveries that fell out while they were away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.node import ports
from palio.node.party_log import Keep
from palio.node.ports import Position, Request, TellMissed
from tests.node.durable import Durable, of_kind
from tests.node.test_logs import publications, small

KEEP = Keep(4, 1 << 40, 10**18, 10**18, 0, 10**6)


@given(steps=st.lists(st.sampled_from(["publish", "acknowledge", "come", "go", "die"]), max_size=40))
def test_a_reader_without_a_cursor_is_told_which_deliveries_fell_out(steps: list[str]) -> None:
    """Against a list: which deliveries the party has acknowledged, and which have fallen out."""
    made, now, reading = Durable(log=small(keep=KEEP)), 1, 1
    made.handle([ports.Attach("eva", KEEP, reading), Request("eva", 1, ports.Subscribe(Filter.parse("x any")))], now)
    is_here, count, heard, first = True, 0, 0, 0
    for step in steps:
        now += 1
        if step == "publish":
            made.handle([publications(count)], now)
            count += 1
        elif step == "acknowledge" and is_here and count > first:
            made.handle([ports.Acknowledge("eva", first, reading)], now)
            heard = first = first + 1
        elif step == "go" and is_here:
            made.handle([ports.Detach("eva", reading)], now)
            is_here = False
        elif step == "die":
            made.die(now)
            is_here = False
        elif step == "come" and not is_here:
            is_here, reading = True, reading + 1
            said = made.handle([ports.Attach("eva", KEEP, reading)], now)
            (position,) = of_kind(said, Position)
            missed = [TellMissed("eva", reading, heard)] if heard < max(first, count - 4) else []
            assert of_kind(said, TellMissed) == missed
            assert position.first == max(first, count - 4)
        first = max(first, count - 4)


def test_a_party_that_knows_its_place_is_not_told() -> None:
    made = Durable(log=small(keep=KEEP))
    subscribe = Request("eva", 1, ports.Subscribe(Filter.parse("x any")))
    (position,) = of_kind(made.handle([ports.Attach("eva", KEEP, 1), subscribe], 1), Position)
    made.handle([publications(*range(9)), ports.Detach("eva", 1)], 2)
    assert of_kind(made.handle([ports.Attach("eva", KEEP, 2, position.log, 2)], 3), TellMissed) == []
    assert of_kind(made.handle([ports.Attach("eva", KEEP, 3)], 4), TellMissed) == [TellMissed("eva", 3, 0)]


def test_a_cursor_of_an_earlier_release_counts_everything_before_it_as_acknowledged() -> None:
    made = Durable(log=small(keep=KEEP))
    made.handle([ports.Attach("eva", KEEP, 1), Request("eva", 1, ports.Subscribe(Filter.parse("x any")))], 1)
    made.handle([publications(*range(9)), ports.Detach("eva", 1)], 2)
    log = made.node.logs.of("eva")
    assert (log.heard, log.done) == (0, 5)
    log.restore(log.cursor()[:9])
    assert (log.heard, log.done) == (5, 5)
