"""Two processes that say they are the same server: the one that is alive keeps the name."""

from __future__ import annotations

import pytest

from palio.codec import control
from palio.codec.control import Goodbye, Hello, Ping, Pong, Welcome
from palio.server.agents import agent_of
from palio.server.peers import Peers
from tests.serving import Raw, run, serving, until


async def server_named(port: int, start: int | None) -> Raw:
    """A connection of a server that has said hello."""
    made = await Raw.connect(port)
    agent = "" if start is None else agent_of(start)
    made.send(control.encode(Hello((control.VERSION,), "server", "rome", "", agent)))
    return made


def test_a_second_live_server_of_a_name_is_refused() -> None:
    async def play() -> None:
        async with serving() as milan:
            for starts in ((2, 1), (1, 2), (None, None), (None, 1)):
                older = await server_named(milan.port, starts[0])
                await older.until(Welcome)
                newer = await server_named(milan.port, starts[1])
                await older.until(Ping)
                older.send(control.encode(Pong(0)))
                goodbye = await newer.until(Goodbye)
                assert (goodbye.code, "the name is taken" in goodbye.text) == ("name-taken", True)
                assert await older.is_served()
                await older.close()
                await until(lambda: "rome" not in milan.driver.peers)

    run(play())


@pytest.mark.slow
def test_a_server_whose_former_process_does_not_answer_takes_the_name_also_with_an_older_start() -> None:
    async def play() -> None:
        async with serving() as milan:
            for starts in ((2, 1), (1, 2)):
                older = await server_named(milan.port, starts[0])
                await older.until(Welcome)
                newer = await server_named(milan.port, starts[1])
                await newer.until(Welcome)
                assert await newer.is_served()
                await newer.close()
                await until(lambda: "rome" not in milan.driver.peers)

    run(play())


def test_a_fault_in_the_decision_about_a_name_ends_the_newer_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> bool:
        raise ZeroDivisionError

    async def play() -> None:
        async with serving() as milan:
            older = await server_named(milan.port, 1)
            await older.until(Welcome)
            with monkeypatch.context() as patch:
                patch.setattr(Peers, "_is_alive", fail)
                newer = await server_named(milan.port, 2)
                assert (await newer.until(Goodbye)).code == "internal"
            assert milan.counts.faults == 1
            assert await older.is_served()
            assert not milan.peers._contests

    run(play())


def test_the_same_process_takes_its_name_at_once() -> None:
    async def play() -> None:
        async with serving() as milan:
            older = await server_named(milan.port, 7)
            await older.until(Welcome)
            newer = await server_named(milan.port, 7)
            await newer.until(Welcome)
            assert (await older.until(Goodbye)).code == "replaced"

    run(play())


def test_a_url_that_leads_to_another_neighbour_does_not_disturb_the_link_to_that_one() -> None:
    """A server under two names, for instance by 127.0.0.1 and localhost: only its own name gets through."""

    async def play() -> None:
        async with serving(server="rome") as rome:
            peers = [{"name": name, "url": f"palio://127.0.0.1:{rome.port}"} for name in ("rome", "bari")]
            async with serving(server="milan", peers=peers) as milan:
                await until(
                    lambda: milan.peers.is_up("rome") and "there instead" in milan.peers.reasons.get("bari", "")
                )
                assert milan.peers.reasons["bari"] == "'rome' is there instead"
                connection = rome.driver.peers["milan"]
                milan.peers.reasons.clear()
                await until(lambda: "bari" in milan.peers.reasons)
                assert rome.driver.peers["milan"] is connection
                assert rome.peers.is_up("milan")

    run(play())
