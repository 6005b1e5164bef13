"""`tidings books`: received = told + merged + redundant + late + dead-lettered + forwarded + held."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.decisions import windows_table
from cli.options import grouped
from tidings.errors import KafkaUnreachable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from clients.connection import Connection
    from streaming.model.books import Books

_WATCH_S = 1.0
_MOST_TABLES = 3
_KIND_WORDS = {"handovers": "hand-overs"}
_MEANING = {
    "told": "brought news that left in a notification",
    "merged": "brought something that left with another",
    "redundant": "said nothing new",
    "late": "came after its event's window",
    "dead_lettered": "could not be read or taken",
    "forwarded": "passed on to other brokers",
    "held": "brought news that is not due yet",
}


@grouped
def books(
    watch: Annotated[bool, typer.Option("--watch", help="Show them anew every second, until Ctrl-C.")] = False,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Show what became of all messages, and whether the books balance: exit 1 if they do not.

    Example: tidings books --json
    """
    if watch:
        _watch(service.connect(), as_json)
        return
    current = _current(service)
    _print(current, as_json)
    if not all(each.balanced for each in current.values()):
        raise typer.Exit(1)


def _current(service: connecting.ServiceOptions) -> dict[str, Books]:
    """The books in Kafka; or, when the service has stopped and its Kafka with it, as it left them in its directory."""
    from clients.books import from_dict, read_books

    left = service.dir / "books.json"
    try:
        return read_books(service.connect())
    except KafkaUnreachable:
        if service.bootstrap_servers or not left.is_file():
            raise
    show.remark("the service has stopped; these are its books at that moment")
    return from_dict(json.loads(left.read_bytes()))


def _watch(connection: Connection, as_json: bool) -> None:
    from rich.live import Live

    from clients.books import read_books, to_dict

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
    from clients.books import to_dict

    if as_json:
        show.as_json(to_dict(current))
    else:
        show.console().print(render(current))


def render(current: Mapping[str, Books]) -> Group:
    """A table for each broker, or a row for each when there are many; a table of the links, and one of windows over them."""
    from rich.console import Group
    from rich.text import Text

    from clients.books import links
    from clients.decisions import crossed_by_books
    from streaming.model.books import total

    busy = {broker: each for broker, each in current.items() if each.received or each.notifications or each.heard}
    if not busy:
        return Group(Text("Nothing has been received yet."))
    tables = [_table(*each) for each in busy.items()] if len(busy) <= _MOST_TABLES else [_rows(busy)]
    if crossed := links(current):
        tables.append(_links(crossed))
    if windows := crossed_by_books(current):
        tables.append(windows_table(windows))
    items = total(current.values()).window_items
    return Group(*tables, *([_window_items(items)] if items else []))


def _window_items(counts: Mapping[tuple[str, str], int]) -> Text:
    """What windows asked for, and what became of it. What is on its way from one pipeline to the other is in no other count."""
    from rich.text import Text

    from streaming.model.books import WindowItem

    found = {str(item): sum(count for (_, word), count in counts.items() if word == item) for item in WindowItem}
    on_the_way = 2 * found["offered"] - sum(found.values())
    line = Text(f"for windows: {_listed({word.replace('-', ' '): count for word, count in found.items()})}")
    if on_the_way:
        return line.append(f"; {on_the_way:,} on the way", style="yellow")
    return line.append("; they add up", style="green")


def _table(broker: str, each: Books) -> Table:
    from rich.table import Table
    from rich.text import Text

    from clients.books import suppressed_share

    said = each.to_dict()
    table = Table(title=f"Broker {show.printable(broker)}", title_justify="left", title_style="bold", show_footer=True)
    table.add_column("messages", "received")
    table.add_column("", f"{each.received:,}", justify="right")
    table.add_column("share", "", justify="right")
    table.add_column("because", f"{suppressed_share(each):.1%} suppressed: merged or redundant")
    for outcome, meaning in _MEANING.items():
        reasons = _listed(said["reasons"].get(outcome, {}))
        share = f"{said[outcome] / each.received:.1%}" if each.received else ""
        table.add_row(
            outcome.replace("_", "-"), f"{said[outcome]:,}", share, Text(reasons or meaning, style="" if reasons else "dim")
        )
    table.caption = _caption(each, each.balanced)
    table.caption_justify = "left"
    return table


def _rows(busy: Mapping[str, Books]) -> Table:
    from rich.text import Text

    from clients.books import suppressed_share
    from streaming.model.books import total

    whole = total(busy.values())
    columns = ("received", "told", "forwarded", "merged", "redundant", "late", "dead_lettered", "held")
    table = show.slim_table(show.count(len(busy), "broker"), show_footer=True)
    table.add_column("broker", "all", overflow="fold")
    for column in columns:
        table.add_column(column.replace("_", "-"), f"{whole.to_dict()[column]:,}", justify="right", overflow="fold")
    table.add_column("suppressed", f"{suppressed_share(whole):.1%}", justify="right", overflow="fold")
    table.add_column("balanced", overflow="fold")
    for broker, each in busy.items():
        said = each.to_dict()
        balanced = Text("yes", style="green") if each.balanced else Text("NO", style="bold red")
        numbers = (f"{said[column]:,}" for column in columns)
        table.add_row(show.printable(broker), *numbers, f"{suppressed_share(each):.1%}", balanced)
    # One broker's surplus could make up for another's loss: the sum alone proves nothing.
    table.caption = _caption(whole, all(each.balanced for each in busy.values()))
    table.caption_justify = "left"
    return table


def _links(crossed: Sequence[Mapping[str, Any]]) -> Table:
    """What crossed each link, as its far end has it; what is still on its way, or lost, has a column only if there is any."""
    missing = any(link["sent"] != link["messages"] for link in crossed)
    table = show.slim_table("Links")
    for column in ("from", "to", "messages", "bytes", "of which", "spared", "because", *["in flight or lost"] * missing):
        text = column in ("from", "to", "of which", "because")
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    for link in crossed:
        ends = (show.printable(link["from"]), show.printable(link["to"]))
        kinds = {_KIND_WORDS.get(kind, kind): number for kind, number in link["kinds"].items() if number}
        counts = (f"{link['messages']:,}", f"{link['bytes']:,}", _listed(kinds), f"{link['unsent']:,}", _listed(link["reasons"]))
        gap = link["sent"] - link["messages"]
        table.add_row(*ends, *counts, *[f"{gap:,}" if gap else ""] * missing)
    return table


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in counts.items())


def _caption(each: Books, balanced: bool) -> Text:
    from rich.text import Text

    line = Text(show.count(sum(each.notifications.values()), "notification"))
    if reasons := each.to_dict()["notification_reasons"]:
        line.append(f" ({_listed(reasons)})")
    if each.conflicts:
        line.append(f"; {show.count(each.conflicts, 'conflict')}")
    if cancelled := sum(each.cancelled.values()):
        line.append(f"; {cancelled:,} cancelled while waiting ({_listed(each.to_dict()['cancelled'])})")
    if each.waited:
        line.append(f"; events waited in vain for what may have entered at {_listed(each.waited)}", style="yellow")
    if each.evicted:
        line.append(f"; {show.count(each.evicted, 'event')} closed early to make room", style="yellow")
    line.append("; the books balance" if balanced else "; THE BOOKS DO NOT BALANCE", style="green" if balanced else "bold red")
    return line
