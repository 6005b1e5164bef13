"""`tidings explain`: the story of an event."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from cli.options import grouped
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from rich.text import Text

    from audit.story import Reported, StoryTold
    from streaming.broker.waits import Wait

_WHY = {
    "joined": "its news left with another's",
    "digested": "its news leaves in a digest",
    "conflict": "it disagrees about {added}; the first value stands, this one is kept beside it",
    "known": "nothing new",
    "repeat": "this measurement was seen before",
    "to-gatherer": "passed on to the broker that gathers",
    "to-subscribers": "passed on to where it is wanted",
}


@grouped
def explain(
    topic: Annotated[str, typer.Argument(help="The event's topic.")],
    key: Annotated[str, typer.Argument(help="The event's key.")],
    config: Annotated[
        Path | None, typer.Option(help="The settings of `tidings up`, if it was given any.", show_default=False)
    ] = None,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Tell an event's story: every message, what it added or why it was dropped, who was told what and when.

    Example: tidings explain incident "5th and Main"
    """
    from audit.replay import replay
    from audit.story import delivered, story
    from streaming.broker.settings import message_limits_of, rules_of, timing_of
    from streaming.broker.waits import waits
    from tidings.config import load

    settings = load(config, os.environ)
    connection = service.connect()
    replayed = replay(
        connection,
        service=None,
        limits=message_limits_of(settings),
        rules=rules_of(settings),
        timing=timing_of(settings),
        only=(topic, key),
    )
    entries = [each for each in story(replayed, delivered(connection, replayed, topic, key)) if not _is_heartbeat(each)]
    waiting = [wait for state in replayed.states for wait in waits(state, replayed.control, topic, key)]
    if not entries:
        raise TidingsError(
            f"nothing is known about {show.printable(topic)} {show.printable(key)!r}: no message in the log is about it"
        )
    if as_json:
        show.as_json(
            {
                "topic": topic,
                "key": key,
                "services": sorted(str(name) for name in replayed.services if name),
                "story": [_datum(entry) for entry in entries],
                "waiting": [_waiting_datum(wait) for wait in waiting],
            }
        )
    else:
        _print(topic, key, entries, waiting)


def _is_heartbeat(entry: Reported | StoryTold) -> bool:
    """A replay has the heartbeats of all subscriptions; they are about no event."""
    from audit.story import StoryTold
    from tidings.notification import Reason

    return isinstance(entry, StoryTold) and entry.notification.reason is Reason.HEARTBEAT


# ---- for machines -----------------------------------------------------------------------------------------------------


def _datum(entry: Reported | StoryTold) -> dict[str, Any]:
    from audit.story import StoryTold
    from streaming.wire.notification import notification_dict
    from tidings.values import plain

    if isinstance(entry, StoryTold):
        return {
            "ms": entry.at_ms,
            "what": "notification",
            "kafka_topic": entry.kafka_topic,
            "delivered": entry.delivered_ms is not None,
            "delivered_ms": entry.delivered_ms,
            "replayed": entry.replayed,
            **notification_dict(entry.notification),
        }
    message, decided = entry.message, entry.decided
    origin = decided.origin
    return {
        "ms": entry.at_ms,
        "what": "message",
        "broker": entry.broker,
        "source": message.source,
        "id": message.message_id,
        "published_ms": message.published_ms,
        "fields": {name: plain(value) for name, value in message.fields.items()},
        "outcome": str(decided.outcome),
        "reason": str(decided.reason),
        "detail": entry.detail,
        "event": decided.event,
        "added": sorted(decided.added),
        "told_in": list(entry.told_in),
        "origin": {"kafka_topic": origin.kafka_topic, "partition": origin.partition, "offset": origin.offset},
    }


def _waiting_datum(wait: Wait) -> dict[str, Any]:
    from tidings.values import plain

    return {
        "until_ms": wait.until_ms,
        "subscription": wait.subscription.name,
        "waits_for": str(wait.waits_for),
        "event": wait.news.event,
        "news": {name: plain(value) for name, value in wait.news.news.items()},
    }


