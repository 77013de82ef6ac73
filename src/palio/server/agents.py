"""The agent string by which a server says who it is when it opens a connection to another one."""

from __future__ import annotations

import re

from palio.server.errors import Code, RefusedError

_AGENT = re.compile(r"palio start=(\d{1,19})(?: to=(.*))?", re.DOTALL)


def agent_of(start: int, to: str = "") -> str:
    """The agent string of a server: which process it is, and the name of the server that it wants to reach.

    The number distinguishes two processes with the same name.

    >>> start_of(agent_of(7)), start_of("another program")
    (7, None)
    """
    return f"palio start={start} to={to}" if to else f"palio start={start}"


def start_of(agent: str) -> int | None:
    """Parse the start of a server from its agent string. Servers of version 1 do not send it."""
    found = _AGENT.fullmatch(agent)
    return int(found.group(1)) if found else None


def check_target(agent: str, server: str) -> None:
    """Refuse a server that wants to reach another one here, before it takes the place of an existing connection.

    >>> check_target(agent_of(7, "rome"), "rome")
    >>> check_target(agent_of(7, "rome"), "bari")
    Traceback (most recent call last):
    palio.server.errors.RefusedError: 'bari' is there instead
    """
    found = _AGENT.fullmatch(agent)
    if found is not None and found.group(2) and found.group(2) != server:
        raise RefusedError(Code.NAME, f"{server!r:.60} is there instead")
