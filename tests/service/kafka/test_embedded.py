"""A real broker: it starts, keeps what it was given, and says in one line why it cannot start."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from service.directory.directory import ServiceDirectory
from service.kafka import embedded
from service.kafka.embedded import HOST, EmbeddedKafka
from service.kafka.java import Java
from tidings.errors import CannotRun

QUIET: dict[str, Any] = {"log_level": 0, "logger": embedded._SILENT}


@pytest.fixture(scope="module")
def stopped(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that was stopped in order, with one message on Kafka topic ``kept``. Copy it before use."""
    directory = tmp_path_factory.mktemp("stopped")
    with EmbeddedKafka.start(directory, java) as broker:
        produce(broker, "kept", b"before")
    return directory


@pytest.fixture
def directory(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "with, comma and ünïcode"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


def admin(broker: EmbeddedKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}, logger=embedded._SILENT)


def produce(broker: EmbeddedKafka, topic: str, value: bytes, codec: str = "none", **options: Any) -> Message:
    delivered: list[tuple[KafkaError | None, Message]] = []
    large = {"message.max.bytes": 20_000_000, "compression.codec": codec}
    producer = Producer(QUIET | large | {"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value, on_delivery=lambda error, message: delivered.append((error, message)), **options)
    assert producer.flush(30) == 0
    [(error, message)] = delivered
    assert error is None, error
    return message


def consume(broker: EmbeddedKafka, topic: str, count: int) -> list[Message]:
    group = {"group.id": f"test-{uuid4().hex}", "auto.offset.reset": "earliest", "bootstrap.servers": broker.bootstrap}
    consumer = Consumer(QUIET | group)
    try:
        consumer.subscribe([topic])
        messages: list[Message] = []
        deadline = time.monotonic() + 30
        while len(messages) < count and time.monotonic() < deadline:
            messages += [message for message in consumer.consume(count, timeout=1) if message.error() is None]
        consumer.commit(asynchronous=False)
        return messages
    finally:
        consumer.close()


def test_a_message_comes_back_and_its_topic_is_made_on_the_way(kafka: EmbeddedKafka) -> None:
    produce(kafka, "there-and-back", b"tidings", key=b"key")
    [message] = consume(kafka, "there-and-back", 1)
    assert (message.key(), message.value()) == (b"key", b"tidings")
    assert kafka.is_alive()


def test_time_is_the_append_time_whatever_the_client_says(kafka: EmbeddedKafka) -> None:
    before = time.time_ns() // 1_000_000
    produce(kafka, "append-time", b"old", timestamp=1_000_000_000_000)
    [message] = consume(kafka, "append-time", 1)
    kind, timestamp_ms = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= timestamp_ms <= time.time_ns() // 1_000_000 + 1000


def test_a_message_of_ten_megabytes_passes(kafka: EmbeddedKafka) -> None:
    produce(kafka, "large", bytes(10_000_000))
    [message] = consume(kafka, "large", 1)
    assert len(message.value() or b"") == 10_000_000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_broker_can_open_what_is_compressed(kafka: EmbeddedKafka, codec: str) -> None:
    """Three of the codecs are machine code that the Java machine unpacks into the directory first."""
    produce(kafka, f"compressed-{codec}", bytes(100_000), codec=codec)
    [message] = consume(kafka, f"compressed-{codec}", 1)
    assert message.value() == bytes(100_000)


def test_a_deleted_topic_is_gone(kafka: EmbeddedKafka) -> None:
    produce(kafka, "deleted", b"")
    client = admin(kafka)
    client.delete_topics(["deleted"])["deleted"].result(30)
    assert "deleted" not in client.list_topics(timeout=30).topics
    produce(kafka, "after-deleted", b"")


def test_there_is_one_copy_of_everything(kafka: EmbeddedKafka) -> None:
    produce(kafka, "copies", b"")
    consume(kafka, "copies", 1)
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}, logger=embedded._SILENT).list_topics().topics
    assert len(topics["copies"].partitions) == 1
    assert len(topics["__consumer_offsets"].partitions) == 4
    assert all(len(partition.replicas) == 1 for topic in topics.values() for partition in topic.partitions.values())


def test_the_broker_knows_every_setting_it_is_given(kafka: EmbeddedKafka) -> None:
    """A name that Kafka does not know is not refused but passed over."""
    given = dict(line.split("=", 1) for line in (kafka.directory / "broker.properties").read_text().splitlines())
    client = admin(kafka)
    [answer] = client.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    known = {name: entry.value for name, entry in answer.result(30).items()}
    assert {name: known.get(name) for name in given} == given


def test_it_has_a_session_of_its_own_and_keeps_all_files_in_its_directory(kafka: EmbeddedKafka) -> None:
    assert os.getsid(kafka.pid) == kafka.pid
    writable = {Path(file.path) for file in psutil.Process(kafka.pid).open_files() if getattr(file, "mode", "r") != "r"}
    assert writable
    assert all(path.is_relative_to(kafka.directory) for path in writable)


