"""What comes out of a broker's logic: things to do, and the reasons for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from streaming.model.entry import Entry, Origin
from streaming.model.items import Windowed
from streaming.model.links import LinkRecord, Stamp
from tidings.notification import Encoding, Notification


class Outcome(StrEnum):
    """What became of a message; every received message ends in exactly one, or is still held."""

    TOLD = "told"
    """It brought news that left, and stands for the notification; the reason is the notification's."""
    MERGED = "merged"
    """What it brought left with another message, or went to nobody."""
    REDUNDANT = "redundant"
    """It said nothing new."""
    LATE = "late"
    """It came too late to be told to all who want it; the record is in `late`."""
    DEAD_LETTERED = "dead_lettered"
    """It cannot be read or taken; the record is in `dead-letter`, and the reason is one of the dead letters'."""
    FORWARDED = "forwarded"
    """It, or its news, left over a link."""
    HELD = "held"
    """It brought news that has not left yet, or it waits for ways that are not known here yet."""


class MessageReason(StrEnum):
    """The reasons that are not a notification's or a dead letter's. The first word is the outcome that each goes with."""

    JOINED = "joined"
    """Merged: its news left in the notification that another message caused."""
    CONFLICT = "conflict"
    """Merged: it only disagreed; the losing value is kept."""
    UNWANTED = "unwanted"
    """Merged: its event ended, and nobody was told what it said."""
    DIGESTED = "digested"
    """Merged: its event ended, and its news leaves in a digest when the subscription may be told of the key again."""
    KNOWN = "known"
    """Redundant: all it said was known."""
    REPEAT = "repeat"
    """Redundant: a measurement with an id that was seen before."""
    WINDOW_CLOSED = "window-closed"
    """Late: the window of its event had closed, or every window of an aggregate that it would have counted in."""
    HOLDING = "holding"
    """Held: it brought news that is not due yet, or it came by ways that are not known here yet."""
    TO_GATHERER = "to-gatherer"
    """Forwarded: it was passed on to the broker that gathers."""
    TO_SUBSCRIBERS = "to-subscribers"
    """Forwarded: its news left for subscribers at other brokers only."""
    HANDED_OVER = "handed-over"
    """Forwarded: it was held when another broker became the gatherer."""
    WINDOWED = "windowed"
    """Merged: a measurement, or something that a neighbour sent for windows: it counts there."""
    CUT_OFF = "cut-off"
    """Late: its event ended while no link led to some of those who subscribe to it."""


class Unsent(StrEnum):
    """Why a message did not cross a link of the routing tree."""

    KNOWN = "known"
    """The far end had been told all of it."""
    JOINED = "joined"
    """Its news crossed together with another message's."""
    FILTERED = "filtered"
    """Nobody beyond wants it."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Deliver a notification."""

    kafka_topic: str
    encoding: Encoding
    notification: Notification
    at_ms: int


class WrittenTell(Struct, frozen=True, gc=False):
    """Deliver a notification that has been written already, with the key of its record."""

    kafka_topic: str
    record_key: bytes
    value: bytes
    at_ms: int


@dataclass(frozen=True, slots=True)
class PutAside:
    """Write the untouched record to `late` or `dead-letter`."""

    origin: Origin
    outcome: Outcome
    reason: str
    detail: str
    entry: Entry | None = None
    """The record itself, where it is not the one that was just read."""
    merged: bool = False
    """It is no publisher's record, but what the reports of an event said together. The first of them stands at ``origin``."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about a message when it was read. Not delivered; `explain` shows it."""

    origin: Origin
    outcome: Outcome
    reason: str
    event: str | None = None
    added: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Send:
    """Write a record to a link."""

    sender: str
    to: str
    record: LinkRecord
    stamp: Stamp
    at_ms: int
    value: bytes | None = field(default=None, compare=False, repr=False)
    """The record as bytes, if it was written already."""


@dataclass(frozen=True, slots=True)
class FilterDecided:
    """How the links of a broker are filtered from here on, with what each way would have sent in the window that ended."""

    sender: str
    topic: str
    start_ms: int
    end_ms: int
    choice: str
    reason: str
    offered: int
    sent: int
    would: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that may cross a link for the windows beyond it: the pipeline of windows decides. To nobody (`LOCAL`) means the
    broker's own windows.

    ``number`` counts what the bucket offered: after a crash some are offered twice. ``via`` is the neighbour that it came from.
    """

    sender: str
    to: str
    topic: str
    item: Windowed
    number: int
    via: str | None = None
    crosses: bool = False
    """It crosses anyway, for a subscription to events."""
    at_ms: int = 0
    version: int = 0
    """Of the control data that it was offered by."""


Output: TypeAlias = Tell | WrittenTell | Send | PutAside | Decided | FilterDecided | Offer
