"""A fault of a node concerns the input in which it happens: its sender is told, all others are not harmed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from palio.codec import frames
from palio.codec.frames import Options
from palio.errors import InternalError, stack_of
from palio.link.frames import Data
from palio.model import Advertisement, Filter, Mode, Notification, Pattern
from palio.node import ports
from palio.node.containment import BrokenNodeError, FaultError
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Keep
from palio.node.ports import (
    AcceptedUpTo,
    Deliver,
    DeliverBlock,
    Fault,
    FromPeer,
    LinkDown,
    LinkUp,
    Output,
    Persist,
    Persisted,
    PublishBlock,
    PublishWith,
    Reply,
    Request,
    Send,
)
from palio.node.publishing import Publishing

SECRET = "dramatic-secret"


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


def on(marked: Callable[..., bool], right: Callable[..., Any]) -> Callable[..., Any]:
    """The right thing, but for what is marked."""

    def maybe(*given: Any, **how: Any) -> Any:
        return fails() if marked(*given) else right(*given, **how)

    return maybe


def is_bad(notification: Notification) -> bool:
    return "bad" in notification


def node(*, durable: bool = False, architecture: str = "as", server: str = "milan", **more: Any) -> Node:
    made = Node(NodeSettings(server, architecture, durable=durable, **more))
    made.handle([Request("eva", 1, ports.Subscribe(Filter.parse("x any")))], 0)
    return made


def settled(node: Node, inputs: Iterable[ports.Input], now: int = 1) -> list[Output]:
    """What a node says to inputs when all is on disk."""
    outputs = node.handle(inputs, now)
    while tokens := [each.token for each in outputs if isinstance(each, Persist)]:
        outputs = [each for each in outputs if not isinstance(each, Persist)]
        outputs += node.handle([Persisted(token) for token in tokens], now)
    return outputs


def block(*numbers: int, party: str = "adam", bad: int | None = None) -> PublishBlock:
    made = [Notification(x=each, **({"bad": 1} if each == bad else {})) for each in numbers]
    return PublishBlock(party, b"".join(map(frames.publish, made, numbers)), source=7)


def with_options(number: int, party: str = "adam", **options: Any) -> PublishWith:
    content = frames.publish_with(Notification(x=number), Options(**options), number)[frames.HEADER :]
    return PublishWith(party, content, source=7)


def delivered(outputs: Iterable[Output], party: str = "eva") -> list[int]:
    found: list[int] = []
    for each in outputs:
        if isinstance(each, DeliverBlock) and each.party == party:
            found += [frames.delivered(content)["x"] for _, content in frames.frames_of(each.frames)]  # type: ignore[misc]
        elif isinstance(each, Deliver) and party in each.parties:
            found.append(each.notification["x"])  # type: ignore[arg-type]
    return found


def refused(outputs: Iterable[Output], party: str = "adam") -> list[int]:
    found = [each for each in outputs if isinstance(each, Reply) and each.problem is not None and each.party == party]
    assert all(isinstance(each.problem, FaultError) for each in found)
    assert SECRET not in str([str(each.problem) for each in found])
    return [each.number for each in found]


def faults(outputs: Iterable[Output]) -> list[Fault]:
    found = [each for each in outputs if isinstance(each, Fault)]
    assert SECRET not in str(found)
    return found


def accepted(outputs: Iterable[Output], party: str = "adam") -> list[int]:
    return [each.number for each in outputs if isinstance(each, AcceptedUpTo) and each.party == party]


either = pytest.mark.parametrize("durable", [False, True])


@either
def test_a_block_that_fails_is_refused_one_by_one_and_others_are_handled(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable)
    right = Publishing.accept_block
    monkeypatch.setattr(Publishing, "accept_block", on(lambda _, each, *__: each.party == "bad", right))
    given = [block(1, 2), block(3, 4, 0, party="bad"), block(5)]
    outputs = settled(here, given)
    assert delivered(outputs) == [1, 2, 5]
    assert accepted(outputs) == [2, 5]
    assert refused(outputs, "bad") == [3, 4, 0]
    assert accepted(outputs, "bad") == [4]
    answers = [each for each in outputs if isinstance(each, AcceptedUpTo | Reply) and each.party == "bad"]
    assert isinstance(answers[-1], AcceptedUpTo)  # not before each of them is refused
    (fault,) = faults(outputs)
    assert fault.where == "PublishBlock"
    assert "RuntimeError" in fault.stack
    assert "fails" in fault.stack


@either
def test_of_a_block_whose_publications_are_forwarded_only_the_faulty_one_is_refused(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable)
    link(here, node(server="rome"), wanted="x any")
    monkeypatch.setattr(here.router, "route", on(lambda message, *_: is_bad(message.notification), here.router.route))
    outputs = settled(here, [block(1, 2, 3, bad=2), block(4, party="carl")], 5)
    assert refused(outputs) == [2]
    assert accepted(outputs) == [3]
    assert accepted(outputs, "carl") == [4]
    sent = [each.frame for each in outputs if isinstance(each, Send) and isinstance(each.frame, Data)]
    assert [message.notification["x"] for frame in sent for message in frame.messages] == [1, 3, 4]  # type: ignore[union-attr]
    assert len(faults(outputs)) == 1


@either
def test_publications_that_are_looked_at_one_by_one(durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    here = node(durable=durable, guard=True)
    settled(here, [Request("adam", 2, ports.Advertise(Advertisement.parse("x any; bad any")))])
    monkeypatch.setattr(here.router, "route", on(lambda message, *_: is_bad(message.notification), here.router.route))
    outputs = settled(here, [block(1, 2, 3, bad=2)])
    assert delivered(outputs) == [1, 3]
    assert refused(outputs) == [2]
    assert accepted(outputs) == [3]
    assert len(faults(outputs)) == 1


@either
@pytest.mark.parametrize("place", ["accept", "route", "admit", "decode"])
def test_a_publication_with_options(durable: bool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = node(durable=durable)
    with monkeypatch.context() as patched:
        if place == "accept":
            patched.setattr(type(here.publishing), "accept", fails)
        elif place == "decode":
            patched.setattr("palio.node.publications.frames.options_of", fails)
        else:
            patched.setattr(here.router, place, fails)
        outputs = settled(here, [block(1), with_options(2, "bad", key="k"), block(3)])
    if place in ("accept", "decode"):
        assert delivered(outputs) == [1, 3]
    assert refused(outputs, "bad") == [2]
    assert accepted(outputs, "bad") == [2]
    assert accepted(outputs) == [1, 3]
    assert len(faults(outputs)) == 1
    again = settled(here, [with_options(2, "bad", key="k")])  # the key is not taken: else it would count as published
    assert delivered(again) == [2]
    assert refused(again, "bad") == []


REQUESTS: dict[str, ports.Operation] = {
    "subscribe": ports.Subscribe(Filter.parse("y any")),
    "unsubscribe": ports.Unsubscribe(Filter.parse("x any")),
    "replace": ports.Unsubscribe(Filter.parse("x any"), (Filter.parse("z any"),)),
    "advertise": ports.Advertise(Advertisement.parse("y any")),
    "unadvertise": ports.Unadvertise(Advertisement.parse("y any")),
    "watch": ports.Watch(Advertisement.parse("y any")),
    "leave": ports.Leave(),
}


@either
@pytest.mark.parametrize("operation", REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_fails_before_it_has_effects(
    durable: bool, operation: ports.Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable)
    before = here.router.profile("eva")
    with monkeypatch.context() as patched:
        patched.setattr(here.requests, "perform", fails)
        outputs = settled(here, [block(1), Request("eva", 9, operation), block(2)])
    assert refused(outputs, "eva") == [9]
    assert delivered(outputs) == [1, 2]
    assert accepted(outputs) == [1, 2]
    assert here.router.profile("eva") == before
    assert [each.where for each in faults(outputs)] == [type(operation).__name__]
    assert not refused(settled(here, [Request("eva", 10, operation)]), "eva")


@either
@pytest.mark.parametrize("architecture", ["as", "aa", "gs", "ga"])
@pytest.mark.parametrize(
    ("part", "method"), [("subscriptions", "add_party"), ("board", "add"), ("_index", "add"), ("board", "set_others")]
)
def test_a_request_that_leaves_tables_in_disorder_breaks_the_node(
    durable: bool, architecture: str, part: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable, architecture=architecture)
    monkeypatch.setattr(type(getattr(here.router, part)), method, fails)
    with pytest.raises(BrokenNodeError):
        here.handle([block(1), Request("eva", 9, ports.Subscribe(Filter.parse("y any"))), block(2)], 1)


def test_tables_that_agree_are_found_to() -> None:
    """After any operation, also one that is refused, the check finds nothing: it stops no server that is well."""
    for architecture in ("ce", "hs", "as", "aa", "nf", "gs", "ga"):
        here = node(architecture=architecture)
        for operation in (*REQUESTS.values(), ports.Subscribe(Pattern.parse("x = 1 then x = 2"))):
            here.handle([Request("eva", 3, ports.Subscribe(Filter.parse("x > 3")))], 1)
            here.handle([Request("carl", 3, ports.Subscribe(Filter.parse("x > 3")))], 1)
            here.handle([Request("eva", 4, operation)], 2)
            assert here.router.is_sound("eva")
            assert here.router.is_sound("carl")
            assert here.router.is_sound("nobody")
            assert here.logs.is_sound()


def link(here: Node, there: Node, wanted: str = "", now: int = 1) -> None:
    """Link two nodes; a party of the other one wants something."""
    names = {here.settings.server: here, there.settings.server: there}
    pending: list[tuple[Node, ports.Input]] = [(here, ports.Connect(there.settings.server))]
    if wanted:
        pending.append((there, Request("rita", 1, ports.Subscribe(Filter.parse(wanted)))))
    while pending:
        target, given = pending.pop(0)
        sent = [each for each in settled(target, [given], now) if isinstance(each, Send)]
        pending += [(names[each.peer], FromPeer(target.settings.server, each.frame)) for each in sent]
    assert there.settings.server in here.router.peers


@either
def test_a_frame_of_a_peer_that_fails_ends_the_link_and_it_begins_anew(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = node(durable=durable), node(server="rome")
    link(here, there)
    (sent,) = [each.frame for each in settled(there, [block(1, 2, party="rita")], 5) if isinstance(each, Send)]
    with monkeypatch.context() as patched:
        patched.setattr(here.router, "admit", on(lambda message, *_: message.notification["x"] == 2, here.router.admit))
        outputs = settled(here, [block(7), FromPeer("rome", sent), block(8)], 6)
    assert delivered(outputs) == [7, 1, 8]
    assert accepted(outputs) == [7, 8]
    assert [each.where for each in faults(outputs)] == ["FromPeer"]
    (down,) = [each for each in outputs if isinstance(each, LinkDown)]
    assert "fault" in down.reason
    assert "rome" not in here.router.peers
    assert "rome" in here.links.wishes
    again = settled(here, [], 10_000_000)
    assert any(isinstance(each, Send) for each in again)
    names = {"milan": here, "rome": there}
    pending = [("milan", each) for each in again if isinstance(each, Send)]
    ups = []
    while pending:
        source, output = pending.pop(0)
        said = settled(names[output.peer], [FromPeer(source, output.frame)], 10_000_001)
        ups += [each for each in said if isinstance(each, LinkUp)]
        pending += [(output.peer, each) for each in said if isinstance(each, Send)]
    assert len(ups) == 2


def durable_reader() -> Node:
    here = node(durable=True)
    settled(here, [ports.Attach("eva", Keep(0, 0, 0, 0, 0, 0), 33)])
    assert delivered(settled(here, [block(1, 2)])) == [1, 2]
    return here


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("acknowledge", ports.Acknowledge("eva", 0, 33)),
        ("attach", ports.Attach("eva", Keep(0, 0, 0, 0, 0, 0), 34)),
        ("detach", ports.Detach("eva", 33)),
        ("replay", Request("eva", 5, ports.Replay(0))),
        ("letters", Request("eva", 5, ports.Letters("discard", ()))),
        ("reject", Request("eva", 5, ports.Reject(0, "why"))),
    ],
)
def test_a_fault_about_a_log_ends_the_connection_that_reads_it(
    method: str, given: ports.Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = durable_reader()
    with monkeypatch.context() as patched:
        patched.setattr(here.reading, method, fails)
        outputs = settled(here, [block(3), given, block(4)], 2)
    assert delivered(outputs) == [3, 4]
    (fault,) = faults(outputs)
    assert (fault.party, fault.reading) == ("eva", given.reading if isinstance(given, ports.Attach) else 33)
    assert refused(outputs, "eva") == ([5] if isinstance(given, Request) else [])
    settled(here, [ports.Detach("eva", 33)], 3)
    outputs = settled(here, [ports.Attach("eva", Keep(0, 0, 0, 0, 0, 0), 35)], 4)
    assert delivered(outputs) == [1, 2, 3, 4]  # nothing was lost


@either
@pytest.mark.parametrize(
    "given",
    [Persisted(1), ports.Fetched(1, ()), ports.Room(is_there=True), ports.Space(is_there=True), ports.Archived(1)],
    ids=lambda each: type(each).__name__,
)
def test_the_drivers_own_input_that_fails_breaks_the_node(
    durable: bool, given: ports.Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable)
    monkeypatch.setattr(here, "_take_other", fails)
    with pytest.raises(BrokenNodeError):
        here.handle([given], 1)


@either
@pytest.mark.parametrize("part", ["logs.finish", "reading.send", "links.frames", "outlooks.news", "router.control"])
def test_a_fault_at_the_end_of_a_turn_breaks_the_node(
    durable: bool, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = node(durable=durable)
    owner, method = part.split(".")
    monkeypatch.setattr(getattr(here, owner), method, fails)
    with pytest.raises(BrokenNodeError) as caught:
        here.handle([block(1), Request("eva", 9, ports.Subscribe(Filter.parse("y any")))], 1)
    assert SECRET not in stack_of(caught.value)
    assert "caused by RuntimeError" in stack_of(caught.value)


def test_a_fault_in_the_keeping_breaks_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    here = node(durable=True)
    assert here._keeping is not None
    monkeypatch.setattr(here._keeping, "finish", fails)
    with pytest.raises(BrokenNodeError):
        here.handle([block(1)], 1)


def test_a_log_in_disorder_breaks_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    here = durable_reader()
    monkeypatch.setattr(here.logs, "_bound", fails)
    monkeypatch.setattr("palio.node.party_log.PartyLog.add", fails)
    with pytest.raises(BrokenNodeError):
        here.handle([with_options(3, expires=None)], 2)


def test_a_fault_in_monitors_breaks_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    here = node()
    pattern = Pattern.parse("x = 1 then x = 2")
    with monkeypatch.context() as patched:
        patched.setattr(here.monitors, "subscribe", fails)
        with pytest.raises(BrokenNodeError):
            here.handle([Request("eva", 2, ports.Subscribe(pattern))], 1)
    here = node()
    here.handle([Request("eva", 2, ports.Subscribe(pattern))], 1)
    monkeypatch.setattr(here.monitors, "arrive", fails)
    with pytest.raises(BrokenNodeError):
        here.handle([block(1)], 1)


def test_an_internal_error_is_a_fault_too(monkeypatch: pytest.MonkeyPatch) -> None:
    here = node()

    def broken(*_: Any) -> None:
        raise InternalError(SECRET)

    monkeypatch.setattr(here.requests, "perform", broken)
    outputs = here.handle([Request("eva", 9, ports.Subscribe(Filter.parse("y any")))], 1)
    assert refused(outputs, "eva") == [9]
    assert len(faults(outputs)) == 1


def test_a_rest_is_given_back_though_something_of_the_block_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = node()
    link(here, node(server="rome"), wanted="x any")
    monkeypatch.setattr(here.router, "route", fails)
    monkeypatch.setattr("palio.routing.board.MOST_BYTES", 1)
    outputs = here.handle([block(1, 2, 3)], 5)
    (rest,) = [each for each in outputs if isinstance(each, ports.Rest)]
    assert refused(outputs) == [1]
    assert accepted(outputs) == [1]
    assert [number for number, _ in frames.publications_of(rest.given.frames)] == [2, 3]


def test_promises_before_a_fault_are_kept_in_order() -> None:
    """On a server with a store the acceptance behind a refusal waits for what was accepted before."""
    here = node(durable=True, mode=Mode.SYNCED)
    outputs = here.handle([block(1, 2)], 1)
    (persist,) = [each for each in outputs if isinstance(each, Persist)]
    here.publications.refuse(block(3))
    outputs = here.handle([], 2)
    assert refused(outputs) == [3]
    assert accepted(outputs) == []
    assert accepted(here.handle([Persisted(persist.token)], 3)) == [2, 3]
