"""What goes into a broker's logic and what comes out of it: facts about the past in, things to do out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Encoding, Notification


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record stands in Kafka, and when it was appended."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int


# ---- in ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrived:
    """A publication was read."""

    origin: Origin
    broker: str
    message: Message


@dataclass(frozen=True, slots=True)
class Refused:
    """A record on a publish topic could not be read as a publication."""

    origin: Origin
    broker: str
    reason: Unreadable
    detail: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A partition was read up to a mark: all that was appended to it before ``append_ms`` has been read.

    ``version`` is that of the control data when the mark was written: what follows in the partition is held to it, or to a
    later one, even if the clock's own partition lags. None for a mark that is not from our own ticker.
    """

    partition: str
    append_ms: int
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """The clock ticked: from here on this version of the control data holds, and these partitions count for the time."""

    append_ms: int
    version: int
    partitions: tuple[str, ...]


Input: TypeAlias = Arrived | Refused | Marked | Ticked


# ---- out --------------------------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """What became of a message; every received message ends in exactly one, or is still held."""

    TOLD = "told"
    MERGED = "merged"
    REDUNDANT = "redundant"
    LATE = "late"
    DEAD_LETTERED = "dead_lettered"
    HELD = "held"


class Why(StrEnum):
    """The reasons that are not a notification's or a dead letter's."""

    JOINED = "joined"
    """Its news left in the notification another message caused."""
    CONFLICT = "conflict"
    """It only disagreed; the losing value is kept."""
    UNWANTED = "unwanted"
    """Its event ended and nobody subscribed to what it said."""
    KNOWN = "known"
    """All it said was known."""
    REPEAT = "repeat"
    """A measurement with an id that was seen before."""
    WINDOW_CLOSED = "window-closed"
    """Its event's window had closed."""
    HOLDING = "holding"
    """It brought news that is not due yet."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Deliver a notification."""

    kafka_topic: str
    encoding: Encoding
    notification: Notification
    at_ms: int


@dataclass(frozen=True, slots=True)
class PutAside:
    """Write the untouched record to `late` or `dead-letter`."""

    origin: Origin
    outcome: Outcome
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about a message when it was read. Not delivered; `explain` shows it."""

    origin: Origin
    outcome: Outcome
    reason: str
    event: str | None = None
    added: frozenset[str] = frozenset()


Output: TypeAlias = Tell | PutAside | Decided
