"""The networks of studies by name: generated ones, and those of files."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from palio.errors import CallerError, brief
from palio.lab.graph_files import GraphFileError, read_dot, read_graphbase
from palio.lab.topology import Topology, TransitStub, Waxman, transit_stub, waxman

USUAL_NETWORK = "transit-stub:1"
"""That of all studies, unless somebody asks for another."""
_GENERATORS: dict[str, Callable[[int], Topology]] = {"transit-stub": transit_stub, "waxman": waxman}
_READERS = {".dot": read_dot, ".gb": read_graphbase}


def named(name: str) -> tuple[str, Topology]:
    """A network, and a name by which its results are told from those of others.

    A generator with a seed (without one it is 1), ``transit-stub:1`` or ``waxman:7``; or a file, ``*.dot`` or ``*.gb``
    (Stanford GraphBase), whose name gets a digest of what is in it.

    >>> label, network = named("waxman")
    >>> label, len(network.names)
    ('waxman:1', 100)
    >>> named("ring")
    Traceback (most recent call last):
    palio.errors.CallerError: network: 'ring' is none; transit-stub:1, waxman:1, a file .dot or .gb are some
    """
    generated = re.fullmatch(r"([a-z-]+)(?::(\d{1,18}))?", name)
    if generated and generated[1] in _GENERATORS:
        seed = int(generated[2] or 1)
        return f"{generated[1]}:{seed}", _GENERATORS[generated[1]](seed)
    path = Path(name)
    if path.suffix not in _READERS:
        raise CallerError(f"network: {brief(name)} is none; transit-stub:1, waxman:1, a file .dot or .gb are some")
    try:
        content = path.read_bytes()
        network = _READERS[path.suffix](content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(f"network: {brief(name)} cannot be read: {error}") from error
    except GraphFileError as error:
        raise GraphFileError(f"{name}: {error}") from error
    return f"{path.name}#{blake2b(content, digest_size=4).hexdigest()}", network


def parameters(label: str) -> dict[str, str | int | float]:
    """How the network of a name was made; of one from a file that is all that is known.

    >>> parameters("transit-stub:1")["stub_nodes"]
    8
    """
    generator, _, seed = label.partition(":")
    if generator not in _GENERATORS:
        return {"file": label}
    shape = TransitStub()._asdict() if generator == "transit-stub" else Waxman()._asdict()
    return {"generator": generator, "seed": int(seed), **shape}
