"""
Load for brokers, and what counts it; use it through palio.bench.broker.
"""

from collections.abc import Sequence


class LoadError(ConnectionError):
    pass

class Counter:
    """Counts the messages in what a broker sends."""

    def __init__(self, protocol: str) -> None: ...

    def feed(self, data: bytes) -> list[bytes]:
        """The last eight bytes of each payload that is whole with this."""

class Generator:
    """The first socket publishes, the others receive."""

    def __init__(self, protocol: str, sockets: Sequence[int], block: bytes, ends: Sequence[int], deliveries: Sequence[int]) -> None: ...

    def flood(self, seconds: float, in_flight: int, patience: float) -> tuple[int, int, int, float, bool, float, float]:
        """
        Send as fast as so many messages in flight allow: sent, expected, received, seconds, and no latencies.
        """

    def pace(self, per_second: float, seconds: float, behind: int, patience: float) -> tuple[int, int, int, float, bool, float, float]:
        """
        Send at a pace: sent, expected, received, seconds, whether the broker kept up, p50 and p99 in microseconds.
        """

class DurableGenerator:
    """The first socket publishes, the others are durable parties."""

    def __init__(self, sockets: Sequence[int], first: Sequence[int], frames: Sequence[bytes], acknowledges: bool = True) -> None: ...

    def flood(self, seconds: float, most: int, in_flight: int, parties: int, patience: float) -> tuple[int, int, int, float, float, float, float]:
        """
        Publish with so many unaccepted at most: sent, accepted, received, seconds until all were accepted and until all had come, p50 and p99 of acceptances in microseconds.
        """

    def drain(self, deliveries: int, patience: float) -> tuple[int, int, int, float, float, float, float]:
        """Wait for so many deliveries, and acknowledge them."""

def copy_to_all(publisher: int, parties: Sequence[int]) -> None:
    """Write what one socket sends to all others, until it ends."""
