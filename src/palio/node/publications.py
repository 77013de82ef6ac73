"""Publications of parties: checked, numbered and sent on their way; and what their publishers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.codec import frames, msgpack
from palio.codec.frames import Options
from palio.errors import CallerError, InternalError, PalioError, PeerError, brief
from palio.model import Mode, Notification
from palio.node.admission import FullDiskError, NoStoreError, NotAdvertisedError
from palio.node.containment import BrokenNodeError, FaultError
from palio.node.ports import AcceptedUpTo, Duplicate, PublishBlock, PublishWith, Reply

if TYPE_CHECKING:
    from palio.node.node import Node

_NO_OPTIONS = Options()


class Publications:
    """What parties publish at a node, in whatever form it comes."""

    def __init__(self, node: Node, *, is_durable: bool) -> None:
        self._node = node
        self._is_durable = is_durable
        self.has_space = True
        """Whether there is room on the disk for more."""

    def publish(self, party: str, notification: Notification, options: Options = _NO_OPTIONS) -> bool:
        """One notification: it is refused, or on its way; false if it was already, because its key is known."""
        node = self._node
        self._check_space()
        if node.settings.guard and not node.router.announces(party, notification):
            raise NotAdvertisedError(f"{brief(party)} has advertised nothing that announces {brief(str(notification))}")
        if options.key is not None and not node.keys.is_new(party, options.key, node.now):
            return False
        try:
            node.forward(node.publishing.accept(party, notification, node.now, options))
        except Exception:
            if options.key is not None:  # else a second attempt would count as done
                node.keys.take_back(party, options.key)
            raise
        return True

    def take_with(self, given: PublishWith) -> None:
        """One with options."""
        number, packed, document = frames.published_with(given.content)
        mode = Mode.MEMORY
        try:
            options = frames.options_of(packed, self._node.settings.limits)
            mode = self._mode(options.mode or given.mode)
            notification = msgpack.decode(Notification, document, self._node.settings.limits)
            is_new = self.publish(given.party, notification, options)
            if number and not is_new:
                self._node.answer(Duplicate(given.party, number, given.source))
        except InternalError:
            raise
        except PalioError as error:
            self._node.answer(Reply(given.party, number, error.with_traceback(None), given.source))
        if number:
            self._node.answer(AcceptedUpTo(given.party, number, mode, given.source))

    def take_block(self, block: PublishBlock) -> None:
        """Many at once: the same as one after the other."""
        node = self._node
        if node.settings.guard or not self.has_space:
            self._take_one_by_one(block)
            return
        node.tell_first()
        done, elsewhere, rest = node.publishing.accept_block(block, node.now, is_logged=node.settings.log.everything)
        node.logs.deliver_block(done, node.now)
        for number, message in elsewhere:
            try:
                node.forward(message, to_parties=False)
            except Exception as error:  # noqa: BLE001 (the others of the block are not concerned)
                self._failed(block, number, error)
        for number, problem in done.refused:
            node.answer(Reply(block.party, number, problem, block.source))
        self._accept(block, done.last_number)
        if rest is not None:
            node.give_back(rest)

    def _take_one_by_one(self, block: PublishBlock) -> None:
        last = 0
        for number, body in frames.publications_of(block.frames):
            last = max(last, number)
            try:
                self.publish(block.party, msgpack.decode(Notification, body, self._node.settings.limits))
            except (CallerError, PeerError) as error:
                self._node.answer(Reply(block.party, number, error.with_traceback(None), block.source))
            except Exception as error:  # noqa: BLE001 (the others of the block are not concerned)
                self._failed(block, number, error)
        self._accept(block, last)

    def _failed(self, block: PublishBlock, number: int, error: Exception) -> None:
        """A fault concerns one publication of a block."""
        if isinstance(error, BrokenNodeError):
            raise error
        self._node.containment.report("publication", error)
        self._node.answer(Reply(block.party, number, FaultError(), block.source))

    def refuse(self, given: PublishBlock | PublishWith) -> None:
        """A fault has kept all of this from being handled: each publication is refused."""
        if isinstance(given, PublishBlock):
            numbers = [number for number, _ in frames.publications_of(given.frames)]
        else:
            numbers = [frames.published_with(given.content)[0]]
        for number in numbers:
            self._node.answer(Reply(given.party, number, FaultError(), given.source))
        last = max(numbers, default=0)
        if last:
            self._node.answer(AcceptedUpTo(given.party, last, Mode.MEMORY, given.source))

    def _accept(self, block: PublishBlock, last: int) -> None:
        if last:
            self._node.answer(AcceptedUpTo(block.party, last, self._mode(block.mode), block.source))

    def _check_space(self) -> None:
        if not self.has_space:
            raise FullDiskError("there is no room on the server's disk; it goes on delivering what it has")

    def _mode(self, wish: Mode | None) -> Mode:
        """What acceptance is going to promise."""
        if not self._is_durable:
            if wish not in (None, Mode.MEMORY):
                raise NoStoreError(f"mode: {wish.value}; this server has no store, and offers memory only")
            return Mode.MEMORY
        mode = self._node.settings.mode if wish is None else wish
        if mode is Mode.SYNCED:
            self._node.press()
        return mode
