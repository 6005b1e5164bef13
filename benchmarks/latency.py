"""From publishing to the notification: 1,000 messages a second to a service with one broker, four of five of them redundant."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from clients.connection import Connection
from clients.subscriber import Subscriber
from clients.topics import delivery_specs, ensure_topics
from producers.publisher import Publisher
from streaming.wire.notification import encode_notification
from streaming.world.records import subscription, topic
from testing.service import RunningService
from tidings.message import Message
from tidings.notification import Encoding, Notification, Reason

PER_S = 1_000
NEWS_EACH = 5
_WARM_S = 5
_HOPS = 40


@dataclass(frozen=True)
class Delays:
    """Seconds from publishing to having the notification; and for a plain hop through the same Kafka."""

    told: list[float]
    hops: list[float]
    published: int


def measure(folder: Path, seconds: int) -> Delays:
    """Run a service under this many seconds of load."""
    with RunningService.start(folder) as service:
        service.apply(topic("latency", window_ms=600_000), subscription("latency", topic="latency"))
        hops = _plain_hops(service.connection)
        told = _told(service, seconds + _WARM_S)
    return Delays(told, hops, seconds * PER_S)


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
