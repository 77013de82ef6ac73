"""The two forms of scenario files: specifications, with macros, and scenarios in all detail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn

from palio.errors import CallerError, brief
from palio.lab.scenario import (
    NAMES,
    Delay,
    ObjectGroup,
    Objects,
    Parties,
    PartyGroup,
    Scenario,
    Specification,
    check_scenario,
    check_specification,
)
from palio.lab.topology import Cable, Topology, check, edges

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|//[^\n]*)|(?P<line>\n)|(?P<text>"[^"\n]*")|(?P<arrow>->)"""
    r"""|(?P<word>[A-Za-z0-9_][\w/]*(?:~\w+)?)|(?P<mark>[{}=;:@-])""",
)
_BY_NAME = {name: short for short, name in NAMES.items()}


class ScenarioError(CallerError):
    """A scenario file that cannot be read; the message says the line."""


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class _Reader:
    """The words of a file, one after the other."""

    def __init__(self, text: str, macros: Mapping[str, str]) -> None:
        self._macros = dict(macros)
        self._tokens = [*self._split(text)]
        self._place = 0
        self.line = 1

    def _split(self, text: str) -> Iterator[_Token]:
        for line, source in enumerate(text.split("\n"), 1):
            if source.lstrip().startswith("#"):
                self._define(source.split("//")[0], line)
                continue
            place = 0
            while place < len(source):
                match = _TOKEN.match(source, place)
                if match is None:
                    raise ScenarioError(f"line {line}: {brief(source[place:])} begins with nothing that belongs here")
                place = match.end()
                if match.lastgroup not in ("space", None):
                    yield _Token(match.lastgroup, match.group(), line)

    def _define(self, source: str, line: int) -> None:
        words = source.split()
        if words[0] != "#define" or len(words) != 3:
            raise ScenarioError(f"line {line}: {brief(source)} is no #define NAME VALUE")
        self._macros.setdefault(words[1], words[2])

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing more."""
        return self._place == len(self._tokens)

    def fail(self, reason: str) -> NoReturn:
        """The file cannot be read."""
        raise ScenarioError(f"line {self.line}: {reason}")

    def peek(self) -> str:
        """The next word, which stays."""
        return "" if self.is_at_end else self._tokens[self._place].text

    def next(self, *kinds: str) -> str:
        """The next word, of certain kinds."""
        if self.is_at_end:
            self.fail(f"the file ends where {' or '.join(kinds)} is expected")
        token = self._tokens[self._place]
        self.line = token.line
        if token.kind not in kinds:
            self.fail(f"{brief(token.text)} stands where a {' or '.join(kinds)} is expected")
        self._place += 1
        return token.text.strip('"') if token.kind == "text" else token.text

    def expect(self, text: str) -> None:
        """The next word is this one."""
        found = self.next("mark", "arrow", "word", "text")
        if found != text:
            self.fail(f"{brief(found)} stands where {text!r} is expected")

    def number(self, what: str, text: str | None = None) -> int:
        """A number, perhaps by the name of a macro."""
        given = self.next("word") if text is None else text
        seen = set()
        while given in self._macros and given not in seen:
            seen.add(given)
            given = self._macros[given]
        if not given.isascii() or not given.isdigit():
            hint = "; is a macro missing?" if re.fullmatch(r"[A-Z_][A-Z0-9_]*", given) else ""
            self.fail(f"{what}: {brief(given)} is no number{hint}")
        return int(given)

    def delay(self, what: str) -> Delay:
        """A time, two with ~ between them, or one with a P for Poisson."""
        given = self.next("word")
        given = self._macros.get(given, given)
        low, _, high = given.partition("~")
        if high:
            return Delay(self.number(what, low), self.number(what, high))
        if re.fullmatch(r"[0-9]+P", given):
            return Delay(int(given[:-1]), is_poisson=True)
        return Delay(self.number(what, given))


# -- specifications ----------------------------------------------------------------------------------------------------


def read_specification(text: str, macros: Mapping[str, str | int] | None = None) -> Specification:
    """Read the form that says how many, with macros from the file (``#define``) or from outside.

    >>> made = read_specification('''
    ...     servers = acyclic adv_fwd;
    ...     parties { pattern = "A"; number = PARTIES; notif/sub = 15; cycles = 10; init_delay = 2000~2500; };
    ... ''', {"PARTIES": 100})
    >>> made.architecture, made.parties[0].number
    ('aa', 100)
    """
    reader = _Reader(text, {name: str(value) for name, value in (macros or {}).items()})
    architecture: str | None = None
    objects: list[Objects] = []
    parties: list[Parties] = []
    while not reader.is_at_end:
        section = reader.next("word")
        if section == "servers":
            reader.expect("=")
            architecture = _architecture(reader)
            reader.expect(";")
        elif section == "objects":
            objects.append(_objects(reader))
        elif section == "parties":
            parties.append(_parties(reader))
        else:
            reader.fail(f"{brief(section)} is none of servers, objects, parties")
    if architecture is None:
        reader.fail("it is not said what servers there are: servers = hierarchical;")
    made = Specification(architecture, tuple(objects), tuple(parties))
    try:
        check_specification(made)
    except CallerError as error:
        raise ScenarioError(str(error)) from None
    return made


def _architecture(reader: _Reader) -> str:
    words = [reader.next("word")]
    if reader.peek() not in (";", ":"):
        words.append(reader.next("word"))
    name = " ".join(words)
    if name not in _BY_NAME:
        reader.fail(f"{brief(name)} is none of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


_FIELDS = {
    "event": "text",
    "pattern": "text",
    "number": "number",
    "cycles": "number",
    "pub/adv": "number",
    "notif/sub": "number",
    "time/pub": "delay",
    "time/sub": "delay",
    "init_delay": "delay",
}


class _Section(NamedTuple):
    texts: dict[str, str]
    numbers: dict[str, int]
    delays: dict[str, Delay]


def _section(reader: _Reader, allowed: tuple[str, ...], needed: tuple[str, ...]) -> _Section:
    section = _Section({}, {}, {})
    reader.expect("{")
    while reader.peek() != "}":
        key = reader.next("word")
        if key not in allowed:
            reader.fail(f"{brief(key)} is none of {', '.join(allowed)}")
        if any(key in known for known in section):
            reader.fail(f"{key} is said twice")
        reader.expect("=")
        if _FIELDS[key] == "text":
            section.texts[key] = reader.next("text", "word")
        elif _FIELDS[key] == "number":
            section.numbers[key] = reader.number(key)
        else:
            section.delays[key] = reader.delay(key)
        reader.expect(";")
    reader.expect("}")
    if reader.peek() == ";":
        reader.expect(";")
    for key in needed:
        if not any(key in known for known in section):
            reader.fail(f"{key} is missing in the section that ends here")
    return section


def _objects(reader: _Reader) -> Objects:
    keys = ("event", "number", "pub/adv", "time/pub", "cycles")
    texts, numbers, delays = _section(reader, keys, keys)
    return Objects(texts["event"], numbers["number"], numbers["pub/adv"], delays["time/pub"], numbers["cycles"])


def _parties(reader: _Reader) -> Parties:
    needed = ("pattern", "number", "cycles")
    texts, numbers, delays = _section(reader, (*needed, "notif/sub", "time/sub", "init_delay"), needed)
    stay = numbers.get("notif/sub"), delays.get("time/sub")
    if (stay[0] is None) is (stay[1] is None):
        reader.fail("there is to be one of notif/sub and time/sub in the section that ends here")
    return Parties(texts["pattern"], numbers["number"], numbers["cycles"], delays.get("init_delay", Delay(0)), *stay)


def write_specification(specification: Specification) -> str:
    """The text of a specification; reading it gives an equal one."""
    lines = [f"servers = {NAMES[specification.architecture]};"]
    for objects in specification.objects:
        lines += [
            "",
            "objects {",
            f'  event = "{objects.event}";',
            f"  number = {objects.number};",
            f"  pub/adv = {objects.publications};",
            f"  time/pub = {objects.delay};",
            f"  cycles = {objects.cycles};",
            "};",
        ]
    for parties in specification.parties:
        is_counted = parties.notifications is not None
        lines += [
            "",
            "parties {",
            f'  pattern = "{parties.pattern}";',
            f"  number = {parties.number};",
            f"  notif/sub = {parties.notifications};" if is_counted else f"  time/sub = {parties.time};",
            f"  cycles = {parties.cycles};",
            f"  init_delay = {parties.initial};",
            "};",
        ]
    return "\n".join(lines) + "\n"


# -- scenarios ---------------------------------------------------------------------------------------------------------


def read_scenario(text: str) -> Scenario:
    """Read the form that says where everything is."""
    reader = _Reader(text, {})
    cables: list[Cable] = []
    servers: list[str] = []
    links: list[tuple[str, str]] = []
    objects: list[ObjectGroup] = []
    parties: list[PartyGroup] = []
    architecture: str | None = None
    while not reader.is_at_end:
        if reader.peek() in ("sites", "objects", "parties"):
            section = reader.next("word")
        else:
            section, architecture = "servers", _architecture(reader)
        reader.expect(":")
        while not reader.is_at_end and not _is_heading(reader):
            if section == "sites":
                cables.append(_cable(reader))
            elif section == "servers":
                _server(reader, servers, links)
            elif section == "objects":
                objects.append(_object_group(reader))
            else:
                parties.append(_party_group(reader))
    if architecture is None:
        reader.fail("it is not said what servers there are")
    names = dict.fromkeys([*(name for cable in cables for name in (cable.one, cable.other)), *servers])
    try:
        topology = check(Topology(tuple(sorted(names, key=_in_order)), tuple(cables)), "sites")
        made = Scenario(topology, architecture, tuple(servers), tuple(links), tuple(objects), tuple(parties))
        check_scenario(made)
    except CallerError as error:
        raise ScenarioError(str(error)) from None
    return made


def _in_order(name: str) -> tuple[str, int, str]:
    """Numbers at the end of names count as numbers."""
    match = re.fullmatch(r"(.*?)([0-9]+)", name)
    return (name, 0, name) if match is None else (match[1], int(match[2]), name)


def _is_heading(reader: _Reader) -> bool:
    words = {"sites", "objects", "parties", *(name.split()[0] for name in _BY_NAME)}
    return reader.peek() in words


def _cable(reader: _Reader) -> Cable:
    one = reader.next("word")
    reader.expect("-")
    other = reader.next("word")
    reader.expect("=")
    cost = reader.number("the cost of a link")
    reader.expect(";")
    return Cable(one, other, cost)


def _server(reader: _Reader, servers: list[str], links: list[tuple[str, str]]) -> None:
    server = _address(reader)
    if server not in servers:
        servers.append(server)
    if reader.peek() == "->":
        reader.next("arrow")
        links.append((server, _address(reader)))
    reader.expect(";")


def _address(reader: _Reader) -> str:
    reader.expect("S")
    reader.expect("@")
    return reader.next("word")


def _group(reader: _Reader) -> tuple[int, str, str, dict[str, str]]:
    number = reader.number("how many")
    reader.expect("@")
    site = reader.next("word")
    reader.expect("server")
    reader.expect("=")
    server = _address(reader)
    values: dict[str, str] = {}
    while reader.peek() != ";":
        key = reader.next("word")
        reader.expect("=")
        values[key] = reader.next("word", "text")
    reader.expect(";")
    return number, site, server, values


def _take(reader: _Reader, values: dict[str, str], key: str) -> str:
    if key not in values:
        reader.fail(f"{key} is missing")
    return values.pop(key)


def _object_group(reader: _Reader) -> ObjectGroup:
    number, site, server, values = _group(reader)
    event = _take(reader, values, "event")
    cycles, count = (reader.number(key, _take(reader, values, key)) for key in ("cycles", "count"))
    delay = _time(reader, "delay", _take(reader, values, "delay"))
    _nothing_else(reader, values)
    return ObjectGroup(number, site, server, event, cycles, count, delay)


def _party_group(reader: _Reader) -> PartyGroup:
    number, site, server, values = _group(reader)
    pattern, stay = _take(reader, values, "pattern"), _take(reader, values, "delay")
    cycles = reader.number("cycles", _take(reader, values, "cycles"))
    initial = reader.number("init_delay", values.pop("init_delay", "0"))
    _nothing_else(reader, values)
    if stay.endswith("N"):
        return PartyGroup(number, site, server, pattern, cycles, initial, reader.number("delay", stay[:-1]))
    return PartyGroup(number, site, server, pattern, cycles, initial, None, _time(reader, "delay", stay))


def _time(reader: _Reader, what: str, text: str) -> Delay:
    if text.endswith("P"):
        return Delay(reader.number(what, text[:-1]), is_poisson=True)
    return Delay(reader.number(what, text))


def _nothing_else(reader: _Reader, values: Mapping[str, str]) -> None:
    for key in values:
        reader.fail(f"{brief(key)} does not belong here")


def write_scenario(scenario: Scenario) -> str:
    """The text of a scenario; reading it gives an equal one."""
    above: dict[str, list[str]] = {server: [] for server in scenario.servers}
    for server, other in scenario.links:
        above[server].append(other)
    lines = ["sites:", *(f"    {line}" for line in edges(scenario.topology)), f"{NAMES[scenario.architecture]}:"]
    for server, others in above.items():
        lines += [f"    S@{server} -> S@{other};" for other in others] or [f"    S@{server};"]
    lines.append("objects:")
    lines += [
        f"{each.number} @ {each.site} server=S@{each.server} event={each.event} cycles={each.cycles} "
        f"count={each.publications} delay={each.delay};"
        for each in scenario.objects
    ]
    lines.append("parties:")
    lines += [
        f"{each.number} @ {each.site} server=S@{each.server} pattern={each.pattern} cycles={each.cycles} "
        f"delay={each.time if each.notifications is None else f'{each.notifications}N'} init_delay={each.initial};"
        for each in scenario.parties
    ]
    return "\n".join(lines) + "\n"
