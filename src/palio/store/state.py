"""Whether the records of a store are those of a node: loaded as a server would load them, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from palio.node.journal import Record
from palio.node.keeping import tail_from
from palio.node.loading import Quarantined, load
from palio.node.node import Node
from palio.node.settings import NodeSettings
from palio.routing.border import Gateway
from palio.routing.router import Role
from palio.store import reading
from palio.store.schema import Meta

_TAIL_BYTES = 1 << 30


class State(NamedTuple):
    """What a server that starts on a store finds wrong with its records."""

    misfits: list[Quarantined]
    """The records that it would put aside: it cannot read them, or they do not fit the others."""
    doubles: list[str]
    """Records of which there are several, in other words; they would become one."""
    put_aside: int
    """How many records were put aside before."""

    @property
    def is_sound(self) -> bool:
        """Whether a server finds nothing to mend."""
        return not self.misfits and not self.doubles


def check_state(path: Path, meta: Meta) -> State:
    """Load the records of a store, to which a server may be writing.

    The architecture is not part of a store: it is taken for one in which the links and filters that are there can be.
    """
    loaded = load(reading.records(path))
    settings = _settings(meta, loaded.records)
    begin = max(tail_from(loaded.records, meta.incarnation, meta.next), meta.first)
    reader = reading.LogReader(path)
    try:
        tail = reader.read(begin, meta.next, _TAIL_BYTES) if begin < meta.next else []
    finally:
        reader.close()
    node = Node(settings, loaded.records, 0, tail, meta.first, meta.next)
    return State([*loaded.quarantined, *node.quarantined], loaded.merged, loaded.put_aside)


def _settings(meta: Meta, records: Iterable[Record]) -> NodeSettings:
    architecture, roles = "aa", {}
    for key, value in records:
        match key, value:
            case ("link", str(peer)), (_, str(role), *_):
                roles[peer] = role
            case ("account", _), _:
                architecture = "ga"
    if {Role.MASTER.value, Role.CLIENT.value} & set(roles.values()):
        architecture = "hs"
    gateways = {peer: Gateway() for peer, role in roles.items() if role == Role.GATEWAY.value}
    return NodeSettings(meta.name, architecture, meta.incarnation, gateways=gateways, durable=True)
