"""An event that is still open at a broker: what is known of it, since when, and what is still held.

Pure data and small rules; `streaming.broker.step` decides when they apply.
"""

from __future__ import annotations

from msgspec import Struct, field

from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.model.ledger import Ledger
from tidings import event as events
from tidings.registers import Bounds, Register
from tidings.topic import Topic
from tidings.values import digest


class Span(Struct, array_like=True, gc=False):
    """The published times of an event's reports, first to last."""

    first_ms: int
    last_ms: int

    def fits(self, published_ms: int, window_ms: int) -> bool:
        """Whether a report of that time is about the same event: all reports of an event lie within one window.

        It asks for the whole span, not the distance to whichever report came first, so the order of arrival does not matter.
        """
        return max(self.last_ms, published_ms) - min(self.first_ms, published_ms) < window_ms

    def joins(self, other: Span, window_ms: int) -> bool:
        """Whether reports of both spans are about the same event."""
        return max(self.last_ms, other.last_ms) - min(self.first_ms, other.first_ms) < window_ms

    def include(self, published_ms: int) -> None:
        self.first_ms = min(self.first_ms, published_ms)
        self.last_ms = max(self.last_ms, published_ms)

    def take_in(self, other: Span) -> None:
        self.first_ms = min(self.first_ms, other.first_ms)
        self.last_ms = max(self.last_ms, other.last_ms)


class Tombstone(Struct, array_like=True):
    """What is left of an event whose window has ended: a straggler that belonged to it is late, not the start of a new event."""

    span: Span
    forget_ms: int
    event: str = ""
    facts: dict[str, int] = field(default_factory=dict)
    """In an overlay, what was known of it in the end: a digest for each field."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    """In an overlay, what each subscription was told: a neighbour may speak of the event again."""


class Elsewhere(Struct, array_like=True, gc=False):
    """What another broker, which gathers the event, counted."""

    reports: int = 0
    sources: int = 0
    complete: bool = False


class OpenEvent(Struct, array_like=True):
    """What is known of an event, and what has been told of it. Times named ``opened``, ``news`` and ``release`` are append times;
    the span is of published times."""

    id: str
    at: Address
    opening: str
    """Tells this opening of the event from others, here or at other brokers: notification ids follow from it."""
    opened_ms: int
    span: Span
    news_ms: int = 0
    knowledge: dict[str, Register] = field(default_factory=dict)
    reports: int = 0
    sources: set[int] = field(default_factory=set)
    """Digests of who reported. `source_count` says how many, even where the set is kept elsewhere."""
    source_count: int = 0
    held: int = 0
    """Messages that brought news which has not left yet."""
    held_fields: set[str] = field(default_factory=set)
    release_ms: int | None = None
    """When the held news leaves; None when nothing waits for the merge threshold."""
    released: bool = False
    """Whether the event has left once: before that, a late subscriber waits like everybody."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    links: dict[str, Ledger] = field(default_factory=dict)
    """What each neighbour has been told."""
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    kept: list[Entry] = field(default_factory=list)
    """Reports with news from while the overlay was cut: they are put aside if it does not heal in time."""
    owed: set[str] = field(default_factory=set)
    """Fields that somebody who cannot be reached was not told, and that no report among the kept ones may state."""
    first: Origin | None = None
    """Where the report stands that entered the overlay first, as far as this broker knows."""
    ended_ms: int | None = None
    """When it ended, if it has: it only waits for reports that entered before that, elsewhere."""
    wait_ms: int = 0
    """How long it waits for them at most."""

    @property
    def entered_ms(self) -> int:
        """When its first report entered the overlay."""
        return self.first.append_ms if self.first else self.opened_ms

    def entered(self, origin: Origin | None) -> None:
        """A report came that entered there. If the event had ended, and this is its first, it ended sooner, and waits as long."""
        if origin is not None and (self.first is None or _order(origin) < _order(self.first)):
            sooner_ms = self.entered_ms - origin.append_ms
            self.first = origin
            if self.ended_ms is not None and sooner_ms > 0:
                self.ended_ms -= sooner_ms
                self.wait_ms += sooner_ms

    @property
    def all_reports(self) -> int:
        return self.reports + self.elsewhere.reports

    @property
    def all_sources(self) -> int:
        return max(self.source_count, self.elsewhere.sources)

    def learn(self, knowledge: events.Knowledge, span: Span, bounds: Bounds) -> events.Added:
        """Join what another broker knows of it. Returns what that adds."""
        before, self.knowledge = self.knowledge, events.join(self.knowledge, knowledge, bounds)
        self.span.take_in(span)
        return events.added(before, self.knowledge)

    def count_elsewhere(self, reports: int, sources: int, *, complete: bool) -> None:
        """Another broker has counted so many in all, those from here among them."""
        self.elsewhere.reports = max(self.elsewhere.reports, reports - self.reports)
        self.elsewhere.sources = max(self.elsewhere.sources, sources)
        self.elsewhere.complete = self.elsewhere.complete or complete

    def is_complete(self, topic: Topic) -> bool:
        return self.elsewhere.complete or topic.is_complete(self.knowledge)

    def closes_ms(self, topic: Topic) -> int:
        """When the event ends: with its window (W), or sooner when nothing new came for the redundancy threshold (T_r).

        The window begins when the first report enters the overlay, wherever that is. Being forgotten by T_r waits for what is
        still to be told; the end of the window does not.
        """
        timing = topic.timing
        window_end = max(self.window_end_ms(topic), self.opened_ms)
        if timing.remember_ms >= timing.window_ms:
            return window_end
        waiting = [ledger.due_ms for ledger in self.ledgers.values() if ledger.due_ms is not None]
        forgotten = max([self.news_ms + timing.remember_ms, self.release_ms or 0, *waiting])
        return min(window_end, forgotten)

    def window_end_ms(self, topic: Topic) -> int:
        """What enters from then on does not belong to it."""
        return self.entered_ms + topic.timing.window_ms

    def takes(self, published_ms: int, entered_ms: int, topic: Topic) -> bool:
        """Whether a report of that time, which entered then, is about this event."""
        in_time = self.ended_ms is None or entered_ms < self.ended_ms
        return in_time and self.span.fits(published_ms, topic.timing.window_ms)

    def next_ms(self, topic: Topic) -> int:
        """The earliest time at which something is to be done."""
        if self.ended_ms is not None:
            return self.ended_ms + self.wait_ms
        next_ms = self.closes_ms(topic)
        if self.release_ms is not None:
            next_ms = min(next_ms, self.release_ms)
        for ledger in self.ledgers.values():
            if ledger.due_ms is not None and ledger.due_ms < next_ms:
                next_ms = ledger.due_ms
        return next_ms


