"""`tidings replay`: decide the log again, and see whether the service did the same."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.options import grouped

if TYPE_CHECKING:
    from audit.comparison import TellTally
    from audit.proof import Proof

_DIFFERS, _UNDECIDED = 1, 3
_SHOWN = 10


@grouped
def replay(
    start: Annotated[
        str, typer.Option("--from", metavar="OFFSET|TIME|earliest", help="Where to begin, like publish.b1-0:1234 or 15m.")
    ] = "earliest",
    topic: Annotated[str | None, typer.Option(help="Only events of this topic.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="Only events with this key.", show_default=False)] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for what a running service has yet to tell.")] = 10.0,
    config: Annotated[
        Path | None, typer.Option(help="The settings of `tidings up`, if it was given any.", show_default=False)
    ] = None,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Decide the log again with the plain reference, and compare with what was told, put aside and counted.

    Exits 0 if all that can be decided is the same, 1 if something differs, 3 if the log does not say enough to decide anything.

    Example: tidings replay

    Example: tidings replay --from publish.b1-0:1234 --topic incident
    """
    from audit.comparison import CompareScope
    from audit.places import since_of
    from audit.proof import prove
    from streaming.broker.settings import message_limits_of, rules_of, timing_of
    from tidings.config import load

    settings = load(config, os.environ)
    connection = service.connect()
    proof = prove(
        connection,
        scope=CompareScope(since_of(connection, start, time.time_ns() // 1_000_000), topic, key),
        limits=message_limits_of(settings),
        rules=rules_of(settings),
        timing=timing_of(settings),
        wait_s=wait,
    )
    if as_json:
        show.as_json(_datum(proof))
    else:
        _print(proof)
    if not proof.same:
        raise typer.Exit(_DIFFERS)
    if proof.compared == 0 and proof.undecided:
        raise typer.Exit(_UNDECIDED)


def _datum(proof: Proof) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "same": proof.same,
        "from_ms": proof.scope.since_ms,
        "whole_since_ms": proof.reach.since_ms,
        "messages": proof.messages,
        "notifications": asdict(proof.notifications),
        "late": asdict(proof.late),
        "dead_letters": asdict(proof.dead_letters),
        "books": proof.books,
        "differences": [{"what": each.what, "finding": str(each.finding), "text": each.text} for each in proof.differences],
        "notes": _notes(proof),
    }


def _notes(proof: Proof) -> list[str]:
    """What the reader must know to trust the figures."""
    since_ms, whole_ms = proof.scope.since_ms, proof.reach.since_ms
    notes = []
    if whole_ms is None:
        notes.append("the log goes back to its beginning: all of it is decided")
        if since_ms is not None:
            notes.append(f"what was known at {show.clock_time(since_ms)} was rebuilt from the beginning")
    else:
        notes += [
            f"the log is whole only from {show.clock_time(whole_ms)} on: {'; '.join(proof.reach.notes)}",
            "a key is decided once it was silent for two windows since then; what came before is left out",
        ]
    if not proof.reach.exact_ids:
        notes.append("ids were not compared: the control data does not say any more when each subscription came")
    if proof.undecided:
        notes.append(f"{show.count(proof.undecided, 'result')} cannot be decided, or is not due at the service yet")
    if proof.others_until_ms is not None:
        notes.append(f"another service wrote until {show.clock_time(proof.others_until_ms)}; what only it wrote is left out")
    if proof.evicted:
        notes.append(f"{show.count(proof.evicted, 'event')} had to make room: there the reference, with one bucket, may differ")
    if proof.foreign:
        notes.append(f"{show.count(proof.foreign, 'record')} in the notification topics is none of ours")
    return notes


def _print(proof: Proof) -> None:
    from rich.table import Table
    from rich.text import Text

    console = show.console()
    table = Table(title=f"{show.count(proof.messages, 'message')} decided again", title_justify="left", title_style="bold")
    table.add_column("")
    columns = ("should be there", "same", "missing", "beside", "other bytes", "repeated, byte-equal", "undecided")
    for column in columns:
        table.add_column(column, justify="right")
    for name, each in (("notifications", proof.notifications), ("late", proof.late), ("dead letters", proof.dead_letters)):
        table.add_row(name, *(f"{number:,}" for number in _numbers(each)))
    console.print(table)
    console.print(f"books: {proof.books}")
    for note in _notes(proof):
        console.print(Text(f"  {note}", style="dim"))
    for difference in proof.differences[:_SHOWN]:
        line = Text(f"✗ {difference.what}, {difference.finding}: ", style="red")
        console.print(line.append(show.printable(difference.text), style="not bold"))
    if (more := len(proof.differences) - _SHOWN) > 0:
        console.print(Text(f"  and {show.count(more, 'difference')} more; --json has them all", style="dim"))
    console.print(_verdict(proof))


def _numbers(tally: TellTally) -> tuple[int, ...]:
    return tally.expected, tally.same, tally.missing, tally.beside, tally.other, tally.repeated, tally.undecided


def _verdict(proof: Proof) -> Any:
    from rich.text import Text

    if not proof.same:
        return Text("✗ the service did not do what follows from the log", style="bold red")
    if proof.compared == 0 and proof.undecided:
        return Text("? the log does not say enough to decide anything", style="bold yellow")
    return Text("✓ the service did what follows from the log", style="bold green")
