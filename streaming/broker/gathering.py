"""What the broker that gathers does with a message: find its event, join it, and let news leave when it is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.broker.desk import Desk
from streaming.broker.offering import Taken
from streaming.broker.pacing import end_waiting
from streaming.broker.state import Slot
from streaming.broker.telling import deliver, release, settle_all, tell, tell_links, watch
from streaming.broker.timers import advance_all, note_ending, tell_last
from streaming.model.entry import Entry, Origin
from streaming.model.event import OpenEvent, open_event
from streaming.model.inputs import Arrived
from streaming.model.outputs import MessageReason, Outcome, PutAside, Unsent
from tidings import event as events
from tidings.errors import Unreadable
from tidings.predicate import Verdict
from tidings.topic import Topic
from tidings.values import Value, source_digest
from topology.plan import Role


def gather(desk: Desk, slot: Slot, arrived: Arrived) -> OpenEvent | None:
    """Join a message to its event, or open one; returns that event. What would belong to a closed event is late.

    What counts is when it entered the overlay, not when it came here.
    """
    topic = desk.topic(arrived.message.topic)
    append_ms, published_ms = arrived.origin.append_ms, arrived.published_ms
    advance_all(desk, slot, topic, append_ms)
    entered_ms = arrived.entry.origin.append_ms
    event = next((event for event in slot.open if event.takes(published_ms, entered_ms, topic)), None)
    if event is None:
        if _is_over(slot, published_ms, topic) or _too_old(desk, arrived, topic):
            _late(desk, topic, arrived)
            return None
        event = open_event(arrived.at, arrived.message.message_id, published_ms, append_ms, arrived.entry.origin)
        slot.open.append(event)
    return _join(desk, slot, event, topic, arrived)


def _is_over(slot: Slot, published_ms: int, topic: Topic) -> bool:
    """Whether a report of that time would belong to an event whose window has ended."""
    window_ms = topic.timing.window_ms
    ended = (event.span for event in slot.open if event.ended_ms is not None)
    return any(span.fits(published_ms, window_ms) for span in (*ended, *(closed.span for closed in slot.closed)))


def _too_old(desk: Desk, arrived: Arrived, topic: Topic) -> bool:
    """Whether a message comes too late to open an event.

    The way through the overlay is not held against it, for as long as tombstones are kept: beyond that nobody could
    tell it from a straggler of an event that was told before.
    """
    published_ms, window_ms = arrived.published_ms, topic.timing.window_ms
    slack_ms = desk.slack_ms((arrived.broker, arrived.message.topic))
    too_old = published_ms + window_ms <= arrived.entry.origin.append_ms
    return too_old or published_ms + 2 * window_ms + slack_ms <= arrived.origin.append_ms


def _late(desk: Desk, topic: Topic, arrived: Arrived) -> None:
    slack_ms, waited_ms = desk.slack_ms(arrived.at.place), arrived.origin.append_ms - arrived.published_ms
    detail = f"published {waited_ms} ms before it arrived; the window is {topic.timing.window_ms} ms"
    way_ms = arrived.origin.append_ms - arrived.entry.origin.append_ms
    if way_ms > slack_ms and arrived.passed:
        detail += f"; it was on its way for {way_ms} ms, and {slack_ms} are waited for"
    desk.put_aside(arrived.origin, arrived.broker, MessageReason.WINDOW_CLOSED, detail, Outcome.LATE, _entry(arrived))


def _entry(arrived: Arrived) -> Entry | None:
    """The publication itself, if what was just read is a neighbour's record about it."""
    return arrived.entry if arrived.passed else None


def _join(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, arrived: Arrived) -> OpenEvent | None:
    """Join a message to this event, unless the event would have too many fields then."""
    report = events.report(arrived.message, arrived.published_ms, topic, desk.rules.bounds)
    knowledge = events.join(event.knowledge, report, desk.rules.bounds)
    if len(knowledge) > desk.rules.event_fields:
        _refuse_full(desk, arrived, len(knowledge))
        return None
    added = events.added(event.knowledge, knowledge)
    event.knowledge = knowledge
    event.span.include(arrived.published_ms)
    event.reports += 1
    _note_where_from(desk, slot, event, arrived)
    desk.books(arrived.broker).left_out.update(events.left_out(report, knowledge))
    enter(desk, event, arrived.origin, added, arrived.sender)
    if added.news:
        _keep_if_cut(desk, event, arrived, added.news)
        if event.ended_ms is None:
            let_leave(desk, event, topic, arrived.origin.append_ms)
        else:
            tell_last(desk, slot, event, topic, arrived.origin.append_ms)
    return event


