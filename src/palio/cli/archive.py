"""``palio archive``: publications as Parquet files."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from palio.cli.figures import amount, size
from palio.cli.output import echo, json_text
from palio.errors import PalioError, printable

if TYPE_CHECKING:  # the help must not wait for pyarrow
    from palio.archive.process import Happening
    from palio.archive.show import Summary

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_FOLDER = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
_GRACE = click.option(
    "--grace-seconds",
    type=click.FloatRange(0),
    default=3_600.0,
    show_default=True,
    help="How long replaced files stay, for readers that have listed them.",
)


class _UnusableError(click.ClickException):
    """What was given cannot be used."""

    exit_code = 2


@contextmanager
def _errors_in_a_line() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        advice = "install them with: pip install 'palio[archive]'"
        raise _UnusableError(f"palio archive needs more libraries; {advice} ({error})") from error
    except PalioError as error:
        raise _UnusableError(str(error).partition("\n")[0]) from error
    except OSError as error:
        raise _UnusableError(printable(str(error))) from error


@click.group()
def archive() -> None:
    """Keep all publications of a server as Parquet files, for palio match and others."""


# -- run ---------------------------------------------------------------------------------------------------------------


@archive.command(epilog="Example:  palio archive run --store milan.db --to archive/")
@click.option(
    "--store",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The store of the server, which may be running.",
)
@click.option("--to", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="The archive.")
@click.option("--rows", type=int, help="Write files after so many notifications.  [default: 1,000,000]")
@click.option("--bytes", type=int, help="The same by memory.  [default: 64 MiB]")
@click.option("--seconds", type=float, help="The same by time.  [default: 60]")
@click.option("--keep-seconds", type=float, help="Remove files with nothing younger.")
@click.option("--keep-bytes", type=int, help="Remove the oldest files beyond so many bytes.")
@click.option("--keep-rows", type=int, help="Remove the oldest files beyond so many notifications.")
@click.option("--once", is_flag=True, help="Archive what is there now, and end.")
@_JSON
def run(*, store: Path, folder: Path, once: bool, as_json: bool, **options: float | None) -> None:
    """Archive what a server takes, until stopped.

    A server with [archive] in its configuration does this by itself. The archive may be stopped, or killed, at any
    time: it goes on where it was, and holds everything once.
    """
    with _errors_in_a_line():
        from palio.archive.process import Follower
        from palio.archive.settings import ArchiveSettings

        settings = ArchiveSettings(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
        follower = Follower(store, folder, settings, _tell_json if as_json else _tell)
        if once:
            follower.once()
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        follower.follow(stop)


def _tell_json(happening: Happening) -> None:
    click.echo(json_text(happening))


def _tell(happening: Happening) -> None:
    progress, removed = happening.progress, happening.removed
    if progress is not None:
        begin = "goes on" if happening.kind == "began" else "archived"
        click.echo(f"{begin} at position {progress.next:,}: {amount(progress.figures.rows)} notifications so far")
    elif removed is not None:
        click.echo(f"removed {removed.rows:,} old notifications ({size(removed.bytes)})")
    else:
        echo(happening.problem or happening.kind, err=bool(happening.problem))


# -- compact, show -----------------------------------------------------------------------------------------------------


@archive.command(epilog="Example:  palio archive compact archive/")
@_FOLDER
@_GRACE
@_JSON
def compact(*, folder: Path, grace_seconds: float, as_json: bool) -> None:
    """Make large files of small ones, day by day; also while the archive is written and read."""
    with _errors_in_a_line():
        from palio.archive.compaction import compact as compact_folder
        from palio.archive.disk import Disk
        from palio.archive.settings import ArchiveSettings

        done = compact_folder(Disk(folder), ArchiveSettings(grace_seconds=grace_seconds))
    if as_json:
        click.echo(json_text(done))
        return
    click.echo(f"{done.files_before:,} files have become {done.files_after:,}")
    if done.swept:
        click.echo(f"{done.swept:,} files that were replaced before are gone")


@archive.command(epilog="Example:  palio archive show archive/")
@_FOLDER
@click.option("--files", "with_files", is_flag=True, help="Only the files that count now, a path each.")
@_JSON
def show(*, folder: Path, with_files: bool, as_json: bool) -> None:
    """Show what an archive holds, how far it is, and what is missing from it.

    Ends with 1 if something is missing or damaged.
    """
    with _errors_in_a_line():
        if with_files:
            from palio.archive.reading import files

            found = [str(path) for path in files(folder)]
            click.echo(json.dumps(found) if as_json else "\n".join(found))
            return
        from palio.archive.show import summary

        told = summary(folder)
    if as_json:
        click.echo(json_text(told))
    else:
        _print_summary(told)
    if not told.is_whole:
        raise SystemExit(1)


def _print_summary(told: Summary) -> None:
    echo(f"archive of {told.server}, up to position {told.next:,} of incarnation {told.incarnation}")
    click.echo(f"{amount(told.rows)} notifications in {told.files:,} files ({size(told.bytes)})")
    for day in told.days:
        click.echo(f"  {day.day}  {amount(day.rows):>8} notifications  {day.files:>6,} files  {size(day.bytes):>8}")
    for problem in told.problems:
        echo(problem, err=True)
