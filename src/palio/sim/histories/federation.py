"""Several networks joined by gateways: which server is in which, and what passes between them."""

from __future__ import annotations

from random import Random

from palio.model import Advertisement, Filter
from palio.routing.border import Gateway

NETWORKS = "abc"
"""The names of servers begin with that of their network."""
OFFER = Advertisement.parse("x any; y any; symbol any")
"""What is announced of networks in which advertisements do not spread."""
_BORDERS = (None, None, None, Filter.parse("x >= 2"), Filter.parse("x <= 5"), Filter.parse('symbol = "A"'))


def architecture_of(architecture: str, server: str) -> str:
    """The architecture of a server's network; those of several are written with a plus between them.

    >>> architecture_of("as", "s3"), architecture_of("gs+hs", "b0")
    ('as', 'hs')
    """
    parts = architecture.split("+")
    return parts[NETWORKS.index(server[0])] if len(parts) > 1 else architecture


def are_joined(architecture: str, server: str, peer: str) -> bool:
    """Whether a link between two servers is a gateway."""
    return "+" in architecture and server[0] != peer[0]


def gateway(architecture: str, seed: int, server: str, peer: str, start: int = 0) -> Gateway:
    """What passes a gateway at one of its ends, by the seed of the history, and by the starts that count."""
    random = Random(f"{seed} {server} {peer} gateway {start}" if start else f"{seed} {server} {peer} gateway")
    advertises = architecture_of(architecture, server) in ("aa", "ga")
    is_told = architecture_of(architecture, peer) in ("aa", "ga")
    offers = (OFFER,) if advertises and not is_told else ()
    return Gateway(random.choice(_BORDERS), random.choice(_BORDERS), offers)
