"""How the memory of a broker moves to another when another gathers.

A hand-over carries the version of the control data that its last sender went by. Whoever goes by an older one keeps it until that
is taken up; all who go by the same one agree on the way. So it never runs in circles, and it does not get lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from streaming.broker.aside import put_event_aside
from streaming.broker.desk import Desk
from streaming.broker.gathering import leave_at_once
from streaming.broker.room import slot_at
from streaming.broker.state import Slot
from streaming.broker.telling import knows, release, settle_all
from streaming.broker.timers import advance_all, note_ending
from streaming.model.address import Address
from streaming.model.event import OpenEvent, find_event
from streaming.model.inputs import Heard
from streaming.model.links import HandOver
from streaming.model.outputs import MessageReason, Outcome
from tidings.topic import Topic
from topology.plan import Place, Plan, Role

_KEEPS = frozenset({Role.GATHERS, Role.SPREADS})


def hear_hand_over(desk: Desk, happened: Heard, record: HandOver) -> None:
    """A neighbour hands its memory of a key over: it stays here, or goes on to where it belongs."""
    topic, append_ms = desk.topic(record.topic), happened.origin.append_ms
    with slot_at(desk, happened.at, append_ms) as slot:
        advance_all(desk, slot, topic, append_ms)
        if _owns(desk, happened.at, record):
            _take_over(desk, slot, topic, happened, record)
        else:
            _hand_on(desk, slot, topic, happened, record)


def _owns(desk: Desk, at: Address, record: HandOver) -> bool:
    """Whether a hand-over has come to where it stays, for now at least."""
    if desk.plan.place(at.broker, at.topic).role in _KEEPS:
        return True
    if desk.state.version < record.version:
        desk.state.carried.add(at.place)
        return True
    return False


def hand_over(desk: Desk, at: Address, slot: Slot, before: Plan, now_ms: int) -> None:
    """Another broker gathers now. What was held here is let go, and all that is known goes there."""
    broker, name, key = at
    topic, books = desk.topic(name), desk.books(broker)
    to = desk.plan.place(broker, name).toward or _way_out(desk, before, broker, name)
    handed = []
    for event in slot.open:
        if event.release_ms is not None:
            release(desk, event, topic, now_ms)
        if to is None:
            _give_up(desk, event)
            event.kept, event.owed = [], set()
            continue
        handed.append(_copy(event, desk.sources_of(event)))
        settle_all(event, books, Outcome.FORWARDED, MessageReason.HANDED_OVER)
        event.elsewhere.reports, event.reports = event.all_reports, 0
        event.kept, event.owed = [], set()
        knows(event, to, event.knowledge)
    if to is not None:
        graves = tuple(structs.replace(grave, ledgers={}) for grave in slot.closed)  # what was told here is nobody else's concern
        desk.send(broker, to, HandOver(name, key, tuple(handed), graves, 1, desk.state.version), now_ms)


def _take_over(desk: Desk, slot: Slot, topic: Topic, happened: Heard, record: HandOver) -> None:
    """From here on this broker gathers: join what the other knew, and tell those who do not know it."""
    append_ms, books = happened.origin.append_ms, desk.books(happened.broker)
    known_graves = {(closed.span.first_ms, closed.span.last_ms) for closed in slot.closed}
    for grave in record.closed:
        if grave.forget_ms > append_ms and (grave.span.first_ms, grave.span.last_ms) not in known_graves:
            slot.closed.append(structs.replace(grave, span=structs.replace(grave.span)))
            desk.wake_at(grave.forget_ms)
    for handed in record.events:
        event = _joined(desk, slot, topic, happened, handed, record.version)
        event.opened_ms = min(event.opened_ms, handed.opened_ms)
        event.news_ms = max(event.news_ms, handed.news_ms)
        event.reports += handed.reports
        event.elsewhere.reports = max(0, event.elsewhere.reports - handed.reports, handed.elsewhere.reports)
        for source in sorted(handed.sources):
            desk.note_source(event, source)
        # Even if all can be reached, as far as is known here: whoever handed it over may know better.
        event.kept = [*event.kept, *(entry for entry in handed.kept if entry not in event.kept)]
        event.owed |= handed.owed
        books.received += handed.held
        books.enter(Outcome.HELD, MessageReason.HOLDING, handed.held)
        event.held += handed.held
        event.held_fields |= handed.held_fields
        leave_at_once(desk, slot, event, topic, append_ms)


def _hand_on(desk: Desk, slot: Slot, topic: Topic, happened: Heard, record: HandOver) -> None:
    """On its way, a hand-over leaves what it knows with each broker that it passes, and takes along what that knows."""
    broker, append_ms = happened.broker, happened.origin.append_ms
    to = _next(desk, desk.plan.place(broker, record.topic), happened.sender)
    carried = []
    for handed in record.events:
        event = _joined(desk, slot, topic, happened, handed, record.version)
        event.count_elsewhere(handed.all_reports, handed.all_sources, complete=handed.elsewhere.complete)
        if to is not None:
            knows(event, to, event.knowledge)
        leave_at_once(desk, slot, event, topic, append_ms)
        carried.append(structs.replace(handed, knowledge=event.knowledge, span=structs.replace(event.span)))
        if to is None:
            _give_up(desk, event)
    if to is not None:
        passed = replace(record, events=tuple(carried), hops=record.hops + 1, version=desk.state.version)
        desk.send(broker, to, passed, append_ms)


def owe_if_cut(desk: Desk, event: OpenEvent, news: Iterable[str], version: int) -> None:
    """News comes from somebody who did not know yet that some subscribers cannot be reached: nobody keeps it for them but us.
    Nor does anybody where nobody gathers."""
    place = desk.place_of(event)
    if place.cut_off and (version < desk.state.version or place.role is Role.SPREADS):
        event.owed.update(news)


def _joined(desk: Desk, slot: Slot, topic: Topic, happened: Heard, handed: OpenEvent, version: int) -> OpenEvent:
    """The event as it is known here, with all that was known of it there."""
    event = find_event(happened.at, slot.open, slot.closed, topic, handed.id, handed.span, happened.origin.append_ms)
    added = event.learn(handed.knowledge, handed.span, desk.rules.bounds)
    owe_if_cut(desk, event, added.news, version)
    event.elsewhere.complete = event.elsewhere.complete or handed.elsewhere.complete
    event.entered(handed.first)
    if event.ended_ms is not None:
        note_ending(desk, event.at, slot)
    knows(event, happened.sender, handed.knowledge)
    return event


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
        kept=list(event.kept),
        owed=set(event.owed),
        ended_ms=None,
        wait_ms=0,
    )


def _next(desk: Desk, place: Place, sender: str) -> str | None:
    """Where a hand-over goes from here; back, if this broker is not there any more."""
    if place.role is Role.GONE:
        return sender if desk.plan.has(sender) else None
    return place.toward


def _way_out(desk: Desk, before: Plan, broker: str, topic: str) -> str | None:
    """A broker that was taken out of the overlay leaves by a neighbour it had and that is still there."""
    if not before.has(broker):
        return None
    neighbours = before.overlay.neighbours(broker)
    open_to = sorted(name for name, link in neighbours.items() if topic not in link.forbid)
    return next((name for name in open_to if desk.plan.has(name)), None)


def _give_up(desk: Desk, event: OpenEvent) -> None:
    """The broker was taken out of the overlay, and no way leads out of it: what it knows is put aside, if anybody asks for it."""
    if event.at.topic not in desk.plan.asked_topics:
        return
    put_event_aside(
        desk,
        event,
        MessageReason.CUT_OFF,
        f"broker {event.at.broker!r} was taken out of the overlay, and no link leads out of it",
    )