def _refuse_full(desk: Desk, arrived: Arrived, fields: int) -> None:
    detail = f"the event would have {fields} fields; at most {desk.rules.event_fields} are allowed"
    desk.put_aside(arrived.origin, arrived.broker, Unreadable.EVENT_FULL, detail, entry=_entry(arrived))


def _note_where_from(desk: Desk, slot: Slot, event: OpenEvent, arrived: Arrived) -> None:
    """Note where a report entered, which may be before all others, and who reported."""
    if arrived.passed or arrived.origin.append_ms <= event.entered_ms:  # it stood in a partition that was read later
        event.entered(arrived.entry.origin)
        if event.ended_ms is not None:
            note_ending(desk, event.at, slot)
    if arrived.message.source is not None:
        desk.note_source(event, source_digest(arrived.message.source))


def let_leave(desk: Desk, event: OpenEvent, topic: Topic, append_ms: int) -> None:
    """News came: it leaves when it is due."""
    event.news_ms = append_ms
    if topic.timing.hold_ms == 0 or event.is_complete(topic):
        release(desk, event, topic, append_ms)
    else:
        watch(desk, event, append_ms)
        if event.release_ms is None:
            event.release_ms = append_ms + topic.timing.hold_ms


def leave_at_once(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int, *, closing: bool = False) -> None:
    """News came that has waited elsewhere: it leaves at once, even of an event that has ended. Where nobody gathers any more, it
    goes on to all, as messages do."""
    if event.ended_ms is None:
        release(desk, event, topic, now_ms, closing=closing)
    else:
        tell_last(desk, slot, event, topic, now_ms)
    if (place := desk.place_of(event)).role is Role.SPREADS:
        deliver(desk, event, (), tell_links(desk, event, topic, place.links, now_ms), now_ms)


def enter(desk: Desk, event: OpenEvent, origin: Origin, added: events.Added, sender: str | None) -> None:
    """Enter a message that was joined into the books."""
    broker = event.at.broker
    if added.news:
        outcome, reason = Outcome.HELD, MessageReason.HOLDING
        event.held += 1
        event.held_fields |= added.news
    else:
        outcome, reason = (Outcome.MERGED, MessageReason.CONFLICT) if added.disputed else (Outcome.REDUNDANT, MessageReason.KNOWN)
        for neighbour in desk.place_of(event).downward:
            if neighbour != sender:
                desk.books(broker).unsent[neighbour, Unsent.KNOWN] += 1
    desk.books(broker).conflicts += added.conflicts
    desk.decide(origin, broker, outcome, reason, event.id, added.news | added.disputed)


def _keep_if_cut(desk: Desk, event: OpenEvent, arrived: Arrived, news: Iterable[str]) -> None:
    """While some subscribers cannot be reached, news is kept as it came, in case the overlay does not heal in time.

    Where nobody gathers for all, each broker does for its own: the one where a message entered keeps it.
    """
    place = desk.place_of(event)
    if not place.cut_off or (place.role is Role.SPREADS and not desk.begins(arrived)):
        return
    if len(event.kept) < desk.rules.kept:
        event.kept.append(arrived.entry)
    else:
        event.owed.update(news)
        desk.books(event.at.broker).left_out["kept"] += 1