# ---- for people -------------------------------------------------------------------------------------------------------


def _print(topic: str, key: str, entries: list[Reported | StoryTold], waiting: list[Wait]) -> None:
    from rich.text import Text

    from audit.story import Reported, StoryTold

    console = show.console()
    messages = [entry for entry in entries if isinstance(entry, Reported) and not entry.passed_on]
    told = [entry for entry in entries if isinstance(entry, StoryTold)]
    heading = Text(f"{show.printable(topic)} · {show.printable(key)}", style="bold")
    heading.append(f"  {show.count(len(messages), 'message')}, {show.count(len(told), 'notification')}", style="dim")
    console.print(heading)
    shown: set[str] = set()
    for entry in entries:
        event = entry.notification.event if isinstance(entry, StoryTold) else entry.decided.event
        if event and event not in shown:
            shown.add(event)
            console.print(Text(f"event {event}", style="dim"))
        console.print(_told_line(entry) if isinstance(entry, StoryTold) else _reported_line(entry))
    for wait in waiting:
        console.print(waiting_line(wait))
    if not told and not waiting:
        console.print(Text("Nobody was told: no subscription matched while it was open, or nothing is due yet.", style="yellow"))


def waiting_line(wait: Wait) -> Text:
    """What somebody will be told, and why not yet."""
    from rich.text import Text

    from tidings.subscription import PACE_PROPERTIES

    subscription, pace = wait.subscription, wait.waits_for
    number = getattr(subscription, pace.property)
    counted = PACE_PROPERTIES[pace.property].counted
    asked = show.count(number, counted.one) if counted else show.duration(number)
    line = Text(f"  {show.clock_time(wait.until_ms)}  ", style="dim")
    line.append(f"→ {show.printable(subscription.name)}", style="bold")
    line.append(f" waits until then for {show.facts(wait.news.news)}: ")
    line.append(f"{pace.why.format(asked=asked)} ({pace.property}); told if it is still so", style="yellow")
    return line


def _reported_line(entry: Reported) -> Text:
    from rich.text import Text

    from streaming.model.outputs import Outcome

    message, decided = entry.message, entry.decided
    who = show.printable(message.source or "somebody")
    line = Text(f"  {show.clock_time(entry.at_ms)}  ", style="dim")
    line.append(who, style="bold")
    line.append(f" said {show.facts(message.fields) or 'nothing'}  ", style="")
    line.append(f"[{show.printable(f'{message.id} at ' if message.id else 'at ')}{show.printable(entry.broker)}]  ", style="dim")
    added = show.printable(", ".join(sorted(decided.added)))
    if decided.outcome is Outcome.HELD:
        line.append(f"added {added}", style="green")
        if not entry.told_in:
            line.append(f" ({decided.reason}: told to nobody so far)", style="yellow")
    else:
        why = entry.detail or _WHY.get(str(decided.reason), "").format(added=added)
        line.append(
            f"{str(decided.outcome).replace('_', '-')}, {decided.reason}: {show.printable(why)}", style=_STYLES[decided.outcome]
        )
    return line


_STYLES = {
    "told": "green",
    "merged": "cyan",
    "redundant": "dim",
    "late": "yellow",
    "dead_lettered": "red",
    "held": "green",
    "forwarded": "dim",
}


def _told_line(entry: StoryTold) -> Text:
    from rich.text import Text

    notification = entry.notification
    line = Text(f"  {show.clock_time(entry.at_ms)}  ", style="dim")
    line.append(f"→ {show.printable(notification.subscription)}", style="bold")
    line.append(f" was told {show.all_news(notification)}  ")
    revision = f", revision {notification.revision}" if notification.event else ""
    line.append(f"[{notification.reason}{revision}, on {entry.kafka_topic}]  ", style="dim")
    if entry.delivered_ms is None:
        line.append("not delivered so far", style="yellow")
    elif entry.replayed:
        line.append(f"delivered {(entry.delivered_ms - entry.at_ms) / 1000:.1f} s later", style="green")
    else:
        line.append("delivered; what is left of the log does not explain it", style="yellow")
    return line
