"""Publisher and subscriber on a real Kafka, and the same wire spoken by another client library."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from clients.connection import Connection
from clients.log import read_all
from clients.subscriber import Subscriber
from clients.topics import TopicSpec, delivery_specs, ensure_topics, partitions_of, publish_specs, service_topics
from producers.publisher import Publisher
from service.kafka.embedded import EmbeddedKafka
from streaming.wire.message import MessageLimits, decode_message, encode_message
from streaming.wire.notification import encode_notification
from tidings import names
from tidings.errors import BadConfig, KafkaUnreachable, TidingsError
from tidings.message import Message
from tidings.notification import Encoding, Notification, Reason

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    import kafka as kafka_python

LIMITS = MessageLimits()


@pytest.fixture(scope="module")
def connection(kafka: EmbeddedKafka) -> Connection:
    return Connection(kafka.bootstrap)


@pytest.fixture(scope="module")
def admin(connection: Connection) -> AdminClient:
    """Held by the test for its whole time: answers of one that is forgotten never come."""
    return connection.admin()


@pytest.fixture
def broker(connection: Connection, admin: AdminClient) -> Iterator[str]:
    """A broker of this test's own, with a publish topic of four partitions. Other tests read all publish topics there are."""
    name = f"t{uuid4().hex[:12]}"
    ensure_topics(connection, publish_specs([name], partitions=4, replication=1))
    yield name
    admin.delete_topics([names.publish_topic(name)])[names.publish_topic(name)].result(10)


@pytest.fixture
def delivery(connection: Connection) -> str:
    """A delivery topic of this test's own."""
    name = f"notify.{uuid4().hex[:12]}"
    ensure_topics(connection, delivery_specs([name], replication=1, partitions=2))
    return name


def messages(count: int) -> list[Message]:
    return [
        Message("incident", f"corner {number % 7}", {"what": "fire", "floor": number}, id=f"m{number}") for number in range(count)
    ]


def told(number: int, subscription: str = "ops") -> Notification:
    return Notification(
        f"n-{subscription}-{number}",
        "ops",
        subscription,
        "incident",
        "5th",
        f"event-{number}",
        1,
        Reason.FIRST,
        {"floor": number},
        1,
        0,
        0,
        0,
    )


def deliver(connection: Connection, kafka_topic: str, *values: bytes | None) -> None:
    producer = connection.producer()
    for value in values:
        producer.produce(kafka_topic, value, key=b"incident/5th")
    assert producer.flush(10) == 0


def encoded(*notifications: Notification) -> list[bytes]:
    return [encode_notification(each, Encoding.JSON) for each in notifications]


def received(subscriber: Subscriber, count: int) -> list[int]:
    """The numbers of so many notifications, and a look whether there is one too many."""
    found = [subscriber.poll(10) for _ in range(count)]
    assert subscriber.poll(0.2) is None
    return [int(str(each.news["floor"])) for each in found if each is not None]


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