def measure(desk: Desk, slot: Slot, arrived: Arrived, *, crossed: bool, counted: tuple[Taken, list[str]]) -> None:
    """A topic of measurements: each message is an event of its own, told at once. ``crossed``: it also left over a link.

    ``counted``: what windows made of it, and for whose it came too late.
    """
    at, origin, message = arrived.at, arrived.origin, arrived.message
    topic = desk.topic(at.topic)
    advance_all(desk, slot, topic, origin.append_ms)
    event = open_event(at, message.message_id, arrived.published_ms, origin.append_ms)
    event.knowledge = events.report(message, arrived.published_ms, topic, desk.rules.bounds)
    event.reports = 1
    if message.source is not None:
        event.source_count = 1
    event.held, event.held_fields = 1, set(event.knowledge)
    desk.decide(origin, at.broker, Outcome.HELD, MessageReason.HOLDING, event.id, frozenset(event.knowledge))
    told = tell(desk, event, topic, desk.interested(event), origin.append_ms)
    deliver(desk, event, told, set(event.knowledge) if crossed else set(), origin.append_ms)
    if slot.caps:
        end_waiting(desk, slot, event, origin.append_ms)
    taken, too_late_for = counted
    away = _put_aside_if_cut(desk, arrived, events.facts(event.knowledge))
    is_late = event.held > 0 and not crossed and taken is Taken.MISSED
    books = desk.books(at.broker)
    if away:
        books.left_out["cut-off"] += not (event.held > 0 and not crossed and taken is Taken.NOWHERE)
    settle_all(event, books, *_end(crossed, taken, away))
    if too_late_for:
        detail = (
            f"published {origin.append_ms - arrived.published_ms} ms before it arrived; too late for {', '.join(too_late_for)}"
        )
        desk.outputs.append(PutAside(origin, Outcome.LATE, MessageReason.WINDOW_CLOSED, detail, _entry(arrived)))
        books.left_out["window"] += not is_late


def _put_aside_if_cut(desk: Desk, arrived: Arrived, facts: Mapping[str, Value]) -> bool:
    """Put a measurement aside if no link leads from where its way begins to some subscribers that want it.

    It is over when it comes: there is nothing to wait for.
    """
    if not desk.begins(arrived):
        return False
    broker, topic, key = arrived.at
    by_topic = desk.plan.snapshot.by_topic
    cut_off = desk.plan.place(broker, topic).cut_off
    away = [name for name in cut_off if any(s.judge(key, facts) is Verdict.MATCHES for s in by_topic.get((name, topic), ()))]
    if away:
        detail = f"no link leads to the subscribers at {', '.join(away)}"
        desk.outputs.append(PutAside(arrived.entry.origin, Outcome.LATE, MessageReason.CUT_OFF, detail, _entry(arrived)))
    return bool(away)


def measure_again(desk: Desk, arrived: Arrived) -> None:
    """A measurement that was taken in before has gone on once more, by other ways: these may lead to fewer than those did."""
    topic = desk.topic(arrived.message.topic)
    report = events.report(arrived.message, arrived.published_ms, topic, desk.rules.bounds)
    desk.books(arrived.broker).left_out["cut-off"] += _put_aside_if_cut(desk, arrived, events.facts(report))


def _end(crossed: bool, taken: Taken, cut_off: bool) -> tuple[Outcome, MessageReason]:
    """What becomes of a measurement that nobody here was told."""
    if crossed:
        return Outcome.FORWARDED, MessageReason.TO_SUBSCRIBERS
    if taken is Taken.MISSED:
        return Outcome.LATE, MessageReason.WINDOW_CLOSED
    if cut_off and taken is Taken.NOWHERE:
        return Outcome.LATE, MessageReason.CUT_OFF
    return Outcome.MERGED, MessageReason.WINDOWED if taken is Taken.COUNTED else MessageReason.UNWANTED


def seen_before(desk: Desk, slot: Slot, arrived: Arrived) -> bool:
    """Drop a measurement that is an exact repeat, or too old to tell whether it is one; otherwise remember its id."""
    broker, topic = arrived.broker, desk.topic(arrived.message.topic)
    message_id, entered_ms = arrived.message.message_id, arrived.entry.origin.append_ms
    # It is remembered for longer where repeats may be on their way; but what entered later than that is none.
    slack_ms = desk.slack_ms((broker, topic.name))
    if slot.seen.get(message_id, 0) - slack_ms > entered_ms:
        desk.decide(arrived.origin, broker, Outcome.REDUNDANT, MessageReason.REPEAT)
        return True
    if _too_old(desk, arrived, topic):
        _late(desk, topic, arrived)
        return True
    slot.seen[message_id] = entered_ms + topic.timing.remember_ms + slack_ms
    desk.wake_at(slot.seen[message_id])
    return False
