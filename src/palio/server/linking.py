"""Links that people add and remove while a server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palio.errors import CallerError, brief
from palio.server.config import ConfigError, Peer, check_peers

if TYPE_CHECKING:
    from palio.server.server import Server

_NOT_IN_FILE = "it is not in the configuration file, and will be gone when the server stops"
_IN_FILE = "it is in the configuration file, and will be back when the server reads that again"


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
        raise CallerError("link: it needs a url; neighbours that are waited for come by themselves")
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


def _remove(server: Server, name: str) -> dict[str, Any]:
    if name not in server.peers.known and name not in server.driver.node.links.peers:
        known = ", ".join(sorted({*server.peers.known, *server.driver.node.links.peers})) or "nobody"
        raise CallerError(f"link: {brief(name)} is no neighbour of {server.config.server}; neighbours are {known:.200}")
    remark = _IN_FILE if server.peers.known_from(name) == "file" else ""
    server.peers.remove(name)
    return {"link": name, "action": "remove", "remark": remark}