class TestSubscriber:
    def test_reads_what_others_deliver(self, connection: Connection, delivery: str) -> None:
        writer = kafka_python.KafkaProducer(bootstrap_servers=connection.bootstrap)
        writer.send(delivery, encode_notification(told(1), Encoding.AVRO), b"incident/5th")
        writer.send(delivery, encode_notification(told(2), Encoding.JSON), b"incident/5th")
        writer.flush()
        writer.close()
        with Subscriber(connection, delivery) as subscriber:
            assert subscriber.poll(10) == told(1)
            assert next(iter(subscriber)) == told(2)

    def test_a_repeated_id_is_dropped_and_counted(self, connection: Connection, delivery: str) -> None:
        deliver(connection, delivery, *encoded(told(1), told(2), told(1), told(2), told(3)))
        with Subscriber(connection, delivery) as subscriber:
            assert received(subscriber, 3) == [1, 2, 3]
            assert subscriber.repeats == 2

    def test_only_so_many_ids_are_remembered(self, connection: Connection, delivery: str) -> None:
        deliver(connection, delivery, *encoded(told(1), told(2), told(3), told(3), told(1)))
        with Subscriber(connection, delivery, remember_ids=2) as subscriber:
            assert received(subscriber, 4) == [1, 2, 3, 1]
            assert subscriber.repeats == 1

    def test_what_is_no_notification_is_counted_and_skipped(self, connection: Connection, delivery: str) -> None:
        rubbish = [b"rubbish", None, b"", b"{}", b"[1]", b'{"id": 1}', b"\xc3\x01", b"{" * 100_000]
        deliver(connection, delivery, *rubbish, *encoded(told(1)))
        with Subscriber(connection, delivery) as subscriber:
            assert received(subscriber, 1) == [1]
            assert subscriber.unreadable == len(rubbish)

    def test_one_subscription_of_a_shared_kafka_topic(self, connection: Connection, delivery: str) -> None:
        deliver(connection, delivery, *encoded(told(1), told(2, "other"), told(3)))
        with Subscriber(connection, delivery, "other") as subscriber:
            assert received(subscriber, 1) == [2]

    def test_from_now_on_means_from_the_moment_it_was_made(self, connection: Connection, delivery: str) -> None:
        deliver(connection, delivery, *encoded(told(1)))
        with Subscriber(connection, delivery, from_beginning=False) as subscriber:
            deliver(connection, delivery, *encoded(told(2)))
            assert received(subscriber, 1) == [2]

    def test_a_kafka_topic_that_is_not_there_yet(self, connection: Connection) -> None:
        name = f"notify.{uuid4().hex[:12]}"
        with Subscriber(connection, name, from_beginning=False) as subscriber:
            assert subscriber.poll(0) is None
            ensure_topics(connection, delivery_specs([name], replication=1))
            deliver(connection, name, *encoded(told(1)))
            assert received(subscriber, 1) == [1]

    def test_kafka_topics_can_be_added(self, connection: Connection, delivery: str) -> None:
        with Subscriber(connection, []) as subscriber:
            assert subscriber.poll(0) is None
            deliver(connection, delivery, *encoded(told(1)))
            subscriber.add([delivery])
            assert received(subscriber, 1) == [1]

    def test_a_group_goes_on_after_what_was_handled(self, connection: Connection, delivery: str) -> None:
        group = f"group-{uuid4().hex[:8]}"
        deliver(connection, delivery, *encoded(*(told(number) for number in range(1, 5))))
        with Subscriber(connection, delivery, group=group) as subscriber:
            assert [subscriber.poll(20), subscriber.poll(10)] == [told(1), told(2)]
        with Subscriber(connection, delivery, group=group) as subscriber:
            assert subscriber.poll(20) == told(3)

    def test_a_group_is_given_again_what_it_was_given_when_it_crashed(self, connection: Connection, delivery: str) -> None:
        group = f"group-{uuid4().hex[:8]}"
        deliver(connection, delivery, *encoded(told(1), told(2)))
        crashing = Subscriber(connection, delivery, group=group)
        assert crashing.poll(20) == told(1)
        crashing._handled = None  # it crashes before it asks for the next
        crashing.close()
        with Subscriber(connection, delivery, group=group) as subscriber:
            assert subscriber.poll(20) == told(1)


