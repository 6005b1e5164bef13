"""A Kafka in a container speaks to the clients we use. Skipped where no Docker engine runs."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
import requests
from confluent_kafka import Consumer, KafkaError, Message, Producer

# Not by `import`: type checkers take our own folder docker/ for the package.
docker = pytest.importorskip("docker", reason="the package docker is not installed: it comes with the extra `dev`")

# Warnings that testcontainers raises on its way are not ours to mend; everywhere else they are errors.
pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("default")]

VALUE = b'{"topic": "incident", "key": "5th and Main", "fields": {"what": "fire"}}'
KAFKA_TOPIC = "publish.b1"


def why_no_engine() -> str | None:
    """What keeps us from Docker, or None when an engine answers."""
    with warnings.catch_warnings():
        # The package leaves the socket of a failed connection to the garbage collector: let it go here, where nobody minds.
        warnings.simplefilter("ignore", ResourceWarning)
        reason = ask_engine()
        gc.collect()
    return reason


def ask_engine() -> str | None:
    try:
        client = docker.from_env(timeout=3)  # this already asks the engine for its version
    except (docker.errors.DockerException, requests.RequestException) as error:
        return str(error)
    try:
        client.ping()
    except (docker.errors.DockerException, requests.RequestException) as error:
        return str(error)
    finally:
        client.close()
    return None


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    reason = why_no_engine()
    if reason is not None:
        pytest.skip(f"no Docker engine answers on this machine: {reason}")
    # Imported late: it looks for the engine's address on import.
    from testcontainers.community.kafka import KafkaContainer

    with KafkaContainer().with_kraft() as kafka:
        yield kafka.get_bootstrap_server()


def test_a_message_goes_in_and_comes_out(bootstrap_servers: str) -> None:
    assert published(bootstrap_servers) is None
    assert first_message(bootstrap_servers) == VALUE


def published(bootstrap_servers: str) -> KafkaError | None:
    """What the broker says about our message: None is a yes from all replicas."""
    answers: list[KafkaError | None] = []

    def answered(error: KafkaError | None, _: Message) -> None:
        answers.append(error)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True})
    producer.produce(KAFKA_TOPIC, key=b"incident/5th and Main", value=VALUE, on_delivery=answered)
    assert producer.flush(30) == 0, "the broker did not answer in 30 s"
    return answers[0]


def first_message(bootstrap_servers: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([KAFKA_TOPIC])
        (message,) = consumer.consume(1, timeout=30)
        assert message.error() is None
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()
