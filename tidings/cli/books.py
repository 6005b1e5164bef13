"""`tidings books`: received = told + merged + redundant + late + dead-lettered + held."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli import reach, show
from tidings.errors import KafkaUnreachable

if TYPE_CHECKING:
    from rich.console import Group

    from streaming.broker.books import Books

_WATCH_S = 1.0
_MEANING = {
    "told": "brought news that left in a notification",
    "merged": "brought something that left with another",
    "redundant": "said nothing new",
    "late": "came after its event's window",
    "dead_lettered": "could not be read or taken",
    "held": "brought news that is not due yet",
}


def books(
    watch: Annotated[bool, typer.Option("--watch", help="Show them anew every second, until Ctrl-C.")] = False,
    as_json: reach.AsJson = False,
    bootstrap_servers: reach.Servers = None,
    dir: reach.Directory = reach.DEFAULT_DIRECTORY,
    properties: reach.Properties = None,
) -> None:
    """Show what became of all messages, and whether the books balance: exit 1 if they do not.

    Example: tidings books --json
    """
    if watch:
        _watch(bootstrap_servers, dir, properties, as_json)
        return
    current = _current(bootstrap_servers, dir, properties)
    _print(current, as_json)
    if not all(each.balanced for each in current.values()):
        raise typer.Exit(1)


def _current(servers: str | None, directory: Path, properties: Path | None) -> dict[str, Books]:
    """The books in Kafka; or, when the service has stopped and its Kafka with it, as it left them in its directory."""
    from producers.books import from_dict, read_books

    left = directory / "books.json"
    try:
        return read_books(reach.connect(servers, directory, properties))
    except KafkaUnreachable:
        if servers or not left.is_file():
            raise
    show.remark("the service has stopped; these are its books at that moment")
    return from_dict(json.loads(left.read_bytes()))


def _watch(servers: str | None, directory: Path, properties: Path | None, as_json: bool) -> None:
    from rich.live import Live

    from producers.books import read_books, to_dict

    connection = reach.connect(servers, directory, properties)
    if as_json:
        last: Mapping[str, Any] = {}
        while True:
            if (now := to_dict(read_books(connection))) != last:
                show.as_json(now)
                last = now
            time.sleep(_WATCH_S)
    with Live(render(read_books(connection)), console=show.console(), auto_refresh=False) as live:
        while True:
            time.sleep(_WATCH_S)
            live.update(render(read_books(connection)), refresh=True)


def _print(current: Mapping[str, Books], as_json: bool) -> None:
    from producers.books import to_dict

    if as_json:
        show.as_json(to_dict(current))
    else:
        show.console().print(render(current))


def render(current: Mapping[str, Books]) -> Group:
    """A table for each broker."""
    from rich.console import Group
    from rich.text import Text

    if not any(each.received for each in current.values()):
        return Group(Text("Nothing has been received yet."))
    return Group(*(_table(broker, each) for broker, each in current.items() if each.received))


def _table(broker: str, each: Books) -> Any:
    from rich.table import Table
    from rich.text import Text

    from producers.books import suppressed_share

    said = each.to_dict()
    table = Table(title=f"Broker {show.printable(broker)}", title_justify="left", title_style="bold", show_footer=True)
    table.add_column("messages", "received")
    table.add_column("", f"{each.received:,}", justify="right")
    table.add_column("share", "", justify="right")
    table.add_column("because", f"{suppressed_share(each):.1%} suppressed: merged or redundant")
    for outcome, meaning in _MEANING.items():
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in said["reasons"].get(outcome, {}).items())
        share = f"{said[outcome] / each.received:.1%}" if each.received else ""
        table.add_row(
            outcome.replace("_", "-"), f"{said[outcome]:,}", share, Text(reasons or meaning, style="" if reasons else "dim")
        )
    table.caption = _caption(each, said)
    table.caption_justify = "left"
    return table


def _caption(each: Books, said: Mapping[str, Any]) -> Any:
    from rich.text import Text

    line = Text(show.count(said["notifications"], "notification"))
    if said["notification_reasons"]:
        line.append(f" ({', '.join(f'{reason} {number:,}' for reason, number in said['notification_reasons'].items())})")
    if each.conflicts:
        line.append(f"; {show.count(each.conflicts, 'conflict')}")
    if each.evicted:
        line.append(f"; {show.count(each.evicted, 'event')} closed early to make room", style="yellow")
    line.append(
        "; the books balance" if each.balanced else "; THE BOOKS DO NOT BALANCE", style="green" if each.balanced else "bold red"
    )
    return line