def _order(origin: Origin) -> tuple[int, str, int, int]:
    return origin.append_ms, origin.kafka_topic, origin.partition, origin.offset


def open_event(at: Address, message_id: str, published_ms: int, append_ms: int, first: Origin | None = None) -> OpenEvent:
    """A new event. Its id follows from the report that opened it, so a replay gives it the same one."""
    name = digest(*at, message_id, append_ms)
    return OpenEvent(name, at, name, append_ms, Span(published_ms, published_ms), news_ms=append_ms, first=first)


def find_event(
    at: Address, open_: list[OpenEvent], closed: list[Tombstone], topic: Topic, event_id: str, span: Span, append_ms: int
) -> OpenEvent:
    """The open event that a neighbour speaks of: by its id, else by the span of its reports, else a new one.

    One that has ended here, and goes on there, is opened again; whoever was told of it is not told again.
    """
    event = next((event for event in open_ if event.id == event_id), None)
    if event is None:
        going_on = (event for event in open_ if event.ended_ms is None)
        event = next((event for event in going_on if event.span.joins(span, topic.timing.window_ms)), None)
    if event is None:
        event = open_from(at, event_id, span, append_ms)
        grave = next((each for each in closed if each.event == event_id), None)
        if grave is not None:
            event.ledgers = {name: ledger.again() for name, ledger in grave.ledgers.items()}
        open_.append(event)
    return event


def open_from(at: Address, event_id: str, span: Span, append_ms: int) -> OpenEvent:
    """An event that another broker opened, as it becomes known here."""
    opening = digest(*at, event_id, append_ms)
    return OpenEvent(event_id, at, opening, append_ms, Span(span.first_ms, span.last_ms), news_ms=append_ms)
