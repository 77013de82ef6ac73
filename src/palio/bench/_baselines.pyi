"""Engines that the index is measured against; for benchmarks only."""

import palio.model


class Linear:
    """
    A linear scan: each filter is tested up to its first predicate that fails.
    """

    def __init__(self) -> None: ...

    def add(self, filters: list[palio.model.Filter]) -> None:
        """
        Add filters, all that there will be: everything is built anew. Ids are positions in order of adding.
        """

    def prepare(self, events: list[palio.model.Notification]) -> None:
        """Keep the events in the form that the engine works on."""

    def match_all(self, first: int = 0, last: int = ...) -> int:
        """
        Match the prepared events, or some of them, and write out (row, id) pairs, ids of a row sorted; how many.
        """

    def results(self) -> list[list[int]]:
        """The ids that the last match_all found, event by event."""

    def write_out(self) -> int:
        """Write the pairs of the last match_all into fresh arrays; how many."""

    def write_list(self, event: int) -> list[int]:
        """The ids that the last match_all found for one event, as a fresh list."""

    def memory_usage(self) -> int:
        """Bytes that the filters take."""

    def __len__(self) -> int: ...

class Counting:
    """The counting algorithm: satisfied predicates count for their filters."""

    def __init__(self) -> None: ...

    def add(self, filters: list[palio.model.Filter]) -> None:
        """
        Add filters, all that there will be: everything is built anew. Ids are positions in order of adding.
        """

    def prepare(self, events: list[palio.model.Notification]) -> None:
        """Keep the events in the form that the engine works on."""

    def match_all(self, first: int = 0, last: int = ...) -> int:
        """
        Match the prepared events, or some of them, and write out (row, id) pairs, ids of a row sorted; how many.
        """

    def results(self) -> list[list[int]]:
        """The ids that the last match_all found, event by event."""

    def write_out(self) -> int:
        """Write the pairs of the last match_all into fresh arrays; how many."""

    def write_list(self, event: int) -> list[int]:
        """The ids that the last match_all found for one event, as a fresh list."""

    def memory_usage(self) -> int:
        """Bytes that the filters take."""

    def __len__(self) -> int: ...

class PairHash:
    """A hash on pairs of equalities for workload W1 alone: the ceiling."""

    def __init__(self) -> None: ...

    def add(self, filters: list[palio.model.Filter]) -> None:
        """
        Add filters, all that there will be: everything is built anew. Ids are positions in order of adding.
        """

    def prepare(self, events: list[palio.model.Notification]) -> None:
        """Keep the events in the form that the engine works on."""

    def match_all(self, first: int = 0, last: int = ...) -> int:
        """
        Match the prepared events, or some of them, and write out (row, id) pairs, ids of a row sorted; how many.
        """

    def results(self) -> list[list[int]]:
        """The ids that the last match_all found, event by event."""

    def write_out(self) -> int:
        """Write the pairs of the last match_all into fresh arrays; how many."""

    def write_list(self, event: int) -> list[int]:
        """The ids that the last match_all found for one event, as a fresh list."""

    def memory_usage(self) -> int:
        """Bytes that the filters take."""

    def __len__(self) -> int: ...
