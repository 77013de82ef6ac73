"""Histories in files: written for those who have to look into them, and read with care."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palio.errors import CallerError, FileFormatError, TextSyntaxError, brief
from palio.model import Advertisement, Filter, Notification, Pattern
from palio.routing.architectures import ARCHITECTURES
from palio.sim.histories.federation import NETWORKS
from palio.sim.histories.history import History, Step
from palio.sim.histories.player import WISHES

_TEXTS: dict[str, type[Filter | Pattern | Advertisement | Notification]] = {
    "subscribe": Pattern,
    "unsubscribe": Pattern,
    "advertise": Advertisement,
    "unadvertise": Advertisement,
    "publish": Notification,
    "watch-demand": Advertisement,
    "watch-offers": Filter,
    "unwatch-demand": Advertisement,
    "unwatch-offers": Filter,
    "replace": Pattern,
}
"""What the text of a step is; a party takes the step."""
_BETWEEN_SERVERS = ("connect", "disconnect", "give-up", "cut")
_LIVES = ("crash", "lose", "tear", "crash-at", "restart")
_TROUBLES = ("pause", "resume", "slow", "clock", "full", "room", "fail", "crowd", "thin")
_OF_DURABLE_PARTIES = ("attach", "detach", "acknowledge", *WISHES)
_OF_DISKS = ("power", "scarce", "flip", "spoil", "copy", "put-back")
_WITH_LOGS = (*_OF_DURABLE_PARTIES, *_OF_DISKS)
_OF_A_SERVER = (*_LIVES, *_TROUBLES, *_BETWEEN_SERVERS, *_TEXTS, *_WITH_LOGS, "leave")


def write(history: History, folder: Path, name: str) -> Path:
    """Write a history to a file of a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    with path.open("xb") as file:  # never what a link points to
        file.write(history.to_json() + b"\n")
    return path


def read(path: Path) -> History:
    """Read a history; :class:`~palio.errors.FileFormatError` says what is wrong with a file that holds none."""
    try:
        document = path.read_bytes()
    except OSError as error:
        raise CallerError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    try:
        history = History.from_json(document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{str(path)!r} holds no history: {error}") from error
    problem = _problem(history)
    if problem:
        raise FileFormatError(f"{str(path)!r} holds no history that can be played: {problem}")
    return history


def _problem(history: History) -> str:
    kinds = history.architecture.split("+")
    for kind in kinds:
        if kind not in ARCHITECTURES:
            return f"architecture: {brief(kind)} is none of {', '.join(ARCHITECTURES)}"
    networks = NETWORKS[: len(kinds)]
    if len(kinds) > 1 and any(not name or name[0] not in networks for name in history.servers):
        return f"servers: with {len(kinds)} networks each name begins with one of {', '.join(networks)}"
    if not history.servers or len(set(history.servers)) < len(history.servers):
        return "servers: name at least one, and each once"
    if history.logs is not None and not history.durable:
        return "logs: only servers with disks have some; durable has to be true"
    for number, step in enumerate(history.steps):
        problem = _problem_of_step(step, history.servers)
        if not problem and step.do in _WITH_LOGS and history.logs is None:
            problem = f"do: {step.do} needs logs, which this history does not have"
        if problem:
            return f"steps[{number}]: {problem}"
    return ""


def _problem_of_step(step: Step, servers: tuple[str, ...]) -> str:
    if step.wait < 0:
        return "wait: time does not run backwards"
    if step.do in _OF_A_SERVER and step.server not in servers:
        return f"server: {brief(step.server)} is none of the servers"
    if step.do in _BETWEEN_SERVERS and (step.peer not in servers or step.peer == step.server):
        return f"peer: {brief(step.peer)} is none of the other servers"
    kind = _TEXTS.get(step.do)
    if step.do in ("leave", *_OF_DURABLE_PARTIES) and not step.party:
        return "party: somebody has to do it"
    if min(step.pace, step.expires, step.number) < 0:
        return "pace, expires, number: less than there may be"
    return _problem_of_trouble(step, servers) if kind is None else _problem_of_request(step, kind)


def _problem_of_trouble(step: Step, servers: tuple[str, ...]) -> str:
    strangers = [name for name in step.servers if name not in servers]
    if strangers:
        return f"servers: {brief(strangers[0])} is none of the servers"
    if step.do == "part" and not step.servers:
        return "servers: name those that are cut from the others"
    if step.do == "slow" and step.time < 0:
        return "time: nothing is done before it has begun"
    if step.rate <= 0:
        return "rate: clocks do not stand still, nor run backwards"
    if step.do == "crash-at" and (step.effect is None or step.nth < 1):
        return "effect, nth: say at which one the server dies"
    return ""


def _problem_of_request(step: Step, kind: type[Filter | Pattern | Advertisement | Notification]) -> str:
    if not step.party:
        return "party: somebody has to do it"
    texts = {"text": step.text} | ({"instead": step.instead} if step.do == "replace" else {})
    for name, text in texts.items():
        try:
            kind.parse(text)
        except TextSyntaxError as error:
            return f"{name}: {str(error).partition(chr(10))[0]}"
        except CallerError as error:
            return f"{name}: {error}"
    return ""
