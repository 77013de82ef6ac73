"""Who may connect under which name: tokens, of which a server knows only hashes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from palio.server.config import Config
from palio.server.errors import Code, RefusedError

_SHA256 = "$sha256$"
"""Tokens are 256 random bits, so a quick hash is safe: nobody can try them out."""
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
"""Earlier releases stored tokens with this one; to check such a token takes a hundredth of a second."""
_MOST_ADDRESSES = 10_000
_MOST_WAITING = 256
"""Tokens that wait to be checked against slow hashes; a flood of wrong ones must not fill the memory."""
_MINUTE = 60.0


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """The hash of a token, as the configuration of a server contains it.

    >>> hash_of("a token")[:20]
    '$sha256$e3316e2bafeb'
    """
    return _SHA256 + hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Credentials:
    """Checks tokens. The right token of a new entry is accepted before any rule about wrong ones counts.

    Entries of earlier releases have slow hashes. A thread checks those, and addresses with many wrong tokens have to
    wait.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tokens")
        self._secret = secrets.token_bytes(32)
        self._proven: OrderedDict[bytes, None] = OrderedDict()
        """Digests of names, slow hashes and tokens that were right: a client that comes again need not wait."""
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._waiting: Counter[str] = Counter()
        """Tokens that are being checked, by address: as long as it is not known, each may be wrong."""

    def expected(self, role: str, name: str) -> str | None:
        """The hash of the token of a name, if there is one."""
        return (self.config.server_tokens if role == "server" else self.config.tokens).get(name)

    async def check(self, role: str, name: str, token: str, address: str) -> None:
        """Refuse a connection that does not have the token of its name."""
        if self.config.is_open:
            return
        expected = self.expected(role, name)
        if expected is not None and expected.startswith(_SHA256):
            is_right = hmac.compare_digest(hash_of(token), expected)
        else:
            is_right = expected is not None and await self._check_slowly((role, name, expected, token), address)
        if is_right:
            return
        self._check_rate(address)
        self._failures.setdefault(address, []).append(self._loop.time())
        if len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)
        if expected is None:
            raise RefusedError(Code.UNKNOWN, f"no {role} of that name is known here")
        raise RefusedError(Code.TOKEN, "the token is not that of the name")

    async def _check_slowly(self, claim: tuple[str, str, str, str], address: str) -> bool:
        *_, expected, token = claim
        digest = hmac.digest(self._secret, repr(claim).encode("utf-8", "replace"), "sha256")
        if digest in self._proven:
            return True
        self._check_rate(address)
        self._waiting[address] += 1
        try:
            is_right = await self._loop.run_in_executor(self._thread, _is_right, expected, token)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        if is_right:
            self._proven[digest] = None
            if len(self._proven) > self.config.connections.wanted:
                self._proven.popitem(last=False)
        return is_right

    def _check_rate(self, address: str) -> None:
        if self._waiting.total() >= _MOST_WAITING:
            raise RefusedError(Code.TOO_MANY, "too many ask to be let in at the same time; try again later")
        failures = self._failures.get(address, [])
        begin = self._loop.time() - _MINUTE
        failures[:] = [time for time in failures if time > begin]
        if not failures:
            self._failures.pop(address, None)
        if len(failures) + self._waiting[address] >= self.config.connections.failures_per_minute:
            raise RefusedError(Code.TOO_MANY, "too many wrong tokens from this address; try again in a minute")

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _is_right(expected: str, token: str) -> bool:
    try:
        return _HASHER.verify(expected, token)
    except (VerificationError, InvalidHashError):
        return False
