"""What can go wrong between a client and its server."""

from __future__ import annotations

from palio.errors import CallerError, PalioError


class ServiceError(PalioError):
    """The service did not do what was asked for. ``code`` says why, for programs; the text says it for people.

    Codes are the server's (``docs/protocol.md``); it is empty if the server said nothing.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
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


class SlowConsumerError(ServiceError):
    """A subscription's queue was full, and its policy is to fail then."""


class ClosedError(CallerError):
    """The client, or the subscription, is closed and can do nothing more."""


_REFUSALS: dict[str, type[RefusedError]] = {
    "unsatisfiable": UnsatisfiableError,
    "not-advertised": NotAdvertisedError,
    "not-allowed": NotAllowedError,
    "limit": TooLargeError,
}
FINAL_CODES = frozenset({"token", "unknown", "name", "version", "replaced"})
"""Why a connection ends so that another attempt would end in the same way, or would throw out who came after us."""


def refusal(code: str, text: str) -> RefusedError:
    """The error for what a server answered.

    >>> refusal("unsatisfiable", "nothing can match it")
    UnsatisfiableError('nothing can match it')
    """
    return _REFUSALS.get(code, RefusedError)(text, code)
