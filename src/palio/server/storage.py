"""What lies between a node and its store: records become bytes, and threads do what takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from palio.errors import PalioError
from palio.node import records
from palio.node.loading import Change, load
from palio.node.node import Node
from palio.node.ports import Fetch, Fetched, Input, Persist, Persisted, Space
from palio.node.quarantine import Quarantine, Quarantined
from palio.node.settings import NodeSettings
from palio.node.starting import MessageLog, start
from palio.server.store_config import StoreTable
from palio.store import Batch, Committer, FullStoreError, Store
from palio.store.committer import Figures


class Storage:
    """The store of a running server. ``give`` brings what has become of a node's wishes back to it."""

    def __init__(self, table: StoreTable, server: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store = Store.open(table.path, name=server, settings=table.settings, describe=records.describe)
        self._loop = loop
        self._most = table.waiting_bytes
        self.parties: list[str] = []
        """Parties that held something when the server was last stopped."""
        self.quarantined: list[Quarantined] = []
        """Records that were put aside when the server started: they cannot be read, or do not fit the others."""
        self.quarantine = Quarantine()
        """Where they are put aside."""
        self.merged: list[str] = []
        """Records of which there were several in other words, and is one now."""
        self._committer: Committer[int] | None = None
        self.failure: PalioError | None = None
        self._give: Callable[[Input], None] = lambda _: None
        self._failed: Callable[[PalioError], None] = lambda _: None
        self.is_full = False
        """Whether nothing can be written, or should be."""
        self._has_no_room = False
        self._told_damage = 0
        self._told_full = False
        self._submitted = 0
        self._settled = asyncio.Event()
        self._settled.set()

    def node(self, settings: NodeSettings, now: int) -> Node:
        """The node as it was when it was last written to disk."""
        loaded = load(self.store.records())
        if loaded.changes:
            self._rewrite(loaded.changes)
        self.parties = [str(key[1]) for key, _ in loaded.records if key[0] in ("party", "holds") and len(key) > 1]
        node = start(settings, loaded, MessageLog(self.store.first, self.store.next, self.store.read), now)
        self.quarantined = [*loaded.quarantined, *node.quarantined]
        self.quarantine = loaded.quarantine
        self.merged = loaded.merged
        return node

    def _rewrite(self, changes: list[Change]) -> None:
        """Write records under their canonical keys before anything else is written."""
        try:
            self.store.commit([Batch(changes, is_synced=True)])
        except FullStoreError:
            if any(value is None for _, value in changes):  # a record that has moved must not be in two places
                raise

    def start(self, give: Callable[[Input], None], failed: Callable[[PalioError], None]) -> None:
        """Begin to write."""
        self._give, self._failed = give, failed
        told = (self._done, self._fail, self._note_full)
        self._committer = Committer(self.store, *(partial(self._tell, each) for each in told))

    def _tell(self, whom: Callable[..., None], *what: object) -> None:
        """Say something in the loop's thread that another one has found."""
        self._loop.call_soon_threadsafe(whom, *what)

    def persist(self, wish: Persist) -> None:
        """Write something."""
        assert self._committer is not None
        encoded = [records.encode(each) for each in wish.records]
        self._submitted = wish.token
        self._settled.clear()
        self._committer.submit(Batch(encoded, wish.entries, wish.trim, wish.is_pressing), wish.token)

    def fetch(self, wish: Fetch) -> None:
        """Read something."""
        assert self._committer is not None
        call, token = self._loop.call_soon_threadsafe, wish.token

        def done(found: list[tuple[int, bytes]]) -> None:
            call(self._give, Fetched(token, tuple(found)))

        self._committer.read(wish.position, wish.end, wish.bytes, done)

    def _done(self, token: int, is_synced: bool) -> None:
        if is_synced and token == self._submitted:
            self._settled.set()
        self._give(Persisted(token, is_synced))
        self.look()  # at once: much can be written until somebody looks the next time

    def _fail(self, error: PalioError) -> None:
        """Never go on after that: nobody knows what is on disk."""
        self.failure = error
        self._settled.set()
        self._failed(error)

    def _note_full(self, is_full: bool) -> None:
        self._has_no_room = is_full
        self.look()

    def look(self) -> None:
        """See whether there is room, and tell the node if that has changed."""
        is_full = self._has_no_room or not self.store.has_room()
        if is_full != self.is_full:
            self.is_full = is_full
            self._give(Space(not is_full))

    def has_news_of_room(self) -> bool:
        """Whether the store has become full, or has room again, since this was asked the last time."""
        before, self._told_full = self._told_full, self.is_full
        return before != self.is_full

    def new_damage(self) -> list[str]:
        """What was found to be damaged since this was asked the last time."""
        found = [str(each) for each in self.store.damage[self._told_damage :]]
        self._told_damage += len(found)
        return found

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not written yet."""
        return 0 if self._committer is None else self._committer.waiting_bytes

    @property
    def figures(self) -> Figures:
        """What was written and read."""
        return Figures() if self._committer is None else self._committer.figures

    def is_behind(self, held: int) -> bool:
        """Whether so much waits for the disk, with what waits for that, that nothing should be added."""
        return self.waiting_bytes + held > self._most

    async def settled(self) -> None:
        """Wait until all is written, or never will be."""
        await self._settled.wait()

    async def close(self, seconds: float) -> None:
        """Write what is left, and let go of the files."""
        if self._committer is not None:
            await self._loop.run_in_executor(None, partial(self._committer.close, seconds))
        self.store.close()
