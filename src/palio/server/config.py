"""What a server is told: one TOML file, and the environment where that says otherwise."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from palio.errors import CallerError, PalioError, brief
from palio.model import Advertisement, Filter
from palio.model.limits import HIGHEST_LIMITS, Limits
from palio.node.settings import DEFAULT_COMPARISONS, MOST_WINDOW
from palio.routing.architectures import ARCHITECTURES
from palio.routing.border import Gateway
from palio.routing.router import Role
from palio.routing.topology import MOST_LATENCY
from palio.server.config_lines import located
from palio.server.config_tables import Connections, Count, Http, Links, Log, Name, Port, Slow, Tls
from palio.server.store_config import ArchiveTable, Durable, StoreTable

PREFIX = "PALIO_"
"""Of the names in the environment that say something else than the file; tables and keys are joined by ``__``."""
_OF_CLIENTS = frozenset({"PALIO_SERVER", "PALIO_TOKEN", "PALIO_CA", "PALIO_CERT", "PALIO_CERT_KEY"})
"""Names in the environment that are for others; so a server's own name stands in its file."""
_SHOWN = "(set)"
_SETTABLE = "the environment can set texts, numbers, true and false"
_HASH = re.compile(r"\$argon2(id|i|d)\$|\$sha256\$[0-9a-f]{64}$")


class ConfigError(CallerError):
    """A configuration that cannot be used; the message says what and where."""


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A neighbour."""

    name: Name
    url: str = ""
    """Where it is: ``palio://host:port``, or ``palios://`` with TLS; without, it is waited for."""
    role: Literal["peer", "master", "client", "gateway"] = "peer"
    """What it is to this server."""
    latency: Annotated[int, msgspec.Meta(ge=1, le=MOST_LATENCY)] = 1
    """What the link counts for where there are several ways."""
    token: str = ""
    """By which this server is known there."""
    ca: str = ""
    """Who has signed its certificate, if nobody that is known everywhere; a path."""
    imports: str = ""
    """Of a gateway: a filter; only what it matches comes in."""
    exports: str = ""
    offers: tuple[str, ...] = ()
    """Of a gateway: advertisements of what the other network may publish."""

    def __repr__(self) -> str:
        return f"Peer({self.name!r}, {self.url!r}, {self.role!r})"  # the token is a secret

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def is_encrypted(self) -> bool:
        """Whether it is reached by TLS."""
        return self.url.startswith("palios:")

    @property
    def gateway(self) -> Gateway:
        """What passes over it."""
        return Gateway(
            Filter.parse(self.imports) if self.imports else None,
            Filter.parse(self.exports) if self.exports else None,
            tuple(Advertisement.parse(each) for each in self.offers),
        )


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """A server."""

    server: Name
    """Its name, by which other servers know it."""
    architecture: str = "as"
    host: Name = "127.0.0.1"
    port: Port = 7400
    insecure: bool = False
    """Listen beyond this machine without tokens or without TLS, too."""
    tls: Tls | None = None
    peers: tuple[Peer, ...] = ()
    tokens: dict[str, str] = {}
    """The hashed token of each party; without these and those of servers everybody is believed."""
    server_tokens: dict[str, str] = {}
    """The hashed token of each server that may connect: no party can pose as one."""
    admins: tuple[Name, ...] = ()
    """The parties that may change links while the server runs, and see what others publish and want; if none is named,
    everybody may, but only where everybody is believed and nobody from elsewhere can connect.
    """
    limits: dict[str, int] = {}
    guard: bool = False
    """Whether a party may publish only what it has advertised."""
    window: Annotated[float, msgspec.Meta(ge=0, le=MOST_WINDOW / 1e6)] = 0.0
    """For how many seconds monitors hold notifications back, to put right what the network upset."""
    filters_per_party: Count = 10_000
    comparisons_per_turn: Count = DEFAULT_COMPARISONS
    """Comparisons of filters before others are served; a request that needs more continues in the next turn."""
    history_bytes: Annotated[int, msgspec.Meta(ge=0)] = 16 << 20
    """Memory for what went in and out lately, by which it can be told what became of a notification; 0: none."""
    connections: Connections = Connections()
    links: Links = Links()
    slow: Slow = Slow()
    store: StoreTable | None = None
    """What must survive; without it, nothing does."""
    durable: Durable = Durable()
    archive: ArchiveTable | None = None
    """All publications as Parquet; it needs a store."""
    http: Http | None = None
    log: Log = Log()

    def __repr__(self) -> str:
        return f"Config({self.server!r}, {self.architecture!r})"  # the rest holds secrets

    @cached_property
    def model_limits(self) -> Limits:
        """What a notification or a filter may be."""
        return Limits(**self.limits)

    @property
    def is_open(self) -> bool:
        """Whether everybody is believed."""
        return not self.tokens and not self.server_tokens

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def is_admin(self, party: str) -> bool:
        """Whether a party may change links and see what others publish and want.

        >>> Config(server="milan").is_admin("adam"), Config(server="milan", admins=("eva",)).is_admin("adam")
        (True, False)
        """
        return party in self.admins if self.admins else self.is_open and self.is_local


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- reading -----------------------------------------------------------------------------------------------------------


