"""What goes into a broker's logic and what comes out of it: facts about the past in, things to do out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.model.event import Closed, OpenEvent, Span
from streaming.model.items import Windowed
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Encoding, Notification
from tidings.registers import Register

# ---- over a link ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PassedOn:
    """A publication on its way to the broker that gathers, or to where it is wanted."""

    message: Message
    published_ms: int
    entry: Entry
    hops: int
    version: int = 0
    """Of the control data that its last sender went by."""

    @property
    def about(self) -> tuple[str, str]:
        return self.message.topic, self.message.key


@dataclass(frozen=True, slots=True)
class EventNews:
    """What of a merged event the far end of a link has not been told."""

    topic: str
    key: str
    event: str
    span: Span
    knowledge: Mapping[str, Register]
    reports: int
    sources: int
    complete: bool
    final: bool
    """The event has ended: this is the last."""
    version: int = 0
    """Of the control data that the neighbour went by."""

    @property
    def about(self) -> tuple[str, str]:
        return self.topic, self.key


@dataclass(frozen=True, slots=True)
class HandOver:
    """The memory of a broker that gathers no longer, on its way to the one that does."""

    topic: str
    key: str
    events: tuple[OpenEvent, ...]
    """All that the broker knows of them that passes this on."""
    closed: tuple[Closed, ...]
    hops: int
    version: int = 0
    """Of the control data that it went by."""

    @property
    def about(self) -> tuple[str, str]:
        return self.topic, self.key


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """Something for the windows beyond a link: a publication that crosses for them alone, an aggregate, or how far they are."""

    topic: str
    key: str
    item: Windowed

    @property
    def about(self) -> tuple[str, str]:
        return self.topic, self.key


LinkRecord: TypeAlias = PassedOn | EventNews | HandOver | WindowRecord


def kind_of(record: LinkRecord) -> str:
    """The word that a record of a link is counted under."""
    return type(record.item if isinstance(record, WindowRecord) else record).__name__


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which bucket sent a record over a link, and the how many-th on that link it was.

    A crash makes a bucket send some records twice, with the same stamp: the far end takes each once.
    """

    bucket: str
    number: int


UNSTAMPED = Stamp("", 0)


# ---- in ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrived:
    """A publication was read: from a publisher, or from the neighbour that passed it on."""

    origin: Origin
    broker: str
    message: Message
    record_key: bytes | None = field(default=None, compare=False)
    value: bytes | None = field(default=None, compare=False)
    sender: str | None = None
    passed: PassedOn | None = None
    """What the neighbour sent; None when it came from a publisher."""
    stamp: Stamp = UNSTAMPED
    size: int = 0

    @property
    def at(self) -> Address:
        """Where it is remembered."""
        return Address(self.broker, self.message.topic, self.message.key)

    @property
    def entry(self) -> Entry:
        return self.passed.entry if self.passed else Entry(self.origin, self.record_key, self.value)

    @property
    def published_ms(self) -> int:
        if self.passed:
            return self.passed.published_ms
        return self.origin.append_ms if self.message.published_ms is None else self.message.published_ms


@dataclass(frozen=True, slots=True)
class Heard:
    """A neighbour told what is new about an event, or handed its memory of a key over."""

    origin: Origin
    broker: str
    sender: str
    record: EventNews | HandOver | WindowRecord
    stamp: Stamp = UNSTAMPED
    size: int = 0

    @property
    def at(self) -> Address:
        """Where it is remembered."""
        return Address(self.broker, *self.record.about)


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


@dataclass(frozen=True, slots=True)
class Progressed:
    """A service says how far it is: all that was appended before ``done_ms`` to what its brokers read, it has read, and has
    written what follows from it. It said so at ``append_ms``. ``brokers`` are those it serves; None for all."""

    append_ms: int
    service: str
    brokers: frozenset[str] | None
    done_ms: int
    version: int = 0
    """Of the control data that it went by then, at least."""


Input: TypeAlias = Arrived | Heard | Refused | Marked | Ticked | Progressed


# ---- out --------------------------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """What became of a message; every received message ends in exactly one, or is still held."""

    TOLD = "told"
    MERGED = "merged"
    REDUNDANT = "redundant"
    LATE = "late"
    DEAD_LETTERED = "dead_lettered"
    FORWARDED = "forwarded"
    HELD = "held"


class Why(StrEnum):
    """The reasons that are not a notification's or a dead letter's."""

    JOINED = "joined"
    """Its news left in the notification another message caused."""
    CONFLICT = "conflict"
    """It only disagreed; the losing value is kept."""
    UNWANTED = "unwanted"
    """Its event ended and nobody subscribed to what it said."""
    DIGESTED = "digested"
    """Its event ended, and its news leaves in a digest when the subscription may be told of the key again."""
    KNOWN = "known"
    """All it said was known."""
    REPEAT = "repeat"
    """A measurement with an id that was seen before."""
    WINDOW_CLOSED = "window-closed"
    """Its event's window had closed."""
    HOLDING = "holding"
    """It brought news that is not due yet."""
    TO_GATHERER = "to-gatherer"
    """It was passed on to the broker that gathers."""
    TO_SUBSCRIBERS = "to-subscribers"
    """Its news left for subscribers at other brokers only."""
    HANDED_OVER = "handed-over"
    """It was held, and another broker gathers now."""
    WINDOWED = "windowed"
    """It counts in the windows of aggregate subscriptions."""
    CUT_OFF = "cut-off"
    """Its event ended while no link led to some of those who subscribe to it."""


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


@dataclass(frozen=True, slots=True)
class PutAside:
    """Write the untouched record to `late` or `dead-letter`."""

    origin: Origin
    outcome: Outcome
    reason: str
    detail: str
    entry: Entry | None = field(default=None, compare=False)
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
    """Something that may cross a link for the windows beyond it: the side pipeline decides. To nobody means its own windows.

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


Output: TypeAlias = Tell | Send | PutAside | Decided | FilterDecided | Offer
