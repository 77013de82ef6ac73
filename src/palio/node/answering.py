"""Answers to questions about demand and offers, kept up to date within the comparisons of each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.node.ports import Outlook
from palio.node.preparing import Allowance

if TYPE_CHECKING:
    from palio.node.node import Node


class Answering:
    """Compares elements that come and go with the questions of parties; the rest waits for later turns.

    Records need not contain what waits: a server that starts again searches for the answers to all questions.
    """

    def __init__(self, node: Node, allowance: Allowance) -> None:
        self._node = node
        self._allowance = allowance

    def __bool__(self) -> bool:
        """Whether there are comparisons to make."""
        return self._node.outlooks.is_behind

    def work(self) -> list[Outlook]:
        """Make as many comparisons as this turn permits, and return the answers that have changed."""
        outlooks, node = self._node.outlooks, self._node
        if outlooks.is_behind:
            others = len(node.arrivals) + len(node.preparing) + bool(node.departures)
            self._allowance.work(("outlooks",), outlooks.work(), others)
        return [Outlook(*prospect) for prospect in outlooks.news()]
