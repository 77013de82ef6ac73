"""``palio pub``: publish from the shell."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from palio.cli.durations import TimeOrDuration
from palio.cli.party import Party, connected, in_a_line, party_options

if TYPE_CHECKING:  # the help must not wait for the client
    from concurrent.futures import Future

    from palio.client import PublishOptions
    from palio.client.sync import SyncClient
    from palio.model import Mode, Notification, Trace

_EPILOG = """\b
Example:  palio pub 'event = "alarm"; level = 5'
          palio pub --count 10 --rate 2 'event = "tick"'
          palio pub < notifications.txt
          palio pub --name shop --mode synced --key order-17 --expires 10m 'order = 17'
"""


@click.command(epilog=_EPILOG)
@click.argument("notifications", nargs=-1, metavar="[NOTIFICATION]...")
@party_options()
@click.option(
    "-J", "--json-input", "is_json", is_flag=True, help="JSON: objects of attributes, or what palio sub -J prints."
)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Publish them so many times.")
@click.option(
    "--trace", metavar="TRACEPARENT", help="The span in which they are published; a tracestate after a space."
)
@click.option(
    "--mode",
    type=click.Choice(["memory", "local", "synced"]),
    help="What acceptance is to promise: the server knows them, has written them, or has them on its disk.",
)
@click.option(
    "--key",
    metavar="KEY",
    help="What the same --name publishes with the same KEY counts once; several notifications get KEY/1, KEY/2, ...",
)
@click.option("--expires", type=TimeOrDuration(), help="When they are worth nothing any more; or in how long, as 10m.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="At most so many a second.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON how many were accepted, and in which mode.")
def pub(  # noqa: PLR0913 (one for each option)
    *,
    notifications: tuple[str, ...],
    party: Party,
    is_json: bool,
    count: int,
    trace: str | None,
    mode: str | None,
    key: str | None,
    expires: datetime | timedelta | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Publish notifications, and wait until the server has accepted them.

    Without a NOTIFICATION they are read from the standard input, one a line; lines that are empty or begin with # are
    passed over.
    """
    if count > 1 and not notifications:
        raise click.UsageError("--count is for notifications that are arguments")
    lines = _arguments(notifications, count) if notifications else _lines()
    options = _options(trace, mode, expires)
    keys = _keys(key, is_alone=len(notifications) * count == 1)
    begin = time.monotonic()
    with connected(party) as client:
        modes = _publish(client, _paced(_read(lines, is_json), rate), options, keys)
    if as_json:
        import msgspec

        weakest = min(modes, key=lambda mode: mode.strength, default=None)
        seconds = round(time.monotonic() - begin, 6)
        click.echo(msgspec.json.encode({"published": sum(modes.values()), "mode": weakest, "seconds": seconds}))


def _arguments(notifications: tuple[str, ...], count: int) -> Iterator[tuple[str, str]]:
    for _ in range(count):
        for number, text in enumerate(notifications, 1):
            yield f"notification {number}", text


def _lines() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            yield f"line {number} of the input", line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise click.ClickException(f"line {number} of the input is not UTF-8") from error


def _read(lines: Iterable[tuple[str, str]], is_json: bool) -> Iterator[tuple[str, Notification]]:
    from palio.cli import json_lines
    from palio.errors import PalioError
    from palio.model import Notification

    for place, text in lines:
        try:
            notification = json_lines.read(text) if is_json else Notification.parse(text)
        except PalioError as error:
            raise click.ClickException(f"{place}: {in_a_line(error)}") from error
        yield place, notification


def _paced(notifications: Iterable[tuple[str, Notification]], rate: float | None) -> Iterator[tuple[str, Notification]]:
    begin = time.monotonic()
    for number, each in enumerate(notifications):
        if rate is not None:
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        yield each


def _keys(key: str | None, *, is_alone: bool) -> Iterator[str | None]:
    """A key for each notification."""
    if key is None or is_alone:
        return itertools.repeat(key)
    return (f"{key}/{number}" for number in itertools.count(1))


def _options(trace: str | None, mode: str | None, expires: datetime | timedelta | None) -> PublishOptions:
    """What holds for all; durations count from now on."""
    from palio.client import PublishOptions

    return PublishOptions(trace=_span(trace), mode=mode, expires=expires)


def _span(text: str | None) -> Trace | None:
    from palio.errors import PalioError
    from palio.model import Trace

    if text is None:
        return None
    try:
        return Trace.parse(text)
    except PalioError as error:
        raise click.BadParameter(in_a_line(error), param_hint="--trace") from error


def _publish(
    client: SyncClient,
    notifications: Iterable[tuple[str, Notification]],
    options: PublishOptions,
    keys: Iterator[str | None],
) -> Counter[Mode]:
    """Publish one after the other without waiting in between; how many were accepted in which mode."""
    from msgspec.structs import replace

    under_way: deque[tuple[str, Future[Mode]]] = deque()
    modes: Counter[Mode] = Counter()
    for place, notification in notifications:
        under_way.append((place, client.send(notification, replace(options, key=next(keys)))))
        while under_way and under_way[0][1].done():
            modes[_accepted(*under_way.popleft())] += 1
    while under_way:
        modes[_accepted(*under_way.popleft())] += 1
    return modes


def _accepted(place: str, future: Future[Mode]) -> Mode:
    from palio.client import ServiceError

    try:
        return future.result()
    except ServiceError as error:
        raise click.ClickException(f"{place}: {error}") from error
