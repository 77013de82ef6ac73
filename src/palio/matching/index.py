"""The compiled index: which of a million filters match, for every notification."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from palio import _core
from palio.codec.parts import document_bytes
from palio.errors import CallerError, FileFormatError, PalioError, UnknownFilterError, brief
from palio.matching.linear import expect_limits
from palio.model.conditions import expect
from palio.model.filter import Filter
from palio.model.limits import DEFAULT_LIMITS, Limits
from palio.model.notification import Notification
from palio.model.value import MAX_INTEGER


class Continuation(NamedTuple):
    """Where :meth:`FilterIndex.match_batch` stopped because its limit was reached."""

    row: int
    """The row that comes next."""
    rest: _core.Column
    """The filters found for this row before, if the limit was reached within it: no row is matched twice."""
    taken: int
    """How much of that was handed out."""
    owner: int
    """The number of the index that it belongs to."""


class Unreadable(NamedTuple):
    """A value, or an encoded body, in an Arrow batch that cannot be read."""

    row: int
    column: int
    """Counted from zero, like the row."""
    error: PalioError
    """Why: for a value it names the column."""


class BatchMatches(NamedTuple):
    """Pairs of row and filter, ascending by row, then by id."""

    rows: _core.Column
    ids: _core.Column
    continuation: Continuation | None
    """Pass it as ``after`` to go on; ``None`` when there is no more."""
    unreadable: list[Unreadable]
    """Values and bodies that cannot be read, ascending by row, if these were to be reported."""


class Unions:
    """Filters of an index that are one union: a row that several of them match is found once.

    ``owners`` is an array of unsigned 32-bit integers: for each filter the id of the first one of its union, which for
    a filter on its own is itself. Filters with greater ids are on their own. It must not change afterwards.

    >>> import array, pyarrow
    >>> index = FilterIndex([Filter.parse("x > 1"), Filter.parse("x = 5"), Filter.parse("y any")])
    >>> unions = Unions(array.array("I", [0, 0, 2]))
    >>> matches = index.match_batch(pyarrow.record_batch({"x": [5, 0], "y": [1, 2]}), unions=unions)
    >>> list(zip(matches.rows, matches.ids))
    [(0, 0), (0, 2), (1, 2)]
    """

    __slots__ = ("_core",)

    def __init__(self, owners: object) -> None:
        self._core = _core.Unions(owners)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return f"<Unions of {len(self):,} filters>"


class IndexStats(NamedTuple):
    """What an index is made of."""

    filters: int
    names: int
    """Attribute names that the filters mention."""
    nodes: int
    """Buckets of filters."""
    partitions: dict[str, int]
    """How often the index divides filters in which way."""
    refiled: int
    """Filters that were moved because events turned out otherwise than expected."""
    events: int
    """Events that were matched."""
    tested: int
    """Filters that were looked at one by one, all events together: what a better division would spare."""
    bytes: int


class FilterIndex:
    """Filters by id, arranged so that a match looks at few of them.

    >>> index = FilterIndex()
    >>> fire = index.add(Filter.parse('event = "fire"'))
    >>> loud = index.add(Filter.parse("level > 3"))
    >>> index.match(Notification(event="fire", level=5)) == [fire, loud]
    True
    >>> index.remove(fire)
    >>> index.match_any(Notification(event="fire"))
    False

    It may be used by several threads at once. A match sees the index as it was at one moment during the call; in a
    batch that holds for each row. Batches let other threads run.

    Where filters come from strangers, give a ``seed`` that they cannot guess (``secrets.randbits(64)``): it keeps them
    from choosing literals that all fall into one place, which would make matching slow. No answer depends on it.
    """

    __slots__ = ("_batch_limits", "_body_limits", "_core", "_filter_limits", "_number", "limits")

    def __init__(self, filters: Iterable[Filter] = (), *, limits: Limits = DEFAULT_LIMITS, seed: int = 0) -> None:
        self._attach(_core.Index(_check_seed(seed)), limits)
        self.add_many(filters)

    def _attach(self, core: _core.Index, limits: Limits) -> None:
        expect_limits(limits)
        self.limits = limits
        self._core = core
        self._number = next(_NUMBERS)
        self._filter_limits = _words(limits.constraints, limits.name_bytes, limits.literal_bytes)
        self._body_limits = _words(limits.attributes, limits.name_bytes, limits.value_bytes, limits.payload_bytes)
        self._batch_limits = (*self._body_limits, *_words(limits.document_bytes))

    def add(self, filter: Filter) -> int:
        """Add a filter and return its id. Ids are not used again; equal filters have ids of their own."""
        return self._core.add(filter, *self._filter_limits)

    def add_many(self, filters: Iterable[Filter]) -> list[int]:
        """Add all of the filters, or none if one of them cannot be added.

        >>> FilterIndex().add_many([Filter.parse("x = 1"), Filter.parse("x = 2")])
        [0, 1]
        """
        if not isinstance(filters, Iterable):
            raise CallerError(f"{brief(filters)} is no iterable of filters; add takes a single one")
        return self._core.add_many(filters, *self._filter_limits)

    def add_dumped(self, dumped: bytes) -> _core.Column:
        """Add all filters of an index that :meth:`dumps` has written, or none.

        Returns the ids they have here, in the order of those they had there. Nothing is parsed or made into Python
        objects, so indexes that were built apart are put together quickly.

        >>> part = FilterIndex([Filter.parse("x = 1"), Filter.parse("x > 5")])
        >>> index = FilterIndex([Filter.parse("y = 1")])
        >>> index.add_dumped(part.dumps()).tolist(), index.match(Notification(x=7, y=1))
        ([1, 2], [0, 2])
        """
        if not isinstance(dumped, bytes):
            raise CallerError(f"{brief(dumped)} is no dumped index; dumps() makes one")
        return self._core.add_dumped(dumped, *self._filter_limits)

    def remove(self, id: int) -> None:
        """Remove the filter with this id."""
        self._core.remove(_check_id(id))

    def match(self, notification: Notification) -> list[int]:
        """The ids of the filters that match, ascending."""
        if notification.__class__ is not Notification:
            expect(notification, Notification)
        return self._core.match(notification._attributes)

    def match_any(self, notification: Notification) -> bool:
        """Whether at least one filter matches."""
        expect(notification, Notification)
        return self._core.match_any(notification._attributes)

    def match_encoded(self, body: bytes) -> list[int]:
        """Validate the MessagePack form of a notification's body and match it, in one pass.

        >>> from palio import codec
        >>> body = codec.msgpack.encode(Notification(level=5))
        >>> FilterIndex([Filter.parse("level > 3")]).match_encoded(body)
        [0]
        """
        return self._core.match_encoded(document_bytes(body, self.limits), *self._body_limits)

    def match_batch(  # noqa: PLR0913 (each says a thing of its own)
        self,
        batch: object,
        *,
        bodies: str | None = None,
        unions: Unions | None = None,
        limit: int | None = None,
        whole_rows: bool = False,
        after: Continuation | None = None,
        report_unreadable: bool = False,
        round_decimals: bool = False,
    ) -> BatchMatches:
        """All pairs of row and filter that match, for an Arrow record batch of any library.

        Each column is an attribute, and null means that it is absent; or ``bodies`` names a binary column of encoded
        bodies. Of the filters of one union (``unions``) that match a row, only the first is given. ``limit`` bounds the
        number of pairs; a further call with ``after`` goes on where this one stopped. With ``whole_rows`` the row that
        reaches the limit is given with all its pairs.

        A value that the model does not have (NaN, say) is an error. With ``report_unreadable`` it is reported instead,
        by the call that matches its row, and fails every constraint on its attribute, ``absent`` included; filters that
        do not mention the attribute match as usual. A body that is no valid one is likewise an error, or is reported
        and matches nothing. Decimals of more than 15 digits, or beyond 2**53, cannot be read unless ``round_decimals``
        makes them the nearest float.

        >>> import pyarrow
        >>> batch = pyarrow.record_batch({"level": [5, None, 7]})
        >>> matches = FilterIndex([Filter.parse("level > 3"), Filter.parse("level > 6")]).match_batch(batch)
        >>> list(zip(matches.rows, matches.ids)), matches.continuation
        ([(0, 0), (2, 0), (2, 1)], None)
        """
        most = MAX_INTEGER if limit is None else _check_limit(limit)
        row, found, taken = (0, None, 0) if after is None else self._check_continuation(after)
        rows, ids, next_row, rest, taken, unreadable = self._core.match_batch(
            batch,
            _check_column(bodies),
            _check_unions(unions),
            most,
            bool(whole_rows),
            row,
            found,
            taken,
            bool(report_unreadable),
            bool(round_decimals),
            *self._batch_limits,
        )
        left = None if next_row < 0 else Continuation(next_row, rest, taken, self._number)
        return BatchMatches(rows, ids, left, [Unreadable(*each) for each in unreadable])

    def match_counts(self, batch: object, *, bodies: str | None = None, round_decimals: bool = False) -> _core.Column:
        """How many filters match each row of an Arrow record batch.

        >>> import pyarrow
        >>> batch = pyarrow.record_batch({"level": [5, None, 7]})
        >>> FilterIndex([Filter.parse("level > 3"), Filter.parse("level > 6")]).match_counts(batch).tolist()
        [1, 0, 2]
        """
        return self._core.match_counts(batch, _check_column(bodies), bool(round_decimals), *self._batch_limits)

    def tally(  # noqa: PLR0913 (as match_batch)
        self,
        batch: object,
        counts: object,
        *,
        bodies: str | None = None,
        unions: Unions | None = None,
        report_unreadable: bool = False,
        round_decimals: bool = False,
    ) -> list[Unreadable]:
        """Count the rows that each filter matches, without making pairs.

        Adds to ``counts``, by id, and returns what could not be read (see :meth:`match_batch`). ``counts`` is a
        writable array of 64-bit integers, longer than the greatest id. A union (``unions``) is counted once a row, for
        its first filter.

        >>> import array, pyarrow
        >>> counts = array.array("q", [0, 0])
        >>> index = FilterIndex([Filter.parse("level > 3"), Filter.parse("level > 6")])
        >>> index.tally(pyarrow.record_batch({"level": [5, None, 7]}), counts), counts.tolist()
        ([], [2, 1])
        """
        unreadable = self._core.tally(
            batch,
            _check_column(bodies),
            counts,
            _check_unions(unions),
            bool(report_unreadable),
            bool(round_decimals),
            *self._batch_limits,
        )
        return [Unreadable(*each) for each in unreadable]

    def _check_continuation(self, after: Continuation) -> tuple[int, _core.Column, int]:
        if not isinstance(after, Continuation) or after.owner != self._number:
            raise CallerError(f"after: {brief(after)} is no Continuation of this index; pass what match_batch returned")
        return after.row, after.rest, after.taken

    def dumps(self) -> bytes:
        """The index as the bytes of a file that :meth:`open` can use as it is."""
        return self._core.dumps()

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file; whoever has an older file of that name open keeps the older one."""
        self._core.dump(_encoded(path))

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS, verify: bool = False
    ) -> FilterIndex:
        """Use a dumped index from its file, without reading it: the system loads the pages that matching touches.

        It cannot be changed. ``verify`` reads all of it once and compares its checksum. A damaged file that is used
        without that gives a :class:`FileFormatError` or wrong ids, but never does harm.
        """
        index = cls.__new__(cls)
        index._attach(_core.Index(_encoded(path)), limits)
        if verify and not index._core.is_whole():
            raise FileFormatError(f"{brief(os.fspath(path))} is damaged: its checksum is not what was written")
        return index

    def memory_usage(self) -> int:
        """Bytes that the index takes, in memory or as a file, with what matching keeps for the next match."""
        return self._core.memory_usage()

    def stats(self) -> IndexStats:
        """What the index is made of."""
        return IndexStats(*self._core.stats())

    def __len__(self) -> int:
        return self._core.size()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int) and not isinstance(id, bool) and 0 <= id < _IDS and self._core.contains(id)

    def __repr__(self) -> str:
        return f"<FilterIndex of {len(self):,} filters>"


