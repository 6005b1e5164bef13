"""What goes into a broker's logic: facts about the past."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.model.links import UNSTAMPED, EventNews, HandOver, PassedOn, Stamp, WindowRecord
from tidings.errors import Unreadable
from tidings.message import Message


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
