"""A durable node and its disk, for tests: it dies and comes back at any time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from palio.node.loading import load
from palio.node.node import Node, NodeSettings
from palio.node.ports import Fetch, Fetched, Input, Output, Persist, Persisted
from palio.node.records import encode
from palio.node.starting import MessageLog, start


class Durable:
    """All that the node wants to be written is, at once, and through the form in which it is stored."""

    def __init__(self, **options: Any) -> None:
        self.settings = NodeSettings("milan", "ce")._replace(**{"durable": True, "reserve": 0, **options})
        self.records: dict[bytes, bytes] = {}
        self.entries: dict[int, bytes] = {}
        self.first = 0
        """The position of the first entry that is not trimmed."""
        self.node = Node(self.settings)

    def handle(self, inputs: Iterable[Input], now: int) -> list[Output]:
        """What is said in the end."""
        said: list[Output] = []
        wishes: list[Input] = []
        for output in self.node.handle(inputs, now):
            match output:
                case Persist():
                    self.write(output)
                    said += self.handle([Persisted(output.token)], now)
                case Fetch(token, position, end, most):
                    wishes.append(Fetched(token, self.read(position, end, most)))
                case _:
                    said.append(output)
        return said + self.handle(wishes, now) if wishes else said

    def write(self, persist: Persist) -> None:
        for record in persist.records:
            key, value = encode(record)
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value
        self.entries |= dict(persist.entries)
        if persist.trim is not None:
            self.first = persist.trim
            self.entries = {position: data for position, data in self.entries.items() if position >= persist.trim}

    def read(self, position: int, end: int, most: int) -> tuple[tuple[int, bytes], ...]:
        found, size = [], 0
        for place in range(position, end):
            found.append((place, self.entries.get(place, b"")))
            size += len(found[-1][1])
            if size >= most:
                break
        return tuple(found)

    def die(self, now: int, **options: Any) -> None:
        """The server dies and comes back, perhaps with other settings."""
        self.settings = self.settings._replace(**options)
        loaded = load(self.records.items())
        for key, value in loaded.changes:
            self.records.pop(key, None)
            if value is not None:
                self.records[key] = value
        end = max(self.entries, default=self.first - 1) + 1
        self.node = start(self.settings, loaded, MessageLog(self.first, end, self.read), now)


def of_kind(outputs: Sequence[Output], *kinds: type[Output]) -> list[Any]:
    return [each for each in outputs if isinstance(each, kinds)]
