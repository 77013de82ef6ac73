"""What clients are told when something cannot be: codes that programs know, with a text for people."""

from __future__ import annotations

from enum import Enum

from palio.errors import CallerError, DecodeError, DecodeLimitError, InternalError, LimitError, PalioError, PeerError
from palio.node.admission import (
    FullDiskError,
    NoStoreError,
    NotAdvertisedError,
    NotAllowedError,
    UnsatisfiableFilterError,
)
from palio.node.reading import GoneError


class Code(Enum):
    """Why a request was refused, or a connection closed."""

    VERSION = "version"
    """No version of the protocol is known at both ends."""
    TLS = "tls"
    """One end speaks TLS and the other does not, or the handshake failed."""
    HELLO = "hello"
    """The first frame was no hello, or came too late."""
    TOKEN = "token"  # noqa: S105 (the name of an error)
    """The token is not that of the name, or does not count any more."""
    UNKNOWN = "unknown"
    """Nobody of that name may connect."""
    TOO_MANY = "too-many"
    """Too many wrong tokens came from that address, or too many ask to be let in at once: try again later."""
    NAME = "name"
    """A name or a role that is none, or a server that is not the one that was looked for."""
    NAME_TAKEN = "name-taken"
    """A server of that name is connected already, and alive."""
    FRAME = "frame"
    """A frame that is malformed, or of a kind that does not belong here."""
    FRAME_TOO_LONG = "frame-too-long"
    DOCUMENT = "document"
    """What should be a notification, a filter or the like is none."""
    LIMIT = "limit"
    """Larger, or more, than is allowed."""
    UNSATISFIABLE = "unsatisfiable"
    """A filter that nothing can match."""
    NOT_ADVERTISED = "not-advertised"
    """A publication that its publisher has not advertised, where that is asked for."""
    NOT_ALLOWED = "not-allowed"
    INVALID = "invalid"
    """A request that makes no sense."""
    REPLACED = "replaced"
    """The same party has connected again, and this connection is the older one."""
    SLOW = "slow"
    """The party did not take what there was for it."""
    SILENT = "silent"
    """Nothing came for too long."""
    FULL = "full"
    """The server has as many connections as it may have, or keeps as much of frames that are not whole."""
    NO_STORE = "no-store"
    """Only a server with a store can do that, and this one has none."""
    GONE = "gone"
    """Deliveries that are not there any more."""
    FULL_DISK = "full-disk"
    """There is no room on the disk for a publication; try again later."""
    STOPPING = "stopping"
    """The server stops; connect again later, or elsewhere."""
    INTERNAL = "internal"
    """A fault of the server."""


_CODES: tuple[tuple[type[PalioError], Code], ...] = (
    (DecodeLimitError, Code.LIMIT),
    (DecodeError, Code.DOCUMENT),
    (LimitError, Code.LIMIT),
    (UnsatisfiableFilterError, Code.UNSATISFIABLE),
    (NotAdvertisedError, Code.NOT_ADVERTISED),
    (NotAllowedError, Code.NOT_ALLOWED),
    (NoStoreError, Code.NO_STORE),
    (FullDiskError, Code.FULL_DISK),
    (GoneError, Code.GONE),
    (PeerError, Code.FRAME),
    (CallerError, Code.INVALID),
    (InternalError, Code.INTERNAL),
)


def code_of(error: PalioError) -> Code:
    """The code of an error.

    >>> code_of(UnsatisfiableFilterError("x")).value
    'unsatisfiable'
    """
    return next((code for cls, code in _CODES if isinstance(error, cls)), Code.INTERNAL)


class RefusedError(PeerError):
    """A connection that cannot go on."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
