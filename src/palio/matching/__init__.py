"""Many filters at once: which of them match a notification, and which of them cover one another.

>>> from palio import Filter, Notification
>>> index = FilterIndex([Filter.parse("level > 3"), Filter.parse("level > 7"), Filter.parse("user any")])
>>> index.match(Notification(level=5, user="ada"))
[0, 2]
"""

from palio.matching.covering import Change, CoveringOrder
from palio.matching.index import BatchMatches, Continuation, FilterIndex, IndexStats, Unions, Unreadable
from palio.matching.linear import LinearScan
from palio.matching.matcher import Matcher
from palio.matching.monitor import Monitor

__all__ = [
    "BatchMatches",
    "Change",
    "Continuation",
    "CoveringOrder",
    "FilterIndex",
    "IndexStats",
    "LinearScan",
    "Matcher",
    "Monitor",
    "Unions",
    "Unreadable",
]
