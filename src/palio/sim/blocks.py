"""Publications in blocks, as real connections bring them: for servers that have to do the same with both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from palio.codec import control, frames, msgpack
from palio.errors import InternalError
from palio.model import Pattern
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


class Blocks:
    """Stands between a server and those who know single requests, answers and deliveries only."""

    def __init__(self) -> None:
        self._unanswered: dict[str, list[int]] = {}
        """The numbers of publications, by party, in their order."""

    def handle(self, node: Node, inputs: Iterable[Input], now: int) -> Iterator[Output]:
        """As the node's, but publications of a party that come one after the other go in together."""
        given: list[Input] = list(self._together(inputs))
        while True:
            rest: list[Input] = []
            for output in node.handle(given, now):
                if isinstance(output, Rest):
                    rest.append(output.block)
                else:
                    yield from self._apart(output)
            if not rest:
                return
            given = rest

    def _together(self, inputs: Iterable[Input]) -> Iterator[Input]:
        party, block = "", b""
        for each in (*inputs, None):
            match each:
                case Request(publisher, number, Publish(notification, None), None) if not block or publisher == party:
                    party = publisher
                    block += frames.publish(notification, number + 1)
                    self._unanswered.setdefault(publisher, []).append(number)
                    continue
            if block:
                yield PublishBlock(party, block)
                block = b""
            match each:
                case Request(publisher, number, Publish(notification, trace), None):
                    self._unanswered.setdefault(publisher, []).append(number)
                    if trace is None:
                        party, block = publisher, frames.publish(notification, number + 1)
                    else:
                        traced = frames.publish_with(notification, frames.Options(trace=str(trace)), number + 1)
                        yield PublishWith(publisher, traced[frames.HEADER :])
                case Input():
                    yield each

    def _apart(self, output: Output) -> Iterator[Output]:
        match output:
            case AcceptedUpTo(party, number):
                waiting = self._unanswered[party]
                while waiting and waiting[0] < number:
                    yield Reply(party, waiting.pop(0))
            case Reply(party, number, problem) if problem is not None and number - 1 in self._unanswered.get(party, ()):
                self._unanswered[party].remove(number - 1)
                yield Reply(party, number - 1, problem)
            case _:
                yield output


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
            pattern = msgpack.decode(Pattern, bytes(sequence.pattern))
            yield DeliverSequence(block.party, pattern, notifications, number, block.reading)
