"""The usual way of news: a report that opens an event, or adds fields to one, and disputes nothing.

It does what `streaming.broker.gathering` does for such a report, looking only at the facts that are new. Whatever is unusual
about a report is left to that.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.batch.desk import BatchDesk
from streaming.batch.rows import NO_SOURCE
from streaming.broker.gathering import let_leave
from streaming.broker.room import make_room
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import OpenEvent, open_event
from streaming.model.outputs import MessageReason, Outcome
from tidings.message import Message
from tidings.registers import Claim, Join, Register
from tidings.topic import Topic


def opens(desk: BatchDesk, at: Address, message: Message, published_ms: int, origin: Origin, source: int) -> OpenEvent | None:
    """Open an event under a key that nothing is known of. None if this is not as simple as that."""
    topic, append_ms = desk.topic(at.topic), origin.append_ms
    fields = message.fields
    late = published_ms + topic.timing.window_ms <= append_ms
    if late or len(fields) > desk.rules.event_fields or not _are_first(desk, topic, fields) or desk.plan.place(*at.place).cut_off:
        return None
    message_id = message.message_id
    event = open_event(at, message_id, published_ms, append_ms, origin)
    desk.state.slots.setdefault(at, Slot([event]))
    desk.state.size += 1
    _join(desk, event, topic, message, message_id, fields, published_ms, append_ms, source)
    make_room(desk, append_ms)
    return event


def adds(
    desk: BatchDesk, event: OpenEvent, names: list[str], message: Message, published_ms: int, append_ms: int, source: int
) -> bool:
    """Add fields that an event does not have. False, and nothing done, if this is not as simple as that."""
    topic = desk.topic(event.at.topic)
    knowledge = event.knowledge
    if (
        not names
        or len(knowledge) + len(names) > desk.rules.event_fields
        or not event.span.fits(published_ms, topic.timing.window_ms)
        or append_ms < event.entered_ms
        or not _are_first(desk, topic, names)
        or desk.place_of(event).cut_off
    ):
        return False
    _join(desk, event, topic, message, message.message_id, names, published_ms, append_ms, source)
    return True


def _are_first(desk: BatchDesk, topic: Topic, names: Iterable[str]) -> bool:
    """Whether these fields keep the first value, and can keep one that disputes it."""
    return desk.rules.bounds.conflicts > 0 and (not topic.joins or all(topic.join_of(name) is Join.FIRST for name in names))


def _join(
    desk: BatchDesk,
    event: OpenEvent,
    topic: Topic,
    message: Message,
    message_id: str,
    names: Iterable[str],
    published_ms: int,
    append_ms: int,
    source: int,
) -> None:
    fields, who = message.fields, message.source
    stated = {name: Register(Join.FIRST, (Claim(fields[name], published_ms, message_id, who),)) for name in names}
    event.knowledge = {**event.knowledge, **stated}
    event.span.include(published_ms)
    event.reports += 1
    if source != NO_SOURCE:
        desk.note_source(event, source)
    if not stated:
        desk.enter_known(event.at.broker, event.at.topic, 1)
        return
    books = desk.books(event.at.broker)
    books.received += 1
    books.enter(Outcome.HELD, MessageReason.HOLDING)
    event.held += 1
    event.held_fields.update(stated)
    let_leave(desk, event, topic, append_ms)
