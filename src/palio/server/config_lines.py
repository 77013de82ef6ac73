"""Where in a configuration file something stands, so that errors can name the file and the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]
"""Keys of tables, and numbers of tables in arrays."""
_HEADER = re.compile(r"\s*(\[{1,2})\s*(.+?)\s*\]{1,2}\s*(?:#.*)?$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def located(problem: str, file: str, text: str, environment: Mapping[str, str]) -> str:
    r"""A problem with the place where to mend it: file and line, or the name in the environment that says otherwise.

    >>> located("log.level: wrong", "palio.toml", 'server = "m"\n[log]\nlevel = "loud"', {})
    'palio.toml:3: log.level: wrong'
    >>> located("log.level: wrong", "palio.toml", 'server = "m"', {"PALIO_LOG__LEVEL": "loud"})
    'PALIO_LOG__LEVEL: log.level: wrong'
    """
    if problem.startswith("PALIO_"):  # it is the environment that is wrong
        return problem
    found = _AT_LINE.search(problem)
    if found is not None:
        return f"{file}:{found[1] or max(1, len(text.splitlines()))}: {problem}"
    place = problem.partition(": ")[0]
    path = tuple([name or int(number) for name, number in _STEP.findall(place)])
    variable = "PALIO_" + "__".join(str(step).upper() for step in path)
    names = [name for name in environment if name.upper() == variable]
    if names:
        return f"{names[0]}: {problem}"
    line = line_of(text, path)
    return f"{file}:{line}: {problem}" if line else f"{file}: {problem}"


def line_of(text: str, path: Path) -> int:
    """The line of a key, or of the nearest table around it; 0 if nothing of it is in the file.

    Tables in arrays may be named by their number or by their key ``name``.
    """
    found: dict[Path, int] = {}
    for line, statement in _statements(text):
        found.setdefault(statement, line)
    path = _numbered(text, path)
    while path:
        if path in found:
            return found[path]
        inside = [line for each, line in found.items() if each[: len(path)] == path]
        if inside:
            return min(inside)
        path = path[:-1]
    return 0


def _numbered(text: str, path: Path) -> Path:
    """With the number of a table in place of its name."""
    try:
        tables: Any = tomllib.loads(text).get(str(path[0])) if len(path) > 1 else None
    except tomllib.TOMLDecodeError:
        return path
    if isinstance(tables, list):
        for number, table in enumerate(tables):
            if isinstance(table, dict) and table.get("name") == path[1]:
                return (path[0], number, *path[2:])
    return path


def _statements(text: str) -> Iterator[tuple[int, Path]]:
    """The first line of each header and each key, with what it stands for."""
    table: Path = ()
    counts: dict[Path, int] = {}
    begin, statement = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        header = None if statement else _HEADER.match(line)
        if header is not None:
            table = _keys(f"{header[2]} = 0")
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield number, table
            continue
        begin, statement = begin if statement else number, f"{statement}{line}\n"
        try:
            is_empty = not tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        if not is_empty:
            yield begin, (*table, *_keys(statement))
        statement = ""


def _keys(statement: str) -> Path:
    """The keys of one statement; not those of tables in it."""
    document = tomllib.loads(statement)
    count = len(_DOTS.findall(statement.partition("=")[0])) + 1
    keys: list[str] = []
    while isinstance(document, dict) and len(document) == 1 and len(keys) < count:
        ((key, document),) = document.items()
        keys.append(key)
    return tuple(keys)


_DOTS = re.compile(r"""\.(?=(?:[^"']|"[^"]*"|'[^']*')*$)""")
"""Dots between keys, and not in quotes."""
