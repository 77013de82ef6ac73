"""A node starts on any records, and works: what does not fit is put aside, once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Advertisement, Filter, Notification, Pattern
from palio.link.ports import Wish
from palio.model.conditions import FORM
from palio.node import ports, records, shapes
from palio.node.fitting import fit, shaped
from palio.node.journal import Record
from palio.node.link_letters import LinkLetter
from palio.node.loading import load
from palio.node.node import Node, NodeSettings
from palio.node.party_log import Letter
from palio.node.ports import Connect, Deliver, Disconnect, LinkUp, Request
from palio.node.watches import Watch
from palio.routing.messages import Subscribe
from palio.routing.router import Role
from palio.sim.engine.cluster import OF_THE_SIMULATOR
from palio.sim.histories.history import Step
from palio.sim.histories.player import Player
from palio.sim.run import run
from palio.sim.suites import SUITES
from palio.store import Batch, Store
from palio.store.state import check_state, settings_of
from tests.node.durable import Durable, of_kind
from tests.node.test_logs import NOTHING, got
from tests.node.test_reconfigured import Net, plain

pytestmark = pytest.mark.slow  # all take what is on the disks of many histories
_CASES = [
    *(("trees", arch) for arch in ("hs", "as", "aa", "nf")),
    *(("graphs", arch) for arch in ("gs", "ga")),
    ("gateways", "as+hs+gs"), ("gateways", "ga+aa"),
    *(("patterns", arch) for arch in ("ce", "aa", "ga")),
    *(("merging", arch) for arch in ("as", "aa", "gs")),
    *(("durability", arch) for arch in ("ce", "as", "gs")),
]  # fmt: skip


class Snapshot(NamedTuple):
    """What a server has on disk at some time."""

    settings: NodeSettings
    records: tuple[Record, ...]
    entries: dict[int, bytes]


@cache
def snapshots() -> list[Snapshot]:
    """The disks of servers in many histories, now and then."""
    found: list[Snapshot] = []
    for suite, architecture in _CASES:
        for seed in range(8):
            history = SUITES[suite].generate(seed, architecture, "crashes", 40)
            if history.durable:
                run(history, _Looking(found, Random(f"{suite} {architecture} {seed}")).look)
    return found


class _Looking:
    """Looks at a disk after some steps."""

    def __init__(self, found: list[Snapshot], random: Random) -> None:
        self._found, self._random = found, random

    def look(self, player: Player, _step: Step) -> None:
        running = sorted(player.cluster.disks.keys() & player.cluster.nodes.keys())
        if not running or self._random.random() < 0.6:
            return
        server = self._random.choice(running)
        node, disk = player.cluster.nodes[server], player.cluster.disks[server]
        every = [each for each in disk.records.items() if each[0][0] not in ("first", "form", *OF_THE_SIMULATOR)]
        known = tuple(each for each in every if each[0][0] != "entry")
        entries: dict[Any, Any] = {key[1]: value for key, value in every if key[0] == "entry"}
        if len(known) > 4:
            self._found.append(Snapshot(node.settings, known, entries))


def test_every_record_that_servers_write_fits() -> None:
    kinds: set[str] = set()
    for snapshot in snapshots():
        known: dict[Any, Any] = dict(snapshot.records)
        kinds |= {key[0] for key in known}
        fitted = fit(*shaped(known), snapshot.settings, 0, None)
        assert not fitted.misfits
        assert fitted.records == known
    assert kinds <= set(shapes.SHAPES), "every kind of record has a shape"
    rare = {"waiting", "letter", "key", "closing", "pending", "link letter", "link letters", "widened", "takes"}
    rare |= {"last", "ended", "party", "watch"}  # which earlier releases wrote
    rare |= {"ended lease", "departed"}
    assert kinds >= set(shapes.SHAPES) - rare


def mixed(random: Random, chosen: Snapshot, others: list[Snapshot]) -> dict[tuple[Any, ...], Any]:
    """Records of a server, some of them dropped, changed places, or from elsewhere."""
    pool = list(chosen.records)
    for other in others:
        pool += random.sample(other.records, random.randrange(len(other.records) // 2))
    drop = random.choice([0.0, 0.05, 0.3])
    known: dict[Any, Any] = {key: value for key, value in pool if random.random() >= drop}
    known["life",] = chosen.settings.incarnation
    by_kind: dict[str, list[Any]] = {}
    for key in known:
        by_kind.setdefault(key[0], []).append(key)
    for keys in by_kind.values():
        if random.random() < 0.3 and len(keys) > 1:
            one, two = random.sample(keys, 2)
            known[one], known[two] = known[two], known[one]
        if random.random() < 0.3:
            key = random.choice(keys)
            peers = [other[1] for others in by_kind.values() for other in others if len(other) > 1]
            known[(key[0], random.choice(peers), *key[2:]) if len(key) > 1 and peers else key] = known[key]
        if random.random() < 0.1:
            known[random.choice(keys)] = random.choice([7, "seven", (), None, -1, True, (1, "rome", 2)])
    return {key: value for key, value in known.items() if value is not None}


@cache
def parts() -> dict[type, list[Any]]:
    """All that records of servers consist of, by class."""
    found: dict[type, dict[bytes, Any]] = {}
    waiting: list[Any] = [part for snapshot in snapshots()[::5] for record in snapshot.records for part in record]
    while waiting:
        part = waiting.pop()
        known = found.setdefault(type(part), {})
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, tuple):
            waiting += part
        elif isinstance(part, Letter | LinkLetter | Wish):
            waiting += msgspec.structs.astuple(part)
        if type(part) is not tuple and len(known) < 50:
            known.setdefault(repr(part).encode(), part)
    return {kind: list(known.values()) for kind, known in found.items()}


def shaped_at_random(random: Random, hint: Any) -> Any:
    """Something of a shape, of parts that have nothing to do with each other."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is shapes.Count:
        return random.choice([0, 1, 2, 3, 17, 1 << 40])
    if origin in (Union, UnionType):
        return shaped_at_random(random, random.choice(args))
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return tuple(shaped_at_random(random, args[0]) for _ in range(random.randrange(3)))
    if origin is tuple:
        return tuple(shaped_at_random(random, each) for each in args)
    if origin is dict:
        keys = [shaped_at_random(random, args[0]) for _ in range(random.randrange(3))]
        return {key: shaped_at_random(random, args[1]) for key in keys}
    if hint is type(None) or hint is None:
        return None
    kinds = [hint] if hint in (int, str, float) else [kind for kind in parts() if issubclass(kind, hint)]
    pool = [each for kind in kinds for each in parts()[kind]]
    if not pool:
        raise LookupError(hint)
    return random.choice(pool)


