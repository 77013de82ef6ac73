"""Errors of a configuration name the file and the line; files and folders that it names are looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.server.config import ConfigError, load_config
from palio.server.config_lines import line_of

FILE = '''\
# a server
server = "milan"
"port" = 7400
limits.constraints = 8   # dotted

[[peers]]
name = "rome"
role = "peer"
offers = [
    "x any",  # ] = [
    """
[log]
level = "debug"
""",
]

[[ peers ]]   # the second
name = "bari"
imports = 'a = "b"'

[connections]
most = 5
tls = { certificate = "a.pem", key = "b.pem" }
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("server",), 2),
        (("port",), 3),
        (("limits", "constraints"), 4),
        (("limits",), 4),
        (("peers", 0, "offers"), 9),
        (("peers", "rome", "role"), 8),
        (("peers", "rome", "url"), 6),
        (("peers", 1, "imports"), 19),
        (("peers", "bari"), 17),
        (("peers",), 6),
        (("connections", "most"), 22),
        (("connections", "tls", "key"), 23),
        (("connections", "slow"), 21),
        (("log", "level"), 0),
        ((), 0),
    ],
)
def test_the_line_of_a_key(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(FILE, path) == line


def check(folder: Path, text: str, *more: str, **environment: str) -> Result:
    path = folder / "palio.toml"
    path.write_text(text)
    return CliRunner(env=environment).invoke(palio, ["serve", "--check-config", "--config", str(path), *more])


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("server = ", "1", "the configuration is no TOML"),
        (
            'server = "m"\n\n[slow]\npolicy = "cry"',
            "4",
            "slow.policy: invalid enum value 'cry'; it is one of disconnect",
        ),
        ('server = "m"\nprot = 5', "2", "prot: there is no such key"),
        (
            'server = "m"\n[log]\n[[peers]]\nname = "a"\nrole = "king"',
            "5",
            "it is one of peer, master, client, gateway",
        ),
        ('server = "m"\n[[peers]]\nname = "a"\nurl = "http://x:1"', "4", "peers.a.url: is to be palio://host:port"),
        ('server = "m"\n[limits]\nnesting = 0', "2", "limits: limit 'nesting' must be a positive integer"),
        ('server = "m"\narchitecture = "xy"', "2", "architecture: 'xy' is none of"),
        ('server = "m"\n[archive]\npath = "a"', "2", "archive: there is no store"),
        ('server = "m"\n[store]\npath = "missing/milan.db"', "3", "missing does not exist; make it first"),
        ('server = "m"\n[store]\npath = "."', "3", "is a folder; name a file in it"),
        ('server = "m"\n[store]\npath = "palio.toml/milan.db"', "3", "does not exist"),
        ('server = "m"\n[store]\npath = "a.db"\n[archive]\npath = "palio.toml/x"', "5", "palio.toml is no folder"),
        ('server = "m"\n[tls]\ncertificate = "a"\nkey = "b"', "3", "/a cannot be read: No such file or directory"),
        ('server = "m"\n[tls]\ncertificate = "palio.toml"\nkey = "b"', "4", "tls.key: "),
        (
            'server = "m"\n[tls]\ncertificate = "palio.toml"\nkey = "palio.toml"',
            "2",
            "tls: certificates or keys cannot be used",
        ),
        (
            'server = "m"\n[[peers]]\nname = "a"\nurl = "palios://x:1"\nca = "c.pem"',
            "5",
            "c.pem cannot be read: No such file or directory",
        ),
        ("port = 7400", None, "object missing required field server"),
    ],
)
def test_errors_begin_with_file_and_line(tmp_path: Path, text: str, place: str | None, problem: str) -> None:
    done = check(tmp_path, text)
    assert done.exit_code == 2
    begin = f"Error: {tmp_path / 'palio.toml'}:" + (f"{place}: " if place else " ")
    assert done.stderr.startswith(begin)
    assert problem in done.stderr
    as_json = check(tmp_path, text, "--json")
    assert f"Error: {json.loads(as_json.stderr)['error']}\n" == done.stderr


def test_what_the_environment_says_is_not_looked_for_in_the_file(tmp_path: Path) -> None:
    done = check(tmp_path, 'server = "m"\narchitecture = "as"', PALIO_ARCHITECTURE="xy")
    assert done.stderr.startswith("Error: PALIO_ARCHITECTURE: architecture: 'xy' is none of")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file or directory$"):
        load_config(tmp_path / "nowhere.toml")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the system's answer is given here."""
    (tmp_path / "store").mkdir()
    monkeypatch.setattr(os, "access", lambda _path, mode, **_: not mode & os.W_OK)
    assert "cannot be written to" in check(tmp_path, 'server = "m"\n[store]\npath = "store/m.db"').stderr


def served(folder: Path, files: int, text: str) -> list[str]:
    """The log of a server that may open so many files, until it listens."""
    (folder / "palio.toml").write_text(f'server = "m"\nport = 0\n{text}')
    limited = f'ulimit -Sn 200; ulimit -Hn {files}; exec "$0" -m palio serve --json --config "$1"'
    process = subprocess.Popen(
        ["/bin/sh", "-c", limited, sys.executable, str(folder / "palio.toml")], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(json.loads(line))
            if said[-1]["event"] == "listening":
                break
    finally:
        process.terminate()
        process.communicate(timeout=30)
    return said


@pytest.mark.slow
def test_by_default_connections_are_as_many_as_files_allow(tmp_path: Path) -> None:
    said = served(tmp_path, 1_000, "")
    assert "few-files" not in [line["event"] for line in said]
    assert said[-1]["most_connections"] == 744
    warned = served(tmp_path, 1_000, "[connections]\nmost = 2000")
    (line,) = [line for line in warned if line["event"] == "few-files"]
    assert (line["open_files"], warned[-1]["most_connections"]) == (1_000, 744)
    enough = served(tmp_path, 1_000, "[connections]\nmost = 700")
    assert [line["event"] for line in enough].count("few-files") == 0
    assert enough[-1]["most_connections"] == 700
