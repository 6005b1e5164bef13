"""The Kafka topics of a service, made on a real Kafka."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from clients.connection import Connection
from clients.log import read_all
from clients.topics import TopicSpec, delivery_specs, ensure_topics, partitions_of, publish_specs, service_topics
from tidings import names
from tidings.errors import TidingsError


def settings_of(admin: AdminClient, kafka_topic: str) -> dict[str, str]:
    [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, kafka_topic)]).values()
    return {name: entry.value for name, entry in answer.result(10).items()}


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
        assert {name for name, each in settings.items() if each["retention.ms"] == "3600000"} == {"pulse"}
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