def invented(random: Random) -> dict[tuple[Any, ...], Any]:
    """Records of all kinds whose keys and values have the right shape, and mean nothing together."""
    found: dict[tuple[Any, ...], Any] = {}
    for kind, (key, value) in shapes.SHAPES.items():
        for _ in range(random.choice([0, 0, 1, 3])):
            try:
                made = (kind, *(shaped_at_random(random, each) for each in key))
                found[made] = shaped_at_random(random, value)
            except LookupError:  # no server has written such a thing
                continue
    return found


def test_invented_records_have_the_shapes_of_their_kinds() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        for key, value in invented(Random(seed)).items():
            assert shapes.problem(key, value) is None, (key, value)
            assert records.decode(*records.encode((key, value))) == (key, value)  # type: ignore[arg-type]
            kinds.add(key[0])
    assert set(shapes.SHAPES) - kinds <= {"link letter", "closing", "party", "watch", "ended lease"}, (
        "all kinds that servers of these histories write"
    )


@settings(max_examples=300)
@given(st.integers(0, 10**9))
def test_a_node_starts_on_any_records_and_works(seed: int) -> None:
    random = Random(seed)
    chosen, *others = random.sample(snapshots(), random.choice([1, 1, 2, 3]))
    known = mixed(random, chosen, others)
    if random.random() < 0.5:
        known |= invented(random)
        known["life",] = chosen.settings.incarnation
    server = Durable()
    server.settings = chosen.settings._replace(comparisons=10**6)  # requests are done in one turn here
    server.entries = dict(chosen.entries)
    server.first = min(server.entries, default=0)
    server.records = {records.encode_key(key): records.encode_value(value) for key, value in known.items()}
    server.die(1_000_000)
    _works(server)
    server.die(3_000_000)
    assert not server.node.quarantined, "what was put aside once is no misfit any more"
    _works(server)


