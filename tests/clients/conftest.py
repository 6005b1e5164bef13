"""What tests of the clients share: a Kafka, and Kafka topics of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from clients.connection import Connection
from clients.topics import TopicSpec, ensure_topics, publish_specs
from service.kafka.embedded import EmbeddedKafka
from tidings import names


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
    ensure_topics(connection, [TopicSpec(name, 2, 1)])
    return name
