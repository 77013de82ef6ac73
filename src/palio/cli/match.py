"""``palio match``: a table of events against a file of filters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from palio.cli.spark_session import check_master, errors_in_a_line, running
from palio.errors import CallerError

if TYPE_CHECKING:  # the help must not wait for Spark
    from palio.cli.match_report import StreamSummary, Summary

_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}

_EPILOG = """\b
Example:  palio match --events examples/data/events.parquet \\
              --filters examples/data/filters.txt --out build/deliveries
          palio match --stream --every "10 seconds" --events incoming/ \\
              --format json --filters filters.txt --out deliveries --checkpoint state
"""


@click.command(epilog=_EPILOG)
@click.option("--events", required=True, metavar="PATH", help="The events: Parquet, JSON (one a line) or CSV.")
@click.option("--format", "given_format", type=click.Choice(["parquet", "json", "csv"]), help="Default: by the ending.")
@click.option(
    "--filters",
    required=True,
    metavar="PATH",
    help="The filters: text, one a line; or Parquet, JSON or CSV with the columns id and text.",
)
@click.option("--out", required=True, metavar="DIR", help="Where the results go, as Parquet.")
@click.option("--overwrite", is_flag=True, help="Replace results that are there already.")
@click.option(
    "--result",
    type=click.Choice(["narrow", "wide", "counts"]),
    default="narrow",
    show_default=True,
    help="A row for each event and filter; events with lists of filters; or how many events each filter matches.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="NAME",
    help="Column by which narrow results name an event; may be repeated. Default: id, event_id or key.",
)
@click.option("--bodies", metavar="COLUMN", help="Events are encoded bodies, in this column.")
@click.option(
    "--round-decimals",
    is_flag=True,
    help="Take decimals of more than 15 digits for the nearest float, instead of values that cannot be read.",
)
@click.option("--stream", is_flag=True, help="Events are a folder to which files are added; match them as they come.")
@click.option("--checkpoint", metavar="DIR", help="Where a stream keeps how far it is; needed with --stream.")
@click.option("--every", metavar="TIME", help="Go on until stopped, and look for new files so often: '10 seconds'.")
@click.option("--adopt", is_flag=True, help="Take over --out from another checkpoint, whose stream ends.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--fail-fast", is_flag=True, help="Stop if a filter cannot be read, instead of leaving it out.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def match(  # noqa: PLR0913 (one for each option)
    *,
    events: str,
    given_format: str | None,
    filters: str,
    out: str,
    overwrite: bool,
    result: str,
    keys: tuple[str, ...],
    bodies: str | None,
    round_decimals: bool,
    stream: bool,
    checkpoint: str | None,
    every: str | None,
    adopt: bool,
    master: str,
    fail_fast: bool,
    as_json: bool,
) -> None:
    """Find which filters match which events, with Spark.

    Each column of the events is an attribute, and null means that an event does not have it. In JSON and CSV, what is
    written as filters write times is a time.

    Results go to DIR. If filters are rejected, DIR.rejects/filters has them with the reasons, and all others are
    matched. If an event has values that cannot be read (NaN, say), filters that mention these columns do not match it;
    DIR.rejects/events has it with the reasons. Damaged files of a folder, and broken lines of JSON or CSV, are skipped;
    DIR.rejects/skipped names them.

    With --stream, DIR has the folders deliveries, unreadable and rejects, and the filters may be replaced meanwhile:
    the file itself, or by a newer one in a folder of versions. What was delivered is not delivered again, also if the
    command is killed and started anew with the same checkpoint. DIR belongs to this checkpoint; another one is refused,
    unless it is to --adopt DIR: then what was delivered stays, and new batches get greater numbers.
    """
    with errors_in_a_line():
        check_master(master)
        if keys and result != "narrow":
            raise CallerError(f"--key: {result} results need none; leave it out")
        _check_there(events, "--events")
        _check_there(filters, "--filters")
        _check_stream(stream, checkpoint, every, adopt)
        if not stream:
            _check_out(out, overwrite, [events, filters])
        from palio.cli.match_job import Job, run
        from palio.cli.match_stream import run_stream
        from palio.cli.progress import JobProgress

        job = Job(
            events=_absolute(events),
            format=given_format or _format_of(events),
            filters=_absolute(filters),
            out=_absolute(out),
            may_replace=overwrite or not _is_remote(out),
            result=result,
            keys=keys,
            bodies=bodies,
            round_decimals=round_decimals,
            fail_fast=fail_fast,
            adopt=adopt,
        )
        with JobProgress("Starting Spark") as progress, running(master) as session:
            progress.watch(session.sparkContext)
            if checkpoint is None:
                summary: Summary | StreamSummary = run(session, job, progress.step)
            else:
                summary = run_stream(session, job, _absolute(checkpoint), every, progress.step)
    if as_json:
        click.echo(summary.to_json())
        return
    from palio.cli.match_report import show

    show(summary)


def _check_stream(is_stream: bool, checkpoint: str | None, every: str | None, adopt: bool) -> None:
    if is_stream and checkpoint is None:
        raise CallerError("--checkpoint: a stream needs a folder where it keeps how far it is")
    if not is_stream and (checkpoint or every or adopt):
        raise CallerError("--checkpoint, --every and --adopt are for streams; say --stream, or leave them out")


def _is_remote(path: str) -> bool:
    return "://" in path


def _absolute(path: str) -> str:
    """What Spark's processes understand too, which may have another working folder."""
    return path if _is_remote(path) else str(Path(path).absolute())


def _check_there(path: str, option: str) -> None:
    """Refuse a missing file before Spark is started, where one can tell."""
    is_pattern = any(character in path for character in "*?[{")
    if not _is_remote(path) and not is_pattern and not Path(path).exists():
        raise CallerError(f"{option}: there is no file or folder {path!r}")


def _format_of(path: str) -> str:
    ending = Path(path.rstrip("/")).suffix.lower()
    if ending in _FORMATS:
        return _FORMATS[ending]
    if Path(path).is_dir():
        return "parquet"  # as Spark writes it
    raise CallerError(f"--events: {path!r} ends with none of {', '.join(_FORMATS)}; say with --format what it is")


def _check_out(out: str, overwrite: bool, inputs: list[str]) -> None:
    """Refuse to write over anything but results, and over those unless told to; Spark itself checks remote places."""
    if _is_remote(out):
        return
    for folder in (Path(out), Path(f"{out.rstrip('/')}.rejects")):
        if not folder.exists():
            continue
        if not folder.is_dir():
            raise CallerError(f"--out: {str(folder)!r} is a file; name a folder")
        if any(folder.resolve() in [place.resolve(), *place.resolve().parents] for place in map(Path, inputs)):
            raise CallerError(f"--out: {str(folder)!r} holds what is to be read; name another folder")
        names = [entry.name for entry in folder.iterdir()]
        if names and not overwrite:
            raise CallerError(f"--out: {str(folder)!r} is not empty; name another folder, or say --overwrite")
        if not all(name.startswith(("part-", "_", ".")) or name in {"filters", "events", "skipped"} for name in names):
            raise CallerError(f"--out: {str(folder)!r} holds other things than results; name another folder")
