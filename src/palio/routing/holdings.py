"""What has changed of what parties hold, for records of it."""

from __future__ import annotations

from palio.matching.views import E
from palio.model import Advertisement, Filter


class Holdings:
    """What parties have begun to hold, or hold no longer, since it was last asked: for those who keep it on disk."""

    def __init__(self) -> None:
        self.are_noted = False
        """Whether anybody asks."""
        self._changes: dict[tuple[str, Filter | Advertisement], Filter | Advertisement | None] = {}

    def note(self, party: str, element: E, *, is_held: bool) -> None:
        """A party holds something, in these words, or does no longer."""
        if self.are_noted:
            self._changes[party, element.canonical()] = element if is_held else None

    def take(self) -> list[tuple[tuple[str, Filter | Advertisement], Filter | Advertisement | None]]:
        """By party and canonical form: the words that the party has used, or nothing if it does not hold it."""
        changes, self._changes = self._changes, {}
        return list(changes.items())
