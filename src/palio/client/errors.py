"""What can go wrong between a client and its server."""

from __future__ import annotations

from palio.errors import CallerError, PalioError, printable


class ServiceError(PalioError):
    """The service did not do what was asked for. ``code`` says why, for programs; the text says it for people.

    Codes are the server's (``docs/protocol.md``); it is empty if the server said nothing.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(printable(text))  # the server has chosen the words, and names of others are in them
        self.code = code


class CannotConnectError(ServiceError, ConnectionError):
    """There is no connection, and none came about."""


class ConnectionLostError(ServiceError, ConnectionError):
    """The connection broke before the answer came: what was asked for may have been done, or not."""


class RefusedError(ServiceError):
    """The server has refused a request."""


class UnsatisfiableError(RefusedError):
    """A filter that nothing can match."""


class NotAdvertisedError(RefusedError):
    """A publication that its publisher has not advertised, at a server that asks for that."""


class NotAllowedError(RefusedError):
    """The party has no right to do this."""


class TooLargeError(RefusedError):
    """Larger, or more, than the server allows."""


class GoneError(RefusedError):
    """Deliveries that are not kept any more, or a log that has ended."""


class FullDiskError(RefusedError):
    """The server cannot keep more, and refuses publications until there is room."""


class NoStoreError(RefusedError, CannotConnectError):
    """The server keeps nothing on disk: it has no durable parties, and accepts publications in memory only."""


class UnknownCursorError(CannotConnectError):
    """The application wants to go on where the server has never been. ``log`` and ``next`` say what there is."""

    def __init__(self, text: str, log: int, next: int) -> None:
        super().__init__(text, "cursor")
        self.log = log
        self.next = next


class SlowConsumerError(ServiceError):
    """A subscription's queue was full, and its policy is to fail then."""


class ClosedError(CallerError):
    """The client, or the subscription, is closed and can do nothing more."""


_REFUSALS: dict[str, type[RefusedError]] = {
    "unsatisfiable": UnsatisfiableError,
    "not-advertised": NotAdvertisedError,
    "not-allowed": NotAllowedError,
    "limit": TooLargeError,
    "gone": GoneError,
    "full-disk": FullDiskError,
    "no-store": NoStoreError,
}
FINAL_CODES = frozenset({"tls", "token", "unknown", "name", "version", "replaced", "no-store"})
"""Why a connection ends so that another attempt would end in the same way, or would throw out who came after us."""


def refusal(code: str, text: str) -> RefusedError:
    """The error for what a server answered.

    >>> refusal("unsatisfiable", "nothing can match it")
    UnsatisfiableError('nothing can match it')
    """
    return _REFUSALS.get(code, RefusedError)(text, code)


def cannot_connect(text: str, code: str) -> CannotConnectError:
    """The error for a server that does not let us in.

    >>> cannot_connect("it keeps nothing", "no-store")
    NoStoreError('it keeps nothing')
    """
    return (NoStoreError if code == "no-store" else CannotConnectError)(text, code)
