"""`tidings demo`: a busy morning in a city, told by many witnesses, and what its subscribers hear of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import show
from cli.decisions import arrow, windows_table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from demo.run import Demo, Show
    from demo.verdict import DemoVerdict
    from service.up import StartedService

_NOTICE_S = 2.0
_SHOWN = 8


def demo(
    events: Annotated[int, typer.Option(min=1, max=1000, help="How many incidents happen.")] = 40,
    witnesses: Annotated[int, typer.Option(min=1, max=300, help="How many report each of them.")] = 25,
    seed: Annotated[int, typer.Option(help="Another seed is another morning.")] = 7,
    dir: Annotated[
        Path | None, typer.Option(help="Keep everything here; without it, nothing is kept.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show what Tidings does: start it, publish a realistic workload, and show what came in and what was told.

    Exits 0 only if the books balance and the notifications equal those of the plain reference over the same input.

    Example: tidings demo --events 20
    """
    with tempfile.TemporaryDirectory(prefix="tidings-demo-", ignore_cleanup_errors=True) as temporary:
        verdict = _run(dir or Path(temporary), events, witnesses, seed)
        if json:
            show.as_json(_as_dict(verdict))
        else:
            _print_verdict(verdict)
    if not verdict.holds:
        raise typer.Exit(1)


def _run(directory: Path, events: int, witnesses: int, seed: int) -> DemoVerdict:
    import signal

    from clients.connection import Connection
    from demo.run import Demo
    from service.up import Service
    from tidings.config import load

    # Stopped by `kill`, the demo cleans up as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # One partition each: seven brokers and their links have many, and here they carry little.
    overrides: dict[str, object] = {"service.dir": str(directory), "service.metrics_port": 0, "kafka.partitions": 1}
    settings = load(None, os.environ, overrides)
    service = Service(settings, show.remark)
    try:
        started = service.start()
        connection = Connection(started.bootstrap)
        run = Demo(connection, settings, events=events, witnesses=witnesses, seed=seed)
        reports = run.messages - run.readings
        show.remark(f"{reports:,} reports about {events:,} incidents and {run.readings:,} speeds of cars are on their way")
        _watch(run, started)
        show.remark("comparing with the plain reference over the same input")
        return run.verdict()
    finally:
        show.remark("stopping")
        service.stop()


# ---- while it runs ----------------------------------------------------------------------------------------------------


def _watch(run: Demo, service: StartedService) -> None:
    console = show.console(stderr=True)
    if console.is_terminal:
        _watch_live(run, service, console)
    else:
        for _ in _every(_NOTICE_S, _watched(run, service)):
            show.remark(_line(run.show, run.messages))
        show.remark(_line(run.show, run.messages))


def _watch_live(run: Demo, service: StartedService, console: Console) -> None:
    from rich.live import Live

    with Live(_picture(run.show, run.messages), console=console, refresh_per_second=8) as live:
        for state in _watched(run, service):
            live.update(_picture(state, run.messages))


def _watched(run: Demo, service: StartedService) -> Iterator[Show]:
    """The service is looked after meanwhile: it starts what new control data asks for, and says so if it stopped."""
    for state in run.play():
        service.check()
        yield state


def _picture(state: Show, messages: int) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    told = sum(state.told.values())
    heads = Text.assemble(
        ("came in ", "dim"), (f"{state.published:>6,}", "bold"), ("   told ", "dim"), (f"{told:>5,}", "bold green")
    )
    lines = [show.notification_line(n, n.last_ms) for n in state.latest]
    for line in lines:
        line.no_wrap = True
        line.overflow = "ellipsis"
    bar = Table.grid()
    bar.add_row(ProgressBar(total=messages, completed=state.published, width=60))
    return Group(heads, bar, *lines)


def _line(state: Show, messages: int) -> str:
    told = ", ".join(f"{name} {count:,}" for name, count in sorted(state.told.items())) or "nobody yet"
    return f"came in {state.published:,} of {messages:,}; told: {told}"


def _every(seconds: float, states: Iterator[Any]) -> Iterator[Any]:
    import time

    shown = time.monotonic()
    for state in states:
        if time.monotonic() - shown >= seconds:
            shown = time.monotonic()
            yield state


# ---- at the end -------------------------------------------------------------------------------------------------------


def _as_dict(verdict: DemoVerdict) -> dict[str, Any]:
    from clients.books import to_dict
    from streaming.wire.notification import notification_dict

    ours, alone = _link_totals(verdict)
    return {
        "published": verdict.published,
        "events": verdict.events,
        "gatherer": verdict.gatherer,
        "suppressed_share": _suppressed(verdict),
        "notifications": verdict.notifications,
        "delay_s": round(verdict.delay_s, 3),
        "link_messages": ours,
        "baseline_link_messages": alone,
        "links": [asdict(link) for link in verdict.links],
        "readings": verdict.readings,
        "windows": [notification_dict(each) for each in verdict.windows],
        "windows_delay_s": round(verdict.windows_delay_s, 3),
        "windows_by_link": {arrow(*way): crossed.to_dict() for way, crossed in sorted(verdict.windows_by_link.items())},
        "books": to_dict(verdict.by_broker),
        "differences": verdict.differences,
        "holds": verdict.holds,
    }


def _suppressed(verdict: DemoVerdict) -> float:
    """The share of published messages that did not leave the gatherer, or did not even get there."""
    return round(1 - _carried_on(verdict) / verdict.published, 4)


def _carried_on(verdict: DemoVerdict) -> int:
    books = verdict.gathered.to_dict()
    return int(books["told"] + books["forwarded"])


