"""The folder in which a stream leaves its results: whose it is, and which of its batches are complete.

The file ``_palio.json`` in the folder names the query, by the id in its checkpoint, and the run of it that writes now.
A batch is complete when its folder has a file of the same name, which is written after all the rest. That file names
the query and the batch, and has a digest of what Spark noted of the batch in the checkpoint. So a batch is skipped only
if it is the very same batch, also if a checkpoint was copied, restored or deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from palio.errors import CallerError, FileFormatError
from palio.spark.places import DONE, delete, entries, exists, find, read, write

TABLES = ("deliveries", "unreadable", "skipped")
"""Those with a folder for each batch."""
MARK = "_palio.json"
_REMEDY = "name a new folder, or take this one over with adopt=True (palio match: --adopt)"
_UNMARKED = 3
"""So many of the last batches are looked at for a mark; only one can be incomplete."""


class MatchedBatch(NamedTuple):
    """What became of a batch of a stream."""

    batch: int
    """As in the names of the folders; in a folder that was taken over it is not Spark's number."""
    version: str
    """Of the filters."""
    deliveries: int
    """Pairs of an event and a filter."""
    unreadable: int
    """Events that could not be read."""
    skipped: int = 0
    """Files, or lines of files, that could not be matched at all."""
    events: int | None = None
    """Events in the files of an :class:`~palio.spark.EventFolder`; of other streams Spark knows it."""
    kept_because: str | None = None
    """Why a newer version of the filters was not used."""


class _Tenure(NamedTuple):
    """A time in which a folder belonged to a query."""

    query: str
    offset: int
    """This is added to the numbers of its batches."""


class _Owner(NamedTuple):
    query: str
    run: str
    tenures: tuple[_Tenure, ...]
    unmarked: int = -1
    """Up to this batch, Spark's mark says what is complete: Palio wrote none of its own then."""

    def to_json(self) -> bytes:
        """The content of the file."""
        told = self._asdict() | {"tenures": [tenure._asdict() for tenure in self.tenures]}
        return json.dumps(told, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes) -> _Owner:
        """Read the file."""
        told = json.loads(content)
        tenures = tuple(_Tenure(str(each["query"]), int(each["offset"])) for each in told["tenures"])
        return cls(str(told["query"]), str(told["run"]), tenures, int(told["unmarked"]))


