"""What brokers tell each other about events, and how the memory of one moves to another when another gathers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec import structs

from streaming.broker.desk import Desk
from streaming.broker.gathering import enter, make_room
from streaming.broker.offering import hear_window
from streaming.broker.pacing import reconsider_beats, reconsider_caps
from streaming.broker.passing import MOST_HOPS
from streaming.broker.state import Closed, Slot
from streaming.broker.telling import deliver, release, settle_all, tell, tell_links, watch
from streaming.broker.timers import advance_all
from streaming.broker.values import EventNews, HandOver, Heard, Outcome, Why, WindowRecord
from streaming.gather.ledger import Ledger
from streaming.gather.open_event import EventKey, OpenEvent, Span, open_from
from tidings import event as events
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import fact_digest
from topology.plan import Place, Plan, Role


def heard(desk: Desk, happened: Heard) -> None:
    """A neighbour told what is new about an event, or hands its memory over."""
    record = happened.record
    if desk.is_repeat(happened.broker, happened.sender, happened.stamp):
        return
    desk.heard(happened.broker, happened.sender, record, happened.size)
    if isinstance(record, WindowRecord):
        hear_window(desk, happened, record)
        return
    place = desk.plan.place(happened.broker, record.topic)
    if isinstance(record, HandOver) and place.role in (Role.PASSES, Role.GONE):
        to = happened.sender if place.role is Role.GONE else place.toward
        if to is not None and desk.plan.has(to) and record.hops < MOST_HOPS:
            _pass_on(desk, happened, record, to)
            return
    at: EventKey = (happened.broker, record.topic, record.key)
    slot = desk.state.slots.setdefault(at, Slot())
    before = slot.size
    topic = desk.topic(record.topic)
    advance_all(desk, slot, topic, happened.origin.append_ms)
    if isinstance(record, EventNews):
        _learn(desk, at, slot, topic, happened, record)
    else:
        _take_over(desk, at, slot, topic, happened, record)
    desk.state.size += slot.size - before
    desk.state.drop_if_empty(at)
    make_room(desk, happened.origin.append_ms)


def _learn(desk: Desk, at: EventKey, slot: Slot, topic: Topic, happened: Heard, news: EventNews) -> None:
    """Join what a neighbour knows. It has waited long enough there, so it goes on at once."""
    desk.books(at[0]).received += 1
    append_ms = happened.origin.append_ms
    event = _event(at, slot, topic, news.event, news.span, append_ms)
    knowledge = events.join(event.knowledge, news.knowledge, desk.rules.bounds)
    added = events.added(event.knowledge, knowledge)
    event.knowledge = knowledge
    _include(event, news.span)
    event.elsewhere.reports = max(event.elsewhere.reports, news.reports - event.reports)
    event.elsewhere.sources = max(event.elsewhere.sources, news.sources)
    event.elsewhere.complete = event.elsewhere.complete or news.complete
    _knows(event, happened.sender, {name: fact_digest(register.value) for name, register in news.knowledge.items()})
    enter(desk, event, happened.origin, added, happened.sender)
    if added.news:
        event.news_ms = append_ms
        release(desk, event, topic, append_ms, closing=news.final, heard_from=happened.sender)
    event.released = True
    desk.wake_at(event.next_ms(topic))


def _event(at: EventKey, slot: Slot, topic: Topic, event_id: str, span: Span, append_ms: int) -> OpenEvent:
    """The open event that a neighbour speaks of: by its id, else by the span of its reports, else a new one."""
    window_ms = topic.timing.window_ms
    event = next((event for event in slot.open if event.id == event_id), None)
    event = event or next((event for event in slot.open if event.span.joins(span, window_ms)), None)
    if event is None:
        event = open_from(at, event_id, span, append_ms)
        slot.open.append(event)
    return event


def _include(event: OpenEvent, span: Span) -> None:
    event.span.include(span.first_ms)
    event.span.include(span.last_ms)


def _knows(event: OpenEvent, neighbour: str, facts: dict[str, int]) -> None:
    """The neighbour need not be told these."""
    event.links.setdefault(neighbour, Ledger()).told.update(facts)


# ---- moving -----------------------------------------------------------------------------------------------------------


def reconsider(desk: Desk, before: Plan, now_ms: int) -> None:
    """A new version of the control data holds: apply it to all that is remembered."""
    reconsider_beats(desk, now_ms)
    changes: dict[tuple[str, str], _Change] = {}

    def concerns(broker: str, topic: str) -> bool:
        changes[broker, topic] = change = _Change.between(before, desk.plan, broker, topic)
        return change.any

    for at, slot in desk.state.slots.at(concerns):
        size, change = slot.size, changes[at[:2]]
        for event in slot.open:
            _reconsider(desk, event, before, change, now_ms)
        reconsider_caps(desk, at, slot, before, now_ms)
        desk.state.size += slot.size - size
        was, now = change.was.role, change.now.role
        if slot.open and was in (Role.GATHERS, Role.SPREADS) and now in (Role.PASSES, Role.GONE):
            _hand_over(desk, at, slot, before, now_ms)
        if now is Role.GONE:
            del desk.state.slots[at]
            desk.state.size -= slot.size
            for event in slot.open:
                settle_all(event, desk.books(at[0]), Outcome.MERGED, Why.UNWANTED)


@dataclass(frozen=True, slots=True)
class _Change:
    """What is different for a topic at a broker."""

    was: Place
    now: Place
    names: frozenset[str]
    """The subscriptions there are now."""
    changed: tuple[Subscription, ...]
    """Those that are new or other than they were."""
    any: bool

    @staticmethod
    def between(before: Plan, plan: Plan, broker: str, topic: str) -> _Change:
        at = (broker, topic)
        was, now = before.place(*at), plan.place(*at)
        had, has = before.snapshot.by_topic.get(at, ()), plan.snapshot.by_topic.get(at, ())
        same = had == has
        earlier = before.snapshot.subscriptions
        changed = () if same else tuple(s for s in has if earlier.get(s.name) != s)
        names = frozenset(s.name for s in has)
        return _Change(was, now, names, changed, not same or was != now or before.topic(topic) != plan.topic(topic))


def _reconsider(desk: Desk, event: OpenEvent, before: Plan, change: _Change, now_ms: int) -> None:
    """One that came is told what is known, one that went is forgotten: subscriptions and neighbours alike."""
    event.ledgers = {name: ledger for name, ledger in event.ledgers.items() if name in change.names}
    event.links = {name: ledger for name, ledger in event.links.items() if name in change.now.links}
    if not change.now.cut_off:
        event.kept = []
    for subscription in change.changed:
        if ledger := event.ledgers.get(subscription.name):
            ledger.reconsider(before.snapshot.subscriptions.get(subscription.name), subscription)
    watch(desk, event, now_ms)
    if event.released:
        topic = desk.topic(event.at[1])
        was = change.was.downward
        links = {name: profile for name, profile in change.now.downward.items() if was.get(name) != profile}
        told = tell(desk, event, topic, change.changed, now_ms)
        deliver(desk, event, told, tell_links(desk, event, topic, links, now_ms), now_ms)


def _hand_over(desk: Desk, at: EventKey, slot: Slot, before: Plan, now_ms: int) -> None:
    """Another broker gathers now. What was held here is let go, and all that is known goes there."""
    broker, name, key = at
    topic, books = desk.topic(name), desk.books(broker)
    to = desk.plan.place(broker, name).toward or _way_out(desk, before, broker, name)
    if to is None:
        return
    handed = []
    for event in slot.open:
        if event.release_ms is not None:
            release(desk, event, topic, now_ms)
        handed.append(_copy(event, desk.sources_of(event)))
        settle_all(event, books, Outcome.FORWARDED, Why.HANDED_OVER)
        event.elsewhere.reports, event.reports = event.all_reports, 0
        event.kept = []
        _knows(event, to, {name: fact_digest(register.value) for name, register in event.knowledge.items()})
    graves = tuple((closed.span, closed.forget_ms) for closed in slot.closed)
    known = {name: fact_digest(register.value) for event in slot.open for name, register in event.knowledge.items()}
    desk.send(broker, to, HandOver(name, key, tuple(handed), graves, known, 1), now_ms)


def _copy(event: OpenEvent, sources: set[int]) -> OpenEvent:
    """An event as it is now: what it becomes here is not what is handed over."""
    return structs.replace(
        event,
        span=structs.replace(event.span),
        elsewhere=structs.replace(event.elsewhere),
        sources=sources,
        held_fields=set(event.held_fields),
        ledgers={},
        links={},
        kept=[],
    )


def _way_out(desk: Desk, before: Plan, broker: str, topic: str) -> str | None:
    """A broker that was taken out of the overlay leaves by a neighbour it had and that is still there."""
    neighbours = before.overlay.neighbours(broker)
    open_to = sorted(name for name, link in neighbours.items() if topic not in link.forbid)
    return next((name for name in open_to if desk.plan.has(name)), None)


def _pass_on(desk: Desk, happened: Heard, record: HandOver, to: str) -> None:
    """On its way, a hand-over says what the broker before knows: the one that takes over need not tell it that."""
    slot = desk.state.slots.get((happened.broker, record.topic, record.key))
    known = {n: fact_digest(r.value) for event in (slot.open if slot else ()) for n, r in event.knowledge.items()}
    desk.send(happened.broker, to, replace(record, known=known, hops=record.hops + 1), happened.origin.append_ms)


def _take_over(desk: Desk, at: EventKey, slot: Slot, topic: Topic, happened: Heard, record: HandOver) -> None:
    """From here on this broker gathers: join what the other knew, and tell who does not know it."""
    append_ms, books = happened.origin.append_ms, desk.books(at[0])
    known_graves = {(closed.span.first_ms, closed.span.last_ms) for closed in slot.closed}
    for span, forget_ms in record.closed:
        if forget_ms > append_ms and (span.first_ms, span.last_ms) not in known_graves:
            slot.closed.append(Closed(Span(span.first_ms, span.last_ms), forget_ms))
            desk.wake_at(forget_ms)
    for handed in record.events:
        event = _event(at, slot, topic, handed.id, handed.span, append_ms)
        event.opened_ms = min(event.opened_ms, handed.opened_ms)
        event.news_ms = max(event.news_ms, handed.news_ms)
        event.knowledge = events.join(event.knowledge, handed.knowledge, desk.rules.bounds)
        _include(event, handed.span)
        event.reports += handed.reports
        event.elsewhere.reports = max(0, event.elsewhere.reports - handed.reports, handed.elsewhere.reports)
        for source in sorted(handed.sources):
            desk.note_source(event, source)
        event.elsewhere.complete = event.elsewhere.complete or handed.elsewhere.complete
        _knows(event, happened.sender, {n: d for n, d in record.known.items() if n in handed.knowledge})
        books.received += handed.held
        books.enter(Outcome.HELD, Why.HOLDING, handed.held)
        event.held += handed.held
        event.held_fields |= handed.held_fields
        release(desk, event, topic, append_ms)
        desk.wake_at(event.next_ms(topic))