def load_config(
    path: Path, environment: Mapping[str, str] | None = None, check: Callable[[Config], None] | None = None
) -> Config:
    """Read a configuration file, and check it further; paths in it begin where it lies.

    Errors begin with the file and the line, or with the name in the environment that is to blame.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    try:
        config = read_config(text, environment, path.parent)
        if check is not None:
            check(config)
    except ConfigError as error:
        problem = str(error).partition("\n")[0]
        raise ConfigError(located(problem, str(path), text, environment or {})) from error
    return config


def read_config(text: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """Read the text of a configuration file.

    >>> read_config('server = "milan"', {"PALIO_CONNECTIONS__MOST": "5"}).connections.most
    5
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration is no TOML: {error}") from error
    for name, value in sorted((environment or {}).items()):
        if name.startswith(PREFIX) and name not in _OF_CLIENTS:
            _override(document, name, value)
    try:
        config = msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(str(error))) from error
    if folder is not None:
        config = _placed(config, folder)
    _check(config)
    return config


def _override(document: dict[str, Any], name: str, value: str) -> None:
    """Put a value from the environment in its place."""
    cls: Any = Config
    table, path = document, name.removeprefix(PREFIX).split("__")
    for step in path[:-1]:
        cls = _field(cls, step, name)
        table = table.setdefault(step.lower(), {})
        if not isinstance(table, dict):
            raise ConfigError(f"{name}: {step.lower()} is no table that the environment can change")
    last = path[-1]
    if cls == dict[str, str] or cls == dict[str, int]:
        table[last if cls == dict[str, str] else last.lower()] = (
            value if cls == dict[str, str] else _number(name, value)
        )
        return
    wanted = _field(cls, last, name)
    try:
        table[last.lower()] = msgspec.to_builtins(msgspec.convert(value, wanted, strict=False))
    except msgspec.ValidationError as error:
        advice = f"it is one of {', '.join(map(str, get_args(wanted)))}" if get_origin(wanted) is Literal else _SETTABLE
        raise ConfigError(f"{name}: {error}; {advice}") from error


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{name}: {brief(value)} is no number") from None


def _field(cls: Any, step: str, name: str) -> Any:
    """The type of a field of a table."""
    hints = get_type_hints(cls, include_extras=True) if isinstance(cls, type) else {}
    if step.lower() not in hints:
        raise ConfigError(f"{name}: there is no key {step.lower()!r} in the configuration; {_keys(cls)}")
    found = hints[step.lower()]
    options = [each for each in getattr(found, "__args__", ()) if isinstance(each, type) and each is not type(None)]
    is_optional_table = len(options) == 1 and issubclass(options[0], msgspec.Struct) and type(None) in found.__args__
    return options[0] if is_optional_table else found


def _keys(cls: Any) -> str:
    names = getattr(cls, "__struct_fields__", ())
    return f"known are {', '.join(names)}" if names else "it has none"


_AT = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$")
_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Config, "connections": Connections, "links": Links, "slow": Slow, "tls": Tls, "http": Http, "log": Log,
    "peers": Peer, "store": StoreTable, "durable": Durable, "archive": ArchiveTable,
}  # fmt: skip


def _explained(problem: str) -> str:
    """What is wrong, with the key first.

    >>> _explained("Expected `int`, got `str` - at `$.port`")
    'port: expected int, got str'
    """
    found = _AT.search(problem)
    place = found[1] if found else ""
    problem = _AT.sub("", problem)
    unknown = _UNKNOWN.match(problem)
    if unknown is None:
        said = problem[0].lower() + problem[1:].replace("`", "") + _choices(place, problem)
        return f"{place}: {said}" if place else said
    key, known = unknown[1], _TABLES[place.partition("[")[0]].__struct_fields__
    near = get_close_matches(key, known, 1)
    where = f"{place}.{key}" if place else key
    return f"{where}: there is no such key; " + (f"is {near[0]} meant?" if near else f"known are {', '.join(known)}")


def _choices(place: str, problem: str) -> str:
    """What a key may be, if that is a few words."""
    if "enum value" not in problem:
        return ""
    table, _, key = place.rpartition(".")
    hint = get_type_hints(_TABLES[table.partition("[")[0]]).get(key)
    return f"; it is one of {', '.join(map(str, get_args(hint)))}"


