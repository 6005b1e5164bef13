"""Reading the log: every record of some Kafka topics, up to where they end now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from clients.connection import Connection
from streaming.wire.record import Record
from tidings.errors import KafkaUnreachable

_ASK_S = 10.0
_STALL_S = 30.0
_AT_ONCE = 1000
_TURN_S = 0.05
_NOT_SERVED_YET = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}
)


def read_all(connection: Connection, kafka_topics: Iterable[str]) -> list[Record]:
    """All records there are now, by Kafka topic, partition and offset. A Kafka topic that does not exist has none."""
    return sorted(scan(connection, kafka_topics), key=lambda record: (record.kafka_topic, record.partition, record.offset))


def scan(connection: Connection, kafka_topics: Iterable[str], last: int | None = None) -> Iterator[Record]:
    """As `read_all`, as they come: in order within each partition. ``last`` limits it to that many offsets of each partition."""
    found = connection.topics()
    partitions = [(name, number) for name in sorted(set(kafka_topics) & found.keys()) for number in range(found[name])]
    # Spark's source reads what is not committed too, and so must whoever repeats what it did.
    reading = {"enable.partition.eof": True, "isolation.level": "read_uncommitted", "fetch.wait.max.ms": 10}
    consumer = connection.consumer(**reading)
    try:
        with connection.plain_errors():
            yield from _scan(connection, consumer, partitions, last)
    finally:
        consumer.close()


def _scan(connection: Connection, consumer: Consumer, partitions: list[tuple[str, int]], last: int | None) -> Iterator[Record]:
    ends: dict[tuple[str, int], int] = {}
    starts = []
    for at in partitions:
        # Old records may be deleted: the log does not start at 0.
        low, end = watermarks(consumer, *at)
        if low < end:
            ends[at] = end
            starts.append(TopicPartition(*at, low if last is None else max(low, end - last)))
    consumer.assign(starts)
    deadline = time.monotonic() + _STALL_S
    while ends:
        for message in consumer.consume(_AT_ONCE, timeout=_TURN_S):
            deadline = time.monotonic() + _STALL_S
            at = (message.topic(), message.partition())
            if _is_end(message):
                # Compaction may take the last offsets away; then no record but only Kafka says that this is the end.
                ends.pop(at, None)
            elif at in ends and message.offset() < ends[at]:
                yield to_record(message)
                if message.offset() == ends[at] - 1:
                    del ends[at]
        if time.monotonic() > deadline:
            raise KafkaUnreachable(f"Kafka at {connection.bootstrap} stopped answering while {sorted(ends)[0][0]!r} was read")


def watermarks(consumer: Consumer, kafka_topic: str, partition: int) -> tuple[int, int]:
    """Where a partition starts and ends now. A new Kafka topic is listed a moment before it is served."""
    deadline = time.monotonic() + _ASK_S
    while True:
        try:
            low, end = consumer.get_watermark_offsets(TopicPartition(kafka_topic, partition), timeout=_ASK_S)
            return int(low), int(end)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_SERVED_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _is_end(message: Any) -> bool:
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)


def to_record(message: Any) -> Record:
    """A confluent-kafka message as a value."""
    return Record(
        kafka_topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        append_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
