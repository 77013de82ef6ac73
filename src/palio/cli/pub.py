"""``palio pub``: publish from the shell."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from palio.cli.durations import TimeOrDuration
from palio.cli.output import json_text
from palio.cli.party import Party, connected, in_a_line, party_options

if TYPE_CHECKING:  # the help must not wait for the client
    from concurrent.futures import Future

    from palio.client import Acceptance, PublishOptions
    from palio.client.sync import SyncClient
    from palio.model import Notification, Trace

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
    "--json-input", "is_json", is_flag=True, help="JSON: objects of attributes, or what palio sub --json prints."
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
    help="The same KEY published again by the same --name counts once; several notifications get KEY/1, KEY/2, ...",
)
@click.option("--expires", type=TimeOrDuration(), help="When they are worth nothing any more; or in how long, as 10m.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="At most so many a second.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON how many were published, and in which mode.")
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
    passed over. Notifications whose keys were known already are reported as duplicates; they count as published before.
    """
    if key is not None and party.name is None:
        raise click.UsageError(
            "--key needs --name: a server knows keys by party, and without a name each command is another party"
        )
    if count > 1 and not notifications:
        raise click.UsageError("--count is for notifications that are arguments")
    lines = _arguments(notifications, count) if notifications else _lines()
    options = _options(trace, mode, expires)
    keys = _keys(key, is_alone=len(notifications) * count == 1)
    begin = time.monotonic()
    accepted: Counter[Acceptance] = Counter()
    try:
        with connected(party) as client:
            _publish(client, _paced(_read(lines, is_json), rate), options, keys, accepted)
    finally:  # also if something went wrong on the way: what was accepted is published
        _tell(accepted, time.monotonic() - begin, as_json=as_json)


def _tell(accepted: Counter[Acceptance], seconds: float, *, as_json: bool) -> None:
    duplicates = sum(count for each, count in accepted.items() if each.is_duplicate)
    if as_json:
        weakest = min((each.mode for each in accepted), key=lambda mode: mode.strength, default=None)
        told = {"published": accepted.total() - duplicates, "duplicates": duplicates, "mode": weakest}
        click.echo(json_text({**told, "seconds": round(seconds, 6)}))
    elif duplicates:
        is_one = duplicates == 1
        click.echo(f"{duplicates:,} duplicate{'' if is_one else 's'}: published before with the same key", err=True)


def _arguments(notifications: tuple[str, ...], count: int) -> Iterator[tuple[str, str]]:
    for _ in range(count):
        for number, text in enumerate(notifications, 1):
            place = f"notification {number}"
            if not text.strip():
                raise click.ClickException(f"{place} is empty; attributes are written name = value")
            yield place, text


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
    accepted: Counter[Acceptance],
) -> None:
    """Publish one after the other without waiting in between; count how many were accepted, and how.

    When one of them cannot be read or is refused, those that were sent are still waited for.
    """
    from msgspec.structs import replace

    under_way: deque[tuple[str, Future[Acceptance]]] = deque()
    try:
        for place, notification in notifications:
            under_way.append((place, client.send(notification, replace(options, key=next(keys)))))
            while under_way and under_way[0][1].done():
                accepted[_accepted(*under_way.popleft())] += 1
        while under_way:
            accepted[_accepted(*under_way.popleft())] += 1
    except click.ClickException as error:
        while under_way:
            with suppress(click.ClickException):
                accepted[_accepted(*under_way.popleft())] += 1
        if not accepted:
            raise
        raise click.ClickException(f"{error.message}; {accepted.total():,} published") from error.__cause__


def _accepted(place: str, future: Future[Acceptance]) -> Acceptance:
    from palio.client import ServiceError

    try:
        return future.result()
    except ServiceError as error:
        raise click.ClickException(f"{place}: {error}") from error
