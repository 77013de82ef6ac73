"""Networks from files, and into them: AT&T's dot, and the Stanford GraphBase form that topology generators write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from palio.errors import CallerError, brief
from palio.lab.topology import Cable, Topology, check

_COSTS = ("cost", "len", "weight", "label")
"""The attributes of a link in a dot file that say what it costs; the first of them that is there counts."""


class GraphFileError(CallerError):
    """A file that holds no network that could be read; the message says the line."""


# -- dot ---------------------------------------------------------------------------------------------------------------

_DOT = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)|(?P<edge>--|->)|(?P<mark>[{}\[\];,=])"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[A-Za-z_\x80-\U0010ffff][\w]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?))""",
    re.DOTALL | re.MULTILINE,
)


class _Dot:
    """The words of a dot file."""

    def __init__(self, text: str) -> None:
        self._words: list[tuple[str, str, int]] = []
        self._place, self._line, place, line = 0, 1, 0, 1
        while place < len(text):
            match = _DOT.match(text, place)
            if match is None:
                raise GraphFileError(f"line {line}: {brief(text[place : place + 20])} is nothing that belongs here")
            kind, word = match.lastgroup or "", match.group()
            if kind != "space":
                self._words.append((kind, _unquoted(word) if kind == "text" else word, line))
            line += word.count("\n")
            place = match.end()

    def peek(self) -> str:
        """The next word, which stays."""
        return self._words[self._place][1] if self._place < len(self._words) else ""

    def next(self) -> str:
        """The next word."""
        if self._place == len(self._words):
            self.fail("the file ends too early")
        _, word, self._line = self._words[self._place]
        self._place += 1
        return word

    def name(self) -> str:
        """The next word, which is a name."""
        word = self.next()
        if self._words[self._place - 1][0] not in ("text", "word"):
            self.fail(f"{brief(word)} stands where a name is expected")
        return word

    def expect(self, *words: str) -> str:
        """The next word, which is one of these."""
        word = self.next()
        if word not in words:
            self.fail(f"{brief(word)} stands where {' or '.join(words)} is expected")
        return word

    def fail(self, reason: str) -> None:
        """The file cannot be read."""
        raise GraphFileError(f"line {self._line}: {reason}")

    def attributes(self) -> dict[str, str]:
        """What is in brackets behind a node or a link."""
        found: dict[str, str] = {}
        while self.peek() == "[":
            self.next()
            while self.peek() != "]":
                key = self.name()
                self.expect("=")
                found[key] = self.name()
                if self.peek() in (",", ";"):
                    self.next()
            self.next()
        return found


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1])


def read_dot(text: str) -> Topology:
    """Read a graph with nodes and links, without subgraphs; what a link costs is its first of cost, len, weight, label.

    >>> read_dot("graph net { s0 -- s1 [len=31]; s1 -- s2 -- s3; }").cables
    (Cable(one='s0', other='s1', cost=31), Cable(one='s1', other='s2', cost=1), Cable(one='s2', other='s3', cost=1))
    """
    words = _Dot(text)
    if words.peek() == "strict":
        words.next()
    words.expect("graph", "digraph")
    if words.peek() != "{":
        words.name()
    words.expect("{")
    names: dict[str, None] = {}
    cables: dict[frozenset[str], Cable] = {}
    while words.peek() != "}":
        chain = [words.name()]
        if words.peek() == "=":
            words.next()
            words.name()
        else:
            while words.peek() in ("--", "->"):
                words.next()
                chain.append(words.name())
            attributes = words.attributes()
            if chain[0] not in ("graph", "node", "edge"):
                names.update(dict.fromkeys(chain))
                cost = _cost(words, attributes) if len(chain) > 1 else 0
                for one, other in pairwise(chain):
                    cables.setdefault(frozenset((one, other)), Cable(one, other, cost))
        if words.peek() in (";", ","):
            words.next()
    return check(Topology(tuple(names), tuple(cables.values())), "dot file")


def _cost(words: _Dot, attributes: dict[str, str]) -> int:
    given = next((attributes[key] for key in _COSTS if key in attributes), "1")
    try:
        return round(float(given))
    except (ValueError, OverflowError):
        words.fail(f"a link costs {brief(given)}, which is no number")
        raise


def write_dot(topology: Topology) -> str:
    """A dot file; reading it gives an equal network."""
    lines = [f'  "{name}";' for name in topology.names]
    lines += [f'  "{one}" -- "{other}" [len={cost}];' for one, other, cost in topology.cables]
    return "\n".join(["graph network {", *lines, "}", ""])


# -- GraphBase ---------------------------------------------------------------------------------------------------------

_PRIME = (1 << 30) - 83
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_^~&@,;.:?!%#$+-*/|\\<=>()[]{}`'\" \n"
_OTHER = 127
_HEAD = re.compile(r"\* GraphBase graph \(util_types ([IVAGSZ]{14}),([0-9]+)V,([0-9]+)A\)")
_FIELD = re.compile(r'"([^"]*)"|([^,]*)')


