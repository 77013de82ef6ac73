"""Why a party did or did not get a notification, from what all servers know of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from palio.codec import json, msgpack
from palio.errors import DecodeError
from palio.model import PROTOCOL_LIMITS, Notification
from palio.routing.paths import Graph
from palio.server.forms import AccountDocument, PartyAccount

Document = dict[str, Any]


class Verdict(NamedTuple):
    """What became of it, as a word for programs and a sentence for people; and what else there is to say."""

    code: str
    text: str
    details: tuple[str, ...] = ()

    def document(self) -> Document:
        """As it is told."""
        return {"code": self.code, "text": self.text, "details": list(self.details)}


def judge(id: str, party: str, accounts: Iterable[AccountDocument], silent: dict[str, str]) -> Verdict:
    """Why a party did or did not get a notification."""
    return _Case(id, party, accounts, silent).judge()


def judge_id(id: str, accounts: list[AccountDocument], silent: dict[str, str]) -> Verdict | None:
    """Why nothing can be told of a notification, if so."""
    if any(each["came"] for each in accounts):
        return None
    for each in accounts:
        if each["id_problem"]:
            return Verdict("unknown", f"nothing is known of {id}: {each['id_problem']}")
    origin = id.rsplit("/", 2)[0]
    if not any(each["server"] == origin for each in accounts):
        why = silent.get(origin, "no server here has that name")
        return Verdict("unknown", f"nothing is known of {id}, and {origin} cannot be asked: {why}")
    return Verdict("forgotten", f"{id} is too old: what servers remember does not reach back to it", _reaches(accounts))


def _reaches(accounts: Iterable[AccountDocument]) -> tuple[str, ...]:
    told = []
    for each in accounts:
        history = each["history"]
        if not history["is_on"]:
            told.append(f"{each['server']} remembers nothing: history_bytes is 0")
        elif not history["is_whole"]:
            told.append(f"{each['server']} remembers what came since {history['since'] or 'a moment ago'}")
    return tuple(told)


class _Case:
    """One party and one notification."""

    def __init__(self, id: str, party: str, accounts: Iterable[AccountDocument], silent: dict[str, str]) -> None:
        self._id = id
        self._party = party
        self._by_server = {each["server"]: each for each in accounts}
        self._silent = silent
        self._homes = [(each, each["party"]) for each in self._by_server.values() if each["party"] is not None]

    def judge(self) -> Verdict:
        """The first of all reasons that there may be."""
        found = self._delivered()
        if found is None and not self._homes:
            found = Verdict("unknown-party", f"no server knows {self._party}", self._not_asked())
        if found is not None:
            return found
        verdicts = [self._at_home(home, party) for home, party in self._homes]
        return max(verdicts, key=lambda each: _WEIGHT.get(each.code, 0))

    def _not_asked(self) -> tuple[str, ...]:
        return tuple(f"{name} could not be asked: {why}" for name, why in sorted(self._silent.items()))

    def _delivered(self) -> Verdict | None:
        for account in self._by_server.values():
            server = account["server"]
            for each in account["delivered"]:
                if each["party"] == self._party:
                    how = "" if each["form"] == "notification" else ", as part of a sequence"
                    return Verdict("delivered", f"{server} sent it to {self._party} at {each['at']}{how}")
            for each in account["lost"]:
                if each["party"] == self._party:
                    if each["reason"] == "slow":
                        text = (
                            f"{self._party} was slow: too much waited for it, and {server} dropped it at {each['at']}"
                        )
                        return Verdict("slow", text)
                    return Verdict(
                        "not-connected", f"{self._party} was not connected to {server} when it came, at {each['at']}"
                    )
        return None

    def _at_home(self, home: AccountDocument, party: PartyAccount) -> Verdict:
        """Whether the party wanted it where it is known; and if so, why it did not get it."""
        server = home["server"]
        arrived = home["came"][0]["at"] if home["came"] else self._began()
        wanted = [*party["matching"], *party["matching_patterns"]]
        before = [each for each in party["changes"] if each["at"] <= arrived]
        if not wanted and before and before[-1]["did"] == "unsubscribe":
            last = before[-1]
            text = f"{self._party} had unsubscribed from {last['filter']} at {last['at']}, before it came"
            return Verdict("unsubscribed", text)
        if not wanted and not party["changes"]:
            return self._does_not_match(party, server)
        begun = {each["filter"]: each["at"] for each in reversed(party["changes"]) if each["did"] == "subscribe"}
        if wanted and all(begun.get(each, "") > arrived for each in wanted):
            first = min(wanted, key=begun.__getitem__)
            text = f"{self._party} subscribed to {first} only at {begun[first]}; it came at {arrived}"
            return Verdict("subscribed-later", text)
        if not home["came"]:
            return self._did_not_arrive(home)
        came = home["came"][0]
        if not came["let_in"]:
            return self._stopped_by_imports(home, came["name"])
        if wanted and not party["matching"]:
            return Verdict(
                "sequence", f"{self._party} wants sequences, and none with it was complete at {server}",
                tuple(f"pattern: {each}" for each in party["matching_patterns"]),
            )  # fmt: skip
        text = f"it came to {server} at {came['at']}; whether {self._party} wanted it then is not known any more"
        return Verdict("unclear", text, _reaches([home]))

    def _began(self) -> str:
        """When it was published; later than everything if nobody knows."""
        times = [each["came"][0]["at"] for each in self._by_server.values() if each["came"]]
        return min(times, default="9999")

    def _does_not_match(self, party: PartyAccount, server: str) -> Verdict:
        if not party["filters"] and not party["patterns"]:
            return Verdict("no-subscription", f"{self._party} has subscribed to nothing at {server}")
        details = []
        for each in party["missing"]:
            fails = "; ".join(f"{fail['constraint']} fails: {fail['remark']}" for fail in each["failures"])
            details.append(f"{each['filter']}: {fails}")
        more = party["filters"] - len(party["missing"])
        if more > 0:
            details.append(f"and {more:,} more")
        if party["patterns"]:
            patterns = "a pattern" if party["patterns"] == 1 else f"{party['patterns']:,} patterns"
            details.append(f"and {patterns}, no filter of which matches it")
        return Verdict("no-match", f"no filter of {self._party} at {server} matches it", tuple(details))

    # -- where it stopped ----------------------------------------------------------------------------------------------

    def _did_not_arrive(self, home: AccountDocument) -> Verdict:
        here, there = self._stop(home["server"])
        if there is None:
            text = f"it did not get to {home['server']}, and there is no way to it from where it was published"
            return Verdict("no-way", text, self._not_asked())
        account = self._by_server[here]
        neighbour = next((each for each in account["neighbours"] if each["name"] == there), None)
        where = f"it got as far as {here} on its way to {home['server']}"
        passed = account["came"][0]["at"]
        sent = next((each["at"] for each in account["sent"] if each["to"] == there), None)
        if sent is not None:
            return self._under_way(where, here, there, sent)
        if neighbour is None or not neighbour["is_up"]:
            return Verdict("link-down", f"{where}: there is no link to {there}")
        if neighbour["exports"]:
            return Verdict(
                "gateway", f"{where}: over the gateway to {there} only goes what matches {neighbour['exports']}"
            )
        if neighbour.get("letter"):
            return Verdict("too-large", f"{where}: {there} cannot take it, {neighbour['letter']}")
        ups = [each["at"] for each in neighbour["link"] if each["is_up"]]
        if ups and ups[-1] > passed:
            return Verdict("link-down", f"{where}: there has been a link to {there} only since {ups[-1]}")
        asked = [each for each in neighbour["asked"] if each["did"] == "subscribe" and each["at"] > passed]
        if there in account["would_go_to"] and asked:
            text = f"{where}: {there} asked for {asked[0]['filter']} only at {asked[0]['at']}, when it had passed"
            return Verdict("not-spread", text)
        if there in account["would_go_to"]:
            return Verdict("unclear", f"{where}; it would go on to {there} now", _reaches([account]))
        return self._not_wanted(where, there)

    def _not_wanted(self, where: str, there: str) -> Verdict:
        for account in self._by_server.values():
            if account["advertised"] is False:
                publisher = account["came"][0]["name"]
                text = (
                    f"{where}: {there} did not ask for it, because {publisher} has not advertised such a notification"
                )
                kind = account["architecture"]
                why = f"in a network of the kind {kind}, subscriptions go only to where what they want is advertised"
                return Verdict("not-advertised", text, (why,))
        return Verdict("not-asked", f"{where}: {there} had asked for nothing that matches it")

    def _under_way(self, where: str, here: str, there: str, sent: str) -> Verdict:
        other = self._by_server.get(there)
        if other is None:
            why = self._silent.get(there, "it cannot be asked")
            return Verdict("no-answer", f"{where}; {here} sent it to {there} at {sent}, which does not answer: {why}")
        if not other["history"]["is_whole"]:
            text = f"{where}; {here} sent it to {there} at {sent}, which does not remember it"
            return Verdict("forgotten", text, _reaches([other]))
        return Verdict("under-way", f"{where}; {here} sent it to {there} at {sent}, where it has not arrived yet")

    def _stopped_by_imports(self, home: AccountDocument, peer: str | None) -> Verdict:
        filter = next((each["imports"] for each in home["neighbours"] if each["name"] == peer), "")
        text = f"it came to {home['server']} over the gateway from {peer}, which lets in only what matches {filter}"
        return Verdict("gateway", text)

    def _stop(self, target: str) -> tuple[str, str | None]:
        """The last server on the way to another one that has seen it, and the next, which has not."""
        begin = next((server for server, each in self._by_server.items() if _is_origin(each)), None)
        if begin is None:
            begin = next((server for server, each in self._by_server.items() if each["came"]), target)
        path = self._path(begin, target)
        for here, there in pairwise(path):
            if there not in self._by_server or not self._by_server[there]["came"]:
                return here, there
        return begin, None

    def _path(self, begin: str, target: str) -> list[str]:
        """The way that notifications take; over links that are known only from configurations, if there is no other."""
        for links in (self._links(), self._wishes()):
            parents = Graph(links).tree(begin).parents
            if target in parents:
                path = [target]
                while path[-1] != begin:
                    path.append(parents[path[-1]])
                return path[::-1]
        return []

    def _links(self) -> list[tuple[str, str, int]]:
        return [
            (server, each["to"], each["latency"])
            for server, account in self._by_server.items()
            for each in account["links"]
        ]

    def _wishes(self) -> list[tuple[str, str, int]]:
        return [
            *self._links(),
            *(
                (server, each["name"], 1)
                for server, account in self._by_server.items()
                for each in account["neighbours"]
            ),
        ]


def _is_origin(account: AccountDocument) -> bool:
    return any(each["origin"] == "party" for each in account["came"])


_WEIGHT = {"no-subscription": -2, "no-match": -1}
"""If a party is known at several servers, the one counts where it is nearest to getting something."""


def explain(id: str, party: str | None, content: Notification | None, found: Document) -> Document:
    """All that servers know of a notification, and what follows from it."""
    accounts: list[AccountDocument] = found["servers"]
    silent: dict[str, str] = found["silent"]
    verdict = judge_id(id, accounts, silent)
    if verdict is None and content is None:
        text = f"{id} was published, but what it was cannot be told any more"
        verdict = Verdict("forgotten", text, _reaches(accounts))
    if verdict is None and party is not None:
        verdict = judge(id, party, accounts, silent)
    servers = [{key: value for key, value in each.items() if key != "document"} for each in accounts]
    told = None if verdict is None else verdict.document()
    document = None if content is None else msgspec.json.decode(json.encode(content))
    head = {"id": id, "party": party, "notification": document, "verdict": told}
    return {**head, "servers": servers, "silent": silent, "left_out": found["left_out"]}


def content_of(accounts: Iterable[AccountDocument]) -> Notification | None:
    """What the notification is, as the first server says that knows it."""
    for each in accounts:
        if each["document"] is not None:
            with suppress(DecodeError):
                return msgpack.decode(Notification, each["document"], PROTOCOL_LIMITS)
    return None
