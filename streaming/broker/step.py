"""The one door to what a broker does: `step(state, inputs, control_at, rules) -> (state, outputs)`.

Time comes in with the inputs. Before a message is joined to its event, the event's timers up to the message's append time
fire, each at its own time; marks make the same timers fire in silence. So what is decided follows from the log alone, not from
where the stream was cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streaming.broker.books import Books
from streaming.broker.state import NEVER, BucketState, Closed, Rules, Slot
from streaming.broker.values import (
    Arrived,
    Decided,
    Input,
    Marked,
    Origin,
    Outcome,
    Output,
    PutAside,
    Refused,
    Tell,
    Ticked,
    Why,
)
from streaming.gather.open_event import EventKey, OpenEvent, open_event
from streaming.notify.tell import tell
from tidings import event as events
from tidings.control import Snapshot
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Notification
from tidings.registers import Join
from tidings.subscription import Subscription
from tidings.topic import Topic

_BOUND_OF = {Join.FIRST: "conflicts", Join.UNION: "union_items"}


def step(
    state: BucketState, inputs: Sequence[Input], control_at: Callable[[int], Snapshot], rules: Rules
) -> tuple[BucketState, list[Output]]:
    """Take in what happened, in the order it happened, and say what is to be done. The state given in is used up."""
    # A bucket that has never seen a tick takes the first one's control data for what came before it.
    if state.version == 0:
        state.version = next((i.version for i in inputs if isinstance(i, Ticked | Marked) and i.version is not None), 0)
        state.changed = state.changed or state.version > 0
    broker = _Bucket(state, control_at, rules)
    state.changed = state.changed or any(not isinstance(happened, Marked | Ticked) for happened in inputs)
    for happened in inputs:
        match happened:
            case Arrived():
                broker.arrived(happened)
            case Refused():
                state.books_of(happened.broker).received += 1
                broker.put_aside(happened.origin, happened.broker, happened.reason, happened.detail)
            case Marked():
                broker.marked(happened)
            case Ticked():
                broker.ticked(happened)
    return state, broker.outputs


@dataclass
class _Bucket:
    """One step in progress."""

    state: BucketState
    control_at: Callable[[int], Snapshot]
    rules: Rules
    outputs: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.control = self.control_at(self.state.version)

    # ---- messages -----------------------------------------------------------------------------------------------------

    def arrived(self, arrived: Arrived) -> None:
        message, origin = arrived.message, arrived.origin
        self.state.books_of(arrived.broker).received += 1
        published_ms = origin.append_ms if message.published_ms is None else message.published_ms
        if arrived.broker not in self.control.brokers:
            detail = f"no broker {arrived.broker!r} in the overlay"
            self.put_aside(origin, arrived.broker, Unreadable.UNKNOWN_BROKER, detail)
        elif (ahead_ms := published_ms - origin.append_ms) > self.rules.ahead_ms:
            detail = f"published {ahead_ms} ms after it was appended; at most {self.rules.ahead_ms} are allowed"
            self.put_aside(origin, arrived.broker, Unreadable.PUBLISHED_AHEAD, detail)
        else:
            at = (arrived.broker, message.topic, message.key)
            topic = self.control.topic(message.topic)
            slot = self.state.slots.setdefault(at, Slot())
            take = self._gather if topic.gather else self._measure
            before = slot.size
            take(at, slot, topic, message, origin, published_ms)
            self.state.size += slot.size - before
            self.state.drop_if_empty(at)
            self._make_room(origin.append_ms)

    def _gather(self, at: EventKey, slot: Slot, topic: Topic, message: Message, origin: Origin, published_ms: int) -> None:
        for event in list(slot.open):
            self._advance(slot, event, topic, origin.append_ms)
        window_ms = topic.timing.window_ms
        fitting = [event for event in slot.open if event.span.fits(published_ms, window_ms)]
        if fitting:
            event = fitting[0]
        else:
            was_closed = any(closed.span.fits(published_ms, window_ms) for closed in slot.closed)
            if was_closed or published_ms + window_ms <= origin.append_ms:
                self._late(origin, at[0], topic, published_ms)
                return
            event = open_event(at, message.message_id, published_ms, origin.append_ms)
            slot.open.append(event)
        self._join(event, topic, message, origin, published_ms)

    def _join(self, event: OpenEvent, topic: Topic, message: Message, origin: Origin, published_ms: int) -> None:
        report = events.report(message, published_ms, topic, self.rules.bounds)
        knowledge = events.join(event.knowledge, report, self.rules.bounds)
        if len(knowledge) > self.rules.event_fields:
            detail = f"the event would have {len(knowledge)} fields; at most {self.rules.event_fields} are allowed"
            self.put_aside(origin, event.at[0], Unreadable.EVENT_FULL, detail)
            return
        added = events.added(event.knowledge, knowledge)
        event.knowledge = knowledge
        event.span.include(published_ms)
        event.reports += 1
        self._note_source(event, message.source)
        left_out = self.state.books_of(event.at[0]).left_out
        left_out.update(_BOUND_OF[kind] for kind in events.left_out(report, knowledge))
        self._enter(event, origin, added)
        if added.news:
            event.news_ms = origin.append_ms
            if topic.timing.hold_ms == 0 or topic.is_complete(knowledge):
                self._release(event, topic, origin.append_ms)
            elif event.release_ms is None:
                event.release_ms = origin.append_ms + topic.timing.hold_ms
        self._wake_at(event.next_ms(topic))

    def _note_source(self, event: OpenEvent, source: str | None) -> None:
        if source is None or source in event.sources:
            return
        if len(event.sources) < self.rules.sources:
            event.sources.add(source)
        else:
            self.state.books_of(event.at[0]).left_out["sources"] += 1

    def _enter(self, event: OpenEvent, origin: Origin, added: events.Added) -> None:
        books = self.state.books_of(event.at[0])
        if added.news:
            outcome, reason = Outcome.HELD, Why.HOLDING
            event.held += 1
            event.held_fields |= added.news
        elif added.disputed:
            outcome, reason = Outcome.MERGED, Why.CONFLICT
        else:
            outcome, reason = Outcome.REDUNDANT, Why.KNOWN
        books.conflicts += added.conflicts
        books.enter(outcome, reason)
        self.outputs.append(Decided(origin, outcome, reason, event.id, added.news | added.disputed))

    def _measure(self, at: EventKey, slot: Slot, topic: Topic, message: Message, origin: Origin, published_ms: int) -> None:
        """A topic of measurements: each message is an event of its own; only an exact repeat is dropped."""
        books = self.state.books_of(at[0])
        message_id = message.message_id
        if slot.seen.get(message_id, 0) > origin.append_ms:
            books.enter(Outcome.REDUNDANT, Why.REPEAT)
            self.outputs.append(Decided(origin, Outcome.REDUNDANT, Why.REPEAT))
            return
        if published_ms + topic.timing.window_ms <= origin.append_ms:
            self._late(origin, at[0], topic, published_ms)
            return
        slot.seen[message_id] = origin.append_ms + topic.timing.remember_ms
        self._wake_at(slot.seen[message_id])
        event = open_event(at, message_id, published_ms, origin.append_ms)
        event.knowledge = events.report(message, published_ms, topic, self.rules.bounds)
        event.reports = 1
        event.sources = set() if message.source is None else {message.source}
        event.held, event.held_fields = 1, set(event.knowledge)
        books.enter(Outcome.HELD, Why.HOLDING)
        self.outputs.append(Decided(origin, Outcome.HELD, Why.HOLDING, event.id, frozenset(event.knowledge)))
        self._deliver(event, tell(event, topic, self._subscriptions(event), origin.append_ms), origin.append_ms)
        self._settle_unwanted(event)

    # ---- putting aside ------------------------------------------------------------------------------------------------

    def _late(self, origin: Origin, broker: str, topic: Topic, published_ms: int) -> None:
        detail = f"published {origin.append_ms - published_ms} ms before it arrived; the window is {topic.timing.window_ms} ms"
        self.state.books_of(broker).enter(Outcome.LATE, Why.WINDOW_CLOSED)
        self.outputs.append(Decided(origin, Outcome.LATE, Why.WINDOW_CLOSED))
        self.outputs.append(PutAside(origin, Outcome.LATE, Why.WINDOW_CLOSED, detail))

    def put_aside(self, origin: Origin, broker: str, reason: Unreadable, detail: str) -> None:
        self.state.books_of(broker).enter(Outcome.DEAD_LETTERED, reason)
        self.outputs.append(Decided(origin, Outcome.DEAD_LETTERED, reason))
        self.outputs.append(PutAside(origin, Outcome.DEAD_LETTERED, reason, detail))

    # ---- time ---------------------------------------------------------------------------------------------------------

    def pass_time(self) -> None:
        """Move the clock to the lowest mark, and fire what is due by then."""
        state = self.state
        lowest_ms = min((state.marks.get(partition, 0) for partition in state.partitions), default=0)
        if lowest_ms <= state.clock_ms:
            return
        state.clock_ms = lowest_ms
        if lowest_ms < state.wake_ms:
            return
        state.wake_ms = NEVER
        for at, slot in list(state.slots.items()):
            before = slot.size
            topic = self.control.topic(at[1])
            for event in list(slot.open):
                self._advance(slot, event, topic, lowest_ms)
            self._forget(slot, lowest_ms)
            state.changed = state.changed or slot.size != before
            state.size += slot.size - before
            state.drop_if_empty(at)

    def _advance(self, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
        """Fire the event's timers up to ``now_ms``, each at its own time."""
        while (at_ms := event.next_ms(topic)) <= now_ms:
            self.state.changed = True
            if event.release_ms == at_ms:
                self._release(event, topic, at_ms)
            elif any(ledger.due_ms == at_ms for ledger in event.ledgers.values()):
                self._tell_due(event, topic, at_ms)
            else:
                self._close(slot, event, topic, at_ms)
                return
        self._wake_at(at_ms)

    def _release(self, event: OpenEvent, topic: Topic, now_ms: int) -> None:
        event.release_ms = None
        event.released = True
        self._deliver(event, tell(event, topic, self._subscriptions(event), now_ms), now_ms)

    def _tell_due(self, event: OpenEvent, topic: Topic, now_ms: int) -> None:
        due = [s for s in self._subscriptions(event) if (ledger := event.ledgers.get(s.name)) and ledger.due_ms == now_ms]
        for name in [name for name, ledger in event.ledgers.items() if ledger.due_ms == now_ms]:
            event.ledgers[name].due_ms = None
        self._deliver(event, tell(event, topic, due, now_ms), now_ms)

    def _close(self, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
        self._deliver(event, tell(event, topic, self._subscriptions(event), now_ms, closing=True), now_ms)
        self._settle_unwanted(event)
        slot.open.remove(event)
        window_ms = topic.timing.window_ms
        if now_ms >= event.opened_ms + window_ms:
            # After two windows a straggler is late by its own published time: nobody needs the grave any more.
            forget_ms = event.span.first_ms + 2 * window_ms
            slot.closed.append(Closed(event.span, forget_ms))
            self._wake_at(forget_ms)

    def _forget(self, slot: Slot, now_ms: int) -> None:
        slot.closed = [closed for closed in slot.closed if closed.forget_ms > now_ms]
        slot.seen = {message_id: until_ms for message_id, until_ms in slot.seen.items() if until_ms > now_ms}
        for until_ms in (*(closed.forget_ms for closed in slot.closed), *slot.seen.values()):
            self._wake_at(until_ms)

    def _wake_at(self, at_ms: int) -> None:
        self.state.wake_ms = min(self.state.wake_ms, at_ms)

    def _make_room(self, now_ms: int) -> None:
        """Keep the bucket within its bound: the oldest slot gives way, is told what it was due, and counted."""
        while self.state.size > self.rules.open_events:
            at, slot = next(iter(self.state.slots.items()))
            del self.state.slots[at]
            self.state.size -= slot.size
            topic = self.control.topic(at[1])
            for event in list(slot.open):
                self._close(slot, event, topic, now_ms)
                self.state.books_of(at[0]).evicted += 1

    # ---- control ------------------------------------------------------------------------------------------------------

    def marked(self, mark: Marked) -> None:
        if mark.version is not None:
            self._adopt(mark.version, mark.append_ms)
        self.state.marks[mark.partition] = max(mark.append_ms, self.state.marks.get(mark.partition, 0))
        self.pass_time()

    def ticked(self, tick: Ticked) -> None:
        state = self.state
        state.partitions = tick.partitions
        state.marks = {p: ms for p, ms in state.marks.items() if p in tick.partitions}
        self._adopt(tick.version, tick.append_ms)
        for broker in self.control.brokers:
            state.books_of(broker)  # empty books are told too: nothing received is news to a person who looks
        self.pass_time()

    def _adopt(self, version: int, now_ms: int) -> None:
        """From here on this version of the control data holds, unless a later one does already."""
        state = self.state
        if version <= state.version:
            return
        before, self.control = self.control, self.control_at(version)
        state.version = version
        state.changed = True
        for event in list(state.events()):
            self._reconsider(event, before, now_ms)
        state.wake_ms = 0  # windows and cadences may have become shorter

    def _reconsider(self, event: OpenEvent, before: Snapshot, now_ms: int) -> None:
        """Apply changed subscriptions to an open event: one that came is told what is known, one that went is forgotten."""
        subscriptions = self._subscriptions(event)
        current = {s.name: s for s in subscriptions}
        event.ledgers = {name: ledger for name, ledger in event.ledgers.items() if name in current}
        changed = [s for s in subscriptions if before.subscriptions.get(s.name) != s]
        for subscription in changed:
            if ledger := event.ledgers.get(subscription.name):
                ledger.due_ms = None
        if event.released:
            topic = self.control.topic(event.at[1])
            self._deliver(event, tell(event, topic, changed, now_ms), now_ms)

    def _subscriptions(self, event: OpenEvent) -> tuple[Subscription, ...]:
        return self.control.by_topic.get(event.at[:2], ())

    # ---- telling ------------------------------------------------------------------------------------------------------

    def _deliver(self, event: OpenEvent, told: Iterable[tuple[Subscription, Notification]], now_ms: int) -> None:
        books = self.state.books_of(event.at[0])
        for subscription, notification in told:
            books.notifications[notification.reason] += 1
            self.outputs.append(Tell(subscription.deliver, subscription.encoding, notification, now_ms))
            if event.held and not event.held_fields.isdisjoint(notification.news):
                self._settle(event, books, Outcome.TOLD, notification.reason)

    def _settle(self, event: OpenEvent, books: Books, outcome: Outcome, reason: str) -> None:
        """What was held has left: one message is told, the others were merged into it."""
        books.enter(Outcome.HELD, Why.HOLDING, -event.held)
        books.enter(outcome, reason)
        books.enter(Outcome.MERGED, Why.JOINED, event.held - 1)
        event.held = 0
        event.held_fields = set()

    def _settle_unwanted(self, event: OpenEvent) -> None:
        books = self.state.books_of(event.at[0])
        books.enter(Outcome.HELD, Why.HOLDING, -event.held)
        books.enter(Outcome.MERGED, Why.UNWANTED, event.held)
        event.held = 0
