"""What a bucket remembers between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct

from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.entry import Entry, Origin
from streaming.model.event import OpenEvent, Tombstone
from streaming.model.ledger import Cap
from tidings import names
from tidings.message import Message
from tidings.registers import Bounds
from tidings.topic import Topic

NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Rules:
    """The bounds of a bucket. Everything that could grow has one."""

    bounds: Bounds = field(default_factory=Bounds)
    event_fields: int = 512
    sources: int = 1024
    open_events: int = 1_000_000
    ahead_ms: int = 300_000
    kept: int = 1024
    """Messages of an event that are kept as they came while the overlay is cut."""
    patience_ms: int = 30_000
    """How long an event that has ended waits for what entered in time at other brokers."""
    hosted: frozenset[str] | None = None
    """The brokers that this process serves; None for all."""
    bucket: str = ""
    """What this bucket is called by others; no other bucket of any service is called the same."""
    buckets: int = 1
    bucket_index: int = 0
    """Which of the service's buckets this is. What is about no event, each bucket does its share of."""
    hands_on: bool = False
    """Whether a broker takes in at once what another sends it over a link, and nobody reads the link. The process serves all
    brokers then, and all that is about a topic and key is in one bucket (decision 0028)."""

    @property
    def serves_all(self) -> bool:
        """Whether no other process serves any broker. Then windows go from broker to broker in the pipeline of windows alone."""
        return self.hosted is None

    @property
    def reads(self) -> str:
        """The Kafka topics that the process reads for events, as a pattern."""
        return names.input_pattern(self.hosted, links=not self.hands_on)


class Ahead(Struct, array_like=True):
    """A message that came by ways which are not known here yet: it waits until they are."""

    origin: Origin
    until_ms: int
    """Then it is not waited for any longer."""
    sender: str
    message: Message
    published_ms: int
    entry: Entry
    hops: int
    version: int
    """Of the control data that its sender went by."""


class Slot(Struct, array_like=True):
    """All that is remembered of one broker, topic and key: mostly one open event."""

    open: list[OpenEvent] = msgspec.field(default_factory=list)
    closed: list[Tombstone] = msgspec.field(default_factory=list)
    seen: dict[str, int] = msgspec.field(default_factory=dict)
    """For topics that do not gather: message id to the time it is forgotten."""
    caps: dict[str, Cap] = msgspec.field(default_factory=dict)
    """For each subscription that is told only so often of a key: how often it was."""
    spread: dict[str, int] = msgspec.field(default_factory=dict)
    """For topics that do not gather: message id to the version of the control data by which it was sent on."""
    ahead: list[Ahead] = msgspec.field(default_factory=list)

    @property
    def size(self) -> int:
        """What counts for the bucket's bound. Caps count once, and only when nothing else is left: ledgers do not either."""
        return len(self.open) + len(self.closed) + len(self.seen) + len(self.ahead) or int(bool(self.caps))

    @property
    def held(self) -> int:
        """Messages that nothing has become of yet."""
        return sum(event.held for event in self.open) + len(self.ahead)

    @property
    def due_ms(self) -> int:
        """When a place is free for something that waits for one."""
        return min((cap.due_ms for cap in self.caps.values() if cap.due_ms is not None), default=NEVER) if self.caps else NEVER

    def next_ms(self, topic: Topic) -> int:
        """The earliest time at which something is to be told, or an event ends."""
        if len(self.open) == 1 and not self.caps:
            return self.open[0].next_ms(topic)
        return min((self.due_ms, *(event.next_ms(topic) for event in self.open)))

    @property
    def forget_ms(self) -> int:
        """When a tombstone, a message id or a cap is next to be forgotten, or something has waited long enough. At once, what is
        noted of an id that is not remembered."""
        if self.spread and not self.spread.keys() <= self.seen.keys():
            return 0
        if not (self.closed or self.caps or self.ahead):
            return min(self.seen.values()) if self.seen else NEVER
        caps = (cap.forget_ms if cap.due_ms is None else cap.due_ms for cap in self.caps.values())
        graves, ahead = (closed.forget_ms for closed in self.closed), (each.until_ms for each in self.ahead)
        return min((*graves, *self.seen.values(), *caps, *ahead), default=NEVER)

    def wake_ms(self, topic: Topic) -> int:
        """When there is next anything to do here."""
        return min(self.next_ms(topic), self.forget_ms)


class Progress(Struct, array_like=True):
    """What a service said of how far it is: when it said so, how far it was, and by which version of the control data."""

    brokers: frozenset[str] | None
    said: list[tuple[int, int, int]] = msgspec.field(default_factory=list)

    def serves(self, broker: str) -> bool:
        return self.brokers is None or broker in self.brokers


class Memory(Protocol):
    """What is remembered, as the functions of a step need it; in the order it was first heard of."""

    def get(self, at: Address, /) -> Slot | None: ...
    def setdefault(self, at: Address, slot: Slot, /) -> Slot: ...
    def __delitem__(self, at: Address, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Address]: ...
    def items(self) -> Iterable[tuple[Address, Slot]]: ...
    def values(self) -> Iterable[Slot]: ...
    def due(self, now_ms: int) -> list[tuple[Address, Slot]]: ...
    def at(self, chosen: Callable[[str, str], bool]) -> list[tuple[Address, Slot]]: ...
    def oldest(self) -> tuple[Address, Slot]: ...
    def next_ms(self, topic_of: Callable[[str], Topic], /, *, forgets: bool = False) -> int: ...


