"""How the client commands print: JSON for machines, coloured lines for people, remarks beside the results.

Names and values come from strangers, so nothing of theirs is ever taken for markup or for an order to the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidings.values import Value, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tidings.notification import Notification

_PIPE_COLUMNS = 120
_REASON_STYLE = {
    "first": "bold green",
    "news": "bold cyan",
    "complete": "bold green",
    "final": "bold yellow",
    "digest": "bold magenta",
    "heartbeat": "dim",
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


def clock_time(ms: int) -> str:
    """A time of day where the reader is, with the date when it is not today's."""
    moment = datetime.fromtimestamp(ms / 1000, tz=UTC).astimezone()
    today = datetime.now(tz=UTC).astimezone().date()
    shown = moment.strftime("%H:%M:%S.") + f"{ms % 1000:03d}"
    return shown if moment.date() == today else f"{moment.date()} {shown}"


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
