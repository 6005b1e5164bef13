"""The story of one topic and key: every message, what it added or why it was dropped, who was told what and when.

The replay says what followed from the log; the delivery Kafka topics say what was really delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from audit.replay import Replay
from clients.connection import Connection
from clients.log import scan
from streaming.model.outputs import Decided, Outcome, Tell
from streaming.wire.notification import decode_notification
from streaming.world.process import ProcessOutput
from tidings.message import Message
from tidings.notification import Notification


@dataclass(frozen=True, slots=True)
class Reported:
    """A message came. ``told_in`` names the notifications that carried what it added; ``passed_on``: from a neighbour."""

    at_ms: int
    broker: str
    message: Message
    decided: Decided
    detail: str
    told_in: tuple[str, ...]
    passed_on: bool = False


@dataclass(frozen=True, slots=True)
class StoryTold:
    """Something was told. ``delivered_ms`` is its append time in the delivery Kafka topic, None if it is not there.

    ``replayed`` is False for what was delivered but does not follow from what is left of the log.
    """

    at_ms: int
    kafka_topic: str
    notification: Notification
    delivered_ms: int | None
    replayed: bool = True


@dataclass(frozen=True, slots=True)
class Delivered:
    """A notification as it was found, the first time it stands there."""

    kafka_topic: str
    notification: Notification
    append_ms: int


def delivered(connection: Connection, replay: Replay, topic: str, key: str) -> dict[str, Delivered]:
    """By id, the notifications about a topic and key in all Kafka topics where they may have gone."""
    subscribed = {s.deliver for s in replay.control.subscriptions.values() if s.topic == topic}
    found: dict[str, Delivered] = {}
    for record in scan(connection, subscribed | {tell.kafka_topic for tell in replay.told}):
        try:
            notification = decode_notification(record.value or b"")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # somebody else writes there too
        if (notification.topic, notification.key) == (topic, key) and notification.id not in found:
            found[notification.id] = Delivered(record.kafka_topic, notification, record.append_ms)
    return found


def story(replay: Replay, found: Mapping[str, Delivered]) -> list[Reported | StoryTold]:
    """What happened, in order of time; ``replay`` must be about one topic and key only."""
    arrived, aside = replay.arrived, replay.put_aside
    entries: list[Reported | StoryTold] = []
    for index, output in enumerate(replay.outputs):
        match output:
            case Decided(origin=origin) if origin in arrived:
                came = arrived[origin]
                put = aside.get(came.entry.origin) if output.outcome in (Outcome.LATE, Outcome.DEAD_LETTERED) else None
                carriers = _carriers(output, replay.outputs[index + 1 :])
                passed_on = came.sender is not None
                detail = put.detail if put else ""
                entries.append(Reported(origin.append_ms, came.broker, came.message, output, detail, carriers, passed_on))
            case Tell(kafka_topic, _, notification, at_ms):
                there = found.get(notification.id)
                entries.append(StoryTold(at_ms, kafka_topic, notification, there.append_ms if there else None))
    known = {tell.notification.id for tell in replay.told}
    entries += [
        StoryTold(each.append_ms, each.kafka_topic, each.notification, each.append_ms, replayed=False)
        for name, each in found.items()
        if name not in known
    ]
    return sorted(entries, key=lambda entry: entry.at_ms)


def _carriers(decided: Decided, later: Iterable[ProcessOutput]) -> tuple[str, ...]:
    """For each subscription the first notification that told what the message added."""
    if decided.outcome is not Outcome.HELD:
        return ()
    first: dict[str, str] = {}
    for output in later:
        match output:
            case Tell(notification=told) if any(
                event == decided.event and not decided.added.isdisjoint(news)
                for event, news in [(told.event, told.news), *((each.event, each.news) for each in told.digest)]
            ):
                first.setdefault(told.subscription, told.id)
    return tuple(first.values())
