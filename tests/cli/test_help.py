"""What commands say with ``--help``: each has an example that can be typed, and ``--json``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from palio.cli.main import palio

ROOT = click.Context(palio, info_name="palio")


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(ROOT):
        found = command.get_command(ROOT, name)
        assert found is not None
        yield from commands(found, (*words, name))


COMMANDS = [pytest.param(words, command, id=" ".join(words)) for words, command in commands(palio)]


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_examples_can_be_typed(
    words: tuple[str, ...], command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (command.epilog or "").replace("\b", "").replace("\\\n", " ")
    examples = [line.strip() for line in re.split(r"\n|;  ", re.sub(r"Examples?:", "", text)) if line.strip()]
    assert examples
    for example in examples:
        typed = shlex.split(re.sub(r" [<|>] [\w.]+$", "", example))
        assert (typed[0], *typed[1 : len(words) + 1]) == ("palio", *words), example
        arguments = typed[len(words) + 1 :]
        for word in arguments:
            if re.search(r"/$|\.\w+$", word) and "://" not in word:  # a file or folder of the example has to be there
                place = tmp_path / word
                place.parent.mkdir(parents=True, exist_ok=True)
                if word.endswith("/"):
                    place.mkdir(exist_ok=True)
                else:
                    place.touch()
        command.make_context(" ".join(words), arguments, parent=ROOT)


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_every_command_speaks_json(words: tuple[str, ...], command: click.Command) -> None:
    assert "--json" in {option for each in command.params for option in each.opts}, words
