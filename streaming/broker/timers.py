"""Time: the timers of a key fire in their order, each at its own time."""

from __future__ import annotations

from collections.abc import Iterable

from streaming.broker.ahead import lose_patience
from streaming.broker.aside import put_kept_aside
from streaming.broker.desk import Desk
from streaming.broker.offering import offer_event
from streaming.broker.pacing import beat, end_waiting, forget_caps, tell_waiting
from streaming.broker.progress import behind, reached_ms, waits
from streaming.broker.state import NEVER, BucketState, Slot
from streaming.broker.telling import deliver, facts_known, release, settle_all, tell
from streaming.model.address import Address
from streaming.model.event import OpenEvent, Tombstone
from streaming.model.inputs import Input, Marked, Ticked
from streaming.model.outputs import MessageReason, Outcome
from streaming.notify.pace import waited_for
from streaming.notify.tell import Quiet
from tidings.topic import Topic


def pass_time(desk: Desk) -> None:
    """Move the clock to the lowest mark, and fire what is due by then."""
    state = desk.state
    lowest_ms = min((state.marks.get(partition, 0) for partition in state.partitions), default=0)
    if lowest_ms > state.clock_ms:
        state.clock_ms, desk.clock_moved = lowest_ms, True
        if lowest_ms >= state.wake_ms:
            _wake(desk, lowest_ms)


def time_passed(desk: Desk) -> None:
    """All that fired has come where it goes: events are over that waited for it."""
    if desk.clock_moved and desk.state.ending:
        _bury_all(desk)
    desk.clock_moved = False
    if desk.plan.snapshot.beating:
        beat(desk)


def furthest_clock(state: BucketState, inputs: Iterable[Input]) -> int:
    """How far the clock comes while these are taken in; nothing is changed."""
    partitions, marks, found_ms = state.partitions, dict(state.marks), state.clock_ms
    for happened in inputs:
        if isinstance(happened, Ticked):
            partitions = happened.partitions
            marks = {partition: ms for partition, ms in marks.items() if partition in partitions}
        elif isinstance(happened, Marked):
            marks[happened.partition] = max(happened.append_ms, marks.get(happened.partition, 0))
        found_ms = max(found_ms, min((marks.get(partition, 0) for partition in partitions), default=0))
    return found_ms


def _wake(desk: Desk, lowest_ms: int) -> None:
    state = desk.state
    state.wake_ms = NEVER
    later_ms = NEVER
    desk.end_quietly(lowest_ms)
    for at, slot in state.slots.due(lowest_ms):
        wake_ms = slot.wake_ms(desk.topic(at.topic)) if slot.open or slot.caps else slot.forget_ms
        if wake_ms > lowest_ms:
            # The plain memory does not know who is due. Mostly one of its keys is, and all others only say when they will be.
            state.changed = True
            if wake_ms < later_ms:
                later_ms = wake_ms
            continue
        with desk.touched(at, slot):
            advance_all(desk, slot, desk.topic(at.topic), lowest_ms)
            _forget(desk, at.broker, slot, lowest_ms)
    desk.wake_at(later_ms)


def advance_all(desk: Desk, slot: Slot, topic: Topic, now_ms: int) -> None:
    """Fire the timers of a key up to ``now_ms``, whichever of its events they belong to.

    They fire in the order of time, since the events of a key share the places that a subscription has in an hour.
    """
    while (at_ms := slot.next_ms(topic)) <= now_ms:
        if slot.due_ms == at_ms:
            tell_waiting(desk, slot, topic, at_ms)
        else:
            _fire(desk, slot, next(event for event in slot.open if event.next_ms(topic) == at_ms), topic, at_ms)


