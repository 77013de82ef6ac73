"""Publications that a peer cannot take: kept beside the link, within bounds, until an operator looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palio.link.session import LinkSettings
from palio.model import Notification, NotificationId
from palio.node.journal import Journal

MOST_PEERS = 1_000
"""Peers with letters; with more, those of the peer that had its first letter first are dropped."""
MOST_BYTES = 256 << 20
"""Of the letters of all peers; with more, the oldest of the peer whose letters have most bytes is dropped."""


class LinkLetter(msgspec.Struct, frozen=True, gc=False):
    """A notification that did not go over a link."""

    notification: Notification
    reason: str
    """Which limit of the peer it exceeds."""
    time: int

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self.notification.size + len(self.reason)


class PeerLetters:
    """The letters of one link, by number; the oldest go first when there are too many."""

    __slots__ = ("bytes", "forgotten", "letters", "next")

    def __init__(self, next: int = 0, forgotten: int = 0) -> None:
        self.letters: dict[int, LinkLetter] = {}
        self.bytes = 0
        self.next = next
        """The number of the next letter: how many there ever were."""
        self.forgotten = forgotten
        """How many were dropped because there were too many."""


class LinkLetters:
    """The letters of all links of a server.

    >>> letters = LinkLetters(LinkSettings(letters=1))
    >>> for number in range(2):
    ...     letters.add("rome", Notification(x=number), "too long", now=7)
    >>> letters["rome"].letters
    {1: LinkLetter(notification=Notification(x=1), reason='too long', time=7)}
    >>> letters["rome"].forgotten, letters["bari"].letters
    (1, {})
    """

    def __init__(self, settings: LinkSettings, journal: Journal | None = None) -> None:
        self._most, self._most_bytes = settings.letters, settings.letters_bytes
        self._journal = journal
        self._peers: dict[str, PeerLetters] = {}
        self._bytes = 0

    def __getitem__(self, peer: str) -> PeerLetters:
        """The letters of the link to a peer."""
        return self._peers.get(peer) or PeerLetters()

    def totals(self) -> dict[str, int]:
        """How many letters there ever were, by peer."""
        return {peer: each.next for peer, each in self._peers.items()}

    def add(self, peer: str, notification: Notification, reason: str, now: int) -> None:
        """Keep a notification that a peer cannot take."""
        if peer not in self._peers:
            self._peers[peer] = PeerLetters()
            self.bound()
        of_peer, letter = self._peers[peer], LinkLetter(notification, reason, now)
        of_peer.letters[of_peer.next] = letter
        of_peer.bytes += letter.size
        self._bytes += letter.size
        self._put(("link letter", peer, of_peer.next), letter)
        of_peer.next += 1
        while len(of_peer.letters) > self._most or (of_peer.bytes > self._most_bytes and len(of_peer.letters) > 1):
            self._remove(peer, next(iter(of_peer.letters)))
            of_peer.forgotten += 1
        self._put(("link letters", peer), (of_peer.next, of_peer.forgotten))
        self._bound_bytes()

    def bound(self) -> None:
        """Drop the letters of some peers if there are letters of too many."""
        while len(self._peers) > MOST_PEERS:
            first = next(iter(self._peers))
            for number in list(self._peers[first].letters):
                self._remove(first, number)
            del self._peers[first]
            self._put(("link letters", first), None)

    def _bound_bytes(self) -> None:
        while self._bytes > MOST_BYTES:
            peer = max(self._peers, key=lambda each: self._peers[each].bytes)
            of_peer = self._peers[peer]
            self._remove(peer, next(iter(of_peer.letters)))
            of_peer.forgotten += 1
            self._put(("link letters", peer), (of_peer.next, of_peer.forgotten))

    def reason(self, peer: str, id: NotificationId) -> str:
        """Why a notification is a letter of the link to a peer; empty if it is none."""
        for letter in self[peer].letters.values():
            if letter.notification.envelope is not None and letter.notification.envelope.id == id:
                return letter.reason
        return ""

    def discard(self, peer: str, numbers: Iterable[int]) -> None:
        """Forget letters; numbers that are not known do no harm."""
        for number in numbers:
            if number in self[peer].letters:
                self._remove(peer, number)

    def _remove(self, peer: str, number: int) -> None:
        of_peer = self._peers[peer]
        size = of_peer.letters.pop(number).size
        of_peer.bytes -= size
        self._bytes -= size
        self._put(("link letter", peer, number), None)

    def _put(self, key: tuple[Any, ...], value: object) -> None:
        if self._journal is not None:
            self._journal.put(key, value)

    def restore(self, known: Mapping[tuple[Any, ...], Any]) -> None:
        """Take back what was kept."""
        for key, value in known.items():
            if key[0] == "link letters":
                self._peers[key[1]] = PeerLetters(*value)
        found = sorted((key[1:], value) for key, value in known.items() if key[0] == "link letter")
        for (peer, number), letter in found:
            of_peer = self._peers[peer]
            of_peer.letters[number] = letter
            of_peer.bytes += letter.size
            self._bytes += letter.size
