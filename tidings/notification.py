"""A notification: what one subscription is told about one event, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidings.values import Value, digest


class Reason(StrEnum):
    """Why something is told now."""

    FIRST = "first"
    """The first notification of this event to this subscription."""
    NEWS = "news"
    """Something changed that the subscription had not been told."""
    COMPLETE = "complete"
    """All that the topic calls `complete` is known, and this subscription is told so for the first time."""
    FINAL = "final"
    """The event has ended; this is what was still owed."""
    DIGEST = "digest"
    """It waited because the subscription is told of a key only so many times an hour. A list of the same name has what is told
    of other events of the key, each with its `event` and `news`."""
    HEARTBEAT = "heartbeat"
    """It is about no event: a sign of life. All that was published before its `last_ms` has been read."""
    AGGREGATE = "aggregate"
    """It is about no event: a window has closed. `news` has the results, `window` says from when to when."""


class Encoding(StrEnum):
    """How a notification is written."""

    JSON = "json"
    AVRO = "avro"


@dataclass(frozen=True, slots=True)
class Digested:
    """What a digest tells about one more event."""

    event: str
    news: Mapping[str, Value]
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class ToldWindow:
    """The window that an aggregate is about, from ``start`` up to ``end``: times, or numbers of publications if
    it is ``counted``.

    ``left_out`` says, by result, how many values were of no use to its function.
    """

    start: int
    end: int
    counted: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """What one subscription is told, and only what it has not been told before; ``revision`` counts what it was told about
    this event.

    ``digest`` is about other events of the same key. ``event`` is empty when all it tells is there, and in a heartbeat.
    """

    id: str
    subscriber: str
    subscription: str
    topic: str
    key: str
    event: str
    revision: int
    reason: Reason
    news: Mapping[str, Value]
    reports: int
    sources: int
    first_ms: int
    last_ms: int
    conflicts: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    digest: tuple[Digested, ...] = ()
    window: ToldWindow | None = None


def notification_id(subscription: str, since: int, event: str, revision: int) -> str:
    """The same for the same telling, even when a crash makes it leave twice.

    ``since`` tells a subscription from an earlier one of the same name, which may have been told other things.
    """
    return digest(subscription, since, event, revision)


def digest_id(subscription: str, since: int, topic: str, key: str, at_ms: int) -> str:
    """The id of a digest that is about no open event."""
    return digest(subscription, since, topic, key, at_ms)


def window_id(subscription: str, since: int, interest: str, start: int) -> str:
    """The id of the aggregate over a window."""
    return digest(subscription, since, interest, start)


def heartbeat_id(subscription: str, since: int, beat_ms: int) -> str:
    """The id of a heartbeat."""
    return digest(subscription, since, beat_ms)
