"""`tidings decisions`: see what brokers choose for windows, link by link, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.follow import Timeout, listen
from cli.options import grouped

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from clients.decisions import Way, WindowTraffic
    from streaming.model.outputs import FilterDecided
    from streaming.model.windows import WindowDecided
    from streaming.wire.decisions import AnyDecided

_PANEL = "Which choices"
_ALWAYS = ("forward", "aggregate")
"""The deciders that a link is compared with: they always do the same."""
_COLUMNS = ("windows", "forwarded", "aggregated", "crossed", "always forward", "saved", "always aggregate", "saved")
_STYLES = {"forward": "bold cyan", "aggregate": "bold green"}


@grouped
def decisions(
    link: Annotated[
        str | None,
        typer.Option(
            metavar="A-B", help="Only this link, both ways; A→B is one way.", show_default=False, rich_help_panel=_PANEL
        ),
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--from", help="Only what this broker chose.", show_default=False, rich_help_panel=_PANEL)
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Only for links to this broker.", show_default=False, rich_help_panel=_PANEL)
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only for this topic.", show_default=False, rich_help_panel=_PANEL)] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only what all choices so far saved; then end.")] = False,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Also show what was chosen before.")] = False,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many choices.", show_default=False)] = None,
    timeout: Timeout = None,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Print each choice as it is made, until Ctrl-C; then what those that were shown saved on each link.

    For each window, a link carries its publications as they came, or one aggregate of them. What that saves is told against
    doing always the same. Choices of adaptive filters are shown too.

    Example: tidings decisions --link b1-b2 --from-beginning
    """
    from clients.decisions import DecisionReader, read_decisions
    from streaming.wire.decisions import decision_dict

    if summary and (count is not None or timeout is not None):
        raise typer.BadParameter("it reads what is there and ends, without --count and --timeout", param_hint="--summary")
    wanted = Wanted(link, sender, to, topic)
    savings = Savings()
    connection = service.connect()
    if summary:
        for decided in filter(wanted, read_decisions(connection)):
            savings.add(decided)
        _conclude(savings, as_json)
        return
    console = show.console()
    with DecisionReader(connection, from_beginning) as reader:

        def hear(timeout_s: float) -> bool | None:
            decided = reader.receive(timeout_s)
            if decided is None or not wanted(decided):
                return None if decided is None else False
            savings.add(decided)
            if as_json:
                show.as_json(decision_dict(decided))
            else:
                console.print(decision_line(decided, savings))
            return True

        try:
            listen(connection, hear, "choice", count=count, timeout_s=timeout)
        finally:  # Ctrl-C is the usual end
            _conclude(savings, as_json)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which choices are asked for; None asks for nothing. A filter's choice is about all links of its broker, not about one."""

    link: str | None = None
    sender: str | None = None
    to: str | None = None
    topic: str | None = None

    def __call__(self, decided: AnyDecided) -> bool:
        to: str | None = getattr(decided, "to", None)
        asked = ((self.sender, decided.sender), (self.to, to), (self.topic, decided.topic))
        return self._about_link(decided.sender, to) and all(want in (None, found) for want, found in asked)

    def _about_link(self, sender: str, to: str | None) -> bool:
        if self.link is None or to is None:
            return self.link is None
        # A broker's name may have a '-' too: links are put together here, not taken apart.
        return self.link in (f"{sender}-{to}", f"{to}-{sender}", arrow(sender, to))


@dataclass(slots=True)
class Savings:
    """What crossed for the windows of each link, so far."""

    by_link: dict[Way, WindowTraffic] = field(default_factory=dict)

    def add(self, decided: AnyDecided) -> None:
        """Choices of filters are about no window of a subscription, and count for nothing here."""
        from clients.decisions import WindowTraffic
        from streaming.model.windows import WindowDecided

        if isinstance(decided, WindowDecided):
            self.by_link.setdefault((decided.sender, decided.to), WindowTraffic()).add(decided)

    def to_dict(self) -> dict[str, Any]:
        return {"links": {arrow(*way): crossed.to_dict() for way, crossed in sorted(self.by_link.items())}}


