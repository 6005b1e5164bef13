"""The pace that subscriptions ask for: what still waits when its event ends, what waits for a place in the hour, heartbeats."""

from __future__ import annotations

from streaming.broker.desk import Desk
from streaming.broker.progress import heard_ms
from streaming.broker.state import NEVER, BucketState, Rules, Slot
from streaming.broker.telling import settle, settle_all
from streaming.model.address import Address
from streaming.model.event import OpenEvent
from streaming.model.inputs import Ticked
from streaming.model.outputs import MessageReason, Outcome, Tell
from streaming.notify.digest import digest
from streaming.notify.pace import AT_MOST, HEARTBEAT, KEEPING
from streaming.notify.pace.pace import Telling
from streaming.notify.tell import owed, unmet
from tidings.notification import Notification, Reason
from tidings.subscription import Subscription
from tidings.topic import Topic
from topology.plan import Plan

MOST_BEATS = 64
"""This many beats of a subscription wait for a partition that lags, or a silent broker; beyond that, the oldest are left out."""
_FROM_THE_NEXT_TICK = -1


def end_waiting(desk: Desk, slot: Slot, event: OpenEvent, now_ms: int) -> None:
    """An event ends while something of it waits: a pace may keep its last words, the rest is not told."""
    subscriptions, books = desk.plan.snapshot.subscriptions, desk.books(event.at.broker)
    telling = Telling(event.at.key, now_ms, closing=True, caps=slot.caps)
    kept: set[str] = set()
    for name, ledger in event.ledgers.items():
        if (ledger.due_ms is None and not ledger.capped) or name not in subscriptions:
            continue
        subscription = subscriptions[name]
        if (why := unmet(event, subscription, now_ms)) is not None:
            books.cancelled[why.word] += 1
        elif (news := owed(event, subscription)) is not None:
            for pace in KEEPING:
                if (gave_way := pace.on_end(subscription, ledger, news, telling)) is not None:
                    kept.update(news.news)
                    books.left_out.update(["digest"] * gave_way)
    if event.held and not event.held_fields.isdisjoint(kept):
        settle_all(event, books, Outcome.MERGED, MessageReason.DIGESTED)


def tell_waiting(desk: Desk, slot: Slot, topic: Topic, now_ms: int) -> None:
    """A place has become free: tell all that waits for it."""
    for name in sorted(name for name, cap in slot.caps.items() if cap.due_ms == now_ms):
        cap, subscription = slot.caps[name], desk.plan.snapshot.subscriptions[name]
        cap.due_ms = None
        if now_ms < AT_MOST.free_ms(subscription, cap):
            AT_MOST.wait(subscription, cap, now_ms)
            continue
        waiting = [event for event in slot.open if (ledger := event.ledgers.get(name)) and ledger.capped]
        found = digest(waiting, subscription, cap, topic, now_ms)
        books = desk.books(subscription.broker)
        books.cancelled[AT_MOST.word] += found.cancelled
        if found.notification is None:
            continue
        _put_out(desk, subscription, found.notification, now_ms)
        for event, news in found.told:
            if event.held and not event.held_fields.isdisjoint(news.news):
                settle(event, books, Outcome.TOLD, Reason.DIGEST)


def _put_out(desk: Desk, subscription: Subscription, notification: Notification, now_ms: int) -> None:
    desk.books(subscription.broker).notifications[notification.reason] += 1
    desk.outputs.append(Tell(subscription.deliver, subscription.encoding, notification, now_ms))


def forget_caps(desk: Desk, slot: Slot, now_ms: int) -> None:
    """What was told more than an hour ago does not count any more."""
    slot.caps = {name: cap for name, cap in slot.caps.items() if cap.due_ms is not None or cap.forget_ms > now_ms}
    desk.wake_at(slot.forget_ms)


def reconsider_caps(desk: Desk, at: Address, slot: Slot, before: Plan, now_ms: int) -> None:
    """Subscriptions have changed: the places of those that went are forgotten, what waits for another number is looked at."""
    current = {s.name: s for s in desk.plan.snapshot.by_topic.get(at.place, ())}
    slot.caps = {name: cap for name, cap in slot.caps.items() if name in current}
    for name, cap in slot.caps.items():
        if cap.due_ms is not None and before.snapshot.subscriptions.get(name) != current[name]:
            AT_MOST.wait(current[name], cap, now_ms)


def reconsider_beats(desk: Desk) -> None:
    """Subscriptions have changed: one that came hears its first beat after the next tick."""
    state, names = desk.state, [subscription.name for subscription in _mine(desk)]
    state.beats = {name: state.beats.get(name, _FROM_THE_NEXT_TICK) for name in names}
    state.beats_due = {name: due for name, due in state.beats_due.items() if name in state.beats}


def note_beats(desk: Desk, tick: Ticked) -> None:
    """The clock ticked: the last multiple up to then is a beat. Ticks alone say which beats there are, since they stand in one
    order; after a gap without any, the latest says all that the others would have said."""
    state = desk.state
    for subscription in _mine(desk):
        name, beat_ms = subscription.name, HEARTBEAT.beat_ms(subscription, tick.append_ms)
        last_ms = state.beats.get(name, 0)
        if beat_ms <= last_ms or tick.version < subscription.since:
            continue  # a tick from before the subscription may be read after a mark that named it
        state.beats[name] = beat_ms
        state.changed = True
        if last_ms != _FROM_THE_NEXT_TICK:
            due = state.beats_due.setdefault(name, [])
            due.append(beat_ms)
            del due[:-MOST_BEATS]


def beat(desk: Desk) -> None:
    """Say that all is well to those who asked for it, when the lowest mark has passed a beat, and so have all brokers that
    messages come from."""
    state = desk.state
    lowest_ms = min((state.marks.get(partition, 0) for partition in state.partitions), default=0)
    for subscription in _mine(desk):
        due = state.beats_due.get(subscription.name)
        if not due or due[0] > lowest_ms:
            continue
        read_ms = min(lowest_ms, heard_ms(state, desk.plan, (subscription.broker, subscription.topic), desk.rules))
        for beat_ms in [each for each in due if each <= read_ms]:
            due.remove(beat_ms)
            state.changed = True
            _put_out(desk, subscription, HEARTBEAT.notification(subscription, beat_ms), beat_ms)


def next_beat_ms(state: BucketState, plan: Plan, rules: Rules) -> int:
    """When the next beat is to be noted; `NEVER` if nobody asks for one."""
    clock_ms = state.clock_ms
    return min((HEARTBEAT.beat_ms(each, clock_ms) + each.heartbeat_ms for each in _beaten(plan, rules)), default=NEVER)


def _mine(desk: Desk) -> list[Subscription]:
    return _beaten(desk.plan, desk.rules)


def _beaten(plan: Plan, rules: Rules) -> list[Subscription]:
    """Those that this bucket beats for: each has one bucket of the process that serves its broker."""
    return [
        subscription
        for number, subscription in plan.snapshot.beating
        if number % rules.buckets == rules.bucket_index
        and plan.has(subscription.broker)
        and (rules.hosted is None or subscription.broker in rules.hosted)
    ]