class TestKafkaTopics:
    def test_all_have_the_append_time_and_the_compacted_ones_are_compacted(
        self, connection: Connection, admin: AdminClient
    ) -> None:
        specs = [*service_topics(2, 1), *publish_specs(["specs"], 2, 1), *delivery_specs(["notify.specs"], 1)]
        names = {spec.name: TopicSpec(f"specs.{spec.name}", spec.partitions, 1, spec.settings) for spec in specs}
        assert set(ensure_topics(connection, list(names.values()))) == {spec.name for spec in names.values()}
        assert ensure_topics(connection, list(names.values())) == []
        assert partitions_of(connection, ["specs.control", "specs.publish.specs", "specs.none"]) == {
            "specs.control": 1,
            "specs.publish.specs": 2,
        }
        settings = {name: settings_of(admin, spec.name) for name, spec in names.items()}
        assert {each["message.timestamp.type"] for each in settings.values()} == {"LogAppendTime"}
        assert {name for name, each in settings.items() if each["cleanup.policy"] == "compact"} == {"control", "books"}
        large = {name for name, each in settings.items() if int(each["max.message.bytes"]) >= 16 * 1024 * 1024}
        assert {"publish.specs", "late", "dead-letter"} <= large
        assert settings["clock"]["retention.ms"] == settings["late"]["retention.ms"]

    def test_one_that_has_another_time_is_put_right_and_the_rest_is_left_alone(
        self, connection: Connection, admin: AdminClient
    ) -> None:
        name = f"notify.{uuid4().hex[:12]}"
        theirs = {"message.timestamp.type": "CreateTime", "retention.ms": "123456"}
        admin.create_topics([NewTopic(name, 3, 1, config=theirs)])[name].result(10)
        ensure_topics(connection, delivery_specs([name], replication=1))
        settings = settings_of(admin, name)
        assert (settings["message.timestamp.type"], settings["retention.ms"]) == ("LogAppendTime", "123456")
        assert partitions_of(connection, [name]) == {name: 3}

    def test_a_record_has_kafkas_time_whatever_its_sender_says(self, connection: Connection, broker: str) -> None:
        noted: list[Any] = []
        producer = connection.producer()
        topic = names.publish_topic(broker)
        producer.produce(topic, b"old", timestamp=1_000_000_000_000, on_delivery=lambda _, message: noted.append(message))
        assert producer.flush(10) == 0
        [record] = read_all(connection, [topic])
        assert abs(record.append_ms - time.time() * 1000) < 5000
        assert noted[0].timestamp() == (TIMESTAMP_LOG_APPEND_TIME, record.append_ms)

    def test_a_topic_that_kafka_refuses_is_named(self, connection: Connection) -> None:
        with pytest.raises(TidingsError, match="the Kafka topic 'no good' cannot be created"):
            ensure_topics(connection, [TopicSpec("no good")])


class TestConnection:
    def test_a_kafka_that_answers(self, connection: Connection) -> None:
        connection.check()
        assert connection.cluster_id() == Connection(connection.bootstrap).cluster_id()

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092", "127.0.0.1:1,[::1]:1", "rubbish", ""])
    def test_nobody_there_is_one_line_at_once(self, address: str) -> None:
        started = time.monotonic()
        with pytest.raises(KafkaUnreachable) as caught:
            Connection(address).check()
        assert time.monotonic() - started < 5
        assert str(caught.value).startswith(f"no Kafka broker answers at {address}; ")
        assert "\n" not in str(caught.value)

    def test_one_of_several_servers_is_enough(self, connection: Connection) -> None:
        Connection(f"127.0.0.1:1,{connection.bootstrap}").check()

    def test_a_refused_login_is_told_from_a_kafka_that_is_gone(self, connection: Connection) -> None:
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush";'
        said = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        with pytest.raises(KafkaUnreachable, match="refuses the login") as caught:
            Connection(connection.bootstrap, said).check()
        assert "hush" not in str(caught.value)

    def test_properties_are_put_into_librdkafkas_words(self) -> None:
        jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="hush";'
        said = {"sasl.jaas.config": jaas, "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem", "client.id": "x"}
        config = Connection("host:1", said).config(**{"group.id": "g"})
        expected = {
            "sasl.username": "me",
            "sasl.password": "hush",
            "ssl.ca.location": "ca.pem",
            "client.id": "x",
            "group.id": "g",
        }
        assert config.items() >= expected.items()
        assert config["bootstrap.servers"] == "host:1"

    @pytest.mark.parametrize("make", [Connection.producer, Connection.consumer, Connection.admin, Connection.check])
    def test_a_property_nobody_knows_is_named(self, connection: Connection, make: Callable[[Connection], object]) -> None:
        with pytest.raises(BadConfig, match=r"no\.such"):
            make(Connection(connection.bootstrap, {"no.such": "1"}))

    def test_nothing_is_written_to_the_terminal(self, capfd: pytest.CaptureFixture[str]) -> None:
        producer = Connection("127.0.0.1:1").producer()
        producer.produce("nowhere", json.dumps({}).encode())
        producer.flush(0.5)
        producer.purge()
        producer.flush(1)
        assert capfd.readouterr() == ("", "")


def settings_of(admin: AdminClient, kafka_topic: str) -> dict[str, str]:
    [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, kafka_topic)]).values()
    return {name: entry.value for name, entry in answer.result(10).items()}
