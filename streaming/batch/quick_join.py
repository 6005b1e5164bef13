"""A short way of news where an event cannot be taken in at once: a report that opens one, or adds fields to one, and disputes
nothing.

It does what `streaming.broker.gathering` does for such a report, looking only at the facts that are new. Whatever is unusual
about a report is left to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from streaming.batch.arrays import NO_SOURCE
from streaming.batch.desk import BatchDesk
from streaming.batch.ground import Ground
from streaming.batch.hashing import salt_of
from streaming.batch.report import Report
from streaming.broker import gathering
from streaming.broker.room import make_room
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import OpenEvent, open_event
from streaming.model.outputs import MessageReason, Outcome
from tidings import registers
from tidings.registers import Bounds, Claim, Join, Register
from tidings.values import same

Known: TypeAlias = tuple[int, int]
"""The row of an event that a report was joined to, and its salt: from here on, what the report said is known of it."""

_HELD = Outcome.HELD, MessageReason.HOLDING


def opens(desk: BatchDesk, ground: Ground, report: Report) -> Known | None:
    """Open an event under a key that nothing is known of. None, and nothing done, if this is not as simple as that."""
    published_ms, append_ms, fields, rules = report.published_ms, report.append_ms, report.message.fields, desk.rules
    late = published_ms + ground.timing.window_ms <= append_ms
    if late or ground.cut_off or len(fields) > rules.event_fields or not ground.takes(fields, rules.bounds.conflicts):
        return None
    message_id = report.message_id
    at = Address(ground.broker, report.message.topic, report.message.key)
    origin = Origin(report.kafka_topic, report.partition, report.offset, append_ms)
    event = open_event(at, message_id, published_ms, append_ms, origin)
    event.knowledge = _stated(ground, report, message_id, fields)
    event.reports = 1
    desk.shelf.setdefault(at, Slot([event]))
    desk.state.size += 1
    _note(desk, ground, event, fields, report)
    make_room(desk, append_ms)
    return desk.row_of(event), salt_of(event)


def restated(event: OpenEvent, report: Report, bounds: Bounds) -> dict[str, Register] | None:
    """What a report changes of fields that an event has, where it says the same: of two that were published at the same time, the
    id says who was first. None if it says anything else, or of a field that is disputed already.

    Kafka gives all records that it appends together the same time, so this is not as rare as it seems.
    """
    knowledge, published_ms, message_id = event.knowledge, report.published_ms, report.message_id
    found = {}
    for name, value in report.message.fields.items():
        register = knowledge.get(name)
        if register is None:
            continue
        claim = register.claims[0] if len(register.claims) == 1 else None
        unlike = register.kind.repeats_matter or register.kind is Join.UNION
        if claim is None or unlike or not same(claim.value, value):
            return None
        if (claim.published_ms, claim.message_id) < (published_ms, message_id):
            continue
        stated = Register(register.kind, (Claim(value, published_ms, message_id, report.message.source),))
        if (joined := registers.join(register, stated, bounds)) is not register:
            found[name] = joined
    return found


def adds(
    desk: BatchDesk, ground: Ground, event: OpenEvent, names: list[str], again: Mapping[str, Register], report: Report
) -> bool:
    """Add fields that an event does not have, and take up what was `restated`. False, and nothing done, if this is not as simple
    as that."""
    knowledge, rules, published_ms = event.knowledge, desk.rules, report.published_ms
    if (
        ground.cut_off
        or len(knowledge) + len(names) > rules.event_fields
        or not event.span.fits(published_ms, ground.timing.window_ms)
        or report.append_ms < event.entered_ms
        or not ground.takes(names, rules.bounds.conflicts)
    ):
        return False
    if names or again:
        event.knowledge = {**knowledge, **again, **_stated(ground, report, report.message_id, names)}
    event.span.include(published_ms)
    event.reports += 1
    _note(desk, ground, event, names, report)
    return True


def _stated(ground: Ground, report: Report, message_id: str, names: Iterable[str]) -> dict[str, Register]:
    """What a message says, of fields that nobody has stated."""
    fields, who, published_ms = report.message.fields, report.message.source, report.published_ms
    join_of = ground.topic.join_of
    return {name: Register(join_of(name), (Claim(fields[name], published_ms, message_id, who),)) for name in names}


def _note(desk: BatchDesk, ground: Ground, event: OpenEvent, news: Collection[str], report: Report) -> None:
    """Enter the message into the books, and let what it added leave."""
    if report.source != NO_SOURCE:
        desk.note_source(event, report.source)
    if not news:
        desk.enter_known(ground.broker, ground.name, 1)
        return
    books = desk.books(ground.broker)
    books.received += 1
    books.outcomes[_HELD] += 1
    event.held += 1
    event.held_fields.update(news)
    gathering.let_leave(desk, event, ground.topic, report.append_ms)
