"""Control records: from what is applied to the version that holds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from clients.connection import Connection
from clients.control import apply, last_ticks, read_control, service_is_alive, wait_adopted
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.wire.clock import Tick, encode_tick
from tidings import names

TOPIC = {"kind": "topic", "name": "incident", "hold_ms": 4000}
OPS = {"kind": "subscription", "name": "ops", "subscriber": "ops", "topic": "incident"}


@pytest.fixture(scope="module")
def connection(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """To a Kafka of these tests' own: there is only one `control`."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("control-kafka"), java) as broker:
        yield Connection(broker.bootstrap)


class TestOnKafka:
    def test_before_there_is_anything(self, connection: Connection) -> None:
        assert read_control(connection).records == {}
        assert last_ticks(connection) == {}
        assert not service_is_alive(connection)
        assert not wait_adopted(connection, 1, 0.2)

    def test_the_version_holds_what_was_applied(self, connection: Connection) -> None:
        start = read_control(connection).version
        version = apply(connection, [("topic/incident", TOPIC), ("subscription/ops", OPS)])
        assert version == start + 2
        snapshot = read_control(connection)
        assert snapshot.version == version
        assert snapshot.records == {"topic/incident": TOPIC, "subscription/ops": OPS}
        assert apply(connection, []) == version
        assert apply(connection, [("subscription/ops", None)]) == version + 1
        assert read_control(connection).records == {"topic/incident": TOPIC}

    def test_what_cannot_be_applied_only_counts(self, connection: Connection) -> None:
        before = read_control(connection)
        producer = connection.producer()
        # One without a key is refused by Kafka itself, as the topic is compacted.
        for key, value in [(b"topic/bad", b"rubbish"), (b"", b"{}"), (b"\xff", None), (b"topic/x", b'{"kind": "topic"}')]:
            producer.produce(names.CONTROL, value, key=key)
        assert producer.flush(10) == 0
        after = read_control(connection)
        assert (after.records, after.version) == (before.records, before.version + 4)

    def test_a_version_is_adopted_when_a_tick_names_it(self, connection: Connection) -> None:
        version = apply(connection, [("broker/b1", {"kind": "broker", "name": "b1"})])
        tick(connection, version - 1)
        assert service_is_alive(connection)
        assert not service_is_alive(connection, now_ms=lambda: time.time() * 1000 + 6000)
        assert not wait_adopted(connection, version, 0.2)
        later = threading.Timer(0.4, tick, (connection, version))
        later.start()
        assert wait_adopted(connection, version, 10)
        later.join()
        assert wait_adopted(connection, version - 1, 0)
        newest = last_ticks(connection)["s1"]
        assert (newest.service, newest.version, newest.partitions) == ("s1", version, ("clock-0",))

    def test_rubbish_on_the_clock_is_passed_over(self, connection: Connection) -> None:
        producer = connection.producer()
        for value in (b"rubbish", b"{}", b"[]", b"3", None):
            producer.produce(names.CLOCK, value)
        producer.flush(10)
        assert set(last_ticks(connection)) == {"s1"}


def tick(connection: Connection, version: int) -> None:
    producer = connection.producer()
    producer.produce(names.CLOCK, encode_tick(Tick("s1", version, ("clock-0",))))
    producer.flush(10)