def _works(server: Durable) -> None:
    """Parties subscribe and publish, also durable ones; links come and go, and time goes on."""
    now = 1_000_000
    server.handle([], now)
    for _ in range(5):
        server.handle([], server.node.deadline or now)
    reading = server.node.logs._last[0] + 100
    said = server.handle([ports.Attach("reader", NOTHING, reading)], now)
    said += server.handle([Request("reader", 1, ports.Subscribe(Filter.parse("x > 4 and reader any")))], now)
    said += server.handle([Request("newcomer", 1, ports.Publish(Notification(reader=1, x=5)))], now)
    assert [value for _, value in got(plain(said), reading)] == [5]
    server.handle([Request("reader", 2, ports.Leave())], now)
    _links(server, now)
    asked = [Request("newcomer", 1, ports.Subscribe(Filter.parse("newcomer = 1")))]
    asked.append(Request("newcomer", 2, ports.Publish(Notification(newcomer=1, x=3))))
    said = server.handle(asked, now)
    assert "newcomer" in [party for each in of_kind(said, Deliver) for party in each.parties]
    for peer in tuple(server.node.links.peers):
        server.handle([ports.Doubt(peer), ports.Lost(peer)], now)
    for peer in tuple(server.node.links.wishes):
        server.handle([Disconnect(peer)], now)
    server.handle([Request("newcomer", 3, ports.Leave())], now)


def _links(server: Durable, now: int) -> None:
    """A server comes that was never there, and gets what its party wants."""
    architecture = server.settings.architecture
    if architecture == "ce":
        return
    stranger = Durable(server="stranger", architecture=architecture)
    name = server.settings.server
    net = Net(**{name: server, "stranger": stranger})
    net.now = now
    net.give("stranger", Connect(name, Role.MASTER if architecture == "hs" else Role.PEER))
    assert name in stranger.node.links.peers, stranger.node.links.status(name)
    assert "stranger" in server.node.links.peers
    net.give(name, Request("newcomer", 1, ports.Advertise(Advertisement.parse("x any"))))
    net.settle(name, "stranger")
    net.give("stranger", Request("guest", 1, ports.Subscribe(Filter.parse("x = 1234"))))
    net.settle(name, "stranger")
    net.give(name, Request("newcomer", 2, ports.Publish(Notification(x=1234))))
    net.settle(name, "stranger")
    assert net.delivered("stranger", "guest") == [1234]
    net.give(name, Disconnect("stranger"))
    net.give(name, ports.Allow("stranger"), Request("newcomer", 3, ports.Leave()))


def test_links_whose_tables_are_in_doubt_begin_anew() -> None:
    milan, rome = (Durable(server=name, architecture="as") for name in ("milan", "rome"))
    _carry(milan, rome, milan.handle([Connect("rome")], 0), 0)
    _carry(rome, milan, rome.handle([Request("eva", 1, ports.Subscribe(Filter.parse("x > 3")))], 1), 1)
    assert milan.node.router.standing("rome") == [Subscribe(Filter.parse("x > 3"))]
    key = records.encode_key(("held", "rome", Subscribe(Filter.parse("x > 5"), "bari")))
    milan.records[key] = records.encode_value(True)
    milan.die(2)
    assert len(milan.node.quarantined) == 1
    assert not milan.node.links.peers
    said = _carry(milan, rome, milan.handle([], 2), 2)
    later = milan.node.deadline or 0
    said += _carry(milan, rome, milan.handle([], later), later)
    assert of_kind(said, LinkUp)
    assert milan.node.router.standing("rome") == [Subscribe(Filter.parse("x > 3"))]


def _carry(source: Durable, target: Durable, outputs: list[ports.Output], now: int) -> list[ports.Output]:
    """Exchange frames until there are none."""
    said = list(outputs)
    under_way = [(source, target, each.frame) for each in of_kind(outputs, ports.Send)]
    while under_way:
        sender, receiver, frame = under_way.pop(0)
        found = receiver.handle([ports.FromPeer(sender.settings.server, frame)], now)
        said += found
        under_way += [(receiver, sender, each.frame) for each in of_kind(found, ports.Send)]
    return said


def test_the_form_of_what_a_neighbour_was_never_told_is_put_aside() -> None:
    milan, rome = (Durable(server=name, architecture="as") for name in ("milan", "rome"))
    _carry(milan, rome, milan.handle([Connect("rome")], 0), 0)
    strange = Subscribe(Filter.parse("x > 3"))
    milan.records[records.encode_key(("widened", "rome", strange))] = records.encode_value((Subscribe(Filter()),))
    milan.die(2)
    (found,) = milan.node.quarantined
    assert found.reason == "it is not what the tables say"
    milan.handle([], 2)
    milan.die(3)
    assert not milan.node.quarantined


