"""Publications in blocks, as real connections bring them: for servers that have to do the same with both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from palio.codec import control, frames, msgpack
from palio.codec.frames import Options
from palio.errors import InternalError
from palio.model import PROTOCOL_LIMITS, Mode, Pattern
from palio.node.node import Node
from palio.node.ports import (
    AcceptedUpTo,
    Deliver,
    DeliverBlock,
    DeliverSequence,
    Input,
    Output,
    Publish,
    PublishBlock,
    PublishWith,
    Reply,
    Request,
    Rest,
)

_NO_OPTIONS = Options()
_SOURCE = 1
"""The connection of all publications: their numbers are not those of requests."""
_Key = tuple[str, int]
"""A request: who has asked, and its number."""


class Blocks:
    """Stands between a server and those who know single requests, answers and deliveries only."""

    def __init__(self, options: Mapping[_Key, Options] | None = None, promised: dict[_Key, Mode] | None = None) -> None:
        """Publications have the options that are known of them when they come, by party and number.

        What their acceptance has promised is noted likewise.
        """
        self._options = {} if options is None else options
        self._promised = {} if promised is None else promised
        self._unanswered: dict[str, list[int]] = {}
        """The numbers of publications, by party, in their order."""

    def handle(self, node: Node, inputs: Iterable[Input], now: int) -> Iterator[Output]:
        """As the node's, but publications of a party that come one after the other go in together."""
        given: list[Input] = list(self._together(inputs))
        while True:
            rest: list[Input] = []
            for output in node.handle(given, now):
                if isinstance(output, Rest):
                    rest.append(output.given)
                else:
                    yield from self._apart(output)
            if not rest:
                return
            given = rest

    def _together(self, inputs: Iterable[Input]) -> Iterator[Input]:
        whose: tuple[str, Mode | None] = "", None
        block = b""
        for each in (*inputs, None):
            options = _NO_OPTIONS
            if isinstance(each, Request) and isinstance(each.operation, Publish) and each.by is None:
                options = self._options_of(each)
                if options == Options(mode=options.mode) and (not block or whose == (each.party, options.mode)):
                    whose = each.party, options.mode
                    block += frames.publish(each.operation.notification, each.number + 1)
                    continue
            if block:
                yield PublishBlock(whose[0], block, whose[1], _SOURCE)
                block = b""
            match each:
                case Request(publisher, number, Publish(notification), None):
                    if options == Options(mode=options.mode):
                        whose, block = (publisher, options.mode), frames.publish(notification, number + 1)
                    else:
                        content = frames.publish_with(notification, options, number + 1)
                        yield PublishWith(publisher, content[frames.HEADER :], source=_SOURCE)
                case Input():
                    yield each

    def _options_of(self, request: Request) -> Options:
        assert isinstance(request.operation, Publish)
        known = self._options.get((request.party, request.number), _NO_OPTIONS)
        self._unanswered.setdefault(request.party, []).append(request.number)
        trace = request.operation.trace
        return known if trace is None else msgspec.structs.replace(known, trace=str(trace))

    def _apart(self, output: Output) -> Iterator[Output]:
        match output:
            case AcceptedUpTo(party, number, mode):
                waiting = self._unanswered[party]
                while waiting and waiting[0] < number:
                    yield self._accepted(party, waiting.pop(0), mode)
            case Reply(party, number, problem, source) if source == _SOURCE:
                if number - 1 not in self._unanswered.get(party, ()):
                    raise InternalError(f"publication {number - 1} of {party} is refused after it was accepted")
                self._unanswered[party].remove(number - 1)
                yield Reply(party, number - 1, problem)
            case _:
                yield output

    def _accepted(self, party: str, number: int, mode: Mode) -> Reply:
        options = self._options.get((party, number))
        asked = None if options is None else options.mode or Mode.SYNCED  # that is usual where there are disks
        if asked is not None and mode.strength < asked.strength:
            raise InternalError(f"publication {number} of {party} asked for {asked.value} and is promised {mode.value}")
        self._promised[party, number] = mode
        return Reply(party, number)


def one_by_one(block: DeliverBlock) -> Iterator[Deliver | DeliverSequence]:
    """The deliveries of a block."""
    found = list(frames.frames_of(block.frames))
    if len(found) != block.count:
        raise InternalError(f"{block.party} got {len(found)} deliveries where {block.count} were announced")
    for place, (kind, content) in enumerate(found):
        number = None if block.first is None else block.first + place
        if kind == frames.DELIVER:
            numbered = () if number is None else ((number,), (block.reading,))
            yield Deliver((block.party,), frames.delivered(content), *numbered)
        else:
            sequence = control.decode(kind, content)
            assert isinstance(sequence, control.Sequence)
            notifications = tuple(control.notification(*each) for each in sequence.notifications)
            pattern = msgpack.decode(Pattern, bytes(sequence.pattern), PROTOCOL_LIMITS)
            yield DeliverSequence(block.party, pattern, notifications, number, block.reading)
