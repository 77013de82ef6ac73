"""``palio net`` and ``palio top``, with real servers in threads."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from palio.cli.main import palio
from palio.cli.net import _store_problems
from palio.cli.top import rates
from palio.client.sync import connect_sync
from tests.cli.test_party import Served, invoke, served

__all__ = ["served"]


@pytest.fixture
def rome() -> Iterator[Served]:
    made = Served(server="rome")
    yield made
    made.stop()


def test_a_link_is_added_shown_and_removed(served: Served, rome: Served) -> None:
    added = invoke(served, "net", "link", "add", "rome", rome.url, "--wait", "30")
    assert added.exit_code == 0, added.output
    assert "the link to rome is up" in added.stdout
    assert "not in the configuration file" in added.stdout
    shown = invoke(served, "net", "status", "--seconds", "10")
    assert shown.exit_code == 0
    assert re.search(r"milan - rome +up +milan +a command", shown.stdout), shown.stdout
    assert re.search(r"^ rome ", shown.stdout, re.MULTILINE)
    found = json.loads(invoke(served, "net", "status", "--seconds", "10", "--json").stdout)
    assert {each["server"] for each in found["servers"]} == {"milan", "rome"}
    removed = invoke(served, "net", "link", "remove", "rome", "--json")
    assert json.loads(removed.stdout) == {"link": "rome", "action": "remove", "remark": ""}
    again = invoke(served, "net", "link", "remove", "rome")
    assert again.exit_code == 1
    assert "rome" in again.output


def test_a_link_that_does_not_come_about_says_why(served: Served) -> None:
    added = invoke(served, "net", "link", "add", "rome", "palio://127.0.0.1:1", "--wait", "0.5")
    assert added.exit_code == 1
    assert "not up yet" in added.stdout
    shown = invoke(served, "net", "status")
    assert shown.exit_code == 1
    assert "no answer of rome: milan has no connection to it" in shown.stdout


def test_without_a_server_commands_say_so() -> None:
    result = CliRunner().invoke(palio, ["net", "status", "--server", "palio://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "there is no server at palio://127.0.0.1:1" in result.output


def test_top_shows_rates_once(served: Served) -> None:
    end = threading.Event()

    def publish() -> None:
        with connect_sync(served.url, name="adam") as client:
            while not end.wait(0.01):
                client.publish(x=5)

    thread = threading.Thread(target=publish)
    with connect_sync(served.url, name="eva") as eva, eva.subscribe("x > 3"):
        thread.start()
        try:
            sample = json.loads(invoke(served, "top", "--once", "--json", "--interval", "0.5").stdout)
            shown = invoke(served, "top", "--once", "--interval", "0.5").stdout
        finally:
            end.set()
            thread.join()
    assert sample["server"] == "milan"
    assert sample["per_second"]["publications"] > 0 < sample["per_second"]["deliveries"]
    parties = {each["name"]: each for each in sample["parties"]}
    assert parties["eva"]["per_second"]["deliveries"] > 0
    assert parties["adam"]["per_second"]["received_bytes"] > 0
    assert "delivered/s" in shown
    assert re.search(r"^ eva ", shown, re.MULTILINE)


def test_top_goes_on_until_it_is_interrupted(served: Served) -> None:
    command = [sys.executable, "-m", "palio", "top", "--json", "--interval", "0.05", "--server", served.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert json.loads(process.stdout.readline())["server"] == "milan"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def _status(incarnation: int, publications: int, parties: list[dict[str, Any]]) -> dict[str, Any]:
    counts = dict.fromkeys(("deliveries", "dropped", "refused", "received_bytes", "sent_bytes"), 0)
    return {
        "server": "milan",
        "incarnation": incarnation,
        "architecture": "as",
        "uptime_seconds": 1.0,
        "counts": {**counts, "publications": publications},
        "lag_seconds": 0.0,
        "parties": parties,
        "parties_left_out": 0,
    }


def test_after_a_restart_rates_begin_anew() -> None:
    eva = {"name": "eva", "slow": False, "waiting_bytes": 0, "dropped": 0, "received_bytes": 0, "sent_bytes": 0}
    before, now = _status(1, 1000, [{**eva, "deliveries": 50}]), _status(2, 10, [{**eva, "deliveries": 4}])
    assert rates(before, now, 2.0)["per_second"]["publications"] == 5.0
    again = _status(1, 1010, [{**eva, "deliveries": 4}])  # the party alone has connected again
    assert rates(before, again, 2.0)["per_second"]["publications"] == 5.0
    assert rates(before, again, 2.0)["parties"][0]["per_second"]["deliveries"] == 2.0


def test_the_way_of_a_notification_is_drawn(served: Served, rome: Served) -> None:
    assert invoke(served, "net", "link", "add", "rome", rome.url, "--wait", "30").exit_code == 0
    with connect_sync(rome.url, name="eva") as eva, connect_sync(served.url, name="adam") as adam:
        with eva.subscribe("x > 3", wait=True) as events:
            adam.publish(x=5)
            got = events.next(30)
            assert got.envelope is not None
            id = str(got.envelope.id)
            shown = invoke(served, "net", "explain", id, "--party", "eva")
            other = invoke(served, "net", "explain", "--last-of", "adam", "--party", "nobody")
            as_json = json.loads(invoke(rome, "net", "explain", id, "--json").stdout)
        assert shown.exit_code == 0, shown.output
        time = r"\d\d:\d\d:\d\d\.\d{6}"
        pattern = (
            rf"{id}: x = 5\nmilan: published by adam at 20\d\d-\d\d-\d\dT{time}Z\n"
            rf"└── rome: from milan at {time}\n    └── to eva at {time}\nrome sent it to eva at 20\S+Z\n"
        )
        assert re.fullmatch(pattern, shown.stdout), shown.stdout
        assert other.stdout.endswith("no server knows nobody\n")
        assert as_json["id"] == id
        assert as_json["notification"] == {"palio": 1, "notification": {"x": 5}}
        assert "document" not in as_json["servers"][0]


def test_a_notification_that_nobody_knows(served: Served) -> None:
    unknown = invoke(served, "net", "explain", "milan/1/1", "--party", "eva")
    assert unknown.exit_code == 1
    assert unknown.stdout.startswith("nothing is known of milan/1/1: milan was started again since")
    refused = invoke(served, "net", "explain", "milan")
    assert refused.exit_code == 1
    assert "'milan' is no id of a notification" in refused.output
    for arguments in ([], ["milan/1/1", "--last-of", "eva"]):
        assert invoke(served, "net", "explain", *arguments).exit_code == 2


def test_the_status_names_what_is_wrong_with_a_store() -> None:
    store = {"is_full": True, "damage": ["an entry"], "quarantined": 2, "archive_problem": "no room"}
    assert list(_store_problems(store)) == [
        "the store has no room, and publications are refused",
        "damage was found in the store (1): palio store show",
        "2 records of the store are in quarantine: palio store quarantine",
        "the archiver cannot write: no room",
    ]
    assert not list(_store_problems({"is_full": False, "damage": [], "quarantined": 0, "archive_problem": ""}))
