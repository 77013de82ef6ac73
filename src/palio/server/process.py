"""A server as a process: logs, signals, and the way from a configuration file to a clean end."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from palio.errors import InternalError, PalioError, printable_document, stack_of
from palio.server.config import Config, ConfigError, load_config
from palio.server.encryption import encryption, outgoing_encryption
from palio.server.log_output import LibraryLogs, LogOutput
from palio.server.server import Server

if TYPE_CHECKING:
    from palio.server.http import HttpPort

_SWITCH_SECONDS = 0.0002
"""How long the thread that writes may have to wait for the loop's, several times for a commit. With the usual 5 ms
acknowledgements took twice as long where there was much to do; with 1 ms the latency under attack was a third higher.
"""


_OTHER_FILES = 256
"""Open files that are no connections of parties: the store, links, logs, HTTP."""


def check(config: Config) -> None:
    """Refuse what the files that a configuration names make impossible."""
    if config.store is not None:
        _check_folder("store.path", Path(config.store.path))
    if config.archive is not None:
        if find_spec("pyarrow") is None:
            raise ConfigError("archive: it needs the extra palio[archive]")
        _check_archive(Path(config.archive.path))
    if config.tls is not None:
        for key in ("certificate", "key", "client_ca"):
            _check_readable(f"tls.{key}", getattr(config.tls, key))
        with _readable("tls"):
            encryption(config.tls)
    for peer in config.peers:
        _check_readable(f"peers.{peer.name}.ca", peer.ca)
        with _readable(f"peers.{peer.name}"):
            outgoing_encryption(peer, config.tls)


def _check_folder(key: str, path: Path) -> None:
    """A file is to be made there."""
    folder = path.parent
    if path.is_dir():
        raise ConfigError(f"{key}: {path} is a folder; name a file in it, for example {path / 'palio.db'}")
    if not folder.is_dir():
        raise ConfigError(f"{key}: the folder {folder} does not exist; make it first, or mount its disk")
    _check_writable(key, folder)


def _check_archive(path: Path) -> None:
    """The archiver makes its folder, with those above it."""
    above = next(each for each in (path, *path.parents) if each.exists())
    if not above.is_dir():
        raise ConfigError(f"archive.path: {above} is no folder")
    _check_writable("archive.path", above)


def _check_writable(key: str, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise ConfigError(f"{key}: the folder {folder} cannot be written to; let the server's user write there")


def _check_readable(key: str, path: str) -> None:
    """The libraries of TLS do not say which of several files cannot be read."""
    try:
        if path:
            Path(path).open("rb").close()
    except OSError as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error.strerror}") from error


@contextmanager
def _readable(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # errors of TLS are among them
        raise ConfigError(f"{key}: certificates or keys cannot be used: {error}") from error


def without_content(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A step of logging: of an exception only its class and the calls are shown, because values may hold content.

    >>> without_content(None, "error", {"event": "x", "exc_info": ValueError("secret")})
    {'event': 'x', 'stack': 'ValueError'}
    """
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["stack"] = stack_of(error)
    return event


def start_logs(config: Config) -> Any:
    """Logs go to the standard error, one line each."""
    is_json = config.log.format == "json"
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            without_content,
            *([structlog.processors.JSONRenderer()] if is_json else _console()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[config.log.level.upper()]),
        logger_factory=LogOutput(sys.stderr, _missing_as_json if is_json else _missing),
        cache_logger_on_first_use=False,
    )
    LibraryLogs.install()
    return structlog.get_logger()


def _missing(count: int) -> str:
    """The line that stands for those that could not be written."""
    return f"log-lines-lost count={count}"


def _missing_as_json(count: int) -> str:
    return json.dumps({"event": "log-lines-lost", "level": "warning", "count": count})


def _console() -> list[structlog.typing.Processor]:
    """The last steps of logging for people: what comes from elsewhere cannot end a line or steer the terminal."""

    def escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        escaped: MutableMapping[str, Any] = printable_document(event)
        return escaped

    return [escape, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]