def _fire(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
    if event.ended_ms is not None:
        books = desk.books(event.at.broker)
        books.left_out["patience_ms"] += 1
        books.waited.update(behind(desk.state, desk.plan, event.at.place, event.ended_ms))
        bury(desk, slot, event, topic, now_ms)
        return
    due = sorted(name for name, ledger in event.ledgers.items() if ledger.due_ms == now_ms)
    if event.release_ms == now_ms:
        release(desk, event, topic, now_ms)
    elif due:
        _tell_due(desk, event, topic, due, now_ms)
    else:
        _end(desk, slot, event, topic, now_ms)


def _tell_due(desk: Desk, event: OpenEvent, topic: Topic, names: list[str], now_ms: int) -> None:
    """Tell those that have waited long enough, if what they waited for is still so."""
    due = [desk.plan.snapshot.subscriptions[name] for name in names]
    for name in names:
        event.ledgers[name].due_ms = None
    quiet: dict[str, Quiet] = {}
    told = tell(desk, event, topic, due, now_ms, quiet=quiet)
    deliver(desk, event, told, set(), now_ms)
    for subscription in due:
        ledger = event.ledgers[subscription.name]
        if quiet.get(subscription.name) is Quiet.DIFFERS and not ledger.capped:
            desk.books(event.at.broker).cancelled[waited_for(subscription, ledger, now_ms).word] += 1


def _end(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
    """The event ends. If it does with its window, and reports may be on their way that entered before, it waits for them."""
    tell_last(desk, slot, event, topic, now_ms)
    if now_ms < event.window_end_ms(topic) or not waits(desk.plan, event.at.place):
        bury(desk, slot, event, topic, now_ms)
        return
    event.ended_ms = event.window_end_ms(topic)  # now, unless its own way was longer than the window
    event.wait_ms = now_ms - event.ended_ms + desk.rules.patience_ms
    ending = desk.state.ending
    ending[event.at] = min(event.ended_ms, ending.get(event.at, NEVER))


def tell_last(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
    """Tell what is owed of an event that has ended, whatever the pace."""
    event.release_ms = None
    release(desk, event, topic, now_ms, closing=True)
    end_waiting(desk, slot, event, now_ms)


def close(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
    """The event has to make room: it ends, and nothing more is waited for."""
    if event.ended_ms is None:
        tell_last(desk, slot, event, topic, now_ms)
    bury(desk, slot, event, topic, now_ms)


def bury(desk: Desk, slot: Slot, event: OpenEvent, topic: Topic, now_ms: int) -> None:
    """All has come that belongs to an event: what nobody wanted is settled, it counts in windows, and a tombstone is left."""
    if (event.kept or event.owed) and (away := desk.place_of(event).cut_off):
        put_kept_aside(desk, event, f"no link led to the subscribers at {', '.join(away)} before the event ended")
    settle_all(event, desk.books(event.at.broker), Outcome.MERGED, MessageReason.UNWANTED)
    offer_event(desk, event, desk.place_of(event))
    slot.open.remove(event)
    if event.ended_ms is not None:
        note_ending(desk, event.at, slot)
    window_ms = topic.timing.window_ms
    if now_ms >= event.window_end_ms(topic):
        # After two windows a straggler is late by its own published time: nobody needs the tombstone any more.
        forget_ms = event.span.first_ms + 2 * window_ms + desk.slack_ms(event.at.place)
        in_overlay = bool(desk.plan.overlay.links)
        facts = facts_known(event.knowledge) if in_overlay else {}
        slot.closed.append(Tombstone(event.span, forget_ms, event.id, facts, event.ledgers if in_overlay else {}))
        desk.wake_at(forget_ms)


def note_ending(desk: Desk, at: Address, slot: Slot) -> None:
    """Of a key's events that wait for others, note when the first ended."""
    left = min((event.ended_ms for event in slot.open if event.ended_ms is not None), default=None)
    if left is None:
        desk.state.ending.pop(at, None)
    else:
        desk.state.ending[at] = left


def _bury_all(desk: Desk) -> None:
    """Bury the events for which all has come."""
    state = desk.state
    reached: dict[tuple[str, str], int] = {}
    for at, ended_ms in list(state.ending.items()):
        place = at.place
        if place not in reached:
            reached[place] = reached_ms(state, desk.plan, place, desk.rules)
        if ended_ms > reached[place]:
            continue
        slot = state.slots.get(at)
        if slot is None:
            del state.ending[at]
            continue
        with desk.touched(at, slot):
            for event in [each for each in slot.open if each.ended_ms is not None and each.ended_ms <= reached[place]]:
                bury(desk, slot, event, desk.topic(at.topic), state.clock_ms)
            note_ending(desk, at, slot)


def _forget(desk: Desk, broker: str, slot: Slot, now_ms: int) -> None:
    if slot.ahead:
        lose_patience(desk, broker, slot, now_ms)
    slot.closed = [closed for closed in slot.closed if closed.forget_ms > now_ms]
    slot.seen = {message_id: until_ms for message_id, until_ms in slot.seen.items() if until_ms > now_ms}
    if slot.spread:
        slot.spread = {message_id: version for message_id, version in slot.spread.items() if message_id in slot.seen}
    for until_ms in (*(closed.forget_ms for closed in slot.closed), *slot.seen.values()):
        desk.wake_at(until_ms)
    if slot.caps:
        forget_caps(desk, slot, now_ms)