def _conclude(savings: Savings, as_json: bool) -> None:
    if as_json:
        show.as_json(savings.to_dict())
    elif savings.by_link:
        show.console().print(windows_table(savings.by_link))
    else:
        show.remark("nothing was chosen for windows")


def arrow(sender: str, to: str) -> str:
    """
    >>> arrow("b1", "b2")
    'b1→b2'
    """
    return f"{sender}→{to}"


def decision_line(decided: AnyDecided, savings: Savings) -> Text:
    """A choice as one line."""
    from rich.text import Text

    from streaming.model.windows import WindowDecided

    line = Text()
    line.append(f"{show.span(decided.start_ms, decided.end_ms)}  ", style="dim")
    line.append_text(_of_window(decided, savings) if isinstance(decided, WindowDecided) else _of_filter(decided))
    return line


def _of_window(decided: WindowDecided, savings: Savings) -> Text:
    from rich.text import Text

    line = Text()
    line.append(show.printable(arrow(decided.sender, decided.to)), style="bold")
    line.append(f"  {show.printable(decided.topic)} · {show.printable(decided.subscription)}")
    line.append(f"  {decided.choice:<9}", style=_STYLES.get(decided.choice, "bold"))
    line.append(f"  {show.count(decided.items, 'item')} → {decided.sent:,} sent")
    line.append(f"  ({show.printable(decided.reason)}, {show.printable(decided.decider)})", style="dim")
    crossed = savings.by_link.get((decided.sender, decided.to))
    shares = {decider: saved_share(crossed, decider) for decider in _ALWAYS} if crossed else {}
    if saved := [f"{share} of always {decider}" for decider, share in shares.items() if share]:
        line.append(f"  saved so far: {', '.join(saved)}", style="dim")
    return line


def _of_filter(decided: FilterDecided) -> Text:
    from rich.text import Text

    line = Text()
    line.append(show.printable(decided.sender), style="bold")
    line.append(f"  {show.printable(decided.topic)}")
    line.append(f"  filter {show.printable(decided.choice)}", style="bold magenta")
    line.append(f"  {decided.offered:,} offered → {decided.sent:,} sent")
    would = ", ".join(f"{show.printable(way)} {number:,}" for way, number in decided.would.items())
    line.append(f"  ({show.printable(decided.reason)}; would have sent: {would})", style="dim")
    return line


def windows_table(by_link: Mapping[Way, WindowTraffic]) -> Table:
    """What crossed each link for windows, and what would have if all were forwarded, or all aggregated."""
    from clients.decisions import total

    table = show.slim_table("Windows", show_footer=len(by_link) > 1)
    table.add_column("from", "all", overflow="fold")
    table.add_column("to", overflow="fold")
    for column, whole in zip(_COLUMNS, _figures(total(by_link.values())), strict=True):
        table.add_column(column, whole, justify="right", overflow="fold")
    for (sender, to), crossed in sorted(by_link.items()):
        table.add_row(show.printable(sender), show.printable(to), *_figures(crossed))
    return table


def _figures(crossed: WindowTraffic) -> list[str]:
    counts = [crossed.windows, crossed.forwarded, crossed.aggregated, crossed.sent]
    compared = [(f"{crossed.would(decider):,}", saved_share(crossed, decider)) for decider in _ALWAYS]
    return [*(f"{count:,}" for count in counts), *(cell for pair in compared for cell in pair)]


def saved_share(crossed: WindowTraffic, decider: str) -> str:
    """How much less crossed than another decider would have sent; nothing if that one would have sent nothing."""
    would = crossed.would(decider)
    return f"{crossed.saved_against(decider) / would:.0%}" if would else ""
