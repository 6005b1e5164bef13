"""What crosses a link between two brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from streaming.model.entry import Entry
from streaming.model.event import OpenEvent, Span, Tombstone
from streaming.model.items import Aggregated, Publication, Through, Windowed
from tidings.message import Message
from tidings.registers import Register


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
    """The part of a merged event that the far end of a link has not been told."""

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
    """All that the broker which passes this on knows of them."""
    closed: tuple[Tombstone, ...]
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


class LinkKind(StrEnum):
    """The words that the books count records of links under. Those of windows are counted by what they bring."""

    PASSED_ON = "PassedOn"
    EVENT_NEWS = "EventNews"
    HAND_OVER = "HandOver"
    PUBLICATION = "Publication"
    AGGREGATED = "Aggregated"
    THROUGH = "Through"


_KINDS: dict[type, LinkKind] = {
    PassedOn: LinkKind.PASSED_ON,
    EventNews: LinkKind.EVENT_NEWS,
    HandOver: LinkKind.HAND_OVER,
    Publication: LinkKind.PUBLICATION,
    Aggregated: LinkKind.AGGREGATED,
    Through: LinkKind.THROUGH,
}


def kind_of(record: LinkRecord) -> LinkKind:
    """The word that a record of a link is counted under."""
    return _KINDS[type(record.item if isinstance(record, WindowRecord) else record)]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which bucket sent a record over a link, and its number among all that this bucket sent over that link.

    A crash makes a bucket send some records twice, with the same stamp: the far end takes each once.
    """

    bucket: str
    number: int


UNSTAMPED = Stamp("", 0)
