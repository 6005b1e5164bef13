"""The Kafka topics of a service: made when they are missing, and put right where the clock depends on it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from clients.connection import Connection
from tidings import names
from tidings.control import Link
from tidings.errors import TidingsError

_ASK_S = 30.0
_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
_COMPACTED = {"cleanup.policy": "compact"}
_PASSING = {"retention.ms": "3600000", "segment.ms": "600000"}

_PROMISED = frozenset({*_APPEND_TIME, *_COMPACTED})
"""What is changed in a Kafka topic that exists already. All else is the operator's business."""

CLUSTER_DEFAULT = -1
"""For ``replication``: as many copies as the cluster makes by default."""


@dataclass(frozen=True)
class TopicSpec:
    """A Kafka topic as the service wants it. All have Kafka's append time: it is the clock (docs/state-and-clock.md)."""

    name: str
    partitions: int = 1
    replication: int = CLUSTER_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, str]:
        return {**_APPEND_TIME, **self.settings}


def control_spec(replication: int = CLUSTER_DEFAULT) -> TopicSpec:
    """One partition, because a version is an offset."""
    [control] = [topic for topic in names.SERVICE_TOPICS if topic.name == names.CONTROL]
    return _spec(control, 1, replication)


def service_topics(partitions: int, replication: int) -> list[TopicSpec]:
    """What every service needs, whatever its overlay. What is not put aside is in one order, so in one partition.

    The clock is kept as long as publications are: the query refuses to go on where records it has not read are gone.
    """
    return [_spec(topic, partitions, replication) for topic in names.SERVICE_TOPICS]


def _spec(topic: names.ServiceTopic, partitions: int, replication: int) -> TopicSpec:
    kept = _COMPACTED if topic.compacted else _PASSING if topic.passing else {}
    settings = {**kept, **(_up_to(names.LARGEST_WITH_HEADERS_BYTES) if topic.put_aside else {})}
    return TopicSpec(topic.name, partitions if topic.put_aside else 1, replication, settings)


def asked_specs(asked: Iterable[names.AskedTopic], partitions: int, replication: int) -> list[TopicSpec]:
    """What control records ask for (`Snapshot.kafka_topics`)."""
    return [
        TopicSpec(each.name, partitions if each.family.wide else 1, replication, _up_to(each.family.largest_bytes))
        for each in asked
    ]


def _up_to(largest_bytes: int | None) -> dict[str, str]:
    """Kafka takes what is over `limits.message_bytes`, up to this, so that the service sees it and can dead-letter it."""
    return {} if largest_bytes is None else {"max.message.bytes": str(largest_bytes)}


def publish_specs(brokers: Iterable[str], partitions: int, replication: int) -> list[TopicSpec]:
    """Where the publishers of each broker write."""
    asked = (names.AskedTopic(names.publish_topic(broker), names.PUBLICATIONS) for broker in brokers)
    return asked_specs(asked, partitions, replication)


def link_specs(links: Iterable[Link], replication: int) -> list[TopicSpec]:
    """Both directions of each link."""
    pairs = sorted({pair for link in links for pair in ((link.a, link.b), (link.b, link.a))})
    return asked_specs((names.AskedTopic(names.link_topic(*pair), names.LINKS) for pair in pairs), 1, replication)


def delivery_specs(kafka_topics: Iterable[str], replication: int) -> list[TopicSpec]:
    """Notifications; a subscription may name another Kafka topic, and many may share one. Record key: `<topic>/<key>`."""
    return asked_specs((names.AskedTopic(name, names.DELIVERIES) for name in kafka_topics), 1, replication)


def ensure_topics(connection: Connection, specs: Sequence[TopicSpec]) -> list[str]:
    """Create the Kafka topics that are missing, and return their names; set the promised settings of the others."""
    wanted = {spec.name: spec for spec in specs}
    there = connection.topics().keys() & wanted.keys()
    missing = [spec for name, spec in wanted.items() if name not in there]
    admin = connection.admin()
    with connection.plain_errors():
        created = _create(admin, missing) if missing else []
        # Somebody else may just have made one of those: it may need the settings too.
        present = [spec for spec in specs if spec.name not in created]
        if present:
            _put_right(admin, present)
    if missing:
        _wait_until_served(connection, [spec.name for spec in missing])
    return created


def partitions_of(connection: Connection, kafka_topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of these Kafka topics has, if it exists."""
    found = connection.topics()
    return {name: found[name] for name in kafka_topics if name in found}


def _create(admin: AdminClient, specs: Sequence[TopicSpec]) -> list[str]:
    new = [
        NewTopic(spec.name, num_partitions=spec.partitions, replication_factor=spec.replication, config=spec.config)
        for spec in specs
    ]
    created = []
    for name, answer in admin.create_topics(new, operation_timeout=_ASK_S, request_timeout=_ASK_S).items():
        try:
            answer.result(_ASK_S)
            created.append(name)
        except KafkaException as error:
            said: KafkaError = error.args[0]
            if said.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TidingsError(f"the Kafka topic {name!r} cannot be created: {said.str()}") from error
    return created


def _put_right(admin: AdminClient, specs: Sequence[TopicSpec]) -> None:
    resources = {spec.name: ConfigResource(ResourceType.TOPIC, spec.name) for spec in specs}
    answers = {
        resource.name: answer.result(_ASK_S) for resource, answer in admin.describe_configs(list(resources.values())).items()
    }
    wrong = []
    for spec in specs:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in spec.config.items()
            if name in _PROMISED and answers[spec.name][name].value != value
        ]
        if entries:
            wrong.append(ConfigResource(ResourceType.TOPIC, spec.name, incremental_configs=entries))
    if wrong:
        for answer in admin.incremental_alter_configs(wrong).values():
            answer.result(_ASK_S)


def _wait_until_served(connection: Connection, kafka_topics: Sequence[str]) -> None:
    """Brokers learn of a new Kafka topic one after the other, and list it a moment before they serve it."""
    consumer = connection.consumer()
    deadline = time.monotonic() + _ASK_S
    try:
        while not _are_served(connection, consumer, kafka_topics):
            if time.monotonic() > deadline:
                raise TidingsError(
                    f"Kafka created {', '.join(kafka_topics)}, but does not serve all of them after {_ASK_S:.0f} s"
                )
            time.sleep(0.05)
    finally:
        consumer.close()


def _are_served(connection: Connection, consumer: Consumer, kafka_topics: Sequence[str]) -> bool:
    partitions = partitions_of(connection, kafka_topics)
    try:
        for name, count in partitions.items():
            for number in range(count):
                consumer.get_watermark_offsets(TopicPartition(name, number), timeout=1)
    except KafkaException:
        return False
    return len(partitions) == len(set(kafka_topics))
