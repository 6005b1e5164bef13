"""A step in progress: the state at hand, the plan that holds, and what is to be done so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from streaming.broker.state import BucketState, Rules, Slot
from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.entry import Entry, Origin
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived, Heard
from streaming.model.items import Windowed
from streaming.model.links import LinkRecord, Stamp, kind_of
from streaming.model.outputs import Decided, Offer, Outcome, Output, PutAside, Send
from streaming.wire.inputs import handed_on
from streaming.wire.link import encode_link
from tidings import event as events
from tidings.errors import Unreadable
from tidings.subscription import Subscription
from tidings.topic import Topic
from topology.plan import Place, Plan


@dataclass
class Desk:
    """What all parts of a step work on."""

    state: BucketState
    plan_at: Callable[[int], Plan]
    rules: Rules
    outputs: list[Output] = field(default_factory=list)
    again: list[Arrived] = field(default_factory=list)
    """Messages that have waited here, and are to be taken in now."""
    clock_moved: bool = False
    """Whether the clock has moved, and what waits for that has not been looked at."""
    handed: deque[Arrived | Heard] = field(default_factory=deque)
    """What was sent over links by one broker and is to be taken in by another now, in its order, if this process hands on."""

    def __post_init__(self) -> None:
        self.plan = self.plan_at(self.state.version)

    def books(self, broker: str) -> Books:
        return self.state.books_of(broker)

    def topic(self, name: str) -> Topic:
        return self.plan.topic(name)

    def place_of(self, event: OpenEvent) -> Place:
        return self.plan.place(event.at.broker, event.at.topic)

    def subscriptions(self, event: OpenEvent) -> tuple[Subscription, ...]:
        return self.plan.snapshot.by_topic.get(event.at.place, ())

    def interested(self, event: OpenEvent) -> Iterable[Subscription]:
        """Those of them that the event may concern."""
        index = self.plan.snapshot.index(event.at.place)
        return index.candidates(event.at.key, events.facts(event.knowledge) if index.needs_facts else {})

    @contextmanager
    def touched(self, at: Address, slot: Slot) -> Iterator[None]:
        """What is remembered there changes: its size is counted, its timers are set, and it is dropped if it is empty.

        Whoever takes something in goes by `streaming.broker.room.slot_at`, which also keeps the bucket within its bound.
        """
        state, before = self.state, slot.size
        yield
        state.changed = True
        after = slot.size
        state.size += after - before
        if after == 0:
            state.drop(at)
        elif slot.open or slot.caps:
            self.wake_at(slot.next_ms(self.topic(at.topic)))

    def end_quietly(self, now_ms: int) -> None:
        """End events, and forget them, where nobody is told and nothing is settled: those that can be found without looking at
        each. Here none can: they end with the others."""

    def slack_ms(self, at: tuple[str, str]) -> int:
        """How long what entered elsewhere may be on its way to a broker, as far as it is waited for."""
        return self.rules.patience_ms if self.plan.sources(*at).count > 1 else 0

    def begins(self, arrived: Arrived) -> bool:
        """Whether a publication begins its way here, by the ways that hold: it entered here, or came by other ones, which may
        not have led to all; or somebody sent it back who is not in the overlay any more."""
        if arrived.sender is None or arrived.passed is None:
            return True
        return 0 < arrived.passed.version < self.state.version or not self.plan.has(arrived.sender)

    def wake_at(self, at_ms: int) -> None:
        """Something is to be done then."""
        self.state.wake_ms = min(self.state.wake_ms, at_ms)

    def decide(
        self,
        origin: Origin,
        broker: str,
        outcome: Outcome,
        reason: str,
        event: str | None = None,
        added: frozenset[str] = frozenset(),
    ) -> None:
        """Enter what becomes of a message into the books, and say so."""
        self.books(broker).enter(outcome, reason)
        self.outputs.append(Decided(origin, outcome, reason, event, added))

    def put_aside(
        self,
        origin: Origin,
        broker: str,
        reason: str,
        detail: str,
        outcome: Outcome = Outcome.DEAD_LETTERED,
        entry: Entry | None = None,
    ) -> None:
        """Write a record to `late` or `dead-letter` as its publisher sent it."""
        self.decide(origin, broker, outcome, reason)
        self.outputs.append(PutAside(entry.origin if entry else origin, outcome, reason, detail, entry))

    def send(self, broker: str, to: str, record: LinkRecord, now_ms: int) -> None:
        """Write a record to a link."""
        self.books(broker).sent[to, kind_of(record)] += 1
        number = self.state.sent[broker, to] = self.state.sent.get((broker, to), 0) + 1
        stamp = Stamp(self.rules.bucket, number)
        if not self.rules.hands_on:
            self.outputs.append(Send(broker, to, record, stamp, now_ms))
            return
        # Whatever was due by the clock has been told where it comes; a timer that fired may have been due before.
        send = Send(broker, to, record, stamp, max(now_ms, self.state.clock_ms), encode_link(record, stamp))
        self.outputs.append(send)
        self.handed.append(handed_on(send))

    def offer(
        self, broker: str, to: str, topic: str, item: Windowed, *, via: str | None = None, crosses: bool = False, at_ms: int = 0
    ) -> None:
        """Offer something to a link, for the windows beyond it."""
        self.state.offered += 1
        self.outputs.append(Offer(broker, to, topic, item, self.state.offered, via, crosses, at_ms, self.state.version))

    def heard_before(self, happened: Arrived | Heard) -> bool:
        """Count what came over a link. Whether it came before, too: its sender was interrupted, and sent it again."""
        record = happened.passed if isinstance(happened, Arrived) else happened.record
        if happened.sender is None or record is None:
            return False
        books, at = self.books(happened.broker), (happened.broker, happened.sender, happened.stamp.bucket)
        if happened.stamp.number <= self.state.heard.get(at, 0):
            books.left_out["repeated"] += 1
            return True
        self.state.heard[at] = happened.stamp.number
        books.heard[happened.sender, kind_of(record)] += 1
        books.heard_bytes[happened.sender] += happened.size
        return False

    def note_source(self, event: OpenEvent, source: int) -> None:
        """Count who reported, each once, up to a bound."""
        if source in event.sources:
            return
        if len(event.sources) < self.rules.sources:
            event.sources.add(source)
            event.source_count += 1
        else:
            self.books(event.at.broker).left_out["sources"] += 1

    def sources_of(self, event: OpenEvent) -> set[int]:
        """Digests of all who reported."""
        return set(event.sources)


def unknown_broker(broker: str) -> tuple[Unreadable, str]:
    """The reason and the detail for a message to a broker that is not there."""
    return Unreadable.UNKNOWN_BROKER, f"no broker {broker!r} in the overlay"
