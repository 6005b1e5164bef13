"""How long a message to a service at rest takes to be told, beside a plain hop through the same Kafka; and how many a second.

    python benchmarks/at_rest.py        # about two minutes; writes docs/benchmarks.md

A plain hop is one producer and one consumer on one Kafka topic: what nobody can be faster than.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from producers.connection import Connection
from producers.publisher import Publisher
from producers.subscriber import Subscriber
from producers.topics import delivery_specs, ensure_topics
from producers.workload import Workload, generate
from service.testing import RunningService
from streaming.broker.values import Outcome
from streaming.testing import subscription
from tidings.codec import encode_notification
from tidings.message import Message
from tidings.notification import Encoding, Notification, Reason

MESSAGES = 40
FLOOD = 50_000
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def plain_hops_s(connection: Connection) -> list[float]:
    ensure_topics(connection, delivery_specs(["bench.plain"], 1))
    producer = connection.producer(**{"linger.ms": 0})
    took = []
    with Subscriber(connection, "bench.plain") as subscriber:
        for number in range(MESSAGES):
            hop = Notification(f"n{number}", "b", "b", "t", "k", "e", 1, Reason.FIRST, {}, 1, 1, 0, 0)
            start_s = time.monotonic()
            producer.produce("bench.plain", encode_notification(hop, Encoding.JSON))
            producer.flush()
            assert subscriber.poll(10) is not None
            took.append(time.monotonic() - start_s)
    return took


def told_s(service: RunningService) -> list[float]:
    service.apply(subscription("bench", topic="bench"))
    took = []
    with Publisher(service.connection) as publisher, Subscriber(service.connection, "notify.bench") as subscriber:
        for number in range(MESSAGES):
            # At rest, and not in step with the ticks.
            time.sleep(0.5 + (number * 0.37) % 1)
            start_s = time.monotonic()
            publisher.publish(Message("bench", f"k{number}", {"n": number}))
            publisher.flush()
            assert subscriber.poll(30) is not None
            took.append(time.monotonic() - start_s)
    return took


def flood_per_s(service: RunningService) -> tuple[float, float, float]:
    """Messages a second published, and through the service until the last is in the books; and the share that was redundant."""
    run = [one.message for one in generate(Workload(events=200, publishers=500, topic="flood", seed=1))][:FLOOD]
    service.apply(subscription("flood", topic="flood"))
    before = service.books()
    start_s = time.monotonic()
    with Publisher(service.connection) as publisher:
        for message in run:
            publisher.publish(message, Encoding.AVRO)
    published_s = time.monotonic() - start_s
    after = service.wait_received(before.received + len(run), 300)
    through_s = time.monotonic() - start_s
    redundant = after.total(Outcome.REDUNDANT) - before.total(Outcome.REDUNDANT)
    return len(run) / published_s, len(run) / through_s, redundant / len(run)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, RunningService.start(Path(folder) / "dir") as service:
        plain, told = plain_hops_s(service.connection), told_s(service)
        published, through, redundant = flood_per_s(service)
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    told_row = f"{median(told):.2f} s | {quantiles(told, n=20)[-1]:.2f} s | {median(told) / median(plain):.0f}"
    text = f"""# Benchmarks

Written by `python benchmarks/at_rest.py` on {machine}; Kafka, Spark, publisher and subscriber share them.
Figures of a small noisy machine: the ratios say more than the seconds.

| what | half | 95 % | ratio to the plain hop |
|---|---|---|---|
| a plain hop through the same Kafka | {median(plain) * 1000:.0f} ms | {quantiles(plain, n=20)[-1] * 1000:.0f} ms | 1 |
| publish to notification, service at rest, hold 0 | {told_row} |

| {FLOOD:,} Avro messages at once, {redundant:.0%} redundant | messages/s | ratio |
|---|---|---|
| written by one Python publisher | {published:,.0f} | 1 |
| through the service, the readable gatherer | {through:,.0f} | {through / published:.2f} |

A message waits for the batch under way, then for its own. A service at rest runs a batch for every tick.
"""
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