def _checksum(lines: list[str]) -> int:
    """Over all lines that do not begin with a star, as the GraphBase has it."""
    order = {letter: number for number, letter in enumerate(_ALPHABET)}
    total = 0
    for line in lines:
        if not line.startswith("*"):
            for letter in line.rstrip(" ") + "\n":
                total = (2 * total + order.get(letter, _OTHER)) % _PRIME
    return total


def _records(lines: list[str], begin: int, count: int, what: str) -> Iterator[tuple[int, list[str]]]:
    """So many records from a line on, with their lines; a backslash at the end joins a line with the next."""
    place = begin
    for _ in range(count):
        number, record = place + 1, ""
        while True:
            if place >= len(lines) or lines[place].startswith("*"):
                raise GraphFileError(f"line {place + 1}: there are fewer {what} than the first line says")
            line = lines[place].rstrip(" ")
            place += 1
            if not line.endswith("\\"):
                break
            record += line[:-1]
        fields, at = [], 0
        record += line
        while at <= len(record):
            match = _FIELD.match(record, at)
            assert match is not None
            fields.append(match[1] if match[1] is not None else match[2])
            at = match.end() + 1
        yield number, fields
    if place < len(lines) and not lines[place].startswith("*"):
        raise GraphFileError(f"line {place + 1}: there are more {what} than the first line says")


def read_graphbase(text: str) -> Topology:
    """Read a graph as the Stanford GraphBase saves it; the length of an arc is what the link costs.

    Sites get the names of the vertices if those are all different, and numbers if not.
    """
    lines = text.rstrip("\n").split("\n")
    head = _HEAD.match(lines[0])
    if head is None:
        raise GraphFileError("line 1: that is not how a GraphBase graph begins: * GraphBase graph (util_types …")
    vertices, arcs = int(head[2]), int(head[3])
    place = next((number for number, line in enumerate(lines) if line.startswith("* Vertices")), None)
    arc_place = next((number for number, line in enumerate(lines) if line.startswith("* Arcs")), None)
    if place is None or arc_place is None:
        raise GraphFileError("the file has no line * Vertices, or no line * Arcs")
    nodes = list(_records(lines, place + 1, vertices, "vertices"))
    ends = list(_records(lines, arc_place + 1, arcs, "arcs"))
    if (told := re.match(r"\* Checksum ([0-9]+)", lines[-1])) and int(told[1]) != _checksum(lines):
        raise GraphFileError(f"the checksum is {_checksum(lines)}, and should be {told[1]}: the file is damaged")
    names = [fields[0] for _, fields in nodes]
    if len(set(names)) < len(names) or "" in names:
        names = [f"s{number}" for number in range(vertices)]
    cables: dict[frozenset[str], Cable] = {}
    for site, (line, fields) in zip(names, nodes, strict=True):
        arc = _pointer(fields, 1, "A", line, arcs)
        seen = 0
        while arc is not None:
            if (seen := seen + 1) > arcs:
                raise GraphFileError(f"line {line}: the arcs of {brief(site)} go round in a circle")
            arc_line, arc_fields = ends[arc]
            tip = _pointer(arc_fields, 0, "V", arc_line, vertices)
            if tip is None or len(arc_fields) < 3 or not re.fullmatch(r"-?[0-9]+", arc_fields[2]):
                raise GraphFileError(f"line {arc_line}: {brief(','.join(arc_fields))} is no arc")
            if names[tip] != site:
                pair = frozenset((site, names[tip]))
                cables.setdefault(pair, Cable(site, names[tip], int(arc_fields[2])))
            arc = _pointer(arc_fields, 1, "A", arc_line, arcs)
    return check(Topology(tuple(names), tuple(cables.values())), "GraphBase file")


def _pointer(fields: list[str], place: int, letter: str, line: int, count: int) -> int | None:
    """What a field points to; nothing if it is 0."""
    given = fields[place] if place < len(fields) else ""
    if given == "0":
        return None
    if not re.fullmatch(rf"{letter}[0-9]+", given) or int(given[1:]) >= count:
        raise GraphFileError(f"line {line}: {brief(given)} is no {letter} with a number below {count}")
    return int(given[1:])


def write_graphbase(topology: Topology) -> str:
    """A GraphBase file; reading it gives an equal network."""
    arcs: list[list[object]] = []
    first: dict[str, str] = dict.fromkeys(topology.names, "0")
    numbers = {name: number for number, name in enumerate(topology.names)}
    for one, other, cost in reversed(topology.cables):
        for site, tip in ((one, other), (other, one)):
            arcs.append([f"V{numbers[tip]}", first[site], cost])
            first[site] = f"A{len(arcs) - 1}"
    lines = [
        f"* GraphBase graph (util_types ZZZZZZZZZZZZZZ,{len(numbers)}V,{len(arcs)}A)",
        f'"network",{len(numbers)},{len(arcs)}',
        "* Vertices",
        *(f'"{name}",{first[name]}' for name in topology.names),
        "* Arcs",
        *(",".join(map(str, arc)) for arc in arcs),
    ]
    return "\n".join([*lines, f"* Checksum {_checksum(lines)}", ""])
