"""The memory of a server for what went through it has a bound in bytes, whatever clients ask for."""

from __future__ import annotations

import tracemalloc

import pytest

from palio import Advertisement, Filter, Pattern
from palio.codec import msgpack
from palio.node import ports
from palio.server.history import History, Turn

_MOST = 256 << 10
_TEXTS = {
    "many constraints on one name": lambda n: " and ".join(f"x != {n * 20 + k}" for k in range(20)),
    "many names": lambda n: " and ".join(f"a{k} != {n}" for k in range(20)),
    "strings": lambda n: " and ".join(f"x !* 's{n}.{k}'" for k in range(20)),
    "long literals": lambda n: f"x = '{str(n).ljust(1_000, '.')}'",
    "short ones": lambda n: f"x = {n}",
}


def request(number: int, kind: str, text: str) -> ports.Request:
    """A request as a connection makes it, with a filter that nobody else has."""
    filter = msgpack.decode(Filter, msgpack.encode(Filter.parse(text)))
    filter.canonical()
    filter.value_sets()
    match kind:
        case "subscribe":
            operation: ports.Operation = ports.Subscribe(filter)
        case "replace":
            operation = ports.Unsubscribe(filter, (filter,))
        case "pattern":
            operation = ports.Subscribe(Pattern([filter, filter]))
        case _:
            operation = ports.Advertise(Advertisement(filter.constraints))
    return ports.Request("eva", number, operation)


@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS)
@pytest.mark.parametrize("kind", ["subscribe", "replace", "pattern", "advertise"])
def test_requests_count_for_about_the_memory_that_they_take(kind: str, text) -> None:
    history = History(_MOST)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    number = 0
    while history.is_whole:
        history.note(Turn(number, 0, 0, (request(number, kind, text(number)),), ()), 0)
        number += 1
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert history.bytes <= _MOST
    assert taken < 2 * _MOST, f"{number} requests"
