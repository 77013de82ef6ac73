"""What is known of the logs of durable parties from what servers are told and what they write, turn by turn.

It knows the law of logs and nothing of how nodes keep it. All that a turn writes is checked against all that was known
before; what a server has after it died is what it knew after the last turn that has reached its disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from palio.node.hybrid import microseconds_of
from palio.node.journal import Record
from palio.node.logs import LogSettings
from palio.node.party_log import Keep, PartyLog
from palio.node.ports import Acknowledge, Attach, Detach, Input, Leave, Letters, Persist, Replay, Request
from palio.sim.histories.log_facts import LOST, Item, LogFacts, State, item_of, places, read_entry

TURN = ("turn",)
"""The record that says which turn of its server was written last."""


class Book:
    """The logs of one server."""

    def __init__(self, server: str, settings: LogSettings) -> None:
        self.server = server
        self.settings = settings
        self.problems: list[str] = []
        self.turn = 0
        """How many turns there were."""
        self._ran = 0
        """For how long the server ran before it started last, by its clocks."""
        self._began = self._latest = 0
        """The times of this start, and of the last turn."""
        self.written: set[int] = set()
        """The turns that had something to write."""
        self.logs: dict[str, LogFacts] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.first = self.next = 0
        """Positions of the first entry that there is, and of the next one."""
        self._states: dict[int, State] = {}
        self.items: dict[tuple[str, int], list[Item]] = {}
        """By party and identity of the log."""
        self._born: dict[tuple[str, int], int] = {}
        """In which turns logs began."""
        self._earlier: dict[tuple[str, int], tuple[int, int]] = {}
        """Which log another one continues, and from which number on."""
        self.claims: dict[tuple[str, int], set[tuple[int, int]]] = {}
        """How many deliveries were said to have fallen out of a log, at any time."""
        self.gone: dict[tuple[str, int], bool | None] = {}
        """For each wish of a party to get deliveries once more whether it has to be refused, if that is certain."""
        self.starts: dict[tuple[str, int], int] = {}
        """And from which number on they have to come."""
        self.damaged: set[int] = set()
        """Positions of entries that cannot be read."""
        self.entries: dict[int, tuple[int, int, int]] = {}
        """Time, deliveries and bytes of each entry that was ever written."""
        self._sweeps: dict[int, int] = {}
        self.lost: set[tuple[str, object]] = set()
        """What was in a party's log, and is not any more because of damage."""
        self.is_marred = False
        """Whether records were ever damaged: of what is retained, some may not be found."""
        self.is_spoiled = False
        """Whether records were damaged since the server started last."""

    def items_of(self, party: str) -> list[Item]:
        """The deliveries of a party's log."""
        return self.items[party, self.logs[party].identity]

    def identities(self, party: str, number: int) -> Iterator[int]:
        """All logs in which a delivery of a party has had its number."""
        identity, until = self.logs[party].identity, number + 1
        while number < until:
            yield identity
            if (party, identity) not in self._earlier:
                return
            identity, until = self._earlier[party, identity]

    def begun(self, party: str) -> int:
        """The number from which on a party's log has been this one."""
        return self._earlier.get((party, self.logs[party].identity), (0, 0))[1]

    def is_new_key(self, party: str, key: str, now: int) -> bool:
        """Whether a publication counts; if so, its key is known from now on."""
        self.keys = {known: since for known, since in self.keys.items() if since > now - self.settings.keys.age}
        if (party, key) in self.keys:
            return False
        self.keys[party, key] = now
        return True

    # -- turns ---------------------------------------------------------------------------------------------------------

    def note(self, inputs: tuple[Input, ...], persist: Persist | None, now: int) -> None:
        """A server has taken some inputs together, and writes something, or nothing."""
        self.turn += 1
        self._latest = max(self._latest, now)
        self._look_at_wishes(inputs)
        if persist is None:
            return
        self.written.add(self.turn)
        known, before = dict(persist.records), dict(self.logs)
        self._note_logs(inputs, known, now)
        added = self._note_entries(persist)
        for party in list(self.logs):
            facts = self._note_party(party, inputs, now)
            old = before.get(party)
            if old is None or old.number != facts.number:
                old = LogFacts(facts.identity, facts.number, facts.keep)
            facts = self._note_letters(party, facts, persist.records, inputs, added.get(party, []))
            self.logs[party] = self._note_cursor(party, old, facts, known.get(("cursor", party)), now)
        if persist.trim is not None:
            self._note_trim(persist.trim, now)
        self._judge_sweep(persist.records, now)
        self._states[self.turn] = State(dict(self.logs), dict(self.keys), self.first, self.next)

    def _problem(self, text: str) -> None:
        self.problems.append(f"{self.server}: {text}")

    def _look_at_wishes(self, inputs: tuple[Input, ...]) -> None:
        """Which deliveries are wanted once more, and whether they are there."""
        for each in inputs:
            if isinstance(each, Request) and isinstance(each.operation, Replay) and each.party in self.logs:
                wish, key = each.operation, (each.party, each.number)
                self.gone[key] = self._must_refuse(each.party, wish) if len(inputs) == 1 else None
                if self.gone[key] is not None and wish.since is None:
                    self.starts[key] = wish.first if wish.first >= 0 else self._last_from(each.party, wish.last)

    def _last_from(self, party: str, count: int) -> int:
        """The number of the first of the last deliveries that there are."""
        items = self.items_of(party)[: self.logs[party].length]
        gone = [number for number, item in enumerate(items) if item.position < self.first]
        return max([0, len(items) - count, *(number + 1 for number in gone)])

    def _must_refuse(self, party: str, wish: Replay) -> bool | None:
        facts = self.logs[party]
        items = self.items_of(party)[: facts.length]
        gone = [number for number, item in enumerate(items) if item.position < self.first]
        if LOST in items or facts.reading is None or self.is_marred:
            return None
        if wish.since is not None:
            since = microseconds_of(wish.since)
            left = [item.time for item in items if item.position >= self.first]
            if any(items[number].time >= since for number in gone):
                return True
            return None if gone and (not left or since <= left[0]) else False
        return None if wish.first > len(items) else wish.first in gone

    def _note_logs(self, inputs: tuple[Input, ...], known: Mapping[Any, Any], now: int) -> None:
        """Logs begin, end, and become others."""
        for key, value in known.items():
            if key[0] != "mail":
                continue
            party = key[1]
            old = self.logs.get(party)
            if value is None or (old is not None and old.number != value[0]):
                self._judge_end(party, inputs, now)
                self.logs.pop(party, None)
                old = None
            if value is None:
                continue
            number, identity, keep = value[0], value[1], Keep(*value[2])
            if old is None:
                if (party, identity) in self.items:
                    self._problem(f"log {identity} of {party} is begun for the second time")
                self.items[party, identity], self._born[party, identity] = [], self.turn
                self.logs[party] = LogFacts(identity, number, keep)
            elif old.identity != identity:
                if (party, identity) in self.items:
                    self._problem(f"the log of {party} becomes {identity}, which was another one")
                self.items[party, identity] = list(self.items[party, old.identity])
                self._earlier[party, identity], self._born[party, identity] = (old.identity, old.length), self.turn
                self.logs[party] = msgspec.structs.replace(old, identity=identity, keep=keep)
            else:
                self.logs[party] = msgspec.structs.replace(old, keep=keep)

    def _judge_end(self, party: str, inputs: tuple[Input, ...], now: int) -> None:
        facts = self.logs.get(party)
        has_left = any(isinstance(each, Request) and each.party == party and isinstance(each.operation, Leave)
                       for each in inputs)  # fmt: skip
        if facts is None or has_left:
            return
        running = self._running(now)
        if facts.away is None or facts.away + facts.keep.lease > running:
            self._problem(
                f"the log of {party} ends when the server has run for {running}; the party is away since {facts.away}, "
                f"with a lease of {facts.keep.lease}"
            )

    def _running(self, now: int) -> int:
        """For how long the server has run, over all its starts."""
        return self._ran + now - self._began

    def _note_entries(self, persist: Persist) -> dict[str, list[Item]]:
        """Deliveries are numbered densely, and each is in one entry."""
        added: dict[str, list[Item]] = {}
        by_number = {facts.number: party for party, facts in self.logs.items()}
        for position, data in persist.entries:
            if position != self.next:
                self._problem(f"an entry at position {position} where {self.next} was to come")
            self.next = position + 1
            time, expected, shares, content = read_entry(data)
            if len(content) != expected:
                self._problem(f"an entry of {expected} deliveries with {len(content)}")
            self.entries[position] = time, len(content), len(data)
            for number, first, count, _, selection in shares:
                party = by_number.get(number)
                if party is None:
                    self._problem(f"an entry with deliveries of log {number}, which there is not")
                    continue
                facts, items = self.logs[party], self.items_of(party)
                mine = [content[place] for place in places(selection)]
                if first != facts.length or count != len(mine):
                    self._problem(f"deliveries {first} to {first + count - 1} of {party} where {facts.length} is next")
                del items[facts.length :]
                new = [item_of(frame, position, time) for frame in mine]
                items += new
                added[party] = new
                self.logs[party] = msgspec.structs.replace(facts, length=len(items))
        return added

    def _note_party(self, party: str, inputs: tuple[Input, ...], now: int) -> LogFacts:
        """What a party has said."""
        facts = self.logs[party]
        reading, reader, away, acknowledged = facts.reading, facts.reader, facts.away, facts.acknowledged
        for each in inputs:
            match each:
                case Attach(who, keep, name) if who == party and keep is not None:
                    reading, reader, away = name, name, None
                case Detach(who, name) if who == party and name == reading:
                    reading, away = None, self._running(now)
                case Acknowledge(who, number, name) if who == party and number < facts.length and name == reader:
                    acknowledged = max(acknowledged, number + 1)
        return msgspec.structs.replace(facts, reading=reading, reader=reader, away=away, acknowledged=acknowledged)

    # -- dead letters --------------------------------------------------------------------------------------------------

    def _note_letters(
        self, party: str, facts: LogFacts, records: Iterable[Record], inputs: tuple[Input, ...], added: list[Item]
    ) -> LogFacts:
        """Dead letters are what was delivered, and go when they are delivered again, discarded, or too many."""
        letters, lettered = dict(facts.letters), set(facts.lettered)
        items, gone = self.items_of(party), []
        for key, value in records:
            if key[0] != "letter" or key[1] != facts.number:
                continue
            letter: Any = key[2]
            if value is None:
                gone.append(letter)
                continue
            letters[letter] = value
            lettered.add(value.delivery)
            item = items[value.delivery] if value.delivery < len(items) else LOST
            if value.frame != item.frame and item is not LOST and item.position not in self.damaged:
                self._problem(f"the dead letter {letter} of {party} is not what delivery {value.delivery} was")
        asked = [each.operation for each in inputs if isinstance(each, Request) and each.party == party]
        wanted = [(letter, wish.action) for wish in asked if isinstance(wish, Letters) for letter in wish.letters]
        frames_again = [item.frame for item in added]
        forgotten, last = 0, None
        for letter in gone:
            frame = letters.pop(letter).frame if letter in letters else b""
            actions = [action for known, action in wanted if known == letter]
            if not actions:
                forgotten, last = forgotten + 1, frame
            elif actions == ["requeue"] and frame and frame not in frames_again:
                self._problem(f"the dead letter {letter} of {party} is gone and not delivered again")
        self._judge_letters(party, [each.frame for each in letters.values()], last)
        return msgspec.structs.replace(
            facts, letters=letters, lettered=frozenset(lettered), forgotten=facts.forgotten + forgotten
        )

    def _judge_letters(self, party: str, kept: list[bytes], forgotten: bytes | None) -> None:
        """There are as many as there may be, and the last that was forgotten had to be."""
        count, size = self.settings.letters, self.settings.letters_bytes
        if len(kept) > count or (sum(map(len, kept)) > size and len(kept) > 1):
            self._problem(f"{party} has {len(kept)} dead letters of {sum(map(len, kept))} bytes")
        if forgotten is not None and len(kept) < count and sum(map(len, kept)) + len(forgotten) <= size:
            self._problem(f"a dead letter of {party} is forgotten, and {len(kept)} are kept")

    # -- what falls out ------------------------------------------------------------------------------------------------

    def _note_cursor(self, party: str, old: LogFacts, facts: LogFacts, cursor: Any, now: int) -> LogFacts:
        """What is not to be delivered any more was acknowledged, or has fallen out by a bound, and is counted."""
        if cursor is not None:
            done, _, dropped, expired, _, _, _, _, forgotten, heard = cursor
            self._judge_heard(party, facts, heard)
            if forgotten != facts.forgotten:
                self._problem(f"{forgotten} dead letters of {party} were forgotten, and not {facts.forgotten}")
            self.claims.setdefault((party, facts.identity), set()).add((dropped, expired))
            new = range(old.done, done)
            fallen = {each for each in new if each >= facts.acknowledged and each not in facts.lettered}
            told = dropped + expired - old.dropped - old.expired
            most = len(fallen) if facts.acknowledged <= max(old.acknowledged, old.done) else len(new)
            if not len(fallen) <= told <= most:
                self._problem(
                    f"of {party} {len(fallen)} deliveries fell out ({_text(fallen)}), and {told} were counted"
                )
            self._judge_reasons(party, facts, sorted(new), (dropped - old.dropped, expired - old.expired), now)
            facts = msgspec.structs.replace(
                facts, done=done, dropped=dropped, expired=expired, fallen=facts.fallen | fallen
            )
        waiting = range(facts.done, facts.length)
        if len(waiting) > facts.keep.count:
            self._problem(f"{len(waiting)} deliveries wait for {party}, which wants {facts.keep.count} at most")
        items = self.items_of(party)
        size, slack = sum(len(items[each].frame) for each in waiting), facts.keep.bytes // 8 + self._largest(items)
        if size > facts.keep.bytes + slack:
            self._problem(f"{size} bytes wait for {party}, which wants {facts.keep.bytes} at most")
        return facts

    def _judge_heard(self, party: str, facts: LogFacts, heard: int) -> None:
        """A party is told of deliveries that fell out until it acknowledges a later one, or rejects it."""
        behind = max([facts.acknowledged, *(number + 1 for number in facts.lettered)])
        if not facts.acknowledged <= heard <= behind:
            self._problem(f"{party} has acknowledged deliveries up to {heard - 1}, and not {facts.acknowledged - 1}")

    @staticmethod
    def _largest(items: list[Item]) -> int:
        """The most bytes that one entry has of a log."""
        sizes: dict[int, int] = {}
        for item in items:
            sizes[item.position] = sizes.get(item.position, 0) + len(item.frame)
        return max(sizes.values(), default=0)

    def _judge_reasons(
        self, party: str, facts: LogFacts, numbers: list[int], counts: tuple[int, int], now: int
    ) -> None:
        """Nothing falls out of a log that is within its bounds."""
        items, keep = self.items_of(party), facts.keep
        most = facts.length - keep.count
        tight = keep.bytes - keep.bytes // 8 - self._largest(items)
        sizes = [len(item.frame) for item in items]
        is_over = sum(sizes[numbers[0] :]) > tight if numbers else False
        dropped = expired = 0
        for number in numbers:
            item = items[number]
            is_damaged = item is LOST or item.position in self.damaged
            too_much = number < most or (is_over and sum(sizes[number:]) > tight - keep.bytes // 8)
            dropped += is_damaged or too_much
            expired += item.time < now - keep.age or 0 < item.expires <= now
        if counts[0] > dropped or counts[1] > expired:
            self._problem(
                f"of {party} {counts[0]} deliveries were dropped, and {counts[1]} expired; by its bounds {dropped} and "
                f"{expired} at most had to"
            )

    def _note_trim(self, trim: int, now: int) -> None:
        """Entries go when nobody has to get anything of them, and they are not retained."""
        for party, facts in self.logs.items():
            items = self.items_of(party)
            needed = [number for number in range(facts.done, facts.length) if items[number].position < trim]
            if [number for number in needed if items[number] is not LOST]:
                self._problem(f"entries before {trim} are gone, and {party} has not got {_text(needed)}")
        retention, entries = self.settings.retention, list(self.entries.items())
        for place, (position, (time, _, _)) in enumerate(entries):
            if not self.first <= position < trim:
                continue
            later = [known for _, known in entries[place + 1 :]]
            deliveries, size = sum(each[1] for each in later), sum(each[2] for each in later)
            if now - time <= retention.age and deliveries <= retention.count and size <= retention.bytes:
                self._problem(f"entry {position} of {time} is gone at {now}; it was to be retained")
        self.first = max(self.first, trim)

    def _judge_sweep(self, records: Iterable[Record], now: int) -> None:
        """If nothing is retained, a sweep leaves nothing that is before an earlier one and all that is needed."""
        known: list[Any] = [key[1] for key, value in records if key[0] == "sweep" and value is not None]
        swept = [position for position in known if position not in self._sweeps]
        waiting = [
            item for party, facts in self.logs.items() for item in self.items_of(party)[facts.done : facts.length]
        ]
        needed = min((item.position for item in waiting), default=self.next)
        earlier = [position for position, time in self._sweeps.items() if time < now and position <= needed]
        if swept and earlier and not self.settings.retention.age and self.first < max(earlier):
            self._problem(f"nobody needs entries before {max(earlier)}, and they are there from {self.first} on")
        self._sweeps |= dict.fromkeys(swept, now)

    # -- lives ---------------------------------------------------------------------------------------------------------

    def begin(self, turn: int, now: int, *, is_other: bool) -> None:
        """A server starts with what it had after a turn.

        Logs that began later were never told of, unless it had gone on with another disk.
        """
        if not is_other:
            self.items = {log: known for log, known in self.items.items() if self._born[log] <= turn}
        state = self._states.get(turn, State({}, {}, 0, 0))
        self.logs, self.keys, self.first, self.next = dict(state.logs), dict(state.keys), state.first, state.next
        self._ran += self._latest - self._began
        self._began = self._latest = now
        for party, facts in self.logs.items():
            away = self._ran if facts.away is None else facts.away
            self.logs[party] = msgspec.structs.replace(facts, reading=None, reader=None, away=away)
        self.entries = {position: known for position, known in self.entries.items() if position < self.next}
        self._sweeps = {position: time for position, time in self._sweeps.items() if position <= self.next}

    def compare(self, found: Iterable[PartyLog], keys: Collection[tuple[str, str]], *, is_other: bool) -> None:
        """A server has started: it knows of logs what it knew. If something was damaged, it need not know all."""
        if self.is_spoiled:
            self.keys = {key: since for key, since in self.keys.items() if key in keys}
        elif self.keys.keys() - keys:
            self._problem(f"the keys {sorted(self.keys.keys() - keys)} are not known after a start")
        logs = {log.name: log for log in found}
        is_damaged = self.is_spoiled or bool(self.damaged)
        for party in dict.fromkeys([*self.logs, *logs]):
            log, facts = logs.get(party), self.logs.get(party)
            if log is None or facts is None:
                if facts is not None:
                    self.lost |= {(party, item.content) for item in self.items_of(party)}
                if not self.is_spoiled or facts is None:
                    self._problem(f"the log of {party} is {'gone' if log is None else 'there'} after a start")
                self.logs.pop(party, None)
                continue
            mine = facts.length, facts.done, facts.dropped, facts.expired, dict(facts.letters)
            theirs = log.next, log.done, log.dropped, log.expired, log.letters
            if mine != theirs and not is_damaged:
                self._problem(f"the log of {party} has {theirs} after a start, and not {mine}")
            if (is_other or log.next < facts.length) and (party, log.identity) in self.items:
                self._problem(f"numbers of log {log.identity} of {party} may mean something else after a start")
            if mine != theirs:
                self._give_in(facts, log)
        if self.is_spoiled:
            self._sweeps.clear()
            self.is_marred = True

    def _give_in(self, facts: LogFacts, log: PartyLog) -> None:
        """After damage, what a server still knows counts."""
        items = self.items[log.name, facts.identity]
        self.lost |= {(log.name, item.content) for item in items[log.next :]}
        items[log.next :] = [LOST] * (log.next - len(items))
        for number in range(facts.length, min(log.next, len(items))):
            items[number] = LOST
        self.logs[log.name] = msgspec.structs.replace(
            facts,
            length=log.next,
            done=log.done,
            dropped=log.dropped,
            expired=log.expired,
            letters=dict(log.letters),
            forgotten=log.forgotten,
            acknowledged=log.heard,
            fallen=frozenset(number for number in facts.fallen if number < log.next),
            lettered=frozenset(number for number in facts.lettered if number < log.next),
        )

    def lose(self) -> None:
        """All is lost."""
        self._states.clear()
        self.begin(-1, 0, is_other=True)


def _text(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"
