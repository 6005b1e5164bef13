"""From records of the log to what a broker's logic takes in: the Spark query and a replay read the log alike."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Refused, Ticked
from streaming.model.links import LinkRecord, PassedOn, Stamp
from streaming.model.outputs import Send
from streaming.wire.clock import MARK_START, TickerIdentity, decode_tick
from streaming.wire.link import decode_link
from streaming.wire.message import MessageLimits, decode_message
from streaming.wire.record import Record
from tidings import names
from tidings.errors import BadMessage

MESSAGE, MARK, TICK = "message", "mark", "tick"


def kind_of(record: Record) -> str:
    """What a record is; in the query the JVM decides the same (`streaming/spark/routing.py`)."""
    if record.kafka_topic == names.CLOCK:
        return TICK
    return MARK if record.value is not None and record.value.startswith(MARK_START) else MESSAGE


def in_log_order(rows: Iterable[Any]) -> Iterator[Any]:
    """Rows by append time across partitions, and by offset within each: that order never changes, however rows came."""
    partitions: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        partitions.setdefault((row.kafka_topic, row.partition), []).append(row)
    return (row for *_, row in heapq.merge(*(_by_offset(at, part) for at, part in partitions.items())))


def _by_offset(at: tuple[str, int], rows: list[Any]) -> Iterator[tuple[int, tuple[str, int], int, Any]]:
    time_ms = 0
    for row in sorted(rows, key=lambda row: row.offset):
        # A broker's clock may step back a little; the order within the partition stands.
        time_ms = max(time_ms, row.append_ms)
        yield time_ms, at, row.offset, row


def read(record: Record, limits: MessageLimits, ticker: TickerIdentity) -> list[Input]:
    """What a record says has happened, however it came here."""
    partition = names.partition_name(record.kafka_topic, record.partition)
    kind = kind_of(record)
    if kind == TICK:
        return [*_ticked(record, ticker), Marked(partition, record.append_ms)]
    if kind == MARK:
        return [Marked(partition, record.append_ms, ticker.version_in(record.value or b""))]
    origin, broker, sender = record.origin, names.broker_of(record.kafka_topic), names.sender_of(record.kafka_topic)
    try:
        if sender is None:
            return [Arrived(origin, broker, decode_message(record.value, limits), record.key, record.value)]
        sent, stamp = decode_link(record.value, limits)
        return [arrival(origin, sender, broker, sent, stamp, len(record.value or b""))]
    except BadMessage as error:
        return [Refused(origin, broker, error.reason, error.detail)]


def arrival(origin: Origin, sender: str, to: str, record: LinkRecord, stamp: Stamp, size: int = 0) -> Arrived | Heard:
    """What was sent over a link, at its far end: it was read at ``origin``, and took ``size`` bytes."""
    if isinstance(record, PassedOn):
        return Arrived(origin, to, record.message, sender=sender, passed=record, stamp=stamp, size=size)
    return Heard(origin, to, sender, record, stamp, size)


def handed_on(send: Send) -> Arrived | Heard:
    """What was sent over a link, at its far end at once: nobody reads it there. Its number stands for its offset."""
    origin = Origin(names.link_topic(send.sender, send.to), 0, send.stamp.number, send.at_ms)
    return arrival(origin, send.sender, send.to, send.record, send.stamp, len(send.value or b""))


def _ticked(record: Record, ticker: TickerIdentity) -> list[Input]:
    """What a tick says: to the service whose tick it is, which control data holds; to all, how far that service is."""
    tick = decode_tick(record)
    found: list[Input] = []
    if tick is not None and ticker.service in (None, tick.service):
        found.append(Ticked(record.append_ms, tick.version, tick.partitions))
    if tick is not None and tick.done_ms is not None:
        done_ms = min(tick.done_ms, record.append_ms)
        found.append(Progressed(record.append_ms, tick.service, tick.brokers, done_ms, tick.done_version))
    return found