@pytest.mark.parametrize("seed", range(40))
def test_a_check_of_the_store_names_what_a_start_puts_aside(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    chosen, *others = random.sample(snapshots(), random.choice([1, 2, 3]))
    known = {**mixed(random, chosen, others), **(invented(random) if seed % 2 else {})}
    known["architecture",] = chosen.settings.architecture
    rows = [records.encode(each) for each in known.items()]
    entries = [(position, data) for position, data in sorted(chosen.entries.items())]
    with Store.open(tmp_path / "milan.db", name=chosen.settings.server, incarnation=5) as store:
        rows.append(records.encode((("life",), 5)))
        first = entries[0][0] if entries else 0
        store.commit([Batch([], [(position, b"x") for position in range(first)], first)] if first else [])
        store.commit([Batch([*rows, (b"?", b"?")], entries)])
        meta = store._meta
    found = check_state(tmp_path / "milan.db", meta)
    server = Durable()
    server.records = {key: value for key, value in sorted(dict(rows).items()) if value is not None}
    gateways = settings_of(meta, load(server.records.items()).records).gateways
    server.settings = chosen.settings._replace(incarnation=5, gateways=gateways)
    server.entries = dict(entries)
    server.first = meta.first
    server.die(0)
    expected = [(each.key, each.reason) for each in server.node.quarantined]
    assert sorted((each.key, each.reason) for each in found.misfits if each.reason != UNREADABLE) == sorted(expected)
    assert [each.reason for each in found.misfits].count(UNREADABLE) == 1


UNREADABLE = "a key that does not begin with a kind"


@pytest.mark.parametrize("row", [(b"", b""), (b"\xc1", b""), (b"\x91\xa1a", b"\xc1"), (b"\x90", b"\x01")])
def test_rows_that_cannot_be_read_are_put_aside_with_their_bytes(row: tuple[bytes, bytes]) -> None:
    sound = records.encode((("in", "rome"), 3))
    loaded = load([row, sound])
    assert loaded.records == [(("in", "rome"), 3)]
    (aside,) = loaded.quarantined
    assert aside.reason
    rows = dict([row, sound])
    for key, value in loaded.changes:
        rows.pop(key, None)
        if value is not None:
            rows[key] = value
    assert row[0] not in rows
    kept = [records.decode(*each) for each in rows.items()]
    assert (("quarantine", 0), (*row, aside.reason)) in kept
    again = load(rows.items())
    assert (again.quarantine.count, again.quarantined, again.changes) == (1, [], [])


def test_a_store_of_another_form_gets_other_keys() -> None:
    pattern = Pattern.parse("y any and x = 1 then x = 2")
    state = Watch("eva", pattern, 0).state()
    rows = [
        (records.encode_value(("pattern", "eva", pattern)), records.encode_value(state)),
        records.encode((("form",), FORM + 1)),
    ]
    loaded = load(rows)
    assert [key for key, _ in loaded.records] == [("pattern", "eva", pattern)]
    canonical = records.encode_key(("pattern", "eva", pattern))
    assert canonical != rows[0][0]
    assert loaded.changes == [(rows[0][0], None), (canonical, rows[0][1]), records.encode((("form",), FORM))]
    assert not load([(canonical, rows[0][1]), records.encode((("form",), FORM))]).changes


def test_doubles_with_other_values_are_put_aside() -> None:
    first, second = (Pattern.parse(f"{words} then x = 2") for words in ("x = 1 and y any", "y any and x = 1"))
    states = [Watch("eva", first, since).state() for since in (3, 4)]
    rows = [
        (records.encode_value(("pattern", "eva", pattern)), records.encode_value(state))
        for pattern, state in zip((second, first), states, strict=True)
    ]
    loaded = load([*rows, records.encode((("form",), FORM))])
    assert loaded.records == [(("pattern", "eva", first), states[1])], "the canonical key counts"
    assert len(loaded.quarantined) == len(loaded.merged) == 1


def test_lost_counters_go_on_from_the_time() -> None:
    server = Durable(architecture="ce")
    server.records = dict([records.encode((("life",), 0)), records.encode((("counters",), ("many", 1)))])
    server.die(5_000)
    said = server.handle([Request("eva", 1, ports.Publish(Notification(x=1)))], 5_000)
    assert server.node.publishing.count > 5_000
    assert isinstance(said, list)


def test_a_log_that_is_shorter_than_its_cursor_has_another_name() -> None:
    server = Durable(architecture="ce")
    mail = ("mail", "eva"), (1, 7, (1, 1, 1, 1, 0, 1))
    cursor = ("cursor", "eva"), (9, 0, 0, 0, 0, 9, None, 0, 0)
    server.records = dict(map(records.encode, [(("life",), 0), mail, cursor]))
    server.die(5_000)
    assert server.node.logs.of("eva").identity > 7


def test_nodes_without_a_store_have_nothing_to_put_aside() -> None:
    assert Node(NodeSettings("milan", "ce")).quarantined == []