def _link_totals(verdict: DemoVerdict) -> tuple[int, int]:
    return sum(link.messages for link in verdict.links), sum(link.baseline_messages for link in verdict.links)


def _print_verdict(verdict: DemoVerdict) -> None:
    console = show.console()
    console.print()
    for line in _story(verdict):
        console.print(line, soft_wrap=False)
    console.print()
    console.print(_links(verdict))
    console.print()
    console.print(_summary(verdict))
    console.print()
    for line in _windows(verdict):
        console.print(line, soft_wrap=False)
    console.print()
    console.print(windows_table(verdict.windows_by_link))
    console.print()
    if verdict.holds:
        console.print(
            "[green]✓[/green] the books of all brokers balance, and every notification equals the reference's, byte for byte"
        )
    for difference in verdict.differences[:10]:
        console.print(f"✗ {show.printable(difference)}", style="red", markup=False)
    if not verdict.balanced:
        console.print("[red]✗[/red] the books do not balance")


def _links(verdict: DemoVerdict) -> Table:
    """What crossed the links, and what would have without a gatherer."""
    from rich.table import Table

    ours, alone = _link_totals(verdict)
    table = Table(
        title=f"What crossed the links; {verdict.gatherer} gathers",
        title_justify="left",
        box=None,
        pad_edge=False,
        show_footer=True,
        footer_style="bold",
    )
    table.add_column("link", "all")
    table.add_column("messages", f"{ours:,}", justify="right")
    table.add_column("without a gatherer", f"{alone:,}", justify="right")
    table.add_column("saved", _saved(ours, alone), justify="right")
    table.add_column("bytes", f"{sum(link.bytes for link in verdict.links):,}", justify="right")
    table.add_column("without", f"{sum(link.baseline_bytes for link in verdict.links):,}", justify="right")
    for link in verdict.links:
        if link.messages or link.baseline_messages:
            numbers = (link.messages, link.baseline_messages)
            size = (f"{link.bytes:,}", f"{link.baseline_bytes:,}")
            table.add_row(f"{link.sender} → {link.to}", f"{numbers[0]:,}", f"{numbers[1]:,}", _saved(*numbers), *size)
    return table


def _saved(ours: int, alone: int) -> str:
    return f"{1 - ours / alone:.0%}" if alone else "–"


def _summary(verdict: DemoVerdict) -> Table:
    from rich.table import Table

    books = verdict.gathered.to_dict()
    table = Table(title="What became of the messages", title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rows = [
        ("published", verdict.published, f"about {verdict.events:,} incidents, at {len(verdict.by_broker)} brokers"),
        ("carried on", _carried_on(verdict), "their news left the gatherer"),
        ("merged", books["merged"] - verdict.for_windows, "their news left with another's, or only disagreed"),
        ("redundant", books["redundant"], "all they said was known"),
        (
            "dropped early",
            verdict.published - (books["received"] - verdict.for_windows),
            "the broker they came to had been told it all",
        ),
        ("late, dead-lettered", books["late"] + books["dead_lettered"], ""),
    ]
    for name, count, remark in rows:
        table.add_row(name, f"{count:,}", remark)
    table.add_row("suppressed", f"[bold]{_suppressed(verdict):.1%}[/bold]", "of the messages did not leave the gatherer")
    table.add_row("notifications", f"{verdict.notifications:,}", "to two subscriptions, only with what each did not know")
    table.add_row(
        "delay",
        f"{verdict.delay_s:.2f} s",
        "median: half a second of hold, a tick and two batches, however many links are on the way",
    )
    return table


def _story(verdict: DemoVerdict) -> Iterator[Text]:
    """One event: what was published about it, and what its subscriber saw."""
    from rich.text import Text

    from demo.scene import WATCHED

    story = verdict.story
    arrived = story.arrived
    said = [each.message for each in arrived.values() if each.passed is None]
    heard = [tell.notification for tell in story.told if tell.notification.subscription == WATCHED]
    topic, key = verdict.story_of
    # As text, not markup: a value may hold square brackets.
    yield Text(f"One event: {show.printable(topic)} · {show.printable(key)}", style="bold")
    yield Text(f"{len(said)} reports were published")
    for message in said[:_SHOWN]:
        line = f"  {show.printable(message.source or '?'):<10} {show.facts(message.fields)}"
        yield Text(line, style="dim", no_wrap=True, overflow="ellipsis")
    yield Text(f"  … and {len(said) - _SHOWN} more", style="dim") if len(said) > _SHOWN else Text("")
    yield Text(f"{WATCHED} was told {show.count(len(heard), 'time')}, each time only the news")
    for told in heard:
        yield Text.assemble((f"  {told.reason:<10} ", "green"), show.facts(told.news))


def _windows(verdict: DemoVerdict) -> Iterator[Text]:
    """What subscribers to averages were told."""
    from rich.text import Text

    from demo.scene import ROADS

    roads = " and ".join(f"{road.sensors} on the {road.name}" for road in ROADS)
    yield Text("Averages over 10 s, every 5 s", style="bold")
    yield Text(
        f"{verdict.readings:,} speeds were measured by sensors, {roads}; {show.count(len(verdict.windows), 'window')} told,"
    )
    delay = f"{verdict.windows_delay_s:.1f} s after its end in the median"
    yield Text(f"{delay}: a second of grace, a tick and some batches, however many links are on the way")
    for notification in verdict.windows[:_SHOWN]:
        line = show.notification_line(notification, notification.last_ms)
        line.no_wrap, line.overflow = True, "ellipsis"
        yield line
