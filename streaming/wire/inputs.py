"""From records of the log to what a broker's logic takes in: the Spark query and a replay read the log alike.

A *row* is whatever has ``kind``, ``kafka_topic``, ``partition``, ``offset``, ``append_ms``, ``record_key`` and ``value``: a row
of the query or a record of a replay.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Input, Marked, Progressed, Refused, Ticked, arrival
from streaming.wire import crossing
from streaming.wire.codec import MessageLimits, decode_message
from tidings import names
from tidings.errors import BadMessage

MESSAGE, MARK, TICK = "message", "mark", "tick"

MOST_VALUE_BYTES = names.LARGEST_RECORD_BYTES + 1
"""Kafka bounds records as they are compressed; a few bytes can unfold to gigabytes. Rows hold no more than this of a value."""


def kind_of(kafka_topic: str, value: bytes | None) -> str:
    """What a record is; in the query the JVM decides the same (`streaming/spark/routing.py`)."""
    if kafka_topic == names.CLOCK:
        return TICK
    return MARK if value is not None and value.startswith(names.MARK_START) else MESSAGE


@dataclass(frozen=True, slots=True)
class TickerIdentity:
    """Whose marks say which control data holds. With the ``secret``, marks that others forged are told apart."""

    service: str | None
    secret: str | None = field(default=None, repr=False)

    def mark(self, version: int) -> bytes:
        """What the ticker writes into every partition."""
        return b" ".join([names.MARK_START, str(self.service).encode(), str(version).encode(), self._signature(version)])

    def version_in(self, mark: bytes) -> int | None:
        words = mark.removeprefix(names.MARK_START).split()
        if len(words) != 3 or words[0] != str(self.service).encode() or not words[1].isdigit() or len(words[1]) > 18:
            return None
        version = int(words[1])
        return version if self.secret is None or hmac.compare_digest(words[2], self._signature(version)) else None

    def _signature(self, version: int) -> bytes:
        return hmac.new(str(self.secret).encode(), f"mark {version}".encode(), hashlib.sha256).hexdigest()[:16].encode()


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


def _tick(value: bytes, append_ms: int, ticker: TickerIdentity) -> list[Input]:
    """What a tick says: to the service that it is of, which control data holds; to all, how far that service is."""
    found: list[Input] = []
    try:
        tick = json.loads(value)
        if ticker.service is None or str(tick["service"]) == ticker.service:
            found.append(Ticked(append_ms, int(tick["version"]), tuple(map(str, tick["partitions"]))))
        if type(done_ms := tick.get("done_ms")) is int:
            brokers = None if tick["brokers"] is None else frozenset(map(str, tick["brokers"]))
            said = min(done_ms, append_ms), int(tick["done_version"])
            found.append(Progressed(append_ms, str(tick["service"]), brokers, *said))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # not from a ticker of ours, whatever it says of itself
    return found


def read(row: Any, limits: MessageLimits, ticker: TickerIdentity) -> list[Input]:
    """What a row says has happened, however it came here."""
    append_ms = int(row.append_ms)
    partition = names.partition_name(row.kafka_topic, row.partition)
    if row.kind == TICK:
        return [*_tick(row.value, append_ms, ticker), Marked(partition, append_ms)]
    if row.kind == MARK:
        return [Marked(partition, append_ms, ticker.version_in(bytes(row.value)))]
    origin = Origin(row.kafka_topic, int(row.partition), int(row.offset), append_ms)
    broker = names.broker_of(row.kafka_topic)
    value = None if row.value is None else bytes(row.value)
    try:
        return [_arrival(row, origin, broker, value, limits)]
    except BadMessage as error:
        return [Refused(origin, broker, error.reason, error.detail)]


def _arrival(row: Any, origin: Origin, broker: str, value: bytes | None, limits: MessageLimits) -> Input:
    sender = names.sender_of(row.kafka_topic)
    if sender is None:
        key = None if row.record_key is None else bytes(row.record_key)
        return Arrived(origin, broker, decode_message(value, limits), key, value)
    record, stamp = crossing.decode(value, limits)
    return arrival(origin, sender, broker, record, stamp, len(value or b""))