def test_a_restart_keeps_the_messages_and_the_port(java: Java, directory: Path) -> None:
    port = (directory / "port").read_text().strip()
    with EmbeddedKafka.start(directory, java) as broker:
        assert broker.bootstrap == f"{HOST}:{port}"
        produce(broker, "kept", b"after")
        assert [message.value() for message in consume(broker, "kept", 2)] == [b"before", b"after"]
    assert not broker.is_alive()
    broker.stop()  # once more does nothing


@pytest.mark.slow  # test_chaos.py kills a whole service, Kafka and all, in every run
def test_a_killed_broker_starts_again_with_its_messages(java: Java, directory: Path) -> None:
    launched: list[int] = []
    with EmbeddedKafka.start(directory, java, launched=launched.append) as broker:
        assert launched == [broker.pid]
        produce(broker, "kept", b"after")
        os.kill(broker.pid, signal.SIGKILL)
    assert not broker.is_alive()
    with EmbeddedKafka.start(directory, java) as again:
        assert again.bootstrap == broker.bootstrap
        assert [message.value() for message in consume(again, "kept", 2)] == [b"before", b"after"]


def test_another_port_is_taken_if_the_remembered_one_is_not_free(java: Java, directory: Path, taken_port: int) -> None:
    (directory / "port").write_text(f"{taken_port}\n")
    with EmbeddedKafka.start(directory, java) as broker:
        assert broker.bootstrap != f"{HOST}:{taken_port}"
        assert broker.bootstrap == f"{HOST}:{(directory / 'port').read_text().strip()}"
        assert [message.value() for message in consume(broker, "kept", 1)] == [b"before"]


def test_a_broker_that_hangs_is_killed(java: Java, directory: Path) -> None:
    with EmbeddedKafka.start(directory, java) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        broker.stop(timeout_s=0.5)
    assert not broker.is_alive()


KILLED_SERVICE = """
import sys
from functools import partial
from pathlib import Path
from service.directory.directory import ServiceDirectory
from service.kafka.java import find_java
from service.kafka.embedded import EmbeddedKafka
directory = ServiceDirectory.open(Path(sys.argv[1]))
broker = EmbeddedKafka.start(directory.kafka, find_java(), launched=partial(directory.record_process, "kafka"))
print(broker.bootstrap, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow  # test_chaos.py kills a whole service, Kafka and all, in every run
def test_what_a_killed_service_left_is_ended_and_its_messages_are_kept(java: Java, stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "kafka")
    command = [sys.executable, "-c", KILLED_SERVICE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        bootstrap = killed.stdout.readline().strip()
        killed.kill()
    said: list[str] = []
    with ServiceDirectory.open(tmp_path) as owned:
        assert "another Kafka broker still runs on" in refusal(owned.kafka, java)
        [orphan] = owned.end_orphans(said.append)
        assert said == [f"ending kafka (pid {orphan.pid}), left over from a run that was killed"]
        with EmbeddedKafka.start(owned.kafka, java) as broker:
            assert broker.bootstrap == bootstrap
            assert [message.value() for message in consume(broker, "kept", 1)] == [b"before"]


class TestRefusals:
    """Each in one line, without a stack trace, and with no process left."""

    def test_a_port_in_use(self, java: Java, tmp_path: Path, taken_port: int) -> None:
        assert refusal(tmp_path, java, port=taken_port).startswith(f"port {taken_port} is in use; ")

    def test_a_port_taken_in_the_last_moment(
        self, java: Java, directory: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedded, "_PORT_TRIES", 1)
        monkeypatch.setattr(embedded, "is_free", lambda _port: True)
        said = refusal(directory, java, port=taken_port)
        assert f"Socket server failed to bind to {HOST}:{taken_port}: Address already in use." in said

    def test_a_full_disk(self, java: Java, tmp_path: Path) -> None:
        assert "make room" in refusal(tmp_path, java, least_free_mb=10**15)

    def test_a_directory_that_cannot_be_made(self, java: Java, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert "Not a directory" in refusal(tmp_path / "file" / "kafka", java)

    def test_the_data_of_another_node(self, java: Java, directory: Path) -> None:
        meta = directory / "data" / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
        assert "Stored node id 2 doesn't match previous node id 1" in refusal(directory, java)

    def test_a_data_folder_that_another_broker_uses(self, java: Java, kafka: EmbeddedKafka, tmp_path: Path) -> None:
        (tmp_path / "data").symlink_to(kafka.directory / "data")
        assert "another Kafka broker still runs on" in refusal(tmp_path, java)

    def test_storage_that_cannot_be_formatted(self, java: Java, tmp_path: Path) -> None:
        (tmp_path / "data").touch()
        assert "cannot format Kafka's storage" in refusal(tmp_path, java)

    def test_a_java_machine_that_does_not_start(self, java: Java, directory: Path) -> None:
        assert "Too small maximum heap" in refusal(directory, java, heap_mb=1)


def refusal(directory: Path, java: Java, **options: Any) -> str:
    launched: list[int] = []
    with pytest.raises(CannotRun) as caught:
        EmbeddedKafka.start(directory, java, launched=launched.append, **options)
    said = str(caught.value)
    assert "\n" not in said
    assert "\tat " not in said
    assert not any(map(psutil.pid_exists, launched))
    return said
