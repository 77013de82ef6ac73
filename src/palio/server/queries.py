"""Questions about the server and the network: what a party may ask, and how a question gets round.

A question about the network goes from server to server over their connections, as a wave: each server answers it once,
passes it on, and sends what it and those behind it have to say back to where the question came from.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

from palio.codec import control, msgpack
from palio.codec.parts import UNREADABLE
from palio.errors import CallerError, brief
from palio.model.limits import MOST_NAME_BYTES
from palio.node import ports
from palio.node.admission import NotAllowedError
from palio.server import linking
from palio.server.account import Account, read_question
from palio.server.connection import Connection
from palio.server.durability import letters, link_letters
from palio.server.errors import Code, code_of
from palio.server.forms import AccountDocument, StatusDocument
from palio.server.holdings import holdings
from palio.server.question_queue import QuestionQueue
from palio.server.status import status
from palio.server.verdict import content_of, explain

if TYPE_CHECKING:
    from palio.server.server import Server

MOST_SECONDS = 10.0
_SECONDS = 2.0
"""For how long answers are waited for, if nobody says otherwise."""
_LEAST_SECONDS = 0.02
"""With less time than that a question is not passed on."""
MOST_ASKED = 8
"""Questions of one connection that are not answered yet; further ones are refused."""
MOST_WAVES = 64
"""Questions that go round at the same time; others are answered by this server alone."""
_MOST_REMEMBERED = 4_096
"""Waves that are known to have been here."""
MOST_SERVERS = 1_000
MOST_BYTES = 16 << 20
"""What servers and bytes one answer may have; what is beyond is left out, and counted."""

Document = dict[str, Any]
Answering = Callable[[Document], Any]
"""What a server itself has to say, as a document."""
_Done = Callable[[Callable[[], Document]], None]
"""Takes what makes the answer to a party: if that fails, the party is told so."""
_MOST_REASON = 1_024
"""Characters of the reason for which a server did not answer."""


def _read_status(answer: Document) -> Document:
    """What another server says of itself; what a later release says besides is passed on."""
    msgspec.convert(answer, StatusDocument)
    return answer


def _read_account(answer: Document) -> Any:
    """What another server knows of a notification."""
    return msgspec.convert(answer, AccountDocument)


_READERS: dict[str, Callable[[Document], Document]] = {"network": _read_status, "explain": _read_account}
"""Check the answers of servers; what they raise is in :data:`~palio.codec.parts.UNREADABLE`."""


class _Wave:
    """A question on its way: what has come back, and who has not answered."""

    def __init__(self, subject: str, own: Document, done: Callable[[Document], None]) -> None:
        self._read = _READERS[subject]
        self._done: Callable[[Document], None] | None = done
        self.answers: list[Document] = []
        self.silent: dict[str, str] = {}
        """Servers that did not answer, and why."""
        self.left_out = 0
        self._bytes = 0
        self.waiting: dict[int, str] = {}
        """Numbers of questions to neighbours, and who they are."""
        self.timer: asyncio.TimerHandle | None = None
        self._add(own)

    def _add(self, answer: Document) -> None:
        size = len(msgspec.msgpack.encode(answer))
        if len(self.answers) >= MOST_SERVERS or self._bytes + size > MOST_BYTES:
            self.left_out += 1
            return
        self._bytes += size
        self.answers.append(answer)

    def take(self, document: Document) -> None:
        """A neighbour has said what it and those behind it know."""
        for answer in [self._read(each) for each in document["servers"]]:
            self._add(answer)
        for name, reason in document["silent"].items():
            if len(self.silent) < MOST_SERVERS and len(name) <= MOST_NAME_BYTES:
                self.silent.setdefault(name, reason[:_MOST_REASON])
        self.left_out += document["left_out"]

    def finish(self) -> None:
        """All have answered, or nobody is waited for any longer."""
        done, self._done = self._done, None
        if self.timer is not None:
            self.timer.cancel()
        if done is not None:
            done({"servers": self.answers, "silent": self.silent, "left_out": self.left_out})


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """What a neighbour has to say; checked, because it comes from elsewhere."""

    servers: list[Document]
    silent: dict[str, str]
    left_out: Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]


class Queries:
    """Answers the questions of parties, and of other servers for theirs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._count = 0
        self._number = 0
        self._waves: dict[int, _Wave] = {}
        """By the number under which a neighbour was asked."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._asked: Counter[Connection] = Counter()
        """Questions of each connection that are not answered."""
        self._queue = QuestionQueue(server.loop, lambda asker: self._asked.pop(cast("Connection", asker), None))
        self._subjects: dict[str, Callable[[Connection, control.Query], Document | None]] = {
            "status": self._status,
            "network": self._network,
            "explain": self._explain,
            "link": self._link,
            "letters": self._letters,
            "holdings": self._holdings,
        }
        self._answering: dict[str, Answering] = {
            "network": lambda arguments: status(server, arguments.get("watcher", "")),
            "explain": lambda arguments: Account(server, read_question(arguments)).tell(),
        }
        """What goes round, and what this server says to it."""

    # -- what parties ask ----------------------------------------------------------------------------------------------

    def asked(self, connection: Connection, query: control.Query) -> None:
        """A party asks something; if that makes no sense it is told so, and goes on."""
        subject = self._subjects.get(query.subject)
        if subject is None:
            known = ", ".join(self._subjects)
            text = f"nothing is known of {brief(query.subject)}; one can ask for {known}"
            connection.refuse(query.number, Code.INVALID, text)
        elif self._asked[connection] >= MOST_ASKED:
            connection.refuse(query.number, Code.LIMIT, f"{MOST_ASKED} questions are not answered yet; wait for one")
        else:
            self._asked[connection] += 1
            self._queue.add(connection, partial(self._look_into, connection, query, subject))

    def _look_into(
        self,
        connection: Connection,
        query: control.Query,
        subject: Callable[[Connection, control.Query], Document | None],
    ) -> None:
        """Answer a party; or, if the question goes round first, begin that."""
        goes_round = False

        def work() -> None:
            nonlocal goes_round
            document = subject(connection, query)
            if document is None:
                goes_round = True
            else:
                connection.say(control.Result(query.number, document))

        if not self._guard(connection, query.number, work) or not goes_round:
            self._answered(connection)

    def _go_on(self, connection: Connection, number: int, work: Callable[[], None]) -> None:
        """Take the next step for a question that goes round."""
        if not self._guard(connection, number, work):
            self._answered(connection)

    def _guard(self, connection: Connection, number: int, work: Callable[[], None]) -> bool:
        """Work for a question. If that fails, the client receives the reason and its connection goes on."""
        try:
            work()
        except CallerError as error:
            connection.refuse(number, code_of(error), str(error).partition("\n")[0])
        except Exception as error:  # noqa: BLE001 (a fault of ours concerns this question alone)
            self._server.fault("query", error)
            connection.refuse(number, Code.INTERNAL, "a fault of the server, which is described in its log")
        else:
            return True
        return False

    def _check_admin(self, connection: Connection) -> None:
        if not self._server.config.is_admin(connection.name):
            raise NotAllowedError(
                f"{brief(connection.name)} may not do that; 'admins' in the configuration of the server says who may"
            )

    def _status(self, connection: Connection, query: control.Query) -> Document:
        _take_arguments(query)
        return status(self._server, self._watcher(connection))

    def _holdings(self, connection: Connection, query: control.Query) -> Document:
        _take_arguments(query)
        return holdings(self._server.driver.node, connection.name)

    def _letters(self, connection: Connection, query: control.Query) -> Document:
        """The dead letters of a party, for itself or an admin; or those of a link, for admins, who may discard them."""
        peer, discarded, party = _take_arguments(query, "link", "discard", "party")
        if peer is not None or discarded is not None:
            self._check_admin(connection)
            return self._link_letters(peer, discarded)
        if party is not None and party != connection.name:
            self._check_admin(connection)
            if not isinstance(party, str):
                raise CallerError(f"party: {brief(party)} is no name")
        return letters(self._server.driver.node.logs.of(party or connection.name))

    def _link_letters(self, peer: object, discarded: object) -> Document:
        driver = self._server.driver
        known = {*self._server.peers.known, *driver.node.links.peers, *driver.node.peer_limits.letters.totals()}
        if not isinstance(peer, str) or peer not in known:
            raise CallerError(f"link: {brief(peer)} is none of {', '.join(sorted(known)) or 'its peers'}")
        letters = driver.node.peer_limits.letters[peer]
        if discarded is None:
            return link_letters(letters)
        numbers: list[Any] = discarded if isinstance(discarded, list) else [None]
        if not all(type(each) is int and each in letters.letters for each in numbers):  # neither 1.0 nor true
            raise CallerError(f"discard: {brief(discarded)} are not numbers of letters of the link to {brief(peer)}")
        driver.give(ports.DiscardLinkLetters(peer, tuple(numbers)))
        return {"discarded": numbers}

    def _watcher(self, connection: Connection) -> str | None:
        """Who sees only itself among the parties; None if it is an admin, and sees all."""
        return None if self._server.config.is_admin(connection.name) else connection.name

    def _network(self, connection: Connection, query: control.Query) -> None:
        (seconds,) = _take_arguments(query, "seconds")
        question = {"watcher": self._watcher(connection)}

        def begin(given: float, done: _Done) -> None:
            self._spread("network", question, given, lambda document: done(lambda: document))

        self._ask_all(connection, query.number, seconds, begin)

    def _explain(self, connection: Connection, query: control.Query) -> None:
        """Ask all servers what they know of a notification; and, when it is known what it is, what a party wants."""
        id, publisher, party, seconds = _take_arguments(query, "id", "last_of", "party", "seconds")
        self._check_admin(connection)
        given_id = id if publisher is None else self._last_of(id, publisher)
        asked = read_question({"id": given_id, "party": party})
        question = {"id": str(asked.id), "party": asked.party}

        def begin(given: float, done: _Done) -> None:
            end = self._server.loop.time() + given

            def found(first: Document) -> None:
                content = content_of(first["servers"])
                if content is None or asked.party is None:
                    done(lambda: explain(str(asked.id), asked.party, content, first))
                    return
                more = {**question, "notification": msgpack.encode(content)}

                def ask_again() -> None:
                    left = max(end - self._server.loop.time(), _LEAST_SECONDS)
                    self._spread("explain", more, left, conclude)

                def conclude(second: Document) -> None:
                    done(lambda: explain(str(asked.id), asked.party, content, second))

                self._queue.add(connection, partial(self._go_on, connection, query.number, ask_again))

            self._spread("explain", question, given / 2 if asked.party is not None else given, found)

        self._ask_all(connection, query.number, seconds, begin)

    def _last_of(self, id: object, publisher: object) -> str:
        """The id of what a party has published last, at this server."""
        if id is not None or not isinstance(publisher, str):
            raise CallerError("give the id of a notification, or last_of and the name of a party, not both")
        driver = self._server.driver
        settings = driver.node.settings
        sequence = driver.history.last_of(publisher, settings.limits) if driver.history is not None else None
        if sequence is None:
            raise CallerError(f"{settings.server} remembers nothing that {brief(publisher)} has published here")
        return f"{settings.server}/{settings.start}/{sequence}"

    def _link(self, connection: Connection, query: control.Query) -> Document:
        self._check_admin(connection)
        return linking.change(self._server, query.arguments)

    def _ask_all(
        self,
        connection: Connection,
        number: int,
        seconds: object,
        begin: Callable[[float, _Done], None],
    ) -> None:
        """Answer a party when a question has gone round."""
        given = _checked_seconds(seconds)

        def done(make: Callable[[], Document]) -> None:
            self._answered(connection)
            self._guard(connection, number, lambda: connection.say(control.Result(number, make())))

        begin(given, done)

    def _answered(self, connection: Connection) -> None:
        self._asked[connection] -= 1
        if self._asked[connection] <= 0:
            del self._asked[connection]

    # -- how questions get round ---------------------------------------------------------------------------------------

    def _spread(self, subject: str, arguments: Document, seconds: float, done: Callable[[Document], None]) -> None:
        """Ask all servers something, beginning here."""
        settings = self._server.driver.node.settings
        self._count += 1
        wave = f"{settings.server}/{settings.start}/{self._count}"
        self._remember(wave)
        self._begin(subject, {**arguments, "wave": wave}, seconds, None, done)

    def _begin(
        self,
        subject: str,
        arguments: Document,
        seconds: float,
        source: Connection | None,
        done: Callable[[Document], None],
    ) -> None:
        own = self._answering[subject]({key: value for key, value in arguments.items() if key not in ("wave", "ms")})
        server = self._server
        wave = _Wave(subject, own, lambda document: done(_without_answered(document)))
        here = server.config.server
        for name in {**server.peers.known, **dict.fromkeys(server.driver.node.links.peers)}:
            if name not in server.driver.peers:
                wave.silent[name] = f"{here} has no connection to it"
        peers = [each for each in server.driver.peers.values() if isinstance(each, Connection) and each is not source]
        is_full = len({id(each) for each in self._waves.values()}) >= MOST_WAVES
        if seconds < _LEAST_SECONDS or is_full:
            for peer in peers:
                wave.silent[peer.name] = f"{here} had no time to ask it"
            peers = []
        left = seconds - min(0.1, seconds / 10)
        for peer in peers:
            self._number += 1
            wave.waiting[self._number] = peer.name
            self._waves[self._number] = wave
            told = {**arguments, "ms": round(left * 1000)}
            peer.say(control.Query(self._number, subject, told))
        if wave.waiting:
            wave.timer = server.loop.call_later(seconds, self._give_up, wave, seconds)
        else:
            wave.finish()

    def _give_up(self, wave: _Wave, seconds: float) -> None:
        for number, name in wave.waiting.items():
            del self._waves[number]
            wave.silent[name] = f"it did not answer {self._server.config.server} within {seconds:.2g} s"
        wave.waiting.clear()
        wave.finish()

    def _remember(self, wave: str) -> None:
        self._seen[wave] = None
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)

    def passed(self, connection: Connection, query: control.Query) -> None:
        """Another server passes a question on; if it has been here, it was answered already."""
        wave, milliseconds = query.arguments.get("wave"), query.arguments.get("ms")
        is_known = query.subject in self._answering
        if not is_known or not isinstance(wave, str) or not isinstance(milliseconds, int) or len(wave) > 2_048:
            nothing = {"servers": [], "silent": {self._server.config.server: "it does not know the question"}}
            connection.say(control.Result(query.number, {**nothing, "left_out": 0}))
            return
        if wave in self._seen:
            connection.say(control.Result(query.number, {"servers": [], "silent": {}, "left_out": 0}))
            return
        self._remember(wave)
        end = self._server.loop.time() + min(max(milliseconds, 0) / 1000, MOST_SECONDS)
        self._queue.add(connection, partial(self._pass_on, connection, query, end))

    def _pass_on(self, connection: Connection, query: control.Query, end: float) -> None:
        """Answer a question of another server, and ask the other neighbours with the time that is left."""
        try:
            self._begin(
                query.subject, query.arguments, end - self._server.loop.time(), connection,
                lambda document: connection.say(control.Result(query.number, document)),
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 (a fault of ours concerns this question alone)
            if not isinstance(error, CallerError):
                self._server.fault("query", error)
            reason = str(error).partition("\n")[0] if isinstance(error, CallerError) else "a fault of that server"
            silent = {self._server.config.server: reason}
            connection.say(control.Result(query.number, {"servers": [], "silent": silent, "left_out": 0}))

    def answered(self, connection: Connection, result: control.Result) -> None:
        """A neighbour answers; perhaps too late, and then nobody waits for it any more."""
        wave = self._waves.get(result.number)
        if wave is None or wave.waiting.get(result.number) != connection.name:
            return
        del self._waves[result.number], wave.waiting[result.number]
        try:
            wave.take(msgspec.to_builtins(msgspec.convert(result.document, _Answer)))
        except (*UNREADABLE, TypeError):
            wave.silent[connection.name] = "its answer cannot be read"
        if not wave.waiting:
            wave.finish()

    def lost(self, connection: Connection) -> None:
        """A neighbour that is gone will not answer."""
        for number, wave in list(self._waves.items()):
            if wave.waiting.get(number) == connection.name:
                del self._waves[number], wave.waiting[number]
                wave.silent[connection.name] = f"{self._server.config.server} has lost the connection to it"
                if not wave.waiting:
                    wave.finish()

    def stop(self) -> None:
        """Wait for nobody any longer."""
        self._queue.stop()
        for wave in {id(each): each for each in self._waves.values()}.values():
            self._give_up(wave, 0.0)


def _without_answered(document: Document) -> Document:
    """Who has answered by another way was not silent."""
    answered = {answer.get("server") for answer in document["servers"]}
    document["silent"] = {name: why for name, why in document["silent"].items() if name not in answered}
    return document


def _take_arguments(query: control.Query, *known: str) -> list[Any]:
    """The arguments by name, None where there is none; others are refused."""
    for name in query.arguments:
        if name not in known:
            allowed = f"it has {', '.join(known)}" if known else "it has none"
            raise CallerError(f"{query.subject}: there is no argument {brief(name)}; {allowed}")
    return [query.arguments.get(name) for name in known]


def _checked_seconds(seconds: object) -> float:
    if seconds is None:
        return _SECONDS
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
        raise CallerError(f"seconds: {brief(seconds)} is no number above 0 and up to {MOST_SECONDS:g}")
    return float(seconds)
