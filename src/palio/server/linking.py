"""Links that operators add and remove while a server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palio.errors import CallerError, brief
from palio.server.config import ConfigError, Peer, check_peers

if TYPE_CHECKING:
    from palio.server.server import Server

_NOT_IN_FILE = "the link is not in the configuration file and ends when the server stops"
_IN_FILE = "the link is in the configuration file, which counts again after a reload or a restart"
_REMARKS = {
    "file": "the link is in the configuration file and comes back with a reload or a restart of the server",
    "command": "",
    "neighbour": "the neighbour is refused if it opens the link, until `palio net link add NAME`, reload or restart",
}
"""The remarks about the removal of a link, by the origin of the neighbour."""


def change(server: Server, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add or remove a neighbour. Returns a remark about the effect."""
    match arguments:
        case {"action": "add", **peer}:
            return _add(server, peer)
        case {"action": "remove", "name": str(name), **rest} if not rest:
            return _remove(server, name)
    raise CallerError("link: 'action' must be add, with name and url, or remove, with name only")


def _add(server: Server, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        peer = msgspec.convert(fields, Peer)
    except msgspec.ValidationError as error:
        raise CallerError(f"link: {error}") from error
    if not peer.url:
        return _allow(server, peer.name)
    if peer.role == "gateway":
        raise CallerError("link: a gateway must be in the configuration of both servers")
    before = server.peers.known.get(peer.name)
    if before is not None and before != peer:
        raise CallerError(f"link: {brief(peer.name)} is a neighbour already, with other settings; remove it first")
    if before is None:
        others = tuple(server.peers.known.values())
        try:
            check_peers(msgspec.structs.replace(server.config, peers=(*others, peer)))
        except ConfigError as error:
            raise CallerError(f"link: {error}") from error
        server.peers.add(peer)
    is_in_file = server.peers.known_from(peer.name) == "file"
    remark = _NOT_IN_FILE if not is_in_file else _IN_FILE if before is None else "the link was configured already"
    return {"link": peer.name, "action": "add", "is_new": before is None, "remark": remark}


def _allow(server: Server, name: str) -> dict[str, Any]:
    """Accept a neighbour again that was removed here."""
    if name not in server.driver.node.links.barred:
        raise CallerError(
            f"link: {brief(name)} was not removed here. To open a link to it, give its url; "
            "a neighbour that opens the link itself needs no command here"
        )
    server.peers.allow(name)
    return {"link": name, "action": "add", "is_new": False, "remark": f"{name} may open the link again"}


def _remove(server: Server, name: str) -> dict[str, Any]:
    if name not in server.peers.names:
        known = ", ".join(server.peers.names) or "none"
        raise CallerError(f"link: {brief(name)} is not a neighbour of {server.config.server}; neighbours: {known:.200}")
    if name in server.driver.node.links.barred:
        raise CallerError(f"link: {brief(name)} was removed already; `palio net link add {name}` allows it again")
    remark = _REMARKS[server.peers.known_from(name)]
    server.peers.remove(name)
    return {"link": name, "action": "remove", "remark": remark}
