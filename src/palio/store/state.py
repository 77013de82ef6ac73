"""Whether the records of a store are those of a node: loaded as a server would load them, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from palio.node.journal import Record
from palio.node.loading import load
from palio.node.quarantine import Quarantined
from palio.node.settings import NodeSettings
from palio.node.shapes import problem
from palio.node.starting import MessageLog, start
from palio.routing.architectures import ARCHITECTURES
from palio.routing.border import Gateway
from palio.routing.router import Role
from palio.store import reading
from palio.store.schema import Meta


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

    Architecture and gateways are those with which the records were written.
    """
    loaded = load(reading.records(path))
    before = loaded.quarantine.count - sum(each.is_kept for each in loaded.quarantined)
    settings = settings_of(meta, loaded.records)
    reader = reading.LogReader(path)
    try:
        now = reader.meta()  # a server may have written to the log since
        node = start(settings, loaded, MessageLog(now.first, now.next, reader.read), 0)
    finally:
        reader.close()
    return State([*loaded.quarantined, *node.quarantined], loaded.merged, before)


def settings_of(meta: Meta, records: Iterable[Record]) -> NodeSettings:
    """As they were when the records were written. Earlier releases have not written them: then they are guessed."""
    known, guess = None, "aa"
    gateways: dict[str, Gateway] = {}
    for key, value in records:
        match key, value:
            case ("architecture",), str(name) if name in ARCHITECTURES:
                known = name
            case ("link", str(peer)), (_, str(role), *_):
                if role == Role.GATEWAY.value:
                    gateways.setdefault(peer, Gateway())
                elif role in (Role.MASTER.value, Role.CLIENT.value):
                    guess = "hs"
            case ("account", _), _:
                guess = guess if guess == "hs" else "ga"
            case ("gateway", str(peer)), (imports, exports, offers) if problem(key, value) is None:
                gateways[peer] = Gateway(imports, exports, offers)
    return NodeSettings(meta.name, known or guess, meta.incarnation, gateways=gateways, durable=True)
