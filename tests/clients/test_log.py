"""Reading the whole log, whatever state it is in."""

from __future__ import annotations

from itertools import pairwise
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from clients.connection import Connection
from clients.log import read_all, scan
from clients.topics import TopicSpec, ensure_topics
from service.kafka.embedded import EmbeddedKafka
from streaming.wire.record import Record


@pytest.fixture(scope="module")
def connection(kafka: EmbeddedKafka) -> Connection:
    return Connection(kafka.bootstrap)


def made(connection: Connection, partitions: int = 1, **settings: str) -> str:
    """A new Kafka topic."""
    name = f"log-{uuid4().hex[:12]}"
    ensure_topics(connection, [TopicSpec(name, partitions, 1, {key.replace("_", "."): value for key, value in settings.items()})])
    return name


def write(connection: Connection, kafka_topic: str, count: int, partitions: int = 1) -> None:
    producer = connection.producer()
    for number in range(count):
        producer.produce(kafka_topic, b"%d" % number, key=b"k", partition=number % partitions, headers=[("n", b"%d" % number)])
    assert producer.flush(20) == 0


def test_every_record_of_many_partitions_in_order(connection: Connection) -> None:
    name = made(connection, 12)
    write(connection, name, 5000, 12)
    records = read_all(connection, [name])
    assert [(record.partition, record.offset) for record in records] == sorted((n % 12, n // 12) for n in range(5000))
    assert {int(record.value or b"") for record in records} == set(range(5000))
    first = records[0]
    assert first == Record(name, 0, 0, first.append_ms, b"k", b"0", (("n", b"0"),))
    assert all(a.append_ms <= b.append_ms for a, b in pairwise(records) if a.partition == b.partition)


def test_empty_and_missing_kafka_topics_have_no_records(connection: Connection) -> None:
    empty, other = made(connection, 3), made(connection)
    write(connection, other, 2)
    assert read_all(connection, [empty, "log-missing"]) == []
    assert read_all(connection, []) == []
    assert [record.value for record in read_all(connection, [empty, "log-missing", other, other])] == [b"0", b"1"]
    assert "log-missing" not in connection.topics()


def test_a_log_whose_beginning_is_deleted(connection: Connection) -> None:
    name = made(connection, 2)
    write(connection, name, 20, 2)
    admin = connection.admin()
    for answer in admin.delete_records([TopicPartition(name, 0, 7), TopicPartition(name, 1, 10)]).values():
        answer.result(10)
    assert [(record.partition, record.offset) for record in read_all(connection, [name])] == [(0, 7), (0, 8), (0, 9)]


def test_a_log_that_does_not_end_in_a_record(connection: Connection) -> None:
    """A transaction ends in a marker, which has an offset but is not given out."""
    name = made(connection)
    producer = connection.producer(**{"transactional.id": f"test-{name}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"in a transaction")
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(name, b"aborted")
    producer.flush(10)
    producer.abort_transaction(20)
    # What Spark reads, the replay must read too: its source does not ask what was committed.
    assert [(record.offset, record.value) for record in read_all(connection, [name])] == [
        (0, b"in a transaction"),
        (2, b"aborted"),
    ]


def test_the_end_is_where_it_was_when_the_reading_began(connection: Connection) -> None:
    name = made(connection)
    write(connection, name, 3)
    reading = scan(connection, [name])
    found = [next(reading)]
    write(connection, name, 3)
    found += reading
    assert [record.offset for record in found] == [0, 1, 2]


def test_only_the_last_of_each_partition(connection: Connection) -> None:
    name = made(connection, 2)
    write(connection, name, 20, 2)
    assert sorted((record.partition, record.offset) for record in scan(connection, [name], last=1)) == [(0, 9), (1, 9)]
    assert len(list(scan(connection, [name], last=100))) == 20


def test_values_that_are_null_stay_null(connection: Connection) -> None:
    name = made(connection, 1, cleanup_policy="compact")
    producer = connection.producer()
    producer.produce(name, None, key=b"gone")
    assert producer.flush(10) == 0
    [record] = read_all(connection, [name])
    assert (record.key, record.value, record.headers) == (b"gone", None, ())
