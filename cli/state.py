"""`tidings state`: what a service that is stopped remembers, made fit for other settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import connecting

if TYPE_CHECKING:
    from service.directory.migration import Migration

app = typer.Typer(
    help="Change what is fixed for a directory. Example: tidings state migrate --dir .tidings --buckets 32", no_args_is_help=True
)


@app.callback()
def _state() -> None:
    """A group, though it has one command."""


@app.command("migrate")
def migrate(
    dir: Annotated[
        Path, typer.Option("--dir", help="The directory of `tidings up`, which must be stopped.", envvar="TIDINGS_SERVICE_DIR")
    ] = connecting.DEFAULT_DIRECTORY,
    buckets: Annotated[
        int | None, typer.Option(min=1, max=4096, help="How many buckets it is to have.", show_default="as many as now")
    ] = None,
    shuffle_partitions: Annotated[
        int | None, typer.Option(min=1, max=4096, help="How many shuffle partitions.", show_default="as many as now")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, change nothing.")] = False,
    as_json: connecting.AsJson = False,
) -> None:
    """Move the state of a stopped service to another number of buckets or shuffle partitions.

    Nothing is forgotten or told twice. One that was interrupted is finished by running it again.

    Example: tidings state migrate --dir /var/lib/tidings --buckets 32 --shuffle-partitions 8
    """
    from rich.console import Console

    from service.directory import migration
    from service.directory.directory import ServiceDirectory
    from service.kafka.java import find_java
    from tidings.errors import CannotRun

    if not (dir / migration.MADE_WITH).exists():
        raise CannotRun(f"there is nothing to migrate in {dir}: no service has run there")
    console = Console(stderr=True, highlight=False)
    os.environ["JAVA_HOME"] = str(find_java().path.resolve().parent.parent)
    with ServiceDirectory.open(dir) as directory:
        # What a killed service left running would still write to the state.
        directory.end_orphans(lambda line: console.print(f"[dim]{line}[/dim]"))
        done = migration.migrate(directory, buckets, shuffle_partitions, dry_run=dry_run)
    if as_json:
        print(json.dumps({**done.to_dict(), "dry_run": dry_run}))
    else:
        print(_told(done, dry_run))


def _told(done: Migration, dry_run: bool) -> str:
    moved = f"{done.events} open events: {done.buckets_before} buckets -> {done.buckets}"
    partitions = f"{done.partitions_before} shuffle partitions -> {done.partitions}"
    if dry_run:
        return f"would move {moved}, {partitions}"
    settings = f"spark.buckets = {done.buckets}, spark.shuffle_partitions = {done.partitions}"
    return f"moved {moved}, {partitions}; {done.bytes} bytes\nstart the service with {settings}"