_IDS = 2**63
_NUMBERS = count(1)


def _encoded(path: str | os.PathLike[str]) -> bytes:
    """A path as the system takes it."""
    try:
        encoded = os.fsencode(path)
    except (TypeError, ValueError):
        raise CallerError(f"{brief(path)} is no path") from None
    if b"\0" in encoded:
        raise CallerError(f"path {brief(path)} holds a NUL character")
    return encoded


def _words(*limits: int) -> tuple[int, ...]:
    """Limits as the compiled core takes them; what does not fit its words limits nothing."""
    return tuple(min(limit, MAX_INTEGER) for limit in limits)


def _check_id(id: int) -> int:
    if not isinstance(id, int) or isinstance(id, bool):
        raise CallerError(f"{brief(id)} is no id; ids are the integers that add returned")
    if not 0 <= id < _IDS:
        raise UnknownFilterError(f"no filter has the id {brief(id)}")
    return id


def _check_seed(seed: int) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise CallerError(f"seed: {brief(seed)} is no integer from 0 to 2**64 - 1")
    return seed


def _check_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise CallerError(f"limit: {brief(limit)} is no positive integer; leave it out to get all pairs")
    return min(limit, MAX_INTEGER)


def _check_unions(unions: Unions | None) -> _core.Unions | None:
    if unions is None:
        return None
    if not isinstance(unions, Unions):
        raise CallerError(f"unions: {brief(unions)} is no Unions, which says which filters are one union")
    return unions._core


def _check_column(bodies: str | None) -> str | None:
    if bodies is not None and not isinstance(bodies, str):
        raise CallerError(f"bodies: {brief(bodies)} is no name of a column")
    return bodies
