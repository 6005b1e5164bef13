"""The usual way of news: a report that opens an event, or adds fields to one, and disputes nothing.

It does what `streaming.broker.gathering` does for such a report, looking only at the facts that are new. Whatever is unusual
about a report is left to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.batch.desk import BatchDesk
from streaming.batch.ground import Ground
from streaming.batch.quick_tell import let_leave
from streaming.batch.rows import NO_SOURCE
from streaming.broker import gathering
from streaming.broker.room import make_room
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import OpenEvent, open_event
from streaming.model.outputs import MessageReason, Outcome
from tidings import event as events
from tidings.message import Message
from tidings.registers import Claim, Join, Register
from tidings.values import Value

_FIRST = Join.FIRST
_HELD = Outcome.HELD, MessageReason.HOLDING


def opens(desk: BatchDesk, ground: Ground, message: Message, published_ms: int, origin: Origin, source: int) -> OpenEvent | None:
    """Open an event under a key that nothing is known of. None if this is not as simple as that."""
    append_ms, fields, rules = origin.append_ms, message.fields, desk.rules
    late = published_ms + ground.timing.window_ms <= append_ms
    if late or ground.cut_off or len(fields) > rules.event_fields or not ground.takes(fields, rules.bounds.conflicts):
        return None
    at = Address(ground.broker, message.topic, message.key)
    message_id = message.message_id
    event = open_event(at, message_id, published_ms, append_ms, origin)
    event.knowledge = _stated(ground, message, message_id, fields, published_ms)
    event.reports = 1
    desk.shelf.setdefault(at, Slot([event]))
    desk.state.size += 1
    _note(desk, ground, event, fields, fields, append_ms, source)
    if desk.state.size > rules.open_events:
        make_room(desk, append_ms)
    return event


def adds(
    desk: BatchDesk,
    ground: Ground,
    event: OpenEvent,
    names: list[str],
    message: Message,
    published_ms: int,
    append_ms: int,
    source: int,
) -> bool:
    """Add fields that an event does not have. False, and nothing done, if this is not as simple as that."""
    knowledge, rules = event.knowledge, desk.rules
    if (
        not names
        or ground.cut_off
        or len(knowledge) + len(names) > rules.event_fields
        or not event.span.fits(published_ms, ground.timing.window_ms)
        or append_ms < event.entered_ms
        or not ground.takes(names, rules.bounds.conflicts)
    ):
        return False
    event.knowledge = {**knowledge, **_stated(ground, message, message.message_id, names, published_ms)}
    event.span.include(published_ms)
    event.reports += 1
    _note(desk, ground, event, names, events.facts(event.knowledge), append_ms, source)
    return True


def _stated(
    ground: Ground, message: Message, message_id: str, names: Iterable[str], published_ms: int
) -> dict[str, Register]:
    """What a message says, of fields that nobody has stated."""
    fields, who = message.fields, message.source
    if not ground.joins:
        return {name: Register(_FIRST, (Claim(fields[name], published_ms, message_id, who),)) for name in names}
    join_of = ground.topic.join_of
    return {name: Register(join_of(name), (Claim(fields[name], published_ms, message_id, who),)) for name in names}


def _note(
    desk: BatchDesk,
    ground: Ground,
    event: OpenEvent,
    news: Iterable[str],
    facts: Mapping[str, Value],
    append_ms: int,
    source: int,
) -> None:
    """Enter the message into the books, and let what it added leave. ``facts`` are all that are known."""
    if source != NO_SOURCE:
        desk.note_source(event, source)
    if not news:
        desk.enter_known(ground.broker, ground.name, 1)
        return
    books = desk.books(ground.broker)
    books.received += 1
    books.outcomes[_HELD] += 1
    event.held += 1
    event.held_fields.update(news)
    if ground.quiet:
        let_leave(desk, ground, event, facts, append_ms)
    else:
        gathering.let_leave(desk, event, ground.topic, append_ms)
