"""What a server says of itself: figures, parties and links, as a document for people and programs."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any

from palio.link.states import State
from palio.server.connection import Connection
from palio.server.durability import durable_parties, store_figures

if TYPE_CHECKING:
    from palio.server.server import Server

MOST_PARTIES = 200
"""Parties that a status tells of one by one: those for which most waits, then those that got most."""
MOST_LINKS = 200
STATE_REASONS = {
    "checking": "the two servers compare how far the link is",
    "interrupted": "the neighbour is not connected",
    "asked": "the neighbour has not answered yet",
    "refused": "the link was refused",
    "down": "the neighbour is not connected",
    "silent": "the neighbour is connected and has not asked for the link",
}
"""What a status says of links that are not up and of which no other reason is known."""


def status(server: Server, watcher: str | None = None) -> dict[str, Any]:
    """All figures of a server, as they are now; of parties only those of one that watches, if there is one."""
    driver, counts = server.driver, server.counts
    node = driver.node
    parties = _parties(server, watcher)
    links = _links(server)
    return {
        "server": server.config.server,
        "incarnation": node.settings.incarnation,
        "architecture": server.config.architecture,
        "uptime_seconds": round(server.loop.time() - server.began, 3),
        "lag_seconds": round(counts.latest_lag, 6),
        "counts": {
            "publications": driver.publications,
            "deliveries": driver.deliveries,
            "dropped": counts.dropped.total(),
            "refused": counts.refusals.total(),
            "received_bytes": counts.bytes_in,
            "sent_bytes": counts.bytes_out,
            "waiting_bytes": server.backlog.bytes,
            "turns": driver.turns,
            "faults": counts.faults,
            "subscriptions": len(node.router.subscriptions),
            "advertisements": len(node.router.advertisements),
            "parties": len(driver.parties),
            "links": sum(link["state"] == "up" for link in links),
            "durable": len(list(node.logs)),
            "expired": node.expired,
            "keys": node.keys.count,
            "keys_evicted": node.keys.evicted,
        },
        "store": store_figures(server),
        "durable": durable_parties(server, watcher),
        "parties": parties,
        "parties_left_out": len(driver.parties) - len(parties),
        "links": links[:MOST_LINKS],
        "links_left_out": max(0, len(links) - MOST_LINKS),
    }


def _parties(server: Server, watcher: str | None) -> list[dict[str, Any]]:
    here = [
        each for each in server.driver.parties.values() if isinstance(each, Connection) and watcher in (None, each.name)
    ]
    chosen = nlargest(MOST_PARTIES, here, key=lambda each: (each.waiting, each.delivered, each.received))
    dropped = server.counts.dropped
    return [
        {
            "name": each.name,
            "waiting_bytes": each.waiting,
            "slow": each.is_slow,
            "deliveries": each.delivered,
            "dropped": dropped[each.name],
            "received_bytes": each.received,
            "sent_bytes": each.written - each.waiting,
        }
        for each in chosen
    ]


def _links(server: Server) -> list[dict[str, Any]]:
    peers, node = server.peers, server.driver.node
    found = []
    for name in peers.names:
        known, is_linked = peers.known.get(name), name in node.links.peers
        role, status = node.router.peers.get(name), node.links.status(name)
        backlog = status.backlog
        found.append(
            {
                "name": name,
                "state": link_state(server, name),
                "role": role.value if role is not None else known.role if known is not None else "",
                "latency": node.links.latency(name) if is_linked else known.latency if known is not None else 1,
                "url": known.url if known is not None else "",
                "known_from": peers.known_from(name),
                "unacknowledged": backlog.messages,
                "backlog_bytes": backlog.bytes,
                "backlog_seconds": backlog_seconds(server, name),
                "letters": len(node.peer_limits.letters[name].letters),
                "reason": link_reason(server, name),
            }
        )
    return found


def backlog_seconds(server: Server, name: str) -> float:
    """For how long the oldest message has waited that a neighbour has not acknowledged."""
    since = server.driver.node.links.status(name).backlog.since
    return 0.0 if since is None else round(max(0, server.driver.now - since) / 1e6, 3)


def link_state(server: Server, name: str) -> str:
    """How a link stands, in one word.

    ``up``; ``checking``: this server asks whether the neighbour still knows the link; ``interrupted``: there is a link
    and no connection just now; ``asked``: not answered yet; ``refused``: wanted, and refused for a reason; ``down``.
    """
    state, is_connected = server.driver.node.links.status(name).state, server.peers.is_connected(name)
    if state.has_link:
        if not is_connected:
            return "interrupted"
        return "up" if server.peers.is_up(name) else "checking"
    if state is State.REFUSED:
        return "refused"
    return "asked" if is_connected and state in (State.ASKING, State.ANSWERING, State.WAITING) else "down"


def link_reason(server: Server, name: str) -> str:
    """Why a link is not up; empty if it is. If neither server has given a reason, the words follow from the state."""
    state = link_state(server, name)
    if state == "up":
        return ""
    links = server.driver.node.links
    if state == "down" and name in links.declined and server.peers.is_connected(name):
        return links.declined[name]
    said = links.status(name).reason or server.peers.reasons.get(name, "")
    return said or STATE_REASONS["silent" if state == "down" and server.peers.is_connected(name) else state]
