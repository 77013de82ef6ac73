"""Errors of commands: one JSON object on the standard error with ``--json``, and TLS."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import click
import pytest
import trustme
from click.testing import CliRunner

from palio.cli.main import _COMMANDS, LazyGroup, palio
from palio.client.sync import connect_sync
from palio.server.config_tables import Tls
from tests.cli.test_party import SECONDS, Command, Served, invoke

NOWHERE = {"PALIO_SERVER": "palio://127.0.0.1:1"}


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands, with the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name), command


ALL = dict(commands(palio))


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("words", [words for words, command in ALL.items() if "--json" in options_of(command)])
def test_usage_errors_are_json_for_all_commands(words: tuple[str, ...]) -> None:
    done = CliRunner(env=NOWHERE).invoke(palio, [*words, "--json", "--no-such-option"])
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert told["code"] == "usage"
    assert "--no-such-option" in told["error"]


def test_each_short_option_has_one_meaning() -> None:
    meanings: dict[str, set[str]] = {}
    for command in ALL.values():
        for parameter in command.params:
            long = [each for each in parameter.opts if each.startswith("--")]
            for each in parameter.opts:
                if each.startswith("-") and not each.startswith("--"):
                    meanings.setdefault(each, set()).update(long)
    assert "-J" in meanings
    assert {short: long for short, long in meanings.items() if len(long) > 1} == {}


def test_a_server_that_is_not_there_is_told_as_json() -> None:
    for words in (["pub", "--json", "x = 1"], ["sub", "-J"], ["net", "status", "--json"], ["top", "--json"]):
        done = CliRunner(env=NOWHERE).invoke(palio, words)
        assert (done.exit_code, json.loads(done.stderr)["code"]) == (1, "")
        assert "there is no server at palio://127.0.0.1:1" in json.loads(done.stderr)["error"]
    assert CliRunner(env=NOWHERE).invoke(palio, ["pub", "x = 1"]).stderr.startswith("Error: there is no server")


def test_the_code_of_the_server_is_told(served_with_guard: Served) -> None:
    done = invoke(served_with_guard, "sub", "--json", "x > 3 and x < 2")
    assert json.loads(done.stderr) == {
        "error": "nothing can match 'x > 3 and x < 2'",
        "code": "unsatisfiable",
    }


@pytest.fixture
def served_with_guard() -> Iterator[Served]:
    made = Served(guard=True)
    yield made
    made.stop()


def test_an_interruption_is_json(served_with_guard: Served) -> None:
    with connect_sync(served_with_guard.url, name="eva") as eva:
        eva.advertise("x any")
    with connect_sync(served_with_guard.url) as client, client.subscribe("x any") as events:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "palio",
                "pub",
                "--name",
                "eva",
                "--json",
                "--count",
                "9",
                "--rate",
                "0.01",
                "x = 1",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PALIO_SERVER": served_with_guard.url},
        )
        events.next(SECONDS)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert json.loads(errors) == {"error": "interrupted", "code": "interrupted"}
    assert json.loads(output)["published"] <= 1  # the answer may not have been looked at


@pytest.mark.parametrize("name", ["", "  ", "é" * 600])
def test_a_token_needs_a_name(name: str) -> None:
    done = CliRunner().invoke(palio, ["token", name])
    assert done.exit_code == 2
    assert "NAME" in done.stderr


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(made / "ca.pem"))
    for name, identity in (("server", "127.0.0.1"), ("eva", "eva@example.org")):
        issued = authority.issue_cert(identity)
        issued.private_key_pem.write_to_path(str(made / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(made / f"{name}.pem"))
    return made


@pytest.fixture
def encrypted(folder: Path) -> Iterator[Served]:
    """A server that asks for certificates."""
    tls = Tls(certificate=str(folder / "server.pem"), key=str(folder / "server.key"), client_ca=str(folder / "ca.pem"))
    made = Served(tls=tls)
    made.url = made.url.replace("palio:", "palios:")
    yield made
    made.stop()


def files(folder: Path) -> list[str]:
    return ["--ca", f"{folder}/ca.pem", "--cert", f"{folder}/eva.pem", "--cert-key", f"{folder}/eva.key"]


def test_commands_use_certificates(encrypted: Served, folder: Path) -> None:
    assert invoke(encrypted, "pub", *files(folder), "--name", "eva", "--key", "k", "x = 1").exit_code == 0
    command = Command(encrypted, "sub", *files(folder), "--count", "1")
    environment = {"PALIO_CA": "ca.pem", "PALIO_CERT": "eva.pem", "PALIO_CERT_KEY": "eva.key"}
    found = {name: str(folder / value) for name, value in environment.items()}
    runner = CliRunner(env={"PALIO_SERVER": encrypted.url, **found})
    assert runner.invoke(palio, ["pub", "x = 2"]).exit_code == 0
    assert command.finish() == (0, "x = 2\n", "")
    assert runner.invoke(palio, ["net", "status", "--json"]).exit_code == 0
    both = folder / "both.pem"
    both.write_bytes((folder / "eva.pem").read_bytes() + (folder / "eva.key").read_bytes())
    assert invoke(encrypted, "pub", "--ca", f"{folder}/ca.pem", "--cert", str(both), "x = 3").exit_code == 0


def test_all_commands_that_connect_take_certificates() -> None:
    for words, command in ALL.items():
        options = options_of(command)
        if "--server" in options and words != ("token",):
            assert {"--ca", "--cert", "--cert-key", "--token"} <= options, words


def _answer_without_tls(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"hello\n")


def test_certificates_that_cannot_be_used(encrypted: Served, folder: Path) -> None:
    def told(*arguments: str, code: int = 2) -> str:
        done = invoke(encrypted, "pub", *arguments, "x = 1")
        assert done.exit_code == code, done.stderr
        return done.stderr

    assert "--ca: nowhere.pem cannot be read: No such file" in told("--ca", "nowhere.pem")
    assert "--ca: " in told("--ca", f"{folder}/eva.key")
    assert "--cert-key is the key of a certificate" in told("--cert-key", f"{folder}/eva.key")
    assert "cannot be used" in told("--cert", f"{folder}/eva.pem", "--cert-key", f"{folder}/server.key")
    assert re.search("cannot be trusted: .*; name the authority of its certificate with --ca$", told(code=1).strip())
    plain = invoke(encrypted, "pub", "--server", encrypted.url.replace("palios", "palio"), "x = 1")
    assert "this port speaks TLS; connect with palios://" in plain.stderr
    with socket.create_server(("127.0.0.1", 0)) as silent:
        Thread(target=_answer_without_tls, args=[silent]).start()
        done = invoke(encrypted, "pub", "--server", f"palios://127.0.0.1:{silent.getsockname()[1]}", "x = 1")
    assert re.search("does not speak TLS; try palio://[0-9.:]+$", done.stderr.strip())
    refused = invoke(encrypted, "pub", "--server", "palio://127.0.0.1:1", *files(folder), "x = 1")
    assert "palios:// is" in refused.stderr


def test_the_group_is_the_one_that_users_call() -> None:
    assert isinstance(palio, LazyGroup)
    assert set(_COMMANDS) == {words[0] for words in ALL}
