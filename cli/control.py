"""`tidings control`: topics, subscriptions, brokers and links, changed while the service runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.options import grouped
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from clients.connection import Connection
    from tidings.control import Record
    from tidings.control.files import ControlRecord

app = typer.Typer(
    help="Declare topics, subscriptions, brokers and links. Example: tidings control apply topics.jsonl", no_args_is_help=True
)

_ADOPT_S = 30.0
_FATE = {
    True: ", and adopted by the service",
    False: "; no service is running, it takes effect when one starts",
    None: "",
}

NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until the service has adopted the change.")]


@app.command("apply")
@grouped
def apply_file(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Control records: JSON lines, an array or one object.")],
    no_wait: NoWait = False,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Apply the control records of a file: all of them, or none if one is wrong.

    A record with "delete": true beside its kind and name deletes.

    Example: tidings control apply topics.jsonl

    Example: echo '{"kind": "topic", "name": "incident", "hold_ms": 4000}' | tidings control apply -
    """
    records = _read(file)
    connection = service.connect()
    write(connection, records, wait=not no_wait, as_json=as_json)


@app.command("list")
@grouped
def list_records(
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Show the control data as it is now.

    Example: tidings control list --json
    """
    from clients.control import read_control

    snapshot = read_control(service.connect())
    if as_json:
        show.as_json({"version": snapshot.version, "records": snapshot.records})
    else:
        _print_table(snapshot.version, snapshot.records)


@app.command("delete")
@grouped
def delete(
    key: Annotated[str, typer.Argument(metavar="KIND/NAME", help="What to delete, as `control list` names it.")],
    no_wait: NoWait = False,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Delete a record.

    Example: tidings control delete subscription/ops
    """
    from clients.control import read_control
    from tidings.control.files import check

    check(key, None)
    connection = service.connect()
    if key not in read_control(connection).records:
        raise TidingsError(f"there is no {key}; `tidings control list` shows what there is")
    write(connection, [(key, None)], wait=not no_wait, as_json=as_json)


def write(
    connection: Connection, records: list[ControlRecord], *, wait: bool, as_json: bool = False, quiet: bool = False
) -> None:
    """Write records, wait until a running service has adopted them, and say what came of it."""
    from clients.control import apply, service_is_alive, wait_adopted

    if not records:
        raise TidingsError("there are no control records in it")
    version = apply(connection, records)
    # With nobody there to adopt it, waiting would only end in a complaint.
    alive = wait and service_is_alive(connection)
    if alive and not wait_adopted(connection, version, _ADOPT_S):
        raise TidingsError(
            f"written as version {version}, but the service has not adopted it within {_ADOPT_S:.0f} s; see its log"
        )
    _say_applied(version, len(records), alive if wait else None, as_json=as_json, quiet=quiet)


def _say_applied(version: int, count: int, adopted: bool | None, *, as_json: bool, quiet: bool) -> None:
    """``adopted`` is None if nobody waited for that."""
    if as_json:
        show.as_json({"version": version, "records": count, "adopted": adopted})
    elif not quiet:
        print(f"{show.count(count, 'record')} applied as version {version}{_FATE[adopted]}")
    elif not adopted:
        show.remark("no service is running; it takes effect when one starts")


def _read(file: Path) -> list[ControlRecord]:
    """The records of a file, or of what is typed, all of them checked as the service would."""
    from streaming.broker.settings import timing_of
    from tidings.config import load
    from tidings.control import files

    timing = timing_of(load(None, os.environ))
    if str(file) != "-":
        return files.read_file(file, timing)
    show.from_keyboard("control records")
    return files.read_text(sys.stdin.read(), "stdin", timing)


def _print_table(version: int, records: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    if not records:
        print("There is no control data: one broker, b1, and nobody subscribes. `tidings control apply FILE` changes that.")
        return
    table = Table(title=f"Control data, version {version}", title_justify="left", title_style="bold")
    for column in ("kind", "name", "says"):
        table.add_column(column, overflow="fold")
    for _, record in sorted(records.items()):
        table.add_row(record["kind"], Text(show.printable(record["name"]), style="bold"), Text(_says(record)))
    show.console().print(table)


def _says(record: Record) -> str:
    import json

    rest = {name: value for name, value in record.items() if name not in ("kind", "name")}
    return show.printable(", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in rest.items()))
