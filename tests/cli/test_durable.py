"""``palio sub --durable``, ``palio pub --mode`` and ``palio letters``, with a server that has a log, in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.codec import frames
from palio.codec.control import Letters, Replay
from palio.model import Mode
from tests.client.log_puppet import LogPuppet

SECONDS = 30
T = TypeVar("T")
LETTER = {
    "letter": 4,
    "delivery": 41,
    "reason": "no such customer",
    "time": "2026-11-16T09:30:00+00:00",
    "notifications": [{"palio": 1, "notification": {"customer": 7}}],
}


class AcceptingPuppet(LogPuppet):
    """It accepts what is published."""

    def _took(self, kind: int, content: bytes) -> None:
        super()._took(kind, content)
        if kind in (frames.PUBLISH, frames.PUBLISH_WITH):
            number = int.from_bytes(content[:4], "big")
            self.say(frames.accepted(number, Mode.LOCAL if number % 2 else Mode.SYNCED))


class Served:
    """A server in a thread of its own."""

    def __init__(self) -> None:
        self._started: Future[AcceptingPuppet] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self.puppet = self._started.result(SECONDS)

    async def _main(self) -> None:
        self._end, self._loop = asyncio.Event(), asyncio.get_running_loop()
        async with AcceptingPuppet() as puppet:
            self._started.set_result(puppet)
            await self._end.wait()

    def do(self, work: Callable[[AcceptingPuppet], T]) -> T:
        """Do something there, and wait until it is done."""

        async def done() -> T:
            return work(self.puppet)

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(SECONDS)

    def deliver(self, *levels: int) -> None:
        for level in levels:
            self.do(lambda puppet: puppet.deliver(level=level))  # noqa: B023

    def until(self, condition: Callable[[AcceptingPuppet], object]) -> None:
        """Wait for something to be so there."""

        async def wait() -> None:
            async with asyncio.timeout(SECONDS):
                while not condition(self.puppet):
                    await asyncio.sleep(0.002)

        asyncio.run_coroutine_threadsafe(wait(), self._loop).result(SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(SECONDS)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.stop()


def invoke(served: Served, *arguments: str, given: str | None = None) -> Result:
    environment = {"PALIO_SERVER": served.puppet.url}
    return CliRunner(env=environment).invoke(palio, arguments, input=given, catch_exceptions=False)


def test_what_is_printed_is_acknowledged(served: Served) -> None:
    served.deliver(5, 6, 7)
    done = invoke(served, "sub", "--durable", "--name", "eva", "--count", "2", "level any")
    assert (done.exit_code, done.stdout) == (0, "level = 5\nlevel = 6\n"), done.stderr
    assert f"subscribed at {served.puppet.url} as eva, from delivery 3/0 on\n" in done.stderr
    served.until(lambda puppet: puppet.acknowledged == 1)
    served.do(lambda puppet: setattr(puppet, "dropped", 2))
    done = invoke(served, "sub", "--durable", "--name", "eva", "--count", "1", "--no-ack", "level any")
    assert done.stdout == "level = 7\n"
    assert "from delivery 3/2 on; so far 2 have fallen out of its log, and 0 were too old" in done.stderr
    assert served.puppet.acknowledged == 1
    assert not any(ask.operation == "unsubscribe" for ask in served.puppet.requests if hasattr(ask, "operation"))


def test_numbers_are_shown(served: Served) -> None:
    served.deliver(5)
    command = ("sub", "--durable", "--name", "eva", "--no-ack", "--count", "1")
    shown = json.loads(invoke(served, *command, "-J").stdout)
    assert shown["delivery"] == {"number": 0, "cursor": "3/0", "repeated": False}
    assert shown["notification"] == {"level": 5}
    done = invoke(served, *command, "-F", "{@number} {@cursor} {level}{@repeated}")
    assert done.stdout == "0 3/0 5\n"
    done = invoke(served, *command, "--from", "0", "-F", "{@number} {@cursor} {level} {@repeated}")
    assert done.stdout == "0 3/0 5 repeated\n"
    assert invoke(served, "pub", "--json-input", given=json.dumps(shown)).exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--from", "1", (1, -1)),
        ("--last", "2", (-1, 2)),
        ("--since", "2h", (-1, -1)),
        ("--since", "2026-11-16", (-1, -1)),
    ],
)
def test_what_was_delivered_comes_once_more(served: Served, option: str, value: str, expected: tuple[int, int]) -> None:
    served.deliver(5, 6, 7)
    served.do(lambda puppet: setattr(puppet, "acknowledged", 0))  # what is not acknowledged comes anyway, but once
    done = invoke(served, "sub", "--durable", "--name", "eva", "--count", "2", option, value)
    assert done.exit_code == 0, done.stderr
    if option != "--since":
        assert done.stdout == "level = 6\nlevel = 7\n"
    (asked,) = served.do(lambda puppet: puppet.asked(Replay))
    assert (asked.first, asked.last) == expected
    if value == "2h":
        assert timedelta(hours=1, minutes=58) < datetime.now(UTC) - asked.since < timedelta(hours=2, minutes=2)
    elif option == "--since":
        assert asked.since == datetime(2026, 11, 16, tzinfo=UTC)


def test_what_is_gone_is_told(served: Served) -> None:
    served.do(lambda puppet: puppet.refusals.update({Replay: ("gone", "delivery 1 is gone; there are from 4 to 9")}))
    done = invoke(served, "sub", "--durable", "--name", "eva", "--from", "1")
    assert done.exit_code == 1
    assert "Error: delivery 1 is gone; there are from 4 to 9" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["sub", "--durable"], "--durable needs a --name"),
        (["sub", "--last", "3"], "are for durable parties; say --durable"),
        (["sub", "--no-ack"], "are for durable parties; say --durable"),
        (["sub", "--durable", "--name", "eva", "--last", "3", "--from", "1"], "exclude each other"),
        (["sub", "--durable", "--name", "eva", "--since", "soon"], "'soon' is neither a duration, such as 90s"),
        (["pub", "--expires", "9" * 30 + "d", "x = 1"], "is neither a duration"),
        (["pub", "--mode", "fast", "x = 1"], "'fast' is not one of"),
        (["letters", "requeue", "--name", "eva"], "name dead letters by their numbers, or take --all"),
        (["letters", "discard", "--name", "eva", "--all", "4"], "name dead letters by their numbers, or take --all"),
        (["letters", "list"], "Missing option '--name'"),
        (["pub", "--key", "k", "x = 1"], "--key needs --name: a server knows keys by party"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(arguments: list[str], problem: str) -> None:
    done = CliRunner(env={"PALIO_SERVER": "palio://127.0.0.1:1"}).invoke(palio, arguments)
    assert done.exit_code == 2
    assert problem in " ".join(done.stderr.split())


def said(served: Served) -> list[frames.Options]:
    several = served.do(lambda puppet: puppet.of_kind(frames.PUBLISH_WITH))
    return [frames.options_of(frames.published_with(content)[1]) for content in several]


def test_publications_with_options(served: Served) -> None:
    done = invoke(
        served,
        "pub",
        "--name",
        "shop",
        "--mode",
        "local",
        "--key",
        "order-17",
        "--expires",
        "10m",
        "--json",
        "order = 17",
    )
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["published"], told["mode"]) == (1, "local")
    (options,) = said(served)
    assert (options.key, options.mode) == ("order-17", Mode.LOCAL)
    assert options.expires is not None
    assert timedelta(minutes=8) < options.expires - datetime.now(UTC) <= timedelta(minutes=10)


def test_several_publications_have_keys_of_their_own(served: Served) -> None:
    done = invoke(served, "pub", "--name", "shop", "--key", "k", "--json", given="x = 1\nx = 2\n")
    assert json.loads(done.stdout)["mode"] == "local"  # the weakest of those that were accepted
    invoke(served, "pub", "--name", "shop", "--key", "k", "--count", "2", "x = 1")
    assert [options.key for options in said(served)] == ["k/1", "k/2", "k/1", "k/2"]
    assert json.loads(invoke(served, "pub", "--json", given="").stdout)["mode"] is None


def test_dead_letters_are_printed(served: Served) -> None:
    served.do(lambda puppet: puppet.letters.update({"letters": [LETTER], "forgotten": 2}))
    done = invoke(served, "letters", "list", "--name", "eva")
    assert done.stdout == '4  2026-11-16T09:30:00Z  delivery 41  "no such customer"  customer = 7\n'
    assert done.stderr == "and 2 more, which the server did not keep\n"
    assert json.loads(invoke(served, "letters", "list", "--name", "eva", "--json").stdout) == {
        "letters": [LETTER],
        "forgotten": 2,
    }


def test_dead_letters_are_dealt_with(served: Served) -> None:
    served.do(lambda puppet: puppet.letters.update({"letters": [LETTER]}))
    told = invoke(served, "letters", "requeue", "--name", "eva", "0", "4", "--json")
    assert json.loads(told.stdout) == {"requeued": [0, 4]}
    assert json.loads(invoke(served, "letters", "discard", "--name", "eva", "--all", "--json").stdout) == {
        "discarded": [4]
    }
    served.do(lambda puppet: puppet.letters.update({"letters": []}))
    assert invoke(served, "letters", "discard", "--name", "eva", "--all").stdout == ""
    asked = served.do(lambda puppet: puppet.asked(Letters))
    assert [(each.action, each.letters) for each in asked] == [("requeue", (0, 4)), ("discard", (4,))]
