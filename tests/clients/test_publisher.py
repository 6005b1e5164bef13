"""Our publisher on a real Kafka, and the same wire spoken by another client library."""

from __future__ import annotations

import warnings
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from clients.connection import Connection
from clients.log import read_all
from clients.topics import TopicSpec, ensure_topics
from producers.publisher import Publisher
from streaming.wire.message import MessageLimits, decode_message, encode_message
from tidings import names
from tidings.errors import KafkaUnreachable, TidingsError
from tidings.message import Message
from tidings.notification import Encoding

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    import kafka as kafka_python

LIMITS = MessageLimits()


def messages(count: int) -> list[Message]:
    return [
        Message("incident", f"corner {number % 7}", {"what": "fire", "floor": number}, id=f"m{number}") for number in range(count)
    ]


class TestOurPublisherAndOthers:
    def test_another_client_reads_what_ours_publishes(self, connection: Connection, broker: str) -> None:
        sent = messages(20)
        with Publisher(connection, broker) as publisher:
            for number, message in enumerate(sent):
                publisher.publish(message, Encoding.AVRO if number % 2 else Encoding.JSON)
        assert publisher.sent == 20
        reader = kafka_python.KafkaConsumer(
            names.publish_topic(broker),
            bootstrap_servers=connection.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=5000,
        )
        records = [next(reader) for _ in range(20)]
        reader.close()
        found = [decode_message(record.value, LIMITS) for record in records]
        assert sorted(found, key=lambda message: message.id or "") == sorted(sent, key=lambda message: message.id or "")
        assert all(record.key == f"incident/{message.key}".encode() for record, message in zip(records, found, strict=True))

    def test_another_client_publishes_and_its_keys_land_where_ours_do(self, connection: Connection, broker: str) -> None:
        with Publisher(connection, broker) as publisher:
            for message in messages(20):
                publisher.publish(message)
        writer = kafka_python.KafkaProducer(bootstrap_servers=connection.bootstrap, acks="all", enable_idempotence=True)
        for message in messages(20):
            writer.send(names.publish_topic(broker), encode_message(message), names.record_key(message.topic, message.key))
        writer.flush()
        writer.close()
        records = read_all(connection, [names.publish_topic(broker)])
        assert len(records) == 40
        partitions: dict[bytes | None, set[int]] = {}
        for record in records:
            partitions.setdefault(record.key, set()).add(record.partition)
        assert len(partitions) == 7
        assert all(len(numbers) == 1 for numbers in partitions.values())
        assert len(set.union(*partitions.values())) > 1

    def test_raw_bytes_pass_untouched(self, connection: Connection, broker: str) -> None:
        values = [b"not json", None, b"\xc3\x01rubbish", b"x" * 2_000_000]
        with Publisher(connection, broker) as publisher:
            for value in values:
                publisher.publish_raw(value, b"one")
        assert [record.value for record in read_all(connection, [names.publish_topic(broker)])] == values

    def test_what_kafka_does_not_take_is_raised(self, connection: Connection, broker: str) -> None:
        with Publisher(connection, broker) as publisher, pytest.raises(TidingsError, match="did not take 1 of the messages"):
            publisher.publish_raw(bytes(20_000_000))
        assert publisher.sent == 0

    def test_what_kafka_refuses_later_is_raised_at_the_flush(self, connection: Connection, admin: AdminClient) -> None:
        name = f"t{uuid4().hex[:12]}"
        small = TopicSpec(names.publish_topic(name), 1, 1, {"max.message.bytes": "1000"})
        ensure_topics(connection, [small])
        publisher = Publisher(connection, name)
        publisher.publish_raw(bytes(5000))
        with pytest.raises(TidingsError, match=r"did not take 1 of the messages for publish\."):
            publisher.flush()
        admin.delete_topics([small.name])[small.name].result(10)

    def test_a_kafka_that_is_gone_is_named_at_the_flush(self) -> None:
        publisher = Publisher(Connection("127.0.0.1:1"))
        publisher.publish(messages(1)[0])
        with pytest.raises(KafkaUnreachable, match="did not acknowledge 1 messages within"):
            publisher.flush(0.2)
