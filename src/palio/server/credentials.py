"""Who may say that it is somebody: tokens, of which a server knows only hashes."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from palio.server.config import Config
from palio.server.errors import Code, RefusedError

_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
"""Tokens are drawn at random and long: what makes short passwords safe would only slow down who connects."""
_MOST_ADDRESSES = 10_000
_MOST_WAITING = 256
"""Tokens that wait to be looked at; a flood of wrong ones must not fill the memory."""
_MINUTE = 60.0


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """What a server is told of a token."""
    return _HASHER.hash(token)


class Credentials:
    """Looks at tokens, in a thread of its own: the hash is slow on purpose."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tokens")
        self._decoy = _HASHER.hash(new_token())
        """Looked at for unknown names, so that who tries many is not faster than who tries many tokens."""
        self._secret = secrets.token_bytes(32)
        self._proven: OrderedDict[bytes, None] = OrderedDict()
        """Digests of names, hashes and tokens that were found right: who comes again need not wait."""
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._waiting = 0

    def expected(self, role: str, name: str) -> str | None:
        """The hash of somebody's token, if it is known."""
        return (self.config.server_tokens if role == "server" else self.config.tokens).get(name)

    async def check(self, role: str, name: str, token: str, address: str) -> None:
        """Refuse whoever does not have the token of the name."""
        if self.config.is_open:
            return
        expected = self.expected(role, name)
        digest = hmac.digest(self._secret, repr((role, name, expected, token)).encode("utf-8", "replace"), "sha256")
        if expected is not None and digest in self._proven:
            return
        self._check_rate(address)
        self._waiting += 1
        try:
            is_right = await self._loop.run_in_executor(self._thread, _is_right, expected or self._decoy, token)
        finally:
            self._waiting -= 1
        if expected is None or not is_right:
            self._failures.setdefault(address, []).append(self._loop.time())
            if len(self._failures) > _MOST_ADDRESSES:
                self._failures.popitem(last=False)
            if expected is None:
                raise RefusedError(Code.UNKNOWN, f"no {role} of that name is known here")
            raise RefusedError(Code.TOKEN, "the token is not that of the name")
        self._proven[digest] = None
        if len(self._proven) > self.config.connections.most:
            self._proven.popitem(last=False)

    def _check_rate(self, address: str) -> None:
        if self._waiting >= _MOST_WAITING:
            raise RefusedError(Code.TOO_MANY, "too many ask to be let in at the same time; try again later")
        failures = self._failures.get(address)
        if failures is None:
            return
        begin = self._loop.time() - _MINUTE
        failures[:] = [time for time in failures if time > begin]
        if not failures:
            del self._failures[address]
        elif len(failures) >= self.config.connections.failures_per_minute:
            raise RefusedError(Code.TOO_MANY, "too many wrong tokens from this address; try again in a minute")

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _is_right(expected: str, token: str) -> bool:
    try:
        return _HASHER.verify(expected, token)
    except (VerificationError, InvalidHashError):
        return False