class Process:
    """A server that is told what to do by signals."""

    def __init__(self, path: Path, *, logs_json: bool = False) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)  # by default the process would end
        self._is_started = self._is_reload_due = False
        """A reload that the operator asks for while the server starts is done when it has started."""
        self._path = path
        self._logs_json = logs_json
        self._stopping = asyncio.Event()
        self._config = self._load()
        self._log = start_logs(self._config)
        self._server = Server(self._config)
        self._http: HttpPort | None = None

    def _load(self) -> Config:
        environment = dict(os.environ) | ({"PALIO_LOG__FORMAT": "json"} if self._logs_json else {})
        return load_config(self._path, environment, check)

    async def run(self) -> None:
        """From the first connection to the last."""
        loop, config = asyncio.get_running_loop(), self._config
        self._server.most_files = _allow_connections(config.connections.most, config.connections.wanted, self._log)
        await self._server.start()
        _collect_rarely()
        if config.store is not None:
            sys.setswitchinterval(_SWITCH_SECONDS)
        if config.http is not None:
            from palio.server.http import HttpPort  # noqa: PLC0415 (takes a while, and many do without)

            self._http = HttpPort(self._server, config.http)
            self._http.start()
        loop.set_exception_handler(self._unexpected)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        self._announce()
        self._is_started = True
        if self._is_reload_due:
            self._reload()
        await self._told_to_stop()
        self._log.info("stopping", drain_seconds=config.connections.drain_seconds)
        await self._server.stop()
        if self._http is not None:
            await self._http.stop()
        self._log.info("stopped")
        if self._server.failed.is_set():
            raise InternalError(f"the server has stopped, because {self._server.failure}")

    async def _told_to_stop(self) -> None:
        """By somebody, or because it cannot go on."""
        ways = [asyncio.ensure_future(each.wait()) for each in (self._stopping, self._server.failed)]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in ways:
            each.cancel()

    def _unexpected(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error in a callback or a task that is caught nowhere: what the loop would print may hold content."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self._server.fault("loop", error)
        else:
            self._log.error("loop", problem=str(context.get("message", ""))[:200])

    def _announce(self) -> None:
        config = self._config
        self._log.info(
            "listening",
            server=config.server,
            architecture=config.architecture,
            host=config.host,
            port=self._server.port,
            tls=config.tls is not None,
            most_connections=self._server.most_connections,
            http_port=self._http.port if self._http else None,
            pid=os.getpid(),
        )
        if config.is_open and config.is_local:
            self._log.warning(
                "open",
                advice="only this machine can connect, and everybody on it is believed; `palio token` makes tokens",
            )
        elif config.is_open or config.tls is None:
            missing = "everybody is believed" if config.is_open else "nothing is encrypted"
            self._log.warning("insecure", advice=f"{missing}; configure tokens and tls before others can connect")

    def _reload(self) -> None:
        if not self._is_started:
            self._is_reload_due = True
            return
        try:
            config = self._load()
            needs_restart = self._server.reload(config)
        except (PalioError, OSError) as error:
            self._log.error("not-reloaded", reason=str(error), advice="the server goes on as before")
            return
        self._log = start_logs(self._server.config)
        self._log.info("reloaded")
        if needs_restart:
            self._log.warning("needs-restart", keys=needs_restart)


def _allow_connections(configured: int, wanted: int, log: Any) -> int:
    """Each connection needs an open file: ask the system for as many as it grants; how many connections that allows.

    The operator is warned if the file asks for more; the default adapts itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else max(soft, min(needed, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(soft - _OTHER_FILES, soft // 2)
    if configured:
        advice = f"connections.most is {configured}, and files are enough for {allowed}; raise the limit of open files"
        log.warning("few-files", open_files=soft, advice=advice)
    return allowed


def serve(path: Path, *, logs_json: bool = False) -> None:
    """Run a server until it is told to stop."""

    async def run() -> None:
        await Process(path, logs_json=logs_json).run()

    asyncio.run(run())


def _collect_rarely() -> None:
    """Let the collector look for circles of garbage less often: servers hardly make any, and deliveries wait for it.

    It took a tenth and more off the slowest one of a hundred deliveries.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 5, 1_000)
