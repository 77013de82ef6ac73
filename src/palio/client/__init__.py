"""The Python client: publish, subscribe, unsubscribe, advertise and unadvertise at a server.

::

    async with palio.connect("palio://127.0.0.1:7400") as client:
        async with client.subscribe('symbol = "DIS" and change > 0') as events:
            await client.publish(symbol="DIS", change=1.5)
            async for notification in events:
                ...

:mod:`palio.client.sync` is the same for programs without a loop.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

from palio.client.client import Client, DurableClient, make_client
from palio.client.deliveries import Delivery, DurableSubscription
from palio.client.durable import Cursor, Durable, Gap
from palio.client.errors import (
    CannotConnectError,
    ClosedError,
    ConnectionLostError,
    FullDiskError,
    GoneError,
    NoStoreError,
    NotAdvertisedError,
    NotAllowedError,
    RefusedError,
    ServiceError,
    SlowConsumerError,
    TooLargeError,
    UnknownCursorError,
    UnsatisfiableError,
)
from palio.client.letters import DeadLetters, Letter
from palio.client.options import ConnectOptions, Options
from palio.client.publications import Acceptance, PublishOptions
from palio.client.streams import Stream
from palio.client.subscriptions import Subscription
from palio.errors import CallerError

DEFAULT_URL = "palio://127.0.0.1:7400"


@overload
def connect(url: str = ..., *, durable: Literal[False] | None = ..., **options: Unpack[ConnectOptions]) -> Client: ...
@overload
def connect(
    url: str = ..., *, durable: Durable | Literal[True], **options: Unpack[ConnectOptions]
) -> DurableClient: ...
@overload
def connect(
    url: str = ..., *, durable: Durable | bool | None, **options: Unpack[ConnectOptions]
) -> Client | DurableClient: ...
def connect(url: str = DEFAULT_URL, **options: Any) -> Client | DurableClient:
    """A client of the server at an address; ``async with`` it. :class:`Options` has the keywords."""
    return make_client(url, read_options(options))


def read_options(options: dict[str, Any]) -> Options:
    """The keywords of :func:`connect`.

    >>> read_options({"name": "eva"}).name
    'eva'
    >>> read_options({"nmae": "eva"})
    Traceback (most recent call last):
    palio.errors.CallerError: nmae: no option; there are name, token, ssl, ...
    """
    for option in options:
        if option not in Options.__struct_fields__:
            raise CallerError(f"{option}: no option; there are {', '.join(Options.__struct_fields__)}")
    return Options(**options)


__all__ = [
    "DEFAULT_URL",
    "Acceptance",
    "CannotConnectError",
    "Client",
    "ClosedError",
    "ConnectOptions",
    "ConnectionLostError",
    "Cursor",
    "DeadLetters",
    "Delivery",
    "Durable",
    "DurableClient",
    "DurableSubscription",
    "FullDiskError",
    "Gap",
    "GoneError",
    "Letter",
    "NoStoreError",
    "NotAdvertisedError",
    "NotAllowedError",
    "Options",
    "PublishOptions",
    "RefusedError",
    "ServiceError",
    "SlowConsumerError",
    "Stream",
    "Subscription",
    "TooLargeError",
    "UnknownCursorError",
    "UnsatisfiableError",
    "connect",
]