class ResultFolder:
    """The results of one run of a query; another run, or another query, that takes the folder makes it end."""

    def __init__(self, session: SparkSession, path: str, checkpoint: str, *, adopt: bool) -> None:
        self._session = session
        self.path = path.rstrip("/") or path
        """Without a slash at its end."""
        self._checkpoint = checkpoint.rstrip("/") or checkpoint
        self._may_adopt = adopt
        self._run = uuid.uuid4().hex
        self._lock = Lock()
        self._owner: _Owner | None = None
        self._next_owner()  # is refused before anything starts

    def folder(self, table: str, batch: int) -> str:
        """The folder of a batch."""
        return f"{self.path}/{table}/batch={batch}"

    def claim(self) -> None:
        """Make sure that the folder belongs to this run of the query."""
        with self._lock:
            known = self._read_owner()
            if self._owner is not None and known is not None:
                self._check_run(known)
                return
            self._take(self._next_owner())

    def begin(self, number: int) -> int | MatchedBatch:
        """The number that a batch has in the folder; or what became of it, if it is complete."""
        self.claim()
        with self._lock:
            owner = self._owner
            assert owner is not None
            marks = [
                self._read_mark(number + offset) for query, offset in reversed(owner.tenures) if query == owner.query
            ]
            same = {"query": owner.query, "number": number, "offsets": self._offsets(number)}
            for mark in marks:
                if mark is not None and {name: mark[name] for name in same} == same:
                    return MatchedBatch(**mark["matched"])
            place = number + owner.tenures[-1].offset
            if marks[0] is not None:
                return self._begin_again(owner, number)
            if place <= owner.unmarked and exists(self._session, f"{self.folder('deliveries', place)}/{DONE}"):
                return MatchedBatch(place, "", 0, 0)
            return place

    def complete(self, number: int, matched: MatchedBatch) -> None:
        """Note that all of a batch is written."""
        with self._lock:
            owner, known = self._owner, self._read_owner()
            assert owner is not None
            if known is not None:
                self._check_run(known)
            mark = {
                "query": owner.query,
                "number": number,
                "offsets": self._offsets(number),
                "matched": matched._asdict(),
            }
            write(self._session, f"{self.folder('deliveries', matched.batch)}/{MARK}", json.dumps(mark).encode())

    def clear(self, table: str, batch: int) -> None:
        """Delete what an earlier try has left of a batch."""
        delete(self._session, self.folder(table, batch))

    # -- whose it is ---------------------------------------------------------------------------------------------------

    def _next_owner(self) -> _Owner:
        """The owner that the folder has when this run begins; it is refused if it belongs to another query."""
        query = self._query()
        known = self._read_owner() or self._owner_of_marks()
        if known is not None and known.query == query:
            return known._replace(run=self._run)
        last = self._last_batch()
        name = query or ""  # a new checkpoint has no query yet
        if last is None:
            if known is None or self._may_adopt:
                return _Owner(name, self._run, (*(known.tenures if known else ()), _Tenure(name, 0)))
        elif self._may_adopt:
            before = known or _Owner("", "", (), last)
            return before._replace(query=name, run=self._run, tenures=(*before.tenures, _Tenure(name, last + 1)))
        elif known is None and self._last_noted() >= last:
            return _Owner(name, self._run, (_Tenure(name, 0),), last)
        if known is None:
            raise CallerError(f"out: {self.path} holds results that this checkpoint knows nothing of; {_REMEDY}")
        raise CallerError(
            f"out: {self.path} holds the results of another checkpoint, that of query {known.query}; {_REMEDY}"
        )

    def _take(self, owner: _Owner) -> None:
        write(self._session, f"{self.path}/{MARK}", owner.to_json())
        self._owner = owner

    def _check_run(self, known: _Owner) -> None:
        if known.run == self._run:
            return
        other = "another run of this query" if known.query == self._query() else f"query {known.query}"
        raise CallerError(f"out: {self.path} was taken over by {other}; this one ends, and may be started again")

    def _begin_again(self, owner: _Owner, number: int) -> int:
        """A number for a batch that has another content than the one that was complete under its number."""
        if not self._may_adopt:
            raise CallerError(
                f"out: {self.path} has another batch {number} of query {owner.query}: its checkpoint was copied, or "
                f"restored as it was before; {_REMEDY}, which delivers again what was matched since"
            )
        last = self._last_batch()
        assert last is not None
        offset = last + 1 - number
        self._take(owner._replace(tenures=(*owner.tenures, _Tenure(owner.query, offset))))
        return number + offset

    def _read_owner(self) -> _Owner | None:
        """Whose the folder is; ``None`` if no file says so, or a damaged one."""
        path = f"{self.path}/{MARK}"
        if find(self._session, path) is None:
            return None
        try:
            return _Owner.from_json(read(self._session, path))
        except (CallerError, ValueError, KeyError, TypeError):
            return None

    def _owner_of_marks(self) -> _Owner | None:
        """The query that has written the last complete batch."""
        for batch in sorted(self._batches("deliveries"), reverse=True)[:_UNMARKED]:
            mark = self._read_mark(batch)
            if mark is not None:
                return _Owner(mark["query"], "", (_Tenure(mark["query"], batch - mark["number"]),))
        return None

    # -- batches -------------------------------------------------------------------------------------------------------

    def _read_mark(self, batch: int) -> dict[str, Any] | None:
        path = f"{self.folder('deliveries', batch)}/{MARK}"
        if find(self._session, path) is None:
            return None
        try:
            mark = json.loads(read(self._session, path))
            return {name: mark[name] for name in ("query", "number", "offsets", "matched")}
        except (CallerError, ValueError, KeyError, TypeError) as error:
            raise FileFormatError(
                f"{path} is damaged, and so it is not known whose batch {batch} is; delete its folder, or {_REMEDY}"
            ) from error

    def _last_batch(self) -> int | None:
        return max((batch for table in TABLES for batch in self._batches(table)), default=None)

    def _batches(self, table: str) -> Iterator[int]:
        return self._numbers(f"{self.path}/{table}", r"batch=(\d+)")

    def _numbers(self, folder: str, pattern: str) -> Iterator[int]:
        if find(self._session, folder) is None:
            return
        for entry in entries(self._session, folder):
            if (found := re.fullmatch(pattern, entry.name)) is not None:
                yield int(found[1])

    # -- the checkpoint ------------------------------------------------------------------------------------------------

    def _query(self) -> str | None:
        """The id that Spark has given to the query of the checkpoint, if it was ever started."""
        path = f"{self._checkpoint}/metadata"
        if find(self._session, path) is None:
            return None
        try:
            return str(json.loads(read(self._session, path))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"checkpoint: {path} is damaged; name a new checkpoint") from error

    def has_state(self) -> bool:
        """Whether the stream has operators that remember something from batch to batch."""
        return exists(self._session, f"{self._checkpoint}/state")

    def _last_noted(self) -> int:
        """The last batch that the checkpoint knows of."""
        return max(self._numbers(f"{self._checkpoint}/offsets", r"(\d+)"), default=-1)

    def _offsets(self, number: int) -> str:
        """A digest of what Spark noted of a batch before it was begun; it has the time, too."""
        return hashlib.sha256(read(self._session, f"{self._checkpoint}/offsets/{number}")).hexdigest()
