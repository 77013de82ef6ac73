"""Which of many filters match a notification.

>>> from palio import Filter, Notification
>>> scan = LinearScan([Filter.parse("level > 3"), Filter.parse("level > 7"), Filter.parse("user any")])
>>> scan.match(Notification(level=5, user="ada"))
[0, 2]
"""

from palio.matching.linear import LinearScan
from palio.matching.matcher import Matcher

__all__ = ["LinearScan", "Matcher"]
