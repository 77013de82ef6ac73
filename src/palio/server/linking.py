"""Links that people add and remove while a server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palio.errors import CallerError, brief
from palio.server.config import ConfigError, Peer, check_peers

if TYPE_CHECKING:
    from palio.server.server import Server

_NOT_IN_FILE = "it is not in the configuration file, and will be gone when the server stops"
_REMARKS = {
    "file": "it is in the configuration file: the link comes back when the server reads that again, or restarts",
    "command": "",
    "neighbour": "if it opens the link itself it is refused, until `palio net link add NAME`, a reload or a restart",
}
"""What the removal of a link means, by where the neighbour is known from."""


def change(server: Server, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add or remove a neighbour, and say what that means."""
    match arguments:
        case {"action": "add", **peer}:
            return _add(server, peer)
        case {"action": "remove", "name": str(name), **rest} if not rest:
            return _remove(server, name)
    raise CallerError("link: 'action' is add, with name and url; or remove, with name and nothing else")


def _add(server: Server, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        peer = msgspec.convert(fields, Peer)
    except msgspec.ValidationError as error:
        raise CallerError(f"link: {error}") from error
    if not peer.url:
        return _allow(server, peer.name)
    if peer.role == "gateway":
        raise CallerError("link: gateways have to be in the configuration of both servers")
    before = server.peers.known.get(peer.name)
    if before is not None and before != peer:
        raise CallerError(f"link: {brief(peer.name)} is a neighbour already, in another way; remove it first")
    if before is None:
        others = tuple(server.peers.known.values())
        try:
            check_peers(msgspec.structs.replace(server.config, peers=(*others, peer)))
        except ConfigError as error:
            raise CallerError(f"link: {error}") from error
        server.peers.add(peer)
    remark = _NOT_IN_FILE if server.peers.known_from(peer.name) == "command" else "it was there already"
    return {"link": peer.name, "action": "add", "is_new": before is None, "remark": remark}


def _allow(server: Server, name: str) -> dict[str, Any]:
    """Accept a neighbour again that was removed here and opens the link itself."""
    if name not in server.driver.node.links.barred:
        raise CallerError(
            f"link: {brief(name)} was not removed here; to open a link to it, say its url. "
            "Neighbours that open the link themselves need nothing here"
        )
    server.peers.allow(name)
    return {"link": name, "action": "add", "is_new": False, "remark": f"{name} may open the link again"}


def _remove(server: Server, name: str) -> dict[str, Any]:
    if name not in server.peers.names:
        known = ", ".join(server.peers.names) or "none"
        raise CallerError(f"link: {brief(name)} is no neighbour of {server.config.server}; neighbours are {known:.200}")
    if name in server.driver.node.links.barred:
        raise CallerError(f"link: {brief(name)} was removed already; `palio net link add {name}` allows it again")
    remark = _REMARKS[server.peers.known_from(name)]
    server.peers.remove(name)
    return {"link": name, "action": "remove", "remark": remark}
