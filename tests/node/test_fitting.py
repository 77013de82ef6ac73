"""A node starts on any records, and works: what does not fit is put aside, once."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Notification, Pattern
from palio.model.conditions import FORM
from palio.node import ports, records, shapes
from palio.node.fitting import fit, shaped
from palio.node.journal import Record
from palio.node.loading import load
from palio.node.node import Node, NodeSettings
from palio.node.ports import Connect, Deliver, Disconnect, LinkUp, Request
from palio.node.watches import Watch
from palio.routing.messages import Subscribe
from palio.sim.cluster import OF_THE_SIMULATOR
from palio.sim.history import Step
from palio.sim.player import Player
from palio.sim.run import run
from palio.sim.suites import SUITES
from tests.node.durable import Durable, of_kind

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
    rare |= {"last", "ended"}  # which earlier releases wrote
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


@settings(max_examples=300)
@given(st.integers(0, 10**9))
def test_a_node_starts_on_any_records_and_works(seed: int) -> None:
    random = Random(seed)
    chosen, *others = random.sample(snapshots(), random.choice([1, 1, 2, 3]))
    known = mixed(random, chosen, others)
    server = Durable()
    server.settings = chosen.settings
    server.entries = dict(chosen.entries)
    server.records = {records.encode_key(key): records.encode_value(value) for key, value in known.items()}
    server.die(1_000_000)
    _works(server)
    server.die(3_000_000)
    assert not server.node.quarantined, "what was put aside once is no misfit any more"
    _works(server)


def _works(server: Durable) -> None:
    """Parties subscribe and publish, links come and go, and time goes on."""
    now = 1_000_000
    server.handle([], now)
    for _ in range(5):
        server.handle([], server.node.deadline or now)
    asked = [Request("newcomer", 1, ports.Subscribe(Filter.parse("newcomer = 1")))]
    asked.append(Request("newcomer", 2, ports.Publish(Notification(newcomer=1, x=3))))
    said = server.handle(asked, now)
    assert "newcomer" in [party for each in of_kind(said, Deliver) for party in each.parties]
    for peer in tuple(server.node.links.peers):
        server.handle([ports.Doubt(peer), ports.Lost(peer)], now)
    for peer in tuple(server.node.links.wishes):
        server.handle([Disconnect(peer)], now)
    server.handle([Request("newcomer", 3, ports.Leave())], now)


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
    assert (("quarantine", row[0]), (row[1], aside.reason)) in kept
    again = load(rows.items())
    assert (again.put_aside, again.quarantined, again.changes) == (1, [], [])


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
