"""The servers of the hostile campaign: stores, tokens, HTTP ports, small budgets of memory, and one with few files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from palio.server.credentials import hash_of
from tests.processes.few_files import VARIABLE
from tests.processes.fleet import Fleet, Network, ServerProcess

_TREE = (("a1", "a0"), ("a2", "a0"))
_RING = (*_TREE, ("a2", "a1"))
NETWORKS = {
    **{name: Network(name, _TREE) for name in ("as", "aa", "hs")},
    **{name: Network(name, _RING) for name in ("gs", "ga")},
}
"""Three servers each."""
FEW_FILES_SERVER = "a2"
FEW_FILES = 160
"""Files that this server may open."""
ADMIN = "h0"
PARTIES = 100
"""Names of parties that attackers use: ``h0`` to ``h99``."""
STRANGERS = 1_500
"""Names of servers that attackers use: ``x0`` and so on. No server has them as neighbours."""
VISITOR = "visitor"
SETTINGS = f"""
admins = ["{ADMIN}"]
history_bytes = 16_777_216
[connections]
waiting_bytes = 67_108_864
unfinished_bytes = 67_108_864
forget_seconds = 5.0
[slow]
bytes = 8_388_608
[links]
most_bytes = 67_108_864
[store]
path = "{{server}}.db"
waiting_bytes = 33_554_432
all_keys_bytes = 33_554_432
[http]
port = 0
"""
MEMORY_MIB = 512
"""Bound of the memory of a server, the sum of these:

- 110: a server with its libraries (about 50 on the machine where this was written) and the innocent load
- 288: the configured budgets: output that waits (64), unfinished frames (64), bytes that wait for the disk (32), keys
  (32), the queues of two links (2 x 32; with more in them, publishers wait), history (16), entries of the log that are
  cached (16)
- 80: subscriptions and advertisements that three attackers hold at the same time, which only ``filters_per_party``
  bounds: up to 3,000 filters of 20 constraints, each at about 9 KiB
- 34: memory that the allocator does not give back
"""


def token_of(name: str) -> str:
    """The token of a party or a server of the campaign.

    >>> token_of("p0")
    'the token of p0'
    """
    return f"the token of {name}"


def liar_of(server: str) -> str:
    """The name of the neighbour that lies to a server.

    >>> liar_of("a0")
    'liar-of-a0'
    """
    return f"liar-of-{server}"


class HostileFleet(Fleet):
    """Servers that dial each other without proxies, so that nothing but servers decides about latency."""

    def __init__(self, network: Network, folder: Path, clients: list[str], program: str = "palio") -> None:
        super().__init__(network, folder, SETTINGS, program)
        parties = [*clients, VISITOR, *(f"h{number}" for number in range(PARTIES))]
        strangers = [*map(liar_of, network.servers), *network.servers, *(f"x{number}" for number in range(STRANGERS))]
        self._tokens = "\n".join(
            [
                "[tokens]",
                *(f'{name} = "{hash_of(token_of(name))}"' for name in parties),
                "[server_tokens]",
                *(f'{name} = "{hash_of(token_of(name))}"' for name in strangers),
            ]
        )

    async def __aenter__(self) -> HostileFleet:
        try:
            for name in self.network.servers:  # each dials earlier ones only, whose ports are known then
                server = self.servers[name] = ServerProcess(self._folder, name, self.config(name), {}, self._program)
                if name == FEW_FILES_SERVER:
                    server.program, server.environment = "tests.processes.few_files", {VARIABLE: str(FEW_FILES)}
                await server.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def settings_of(self, name: str) -> str:
        """With the tokens of all."""
        return super().settings_of(name) + self._tokens

    def dialed_port(self, who: str, whom: str) -> int:
        """The port of the other server itself."""
        return self.servers[whom].port

    def peer_settings(self, who: str, whom: str) -> list[str]:
        """The token by which a server is known to its neighbour."""
        return [f'token = "{token_of(who)}"']

    def url(self, server: str) -> str:
        """Where clients find a server."""
        return f"palio://127.0.0.1:{self.servers[server].port}"

    def records(self) -> int:
        """How many state records are in the store that has most of them."""
        return max(self._records_of(name) for name in self.servers)

    def _records_of(self, name: str) -> int:
        path = self._folder / f"{name}.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM state").fetchone()[0])

    def log_bytes(self) -> int:
        """How long the longest log of a server is."""
        return max(server.log_bytes for server in self.servers.values())

    def fault_places(self) -> list[str]:
        """The faults that servers report, without their times."""
        return [
            f"{name} reports a fault at {line.get('where')}: {line.get('stack')}"
            for name, server in self.servers.items()
            for line in server.said()
            if line["event"] in ("fault", "broken")
        ]

    def strange_lines(self) -> list[str]:
        """Lines of logs that are not JSON, though servers were asked for that."""
        return [
            f"{name} logs a line that is not JSON: {line[:200]!r}"
            for name in self.servers
            for line in (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
            if not line.startswith("{")
        ]

    def dead(self) -> list[str]:
        """Servers that have ended though they were not asked to, with the last lines of their logs."""
        return [
            f"{name} died (exit code {server.exit_code}): {server.log_tail()}"
            for name, server in self.servers.items()
            if server.exit_code is not None
        ]
