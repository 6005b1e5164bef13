"""Control records: written to the `control` Kafka topic, and seen to be adopted.

A version of the control data is the offset up to which `control` was read; the ticks on `clock` name the one that holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from confluent_kafka import KafkaError, Message

from clients.connection import Connection
from clients.log import read_all, scan, watermarks
from clients.topics import control_spec, ensure_topics
from streaming.wire.clock import Tick, decode_tick
from streaming.wire.pulse import read_life
from streaming.wire.record import Record
from tidings import names
from tidings.control import Snapshot
from tidings.control.files import ControlRecord, encode
from tidings.errors import BadControl
from tidings.topic import Timing

_ALIVE_MS = 5000
_ACK_S = 30.0
_LAST_TICKS = 200
_LAST_SIGNS = 500
"""Buckets say on `pulse`, too, when they want a tick, but hardly more than once for each tick."""


# ---- writing ----------------------------------------------------------------------------------------------------------


def apply(connection: Connection, records: Sequence[ControlRecord]) -> int:
    """Write the records, in their order, and return the version that holds them all."""
    ensure_topics(connection, [control_spec()])
    producer = connection.producer(**{"linger.ms": 5})
    noted: list[tuple[KafkaError | None, Message]] = []
    with connection.plain_errors():
        for key, record in records:
            value = None if record is None else encode(record)
            producer.produce(names.CONTROL, value, key.encode(), partition=0, on_delivery=lambda *said: noted.append(said))
        left = producer.flush(_ACK_S)
    if failures := [error for error, _ in noted if error is not None]:
        raise connection.in_plain_words(failures[0])
    if left:
        producer.purge()
        raise connection.unreachable()
    return max(message.offset() or 0 for _, message in noted) + 1 if noted else _end_of_control(connection)


def _end_of_control(connection: Connection) -> int:
    consumer = connection.consumer()
    try:
        with connection.plain_errors():
            return watermarks(consumer, names.CONTROL, 0)[1]
    finally:
        consumer.close()


# ---- reading ----------------------------------------------------------------------------------------------------------


def fold(records: Iterable[Record], timing: Timing | None = None) -> Iterator[Snapshot]:
    """The control data after each record. One that cannot be applied changes nothing but the version."""
    snapshot = Snapshot(timing=timing or Timing())
    for record in records:
        version = record.offset + 1
        try:
            snapshot = snapshot.apply(version, (record.key or b"").decode(errors="replace"), record.value)
        except BadControl:
            snapshot = snapshot.passing_over(version)
        yield snapshot


def read_control(connection: Connection, timing: Timing | None = None) -> Snapshot:
    """The control data as it is now."""
    history = list(fold(read_all(connection, [names.CONTROL]), timing))
    return history[-1] if history else Snapshot(timing=timing or Timing())


def last_ticks(connection: Connection) -> dict[str, Tick]:
    """The last tick of each service that ticked lately."""
    records = scan(connection, [names.CLOCK], last=_LAST_TICKS)
    return {tick.service: tick for record in records if (tick := decode_tick(record))}


def living(connection: Connection, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> dict[str, Tick]:
    """The services that ticked or gave a sign of life within the last seconds and serve brokers; with what they said last."""
    records = scan(connection, [names.CLOCK, names.PULSE], last=_LAST_SIGNS)
    said = [
        tick for record in records if (tick := decode_tick(record) if record.kafka_topic == names.CLOCK else read_life(record))
    ]
    newest = {tick.service: tick for tick in sorted(said, key=lambda tick: tick.append_ms)}
    return {
        service: tick for service, tick in newest.items() if now_ms() - tick.append_ms < _ALIVE_MS and tick.brokers != frozenset()
    }


def service_is_alive(connection: Connection, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> bool:
    """Whether a service ticked or gave a sign of life within the last seconds."""
    return bool(living(connection, now_ms))


def wait_adopted(connection: Connection, version: int, timeout_s: float) -> bool:
    """Wait until every living service goes by this version or a later one; False if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while True:
        ticks = living(connection).values()
        if ticks and all(tick.version >= version for tick in ticks):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
