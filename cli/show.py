"""How the client commands print: JSON for machines, coloured lines for people, remarks beside the results.

Names and values come from strangers, so nothing of theirs is ever taken for markup or for an order to the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from tidings.values import Value, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tidings.notification import Notification, ToldWindow

_PIPE_COLUMNS = 120
_DECIMALS = 4
_REASON_STYLE = {
    "first": "bold green",
    "news": "bold cyan",
    "complete": "bold green",
    "final": "bold yellow",
    "digest": "bold magenta",
    "heartbeat": "dim",
    "aggregate": "bold blue",
}


def as_json(datum: Any) -> None:
    """One JSON value on one line, at once: a program may be waiting for it."""
    text = json.dumps(datum, ensure_ascii=False)
    # Half a surrogate pair cannot be printed, but JSON has a way to write it.
    print(text.encode(errors="backslashreplace").decode(), flush=True)


def remark(line: str) -> None:
    """A line for the person who waits. It goes to standard error, so that results stay clean."""
    from rich.text import Text

    console(stderr=True).print(Text(printable(line), style="dim"))


def from_keyboard(what: str) -> None:
    """Say that input is awaited, if it is a person who must type it."""
    if sys.stdin.isatty():
        remark(f"reading {what} from the keyboard; Ctrl-D ends them")


def console(*, stderr: bool = False) -> Console:
    """Where to print. A pipe has no width of its own: tables get a decent one, and lines are never cut."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=_PIPE_COLUMNS)


def printable(text: str) -> str:
    """The text with its control characters written out: a publisher must not move anybody's cursor.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def slim_table(title: str, *, show_footer: bool = False) -> Table:
    """A table with many columns: without lines between them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_footer=show_footer)
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    return table


def clock_time(ms: int) -> str:
    """A time of day where the reader is, with the date when it is not today's."""
    return _dated(ms, _today(), fine=True)


def span(start_ms: int, end_ms: int) -> str:
    """From when to when, where the reader is; with dates when it is not all today, and milliseconds when there are any."""
    fine = bool(start_ms % 1000 or end_ms % 1000)
    return f"{_dated(start_ms, _today(), fine)}–{_dated(end_ms, _moment(start_ms).date(), fine)}"


def _dated(ms: int, usual: date, fine: bool) -> str:
    """A time of day, with the date when it is not the usual one."""
    moment = _moment(ms)
    shown = moment.strftime("%H:%M:%S") + (f".{ms % 1000:03d}" if fine else "")
    return shown if moment.date() == usual else f"{moment.date()} {shown}"


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, tz=UTC).astimezone()


def _today() -> date:
    return datetime.now(tz=UTC).astimezone().date()


def value(fact: Value) -> str:
    """A value as a person writes it: quotes only where something would be unclear."""
    if isinstance(fact, str) and fact and fact == fact.strip() and not set(fact) & set('",='):
        return printable(fact)
    return printable(json.dumps(plain(fact), ensure_ascii=False))


def facts(fields: Mapping[str, Value]) -> str:
    """
    >>> facts({"what": "fire", "floor": 3, "tags": ("smoke",), "who": None})
    'what=fire, floor=3, tags=["smoke"], who=null'
    """
    return ", ".join(f"{printable(name)}={value(fact)}" for name, fact in fields.items())


def notification_line(notification: Notification, append_ms: int) -> Text:
    """A notification as one line."""
    from rich.text import Text

    reason = str(notification.reason)
    line = Text()
    line.append(f"{clock_time(append_ms)}  ", style="dim")
    if reason == "heartbeat":
        line.append(f"{printable(notification.topic)}  {reason}  {alive(notification)}", style=_REASON_STYLE[reason])
        line.append(f"  → {printable(notification.subscription)}", style="dim")
        return line
    if notification.window is not None:
        line.append_text(_aggregate(notification, notification.window))
        return line
    line.append(f"{printable(notification.topic)} · {printable(notification.key)}", style="bold")
    line.append(f"  {reason:<8}", style=_REASON_STYLE.get(reason, "bold"))
    line.append(f"  {all_news(notification)}")
    if notification.event:
        line.append(f"  {_heard(notification)}", style="dim")
    if notification.conflicts:
        disputed = {name: [value(other) for other in others] for name, others in notification.conflicts.items()}
        said = "; ".join(f"{printable(name)} also {', '.join(others)}" for name, others in disputed.items())
        line.append(f"  disputed: {said}", style="yellow")
    line.append(f"  → {printable(notification.subscription)}", style="dim")
    return line


def _aggregate(notification: Notification, window: ToldWindow) -> Text:
    """What is told of a window."""
    from rich.text import Text

    reason = str(notification.reason)
    line = Text()
    line.append(printable(notification.topic), style="bold")
    line.append(f"  {reason}", style=_REASON_STYLE.get(reason, "bold"))
    line.append(f"  {numbers(window.start, window.end) if window.counted else span(window.start, window.end)}")
    line.append(f"  {facts({name: _rounded(fact) for name, fact in notification.news.items()})}")
    line.append(f"  ({count(notification.reports, 'publication')})", style="dim")
    if window.left_out:
        useless = ", ".join(f"{number:,} for {printable(name)}" for name, number in window.left_out.items())
        line.append(f"  left out: {useless}", style="yellow")
    line.append(f"  → {printable(notification.subscription)}", style="dim")
    return line


def numbers(start: int, end: int) -> str:
    """The publications of a window that counts them; ``end`` is the first after them.

    >>> numbers(100, 200), numbers(7, 8)
    ('publications 100–199', 'publication 7')
    """
    return f"publications {start:,}–{end - 1:,}" if end - start > 1 else f"publication {start:,}"


def _rounded(fact: Value) -> Value:
    """An average is rarely a round number, and nobody reads sixteen digits; as JSON it has them all."""
    if not isinstance(fact, float):
        return fact
    return round(fact, _DECIMALS) if abs(fact) >= 1 else float(f"{fact:.{_DECIMALS}g}")


def all_news(notification: Notification) -> str:
    """What is told, with what a digest tells about other events of the key."""
    told = [facts(notification.news), *(facts(each.news) for each in notification.digest)]
    return "; ".join(each for each in told if each)


def alive(notification: Notification) -> str:
    """What a heartbeat says."""
    return f"all that came before {clock_time(notification.last_ms)} has been read"


def _heard(notification: Notification) -> str:
    reports = count(notification.reports, "report")
    return f"({reports}, {count(notification.sources, 'source')})" if notification.sources else f"({reports})"


def duration(ms: int) -> str:
    """
    >>> duration(500), duration(5_000), duration(90_000), duration(3_600_000)
    ('500 ms', '5 s', '90 s', '60 min')
    """
    if ms % 1000:
        return f"{ms:,} ms"
    return f"{ms // 60_000:,} min" if ms and ms % 60_000 == 0 else f"{ms // 1000:,} s"


def count(number: int, thing: str) -> str:
    """
    >>> count(1, "report"), count(1200, "report")
    ('1 report', '1,200 reports')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
