"""Groups of boxes by their signatures: which groups need no more than a signature offers, and which offer all of it.

There may be as many groups as boxes, so neither question may look at all of them. A tree with the tokens of each
signature as its path answers the first: a search follows a branch only while all its tokens are offered. Lists of the
groups of each token answer the second: they are intersected, the shortest first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, KeysView, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from palio.matching.features import Kind

Token = tuple[str, Kind]
"""A name, and the kind of the set of its values."""
Signature = tuple[Token, ...]
"""The tokens of a box, by name; no name occurs twice."""

G = TypeVar("G", bound=Hashable)

_INTERSECTED = 16
"""So many groups are intersected in the time in which a search looks at one branch."""


class _Branch(Generic[G]):
    """All groups whose signatures begin with the same tokens."""

    __slots__ = ("children", "group", "label")

    def __init__(self, label: Signature, group: G | None = None) -> None:
        self.label = label
        """The tokens between the branch above and this one."""
        self.group = group
        """The group whose signature ends here, if there is one."""
        self.children: dict[Token, _Branch[G]] = {}
        """By the first tokens of their labels."""


class Directory(Generic[G]):
    """Groups by their signatures.

    ``kin`` maps the kind of an offered set to the kinds that get along with it, ``akin`` is its inverse.

    >>> directory = Directory(lambda kind: (kind,), lambda kind: (kind,))
    >>> one = ("number", "one")
    >>> directory.add("x", (("x", one),))
    >>> directory.add("xy", (("x", one), ("y", one)))
    >>> directory.needing_at_most((("x", one), ("z", one))), directory.offering((("y", one),))
    (['x'], ['xy'])
    """

    def __init__(self, kin: Callable[[Kind], Iterable[Kind]], akin: Callable[[Kind], Iterable[Kind]]) -> None:
        self._kin = kin
        self._akin = akin
        self._root: _Branch[G] = _Branch(())
        self._by_token: dict[Token, dict[G, None]] = {}
        self._numbers: dict[G, int] = {}
        """Groups in the order in which they came, which is the order of all answers."""
        self._next = 0
        self.effort = 0
        """Branches and groups that all searches together have looked at, about."""

    def add(self, group: G, signature: Signature) -> None:
        """Add a group; no other one has the same signature."""
        self._numbers[group] = self._next
        self._next += 1
        for token in signature:
            self._by_token.setdefault(token, {})[group] = None
        branch, rest = self._root, signature
        while rest:
            child = branch.children.get(rest[0])
            if child is None:
                child = branch.children[rest[0]] = _Branch(rest)
            common = _common(child.label, rest)
            if common < len(child.label):
                child = branch.children[rest[0]] = _split(child, common)
            branch, rest = child, rest[common:]
        branch.group = group

    def remove(self, group: G, signature: Signature) -> None:
        """Remove a group that is there."""
        del self._numbers[group]
        for token in signature:
            del self._by_token[token][group]
            if not self._by_token[token]:
                del self._by_token[token]
        path, rest = [self._root], signature
        while rest:
            child = path[-1].children[rest[0]]
            path.append(child)
            rest = rest[len(child.label) :]
        path[-1].group = None
        while len(path) > 1:
            branch = path.pop()
            if branch.group is not None or len(branch.children) > 1:
                return
            above = path[-1].children
            if not branch.children:
                del above[branch.label[0]]
                continue
            (child,) = branch.children.values()  # a branch with one child and no group is a part of that child
            child.label = branch.label + child.label
            above[branch.label[0]] = child
            return

    def needing_at_most(self, signature: Signature) -> list[G]:
        """The groups all of whose tokens get along with tokens of a signature."""
        offer = dict.fromkeys((name, kind) for name, offered in signature for kind in self._kin(offered))
        found: list[G] = []
        waiting = [self._root]
        while waiting:
            branch = waiting.pop()
            if branch.group is not None:
                found.append(branch.group)
            children = branch.children
            shared = children.keys() & offer.keys() if children else ()
            self.effort += 1 + min(len(children), len(offer)) // _INTERSECTED
            for token in shared:
                child = children[token]
                if len(child.label) == 1 or all(map(offer.__contains__, child.label)):
                    waiting.append(child)
        return self._in_order(found)

    def offering(self, signature: Signature) -> list[G]:
        """The groups with tokens that get along with all tokens of a signature."""
        if not signature:
            self.effort += len(self._numbers)
            return list(self._numbers)
        lists = sorted((self._akin_to(token) for token in signature), key=_size)
        self.effort += len(lists) + _size(lists[0]) // _INTERSECTED
        left: AbstractSet[G] = _union(lists[0])
        for others in lists[1:]:
            if not left:
                break
            left = _union([left & groups for groups in others])
        self.effort += len(left) // _INTERSECTED
        return self._in_order(left)

    def _akin_to(self, token: Token) -> list[KeysView[G]]:
        """The groups with a token that gets along with a token."""
        name, kind = token
        lists = (self._by_token.get((name, other)) for other in self._akin(kind))
        return [groups.keys() for groups in lists if groups]

    def _in_order(self, groups: Iterable[G]) -> list[G]:
        return sorted(groups, key=self._numbers.__getitem__)


def _common(one: Signature, other: Signature) -> int:
    """With how many equal tokens two signatures begin."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low + 1 < high:  # they differ before high, and not before low
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _split(branch: _Branch[G], place: int) -> _Branch[G]:
    """Put a branch into a new one, which ends behind so many of its tokens."""
    upper: _Branch[G] = _Branch(branch.label[:place])
    branch.label = branch.label[place:]
    upper.children[branch.label[0]] = branch
    return upper


def _union(sets: Sequence[AbstractSet[G]]) -> AbstractSet[G]:
    return sets[0] if len(sets) == 1 else set().union(*sets)


def _size(lists: list[KeysView[G]]) -> int:
    return sum(map(len, lists))