class PlainMemory(dict[Address, Slot]):
    """What is remembered, in the order it was first heard of."""

    def due(self, now_ms: int) -> list[tuple[Address, Slot]]:
        """Where a timer may fire by now."""
        del now_ms  # the plain form does not know where, and looks everywhere
        return list(self.items())

    def at(self, chosen: Callable[[str, str], bool]) -> list[tuple[Address, Slot]]:
        """Those of the brokers and topics that are chosen."""
        wanted = {place: chosen(*place) for place in dict.fromkeys(at.place for at in self)}
        return [(at, slot) for at, slot in self.items() if wanted[at.place]]

    def oldest(self) -> tuple[Address, Slot]:
        return next(iter(self.items()))

    def next_ms(self, topic_of: Callable[[str], Topic], *, forgets: bool = False) -> int:
        """When something is next to be told, or an event ends; or, if that counts too, something is to be forgotten."""
        slots = [(slot, topic_of(at.topic)) for at, slot in self.items()]
        return min((slot.wake_ms(topic) if forgets else slot.next_ms(topic) for slot, topic in slots), default=NEVER)


class FilterMode(StrEnum):
    """Whether a broker asks the profiles of its links."""

    PROFILE = "profile"
    EVENT = "event"


@dataclass(slots=True)
class Filter:
    """What was offered to the links of a broker for an adaptive topic, in one window; and what that cost since the start.

    ``asked`` and ``matched`` are estimates while only samples are asked. ``rendezvous`` is what would have been sent if all
    went by the rendezvous.
    """

    start_ms: int
    mode: FilterMode = FilterMode.PROFILE
    offered: int = 0
    asked: int = 0
    matched: int = 0
    rendezvous: int = 0
    sent: int = 0
    before_sent: int = 0
    before_matched: int = 0

    @property
    def needed(self) -> int:
        """What had to be sent, in this window and all before."""
        return self.before_matched + self.matched

    @property
    def surplus(self) -> int:
        """What was sent beyond that."""
        return self.before_sent + self.sent - self.needed

    def close(self, mode: FilterMode) -> None:
        """A window ends; the next is counted from nothing."""
        self.before_sent += self.sent
        self.before_matched += self.matched
        self.mode = mode
        self.offered = self.asked = self.matched = self.rendezvous = self.sent = 0


@dataclass(slots=True)
class BucketState:
    """What a bucket remembers between steps. ``clock_ms`` is the lowest mark of all partitions: everything appended before it has
    been read."""

    version: int = 0
    clock_ms: int = 0
    partitions: tuple[str, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    slots: Memory = field(default_factory=PlainMemory)
    books: dict[str, Books] = field(default_factory=dict)
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    """By broker and neighbour, the number of the last record that was sent over the link."""
    heard: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By broker, neighbour and the neighbour's bucket, the number of the last record that came over the link."""
    filters: dict[tuple[str, str], Filter] = field(default_factory=dict)
    """By broker and topic, for topics whose filter is adaptive."""
    beats: dict[str, int] = field(default_factory=dict)
    """By subscription, the last heartbeat that there was a tick for; for those that this bucket beats for."""
    beats_due: dict[str, list[int]] = field(default_factory=dict)
    """Those of them that wait until all before them has been read."""
    offered: int = 0
    """How much was offered to the windows beyond links."""
    ticked: tuple[int, int] = (0, 0)
    """The version of the control data that the last tick named, and when it was first named: from then on all is held to it."""
    ticks: list[tuple[int, int]] = field(default_factory=list)
    """The same of some ticks before: a batch may have several, and windows begin with the one that named their subscription."""
    carried: set[tuple[str, str]] = field(default_factory=set)
    """Brokers and topics where hand-overs or messages wait for the version of the control data that their sender went by."""
    progress: dict[str, Progress] = field(default_factory=dict)
    """By service, how far it is: what entered at its brokers before has been sent on."""
    ways: dict[str, int] = field(default_factory=dict)
    """By topic, the version since which its messages travel as they do; those that always did are not there."""
    ending: dict[Address, int] = field(default_factory=dict)
    """Where events have ended and wait for what entered in time elsewhere; with the time of the first of them."""
    wake_ms: int = field(default=0, compare=False)
    """No timer fires before this; it only saves looking, so it is not part of what is stored."""
    changed: bool = field(default=False, compare=False)
    """Whether anything happened, if only that time passed."""
    size: int = 0
    """How many open events, tombstones and message ids are remembered; counted as they come and go, not stored."""

    def books_of(self, broker: str) -> Books:
        if (found := self.books.get(broker)) is None:
            found = self.books[broker] = Books()
        return found

    def events(self) -> Iterator[OpenEvent]:
        for slot in self.slots.values():
            yield from slot.open

    def drop(self, at: Address) -> None:
        """Nothing is remembered there, unless it has made room already."""
        if self.slots.get(at) is not None:
            del self.slots[at]
