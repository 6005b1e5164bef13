"""A real service that is behind with its reading, or on a directory that is not its own. Kills are in `test_chaos.py`."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from clients.connection import Connection
from producers.incidents import incidents
from producers.publisher import Publisher
from producers.workload import dated
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.broker.state_codec import FORMAT
from streaming.model.outputs import Outcome
from streaming.world.records import subscription, topic
from testing.service import RunningService, wait_for
from tidings.message import Message

pytestmark = pytest.mark.timeout(400)

CONTROL = (
    topic(fields={"severity": "max", "tags": "union"}, hold_ms=400, window_ms=6000),
    subscription("all"),
    subscription("some", where="severity >= 3", missing="patient", every_ms=1500, fields=["what", "where", "tags"]),
)


def publish_while(connection: Connection, messages: list, started: threading.Event) -> None:
    """Publish at the workload's own pace, whatever happens to the broker meanwhile."""
    with Publisher(connection) as publisher:
        for one in dated(messages, time.time_ns() // 1_000_000):
            time.sleep(max(0.0, one.at_ms / 1000 - time.time()))
            publisher.publish(one.message)
            started.set()


def settled(service: RunningService, count: int) -> bool:
    books = service.books()
    return books.received >= count and books.total(Outcome.HELD) == 0


@pytest.mark.slow
def test_a_backlog_is_not_overtaken_by_the_clock(java: Java, tmp_path: Path):
    """Windows pass while the service is down; then it reads little at a time, and still decides as if it had kept up."""
    with EmbeddedKafka.start(tmp_path / "kafka", java) as kafka:
        env = {"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "TIDINGS_SPARK_MAX_OFFSETS_PER_TRIGGER": "150"}
        with RunningService.start(tmp_path / "dir", env) as service:
            service.apply(*CONTROL)
            service.kill()
            messages = incidents(30, 15, seed=5, spread_ms=6_000, burst_ms=3_000)
            publish_while(service.connection, messages, threading.Event())
            with Publisher(service.connection) as publisher:
                # One partition gets far more than the other: it lags behind.
                for number in range(700):
                    publisher.publish(Message("incident", "one key", {f"f{number % 7}": number % 3, "severity": number}))
            count = len(messages) + 700
            service = service.restart()
            try:
                wait_for("all messages to be settled", lambda: settled(service, count), 120)
                assert service.books().balanced
                service.wait_as_reference(30)
                assert service.books().to_dict()["late"] == 0
            finally:
                service.stop()


@pytest.mark.usefixtures("java")
def test_what_was_fixed_for_the_directory_cannot_change(tmp_path: Path):
    (tmp_path / "dir").mkdir()
    made = {"spark.buckets": 4, "spark.shuffle_partitions": 2, "Kafka cluster": "another", "state format": FORMAT}
    (tmp_path / "dir" / "made-with.json").write_text(json.dumps(made))
    with pytest.raises(AssertionError, match=r"was made with spark\.buckets = 4, not 8"):
        RunningService.start(tmp_path / "dir")
