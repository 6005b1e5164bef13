"""The usual way an event begins: one report that is about nothing that is known, and nothing else to be opened.

What `streaming.batch.joining` comes to for such a report, in one go: half of all news is of this kind.
"""

from __future__ import annotations

from typing import NamedTuple

from streaming.batch.brief import Brief, BriefLedger
from streaming.batch.ground import Ground
from streaming.batch.report import Report
from streaming.broker.state import Rules
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.outputs import WrittenTell
from streaming.wire.notification import Usual, encode_usual
from tidings import names
from tidings.notification import Reason, notification_id
from tidings.registers import Join
from tidings.values import digest


class Opened(NamedTuple):
    """What became of the report."""

    brief: Brief
    reason: Reason
    """Why it was told, if anybody was."""
    told: list[WrittenTell]


def began(ground: Ground, report: Report) -> Brief | None:
    """An event that this report is the first about, before it is joined to it; None if it is not of the usual kind."""
    message, published_ms, append_ms = report.message, report.published_ms, report.append_ms
    is_usual = ground.gathers and ground.quiet and not ground.cut_off
    is_late = published_ms + ground.timing.window_ms <= append_ms
    if not is_usual or is_late or ground.number(message.key) != report.number:
        return None
    at = Address(ground.broker, message.topic, message.key)
    name = digest(ground.broker, message.topic, message.key, report.message_id, append_ms)
    origin = Origin(report.kafka_topic, report.partition, report.offset, append_ms)
    return Brief(at, name, append_ms, origin, published_ms, published_ms, append_ms)


def opened(ground: Ground, report: Report, rules: Rules) -> Opened | None:
    """An event with all that its first report says; None if that is not of the usual kind."""
    message, now_ms, fields = report.message, report.append_ms, dict(report.message.fields)
    brief = began(ground, report)
    if brief is None or len(fields) > rules.event_fields or not ground.takes(fields, rules.bounds.conflicts):
        return None
    complete, name, (_, topic, key) = ground.topic.is_complete(fields), brief.id, brief.at
    reason, told = Reason.COMPLETE if complete else Reason.FIRST, list[WrittenTell]()
    if not fields:
        return Opened(brief, reason, told)
    brief.facts, brief.claims = fields, [0] * len(fields)
    brief.said = [(report.published_ms, report.message_id, message.source)]
    if ground.joins:
        brief.kinds = {each: kind for each in fields if (kind := ground.topic.join_of(each)) is not Join.FIRST}
    if ground.timing.hold_ms and not complete:
        brief.release_ms = now_ms + ground.timing.hold_ms
    else:
        brief.released, ledgers, record_key = True, {}, names.record_key(topic, key)
        for subscription in ground.concerned(key, fields):
            wanted = subscription.fields
            untold = sorted(fields if wanted is None else [each for each in fields if each in wanted])
            if not untold:
                continue
            subscribed = subscription.name
            ledgers[subscribed] = BriefLedger(1, now_ms, complete, None, None if len(untold) == len(fields) else untold)
            notification = Usual(
                notification_id(subscribed, subscription.since, name, 1),
                *(subscription.subscriber, subscribed, topic, key, name, 1, reason, {each: fields[each] for each in untold}),
                *(report.reports, report.sources, report.first_ms, report.last_ms, {}),
            )
            value = encode_usual(notification, subscription.encoding)
            told.append(WrittenTell(subscription.deliver, record_key, value, now_ms))
        brief.ledgers = ledgers
    if not told:
        brief.held, brief.held_fields = 1, list(fields)
    return Opened(brief, reason, told)