def _placed(config: Config, folder: Path) -> Config:
    """With paths that begin at a folder made whole."""
    replace = msgspec.structs.replace
    tls = config.tls
    if tls is not None:
        ca = str(folder / tls.client_ca) if tls.client_ca else ""
        tls = Tls(certificate=str(folder / tls.certificate), key=str(folder / tls.key), client_ca=ca)
    peers = tuple([replace(peer, ca=str(folder / peer.ca)) if peer.ca else peer for peer in config.peers])
    store = config.store and replace(config.store, path=str(folder / config.store.path))
    archive = config.archive and replace(config.archive, path=str(folder / config.archive.path))
    return replace(config, tls=tls, peers=peers, store=store, archive=archive)


# -- what does not go together -----------------------------------------------------------------------------------------


def _check(config: Config) -> None:
    if config.architecture not in ARCHITECTURES:
        raise ConfigError(f"architecture: {brief(config.architecture)} is none of {', '.join(ARCHITECTURES)}")
    known = Limits.__dataclass_fields__
    for key in config.limits:
        if key not in known:
            raise ConfigError(f"limits.{key}: there is no such key; known are {', '.join(known)}")
    try:
        limits = config.model_limits
    except CallerError as error:
        raise ConfigError(f"limits: {error}") from error
    for key, value in config.limits.items():
        most = getattr(HIGHEST_LIMITS, key)
        if value > most:
            raise ConfigError(
                f"limits.{key}: {value:,} is more than {most:,}, the maximum that all servers and clients can take"
            )
    if config.connections.frame_bytes < limits.document_bytes:
        raise ConfigError(
            f"connections.frame_bytes: {config.connections.frame_bytes:,} is less than limits.document_bytes, "
            f"{limits.document_bytes:,}; raise the one or lower the other"
        )
    if config.archive is not None and config.store is None:
        raise ConfigError("archive: there is no store that it could follow; say where with store.path")
    _check_safety(config)
    check_peers(config)
    for name in config.admins:
        if config.tokens and name not in config.tokens:
            raise ConfigError(f"admins: {brief(name)} has no token, so that it cannot connect; `palio token` makes one")


def _check_safety(config: Config) -> None:
    for table, tokens in (("tokens", config.tokens), ("server_tokens", config.server_tokens)):
        for name, token in tokens.items():
            if not _HASH.match(token):
                raise ConfigError(f"{table}.{name}: no hash of a token; `palio token` makes one")
    missing = [
        *(["tokens"] if config.is_open else []),
        *(["tls"] if config.tls is None else []),
    ]
    if missing and not config.is_local and not config.insecure:
        raise ConfigError(
            f"host: {config.host} can be reached from other machines, and there is no {' and no '.join(missing)}; "
            "configure that, listen on 127.0.0.1, or say insecure = true"
        )


def check_peers(config: Config) -> None:
    """Refuse neighbours that the server cannot have."""
    router = ARCHITECTURES[config.architecture](config.server)
    names = [peer.name for peer in config.peers]
    for peer in config.peers:
        key = f"peers.{peer.name}"
        if names.count(peer.name) > 1:
            raise ConfigError(f"{key}: is there twice; remove one of them")
        if peer.name == config.server:
            raise ConfigError(f"{key}: this server itself; remove it, or give the server another name")
        try:
            router.check_neighbour(Role(peer.role))
        except CallerError as error:
            raise ConfigError(f"{key}.role: {error}") from error
        if peer.url:
            _check_url(key, peer)
        if peer.role != "gateway" and (peer.imports or peer.exports or peer.offers):
            raise ConfigError(f"{key}: imports, exports and offers are for the role gateway")
        try:
            _ = peer.gateway
        except PalioError as error:
            raise ConfigError(f"{key}: {str(error).partition(chr(10))[0]}") from error
    above = [peer.name for peer in config.peers if peer.role == "master"]
    if len(above) > 1:
        raise ConfigError(f"peers: {' and '.join(above)} are masters; a server has one at most")


def _check_url(key: str, peer: Peer) -> None:
    try:
        parts = urlsplit(peer.url)
        host = parts.hostname if parts.scheme in ("palio", "palios") and parts.port else None
        is_name = host is not None and host.isprintable() and " " not in host and bool(host.encode("idna"))
    except ValueError:  # a port that is not a number, brackets that do not match, a name that DNS cannot have
        is_name = False
    if not is_name or parts.path or parts.username is not None:
        raise ConfigError(f"{key}.url: is to be palio://host:port or palios://host:port")
    if peer.token and not peer.is_encrypted and not is_loopback(str(host)):
        raise ConfigError(f"{key}.url: a token would go over the network for all to read; use palios://")


def document(config: Config) -> dict[str, Any]:
    """All of it, for people: secrets are not shown."""
    made: dict[str, Any] = msgspec.to_builtins(config)
    for table in ("tokens", "server_tokens"):
        made[table] = dict.fromkeys(made[table], _SHOWN)
    for peer in made["peers"]:
        peer["token"] = _SHOWN if peer["token"] else ""
    return made
