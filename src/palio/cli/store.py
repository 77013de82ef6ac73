"""``palio store``: look at a server's store, check it, copy it, put a copy in its place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from palio.cli.figures import size
from palio.cli.output import echo
from palio.cli.serve import importing_server
from palio.errors import PalioError, printable

if TYPE_CHECKING:  # the help must not wait for SQLite
    from palio.store.damage import Damage
    from palio.store.state import State

_JSON = click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
_PATH = click.Path(path_type=Path)


@click.group()
def store() -> None:
    """Look at the store of a server, which may be running, check it, copy it."""


@contextmanager
def _telling_errors() -> Iterator[None]:
    try:
        with importing_server("palio store"):
            yield
    except PalioError as error:
        raise click.ClickException(printable(str(error))) from error


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=max(of, 1))


@store.command(epilog="Example:  palio store show rome.db")
@click.argument("path", type=_PATH)
@_JSON
def show(*, path: Path, as_json: bool) -> None:
    """Say whose store it is, what it holds, and what damage it has survived."""
    with _telling_errors():
        from palio.store.about import about

        found = about(path)
    if as_json:
        click.echo(json.dumps(found))
        return
    first, behind = found["first"], found["next"]
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(found["incarnation"] / 1e6))
    click.echo(
        f"store of          {printable(found['name'])}{', a backup' if found['is_copy'] else ''}\n"
        f"version           {found['version']}\n"
        f"incarnation       {found['incarnation']}, since {began} UTC\n"
        f"opened            {found['openings']:,} times; {found['commits']:,} commits\n"
        f"state records     {found['records']:,}\n"
        f"entries           {behind - first:,}, from position {first:,} to before {behind:,}\n"
        f"size              {size(found['bytes'])}, of which {size(found['free_bytes'])} are free to be used again"
    )
    for each in found["damage"]:
        echo(f"lost before       {each['text']} (incarnation {each['incarnation']})")


@store.command(epilog="Example:  palio store check rome.db")
@click.argument("path", type=_PATH)
@_JSON
def check(*, path: Path, as_json: bool) -> None:
    """Read all of a store and tell what is not as it was written, or does not fit; ends with 1 if anything is so.

    Records are loaded as a server would load them: those that it would put aside, and doubles, are named. Nothing is
    changed. A server that opens a damaged store keeps its files aside and saves what can be saved.
    """
    with _telling_errors():
        from palio.store.check import check as check_store
        from palio.store.state import State, check_state

        with _progress("Reading the store") as progress:
            found = check_store(path, progress)
        is_readable = found.meta is not None and not found.damage
        state = check_state(path, found.meta) if is_readable and found.meta else State([], [], 0)
    is_sound = not found.damage and state.is_sound
    if as_json:
        shown: dict[str, Any] = {"is_sound": is_sound, "entries": found.entries, "bytes": found.bytes}
        shown |= {"damage": [_plain(each) for each in found.damage]}
        misfits = [{"key": each.key, "reason": each.reason} for each in state.misfits]
        shown |= {"misfits": misfits, "doubles": state.doubles}
        click.echo(json.dumps({**shown, "quarantined": state.put_aside}))
    else:
        for each in found.damage:
            echo(f"damaged: {each}")
        _show_state(state)
        records = f"{found.meta.records:,} state records, " if found.meta else ""
        what = "as they were written" if not found.damage else "were read"
        click.echo(f"{records}{found.entries:,} entries, {size(found.bytes)}: {what}")
    if not is_sound:
        raise SystemExit(1)


def _show_state(state: State) -> None:
    for misfit in state.misfits:
        echo(f"does not fit: {misfit.key}: {misfit.reason}")
    for double in state.doubles:
        echo(f"double: {double}")
    if state.put_aside:
        click.echo(f"{state.put_aside:,} records are in quarantine; `palio store quarantine` lists them")


def _plain(damage: Damage) -> dict[str, Any]:
    key = damage.key.hex() if damage.key is not None else None
    return {"kind": damage.kind.value, "text": damage.text, "key": key, "first": damage.first, "end": damage.end}


@store.command(epilog="Example:  palio store quarantine rome.db;  palio store quarantine rome.db --drop 3 --drop 4")
@click.argument("path", type=_PATH)
@click.option("--drop", "numbers", multiple=True, type=click.IntRange(0), metavar="NUMBER", help="Delete this record.")
@click.option("--drop-all", is_flag=True, help="Delete all of them.")
@_JSON
def quarantine(*, path: Path, numbers: tuple[int, ...], drop_all: bool, as_json: bool) -> None:
    """List the records that a server has put aside because they did not fit, or delete them.

    To delete records the server of the store must not be running.
    """
    if numbers and drop_all:
        raise click.UsageError("name records with --drop, or take --drop-all of them")
    with _telling_errors():
        from palio.store import quarantine as quarantined

        if numbers or drop_all:
            dropped = quarantined.drop(path, None if drop_all else numbers)
            text = ", ".join(map(str, dropped)) or "none"
            click.echo(json.dumps({"dropped": dropped}) if as_json else f"dropped: {text}", err=not as_json)
            return
        found = quarantined.listed(path)
        shown = [quarantined.shown(each) for each in found.records]
    if as_json:
        click.echo(json.dumps({"records": shown, "dropped": found.dropped}))
        return
    for each in shown:
        click.echo(f"{each['number']}  {each['key']}  {each['reason']}  {size(each['bytes'])}")
    if found.dropped:
        click.echo(f"and {found.dropped:,} more, for which there was no room", err=True)


@store.command(epilog="Example:  palio store backup rome.db rome-backup.db")
@click.argument("path", type=_PATH)
@click.argument("to", type=_PATH)
@_JSON
def backup(*, path: Path, to: Path, as_json: bool) -> None:
    """Copy the store PATH, whose server may be running, to the file TO, and check the copy."""
    with _telling_errors():
        from palio.store.backup import backup as backup_store

        with _progress("Copying the store") as progress:
            made = backup_store(path, to, progress)
    assert made.meta is not None
    shown = {"backup": str(to), "bytes": to.stat().st_size, "records": made.meta.records}
    shown |= {"first": made.meta.first, "next": made.meta.next}
    if as_json:
        click.echo(json.dumps(shown))
    else:
        what = f"{made.meta.records:,} state records, {made.entries:,} entries"
        click.echo(f"{to}: {what}, {size(to.stat().st_size)}, checked")


@store.command(epilog="Example:  palio store restore rome-backup.db rome.db")
@click.argument("copy", metavar="BACKUP", type=_PATH)
@click.argument("path", type=_PATH)
@_JSON
def restore(*, copy: Path, path: Path, as_json: bool) -> None:
    """Put the copy BACKUP in place of the store PATH; its server must not be running.

    The old store is kept beside it. The server comes back as a new incarnation: what it agreed with its neighbours
    after the backup was made is not known any more.
    """
    with _telling_errors():
        from palio.store.backup import restore as restore_store

        with _progress("Copying the backup") as progress:
            aside = restore_store(copy, path, progress)
    if as_json:
        click.echo(json.dumps({"store": str(path), "kept": str(aside) if aside else None}))
    else:
        click.echo(f"{path} is what {copy} was" + (f"; the old one is kept as {aside.name}" if aside else ""))
