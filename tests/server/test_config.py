"""What a server is told, and what it does not let itself be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.server.config import Config, ConfigError, document, load_config, read_config

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"  # nobody's
FULL = f"""
server = "milan"
architecture = "hs"
host = "127.0.0.1"
port = 7500
guard = true
window = 0.5
filters_per_party = 50

[[peers]]
name = "rome"
url = "palio://localhost:7400"
role = "master"
latency = 3
token = "hush"

[tokens]
eva = "{HASH}"
[server_tokens]
turin = "{HASH}"
[limits]
constraints = 8
[connections]
most = 10
[slow]
policy = "drop"
bytes = 1000
[http]
port = 0
[log]
format = "json"
level = "debug"
"""


def test_everything_can_be_said() -> None:
    config = read_config(FULL)
    assert (config.architecture, config.port, config.window, config.model_limits.constraints) == ("hs", 7500, 0.5, 8)
    assert (config.slow.policy, config.connections.most, config.log.level) == ("drop", 10, "debug")
    assert config.peers[0].address == ("localhost", 7400)
    assert config.http is not None


def test_secrets_are_not_shown() -> None:
    config = read_config(FULL)
    for shown in (json.dumps(document(config)), repr(config), str(config.peers), repr(config.peers[0])):
        assert "hush" not in shown
        assert "argon2" not in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "object missing required field server"),
        ("server = 5", "server: expected str, got int"),
        ('server = ""', "server: expected str of length >= 1"),
        ("server = ", "no TOML"),
        ('server = "m"\nprot = 5', "prot: there is no such key; is port meant?"),
        ('server = "m"\nport = "5"', "port: expected int, got str"),
        ('server = "m"\nport = 70000', "port: expected int <= 65535"),
        ('server = "m"\nwindow = 61', "window: expected float <= 60"),
        ('server = "m"\n[connections]\nmist = 5', "connections.mist: there is no such key; is most meant?"),
        ('server = "m"\n[connections]\nmost = -1', "connections.most: expected int >= 0"),
        ('server = "m"\n[connections]\nframe_bytes = 5', "connections.frame_bytes: 5 is less than"),
        ('server = "m"\n[slow]\npolicy = "cry"', "enum value 'cry'; it is one of disconnect, drop"),
        ('server = "m"\n[limits]\nfoo = 1', "limits.foo: there is no such key"),
        ('server = "m"\n[limits]\nnesting = 0', "limits: limit 'nesting' must be a positive integer"),
        ('server = "m"\narchitecture = "xy"', "architecture: 'xy' is none of ce, hs"),
        ('server = "m"\nhost = "0.0.0.0"', "host: 0.0.0.0 can be reached from other machines"),
        (f'server = "m"\nhost = "::"\n[tokens]\neva = "{HASH}"', "and there is no tls; configure that"),
        ('server = "m"\n[tokens]\neva = "plain"', "tokens.eva: no hash of a token; `palio token` makes one"),
        ('server = "m"\n[[peers]]\nname = "m"', "peers.m: this server itself"),
        ('server = "m"\n[[peers]]\nname = "a"\n[[peers]]\nname = "a"', "peers.a: is there twice"),
        ('server = "m"\n[[peers]]\nname = "a"\nrole = "master"', "peers.a.role: in an acyclic network"),
        ('server = "m"\narchitecture = "ce"\n[[peers]]\nname = "a"', "peers.a.role: a centralized service has"),
        ('server = "m"\narchitecture = "hs"\n[[peers]]\nname = "a"', "peers.a.role: in a hierarchy"),
        (
            'server = "m"\narchitecture = "hs"\n' + "".join(f'[[peers]]\nname = "{n}"\nrole = "master"\n' for n in "ab"),  # noqa: E501
            "peers: a and b are masters",
        ),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "http://x:1"', "peers.a.url: is to be palio://host:port"),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "palio://x:y"', "peers.a.url: is to be palio://host:port"),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "palio://x"', "peers.a.url: is to be palio://host:port"),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "palio://a..b:1"', "peers.a.url: is to be palio://host:port"),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "palio:// :1"', "peers.a.url: is to be palio://host:port"),
        (
            'server = "m"\n[[peers]]\nname = "a"\nlatency = 1_000_000_001',
            "peers[0].latency: expected int <= 1000000000",
        ),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "palio://x:1"\ntoken = "t"', "peers.a.url: a token would go"),
        ('server = "m"\n[[peers]]\nname = "a"\nimports = "x = 1"', "peers.a: imports, exports and offers are for"),
        ('server = "m"\n[[peers]]\nname = "a"\nrole = "gateway"\nimports = "x ="', "peers.a: line 1, column"),
        ('server = "m"\n[[peers]]\nname = "a"\nrole = "king"', "'king'; it is one of peer, master, client, gateway"),
        ('server = "m"\n[[peers]]\nnom = "a"', "peers[0].nom: there is no such key; known are name"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_its_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("PALIO_PORT", "7", "port", 7),
        ("PALIO_GUARD", "true", "guard", True),
        ("PALIO_HOST", "localhost", "host", "localhost"),
        ("PALIO_SERVER", "palio://elsewhere:1", "server", "m"),  # it tells clients where their server is
        ("PALIO_WINDOW", "1.5", "window", 1.5),
        ("PALIO_LIMITS__NESTING", "5", "limits", {"nesting": 5}),
        ("PALIO_TOKENS__Eva", HASH, "tokens", {"Eva": HASH}),
    ],
)
def test_the_environment_says_otherwise(name: str, value: str, key: str, expected: object) -> None:
    config = read_config('server = "m"', {name: value, "HOME": "/", "PALIO_TOKEN": "secret"})
    assert getattr(config, key) == expected


def test_the_environment_reaches_tables_that_the_file_does_not_have() -> None:
    config = read_config('server = "m"', {"PALIO_HTTP__PORT": "9", "PALIO_SLOW__POLICY": "drop"})
    assert config.http is not None
    assert (config.http.port, config.slow.policy) == (9, "drop")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("PALIO_PROT", "7", "PALIO_PROT: there is no key 'prot'"),
        ("PALIO_SLOW__SPEED", "7", "PALIO_SLOW__SPEED: there is no key 'speed'"),
        ("PALIO_PORT", "many", "PALIO_PORT: Expected `int`"),
        ("PALIO_LIMITS__NESTING", "deep", "PALIO_LIMITS__NESTING: 'deep' is no number"),
        ("PALIO_PORT__X", "7", "PALIO_PORT__X"),
        ("PALIO_LOG__LEVEL", "loud", "it is one of debug, info, warning, error"),
    ],
)
def test_the_environment_is_checked_too(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config('server = "m"', {name: value})
    assert problem in str(caught.value)


def test_a_public_host_is_allowed_with_a_word() -> None:
    config = read_config('server = "m"\nhost = "0.0.0.0"\ninsecure = true')
    assert isinstance(config, Config)


def test_paths_begin_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    path.write_text('server = "m"\n[tls]\ncertificate = "c.pem"\nkey = "/k.pem"')
    config = load_config(path)
    assert config.tls is not None
    assert (config.tls.certificate, config.tls.key) == (str(tmp_path / "c.pem"), "/k.pem")


def test_the_command_checks_a_file(tmp_path: Path) -> None:
    path = tmp_path / "palio.toml"
    path.write_text(FULL)
    run = CliRunner().invoke
    assert "can be used: server milan, hs" in run(palio, ["serve", "--config", str(path), "--check-config"]).stdout
    shown = run(palio, ["serve", "--config", str(path), "--check-config", "--json"]).stdout
    assert json.loads(shown)["tokens"] == {"eva": "(set)"}
    path.write_text('server = "m"\n[tls]\ncertificate = "c.pem"\nkey = "k.pem"')
    refused = run(palio, ["serve", "--config", str(path), "--check-config"])
    assert refused.exit_code == 2
    assert f"tls.certificate: {tmp_path / 'c.pem'} cannot be read" in refused.output
    assert run(palio, ["serve", "--config", str(tmp_path / "none.toml"), "--check-config"]).exit_code == 2


def test_the_command_makes_tokens() -> None:
    made = json.loads(CliRunner().invoke(palio, ["token", "eva", "--json"]).stdout)
    assert read_config(f'server = "m"\n[{made["table"]}]\n{made["name"]} = "{made["hash"]}"').tokens == {
        "eva": made["hash"]
    }
    assert "[server_tokens]" in CliRunner().invoke(palio, ["token", "rome", "--server"]).stdout
