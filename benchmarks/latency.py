"""From publishing to the notification: 1,000 messages a second to a service with one broker, four of five of them redundant.

Beside it, the least that a query of Spark takes: the same messages from one Kafka topic to another, with nothing done to them.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from clients.connection import Connection
from clients.subscriber import Subscriber
from clients.topics import delivery_specs, ensure_topics, publish_specs
from producers.publisher import Publisher
from service.kafka.embedded import EmbeddedKafka
from service.kafka.jars import spark_jars
from service.kafka.java import COMPILED_LATE, find_java
from streaming.spark.session import start_session, stop_session
from streaming.wire.message import MessageLimits, decode_message
from streaming.wire.notification import encode_notification
from streaming.world.records import subscription, topic
from testing.service import RunningService
from tidings.message import Message
from tidings.names import publish_topic
from tidings.notification import Encoding, Notification, Reason

PER_S = 1_000
NEWS_EACH = 5
_WARM_S = 5
_HOPS = 40
_PASSED = "notify.passed"


@dataclass(frozen=True)
class Delays:
    """Seconds from publishing to having the notification; for a plain hop through the same Kafka; and through a query that only
    passes messages on."""

    told: list[float]
    hops: list[float]
    passed_on: list[float]


def measure(folder: Path, seconds: int) -> Delays:
    """Run a service under this many seconds of load."""
    with RunningService.start(folder) as service:
        service.apply(topic("latency", window_ms=600_000), subscription("latency", topic="latency"))
        hops = _plain_hops(service.connection)
        told = _told(service, seconds + _WARM_S)
    return Delays(told, hops, _passed_on(folder.with_suffix(".plain"), seconds + _WARM_S))


def _passed_on(folder: Path, seconds: int) -> list[float]:
    """The delay of the same messages through a query without state or Python, under the settings of the service."""
    with EmbeddedKafka.start(folder / "kafka", find_java()) as kafka:
        connection = Connection(kafka.bootstrap)
        ensure_topics(connection, [*publish_specs(["b1"], 2, 1), *delivery_specs([_PASSED], 1)])
        spark = start_session(
            "local[2]", spark_jars(), shuffle_partitions=2, local_dir=folder / "spark", java_options=COMPILED_LATE
        )
        try:
            spark.sparkContext.setLogLevel("ERROR")
            source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
            source = source.option("subscribe", publish_topic("b1")).option("kafka.fetch.max.wait.ms", "10")
            sink = source.load().select("key", "value").writeStream.format("kafka").option("topic", _PASSED)
            sink = sink.option("kafka.bootstrap.servers", kafka.bootstrap).option(
                "checkpointLocation", str(folder / "checkpoint")
            )
            query = sink.trigger(processingTime="0 seconds").start()
            took = _listened(connection, seconds)
            query.stop()
        finally:
            stop_session(spark)
    return took


def _listened(connection: Connection, seconds: int) -> list[float]:
    """Publish, and take down when the first of each message arrives at the other end."""
    took: list[float] = []
    start_s, limits = time.time(), MessageLimits()
    with closing(connection.consumer(**{"group.id": "latency", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([_PASSED])
        publisher = threading.Thread(target=_publish, args=(connection, seconds))
        publisher.start()
        seen: set[str] = set()
        while len(seen) < seconds * PER_S // NEWS_EACH:
            record = consumer.poll(60)
            assert record is not None, "not all was passed on"
            now_s, message = time.time(), decode_message(record.value(), limits)
            sent_s = float(str(message.fields["sent"]))
            if message.key not in seen and sent_s > start_s + _WARM_S:
                took.append(now_s - sent_s)
            seen.add(message.key)
        publisher.join()
    return took


def _plain_hops(connection: Connection) -> list[float]:
    ensure_topics(connection, delivery_specs(["latency.plain"], 1))
    producer = connection.producer(**{"linger.ms": 0})
    took = []
    with Subscriber(connection, "latency.plain") as subscriber:
        for number in range(_HOPS):
            hop = Notification(f"n{number}", "b", "b", "t", "k", "e", 1, Reason.FIRST, {}, 1, 1, 0, 0)
            start_s = time.monotonic()
            producer.produce("latency.plain", encode_notification(hop, Encoding.JSON))
            producer.flush()
            assert subscriber.poll(10) is not None
            took.append(time.monotonic() - start_s)
    return took


def _told(service: RunningService, seconds: int) -> list[float]:
    """The delay of each notification, without those of the first seconds."""
    start_s = time.time()
    took: list[float] = []
    news = seconds * PER_S // NEWS_EACH

    def listen() -> None:
        with Subscriber(service.connection, "notify.latency") as subscriber:
            ready.set()
            for _ in range(news):
                found = subscriber.poll(60)
                assert found is not None, "not all news was told"
                sent_s = float(str(found.news["sent"]))
                if sent_s > start_s + _WARM_S:
                    took.append(time.time() - sent_s)

    ready = threading.Event()
    listener = threading.Thread(target=listen)
    listener.start()
    ready.wait()
    _publish(service.connection, seconds)
    listener.join()
    return took


def _publish(connection: Connection, seconds: int) -> None:
    chance = random.Random(1)
    recent: list[Message] = []
    with Publisher(connection) as publisher:
        begin_s = time.monotonic()
        for number in range(seconds * PER_S):
            if (wait_s := begin_s + number / PER_S - time.monotonic()) > 0:
                time.sleep(wait_s)
            if number % NEWS_EACH == 0:
                message = Message(
                    "latency", f"k{number}", {"what": "fire", "where": "kitchen", "n": number, "sent": repr(time.time())}
                )
                recent = [*recent[-500:], message]
            else:
                message = chance.choice(recent)
            publisher.publish(message, Encoding.AVRO)


def half(values: list[float]) -> float:
    return quantiles(values, n=100)[49]


def ninety_nine(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = measure(Path(place) / "service", 20)
    for name, values in (("told", found.told), ("passed on", found.passed_on)):
        print(f"{name}: half {half(values):.3f} s, 99 % {ninety_nine(values):.3f} s")
