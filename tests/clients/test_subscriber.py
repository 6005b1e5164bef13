"""A subscriber on a real Kafka."""

from __future__ import annotations

import warnings
from uuid import uuid4

from clients.connection import Connection
from clients.subscriber import Subscriber
from clients.topics import delivery_specs, ensure_topics
from streaming.wire.notification import encode_notification
from tidings.notification import Encoding, Notification, Reason

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    import kafka as kafka_python


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
