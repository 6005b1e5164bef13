"""The first report about an event, of the usual kind: what `step` makes of it, as bytes at once.

Most news opens an event, and most of these events are not looked at again for a while. So nothing is made of them that would have
to be kept: the slot is packed as soon as its parts are known, and so is what subscriptions are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streaming.batch.columns import Ends
from streaming.batch.ground import Ground
from streaming.batch.report import Report
from streaming.batch.rows import NO_SOURCE
from streaming.batch.writing import told, wanted
from streaming.model.address import Address
from streaming.model.outputs import WrittenTell
from streaming.wire.packing import pack
from tidings.notification import Reason
from tidings.subscription import Subscription
from tidings.values import digest, fact_digest


class Opened(NamedTuple):
    """What became of the report. ``packed`` is what `pack_slot` makes of the slot with the event."""

    at: Address
    opening: str
    packed: bytes
    next_ms: int
    ends: Ends
    told: list[WrittenTell]
    reason: Reason | None
    """Why it was told; None if nobody was, and it is held."""


def opened(ground: Ground, report: Report, concerned: Iterable[Subscription]) -> Opened:
    """An event that this report is the first about; it concerns these subscriptions.

    Nothing else is known under its key, nobody disputes anything, and the report is not late.
    """
    message, published_ms, append_ms = report.message, report.published_ms, report.append_ms
    fields, topic, key = message.fields, message.topic, message.key
    at = Address(ground.broker, topic, key)
    message_id = message.message_id
    name = digest(*at, message_id, append_ms)
    complete = ground.topic.is_complete(fields)
    leaves = bool(fields) and (ground.timing.hold_ms == 0 or complete)
    release_ms = append_ms + ground.timing.hold_ms if fields and not leaves else None
    sources = int(report.source != NO_SOURCE)
    reason = Reason.COMPLETE if complete else Reason.FIRST
    ledgers: dict[str, tuple[object, ...]] = {}
    records = []
    for subscription in concerned if leaves else ():
        if news := wanted(subscription, fields, fields):
            ledgers[subscription.name] = ({each: fact_digest(news[each]) for each in news}, 1, append_ms, complete, *_NOT_DUE)
            counts = 1, sources, published_ms, published_ms
            records.append(told(subscription, at, name, name, 1, reason, news, counts, {}, append_ms))
    join_of, who = ground.topic.join_of, message.source
    knowledge = {each: (join_of(each), ((value, published_ms, message_id, who),)) for each, value in fields.items()}
    held = 1 if fields and not records else 0
    origin = report.kafka_topic, report.partition, report.offset, append_ms
    event: tuple[object, ...] = (
        *(name, at, name, append_ms, (published_ms, published_ms), append_ms, knowledge, 1, (), sources),
        *(held, sorted(fields) if held else (), release_ms, leaves, ledgers, {}, _NOWHERE_ELSE, (), (), origin, None, 0),
    )
    next_ms = _next_ms(ground, append_ms, release_ms)
    ends = Ends.LOUDLY if held or release_ms is not None else Ends.QUIETLY
    return Opened(at, name, pack((at, ((event,), (), {}, {}, {}, ()))), next_ms, ends, records, reason if records else None)


_NOT_DUE = (None, None, False, False)
_NOWHERE_ELSE = (0, 0, False)


def _next_ms(ground: Ground, append_ms: int, release_ms: int | None) -> int:
    """`OpenEvent.next_ms`, of an event that just came and that nothing of waits for a pace."""
    timing = ground.timing
    end_ms = append_ms + timing.window_ms
    if timing.remember_ms < timing.window_ms:
        end_ms = min(end_ms, max(append_ms + timing.remember_ms, release_ms or 0))
    return end_ms if release_ms is None else min(end_ms, release_ms)
