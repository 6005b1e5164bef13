"""Makes time pass: a tick a second on `clock`, and a mark in every partition the query reads.

A mark read means that everything before it in its partition was read. So time moves in silence, and never past a backlog.
"""

from __future__ import annotations

import json
import logging
import threading
import time

from confluent_kafka import KafkaException

from producers.connection import Connection
from streaming.broker import inputs
from topology import names

_log = logging.getLogger("tidings.ticker")


class Ticker(threading.Thread):
    """``adopt`` names the version and the partitions that the next tick tells."""

    def __init__(
        self, connection: Connection, identity: inputs.Ticker, tick_ms: int, brokers: frozenset[str] | None = None
    ) -> None:
        super().__init__(name="ticker", daemon=True)
        self._identity = identity
        self._brokers = None if brokers is None else sorted(brokers)
        self._told_version = -1
        self._tick_s = tick_ms / 1000
        self._adoption: tuple[int, dict[str, int]] = (0, {})
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._producer = connection.producer(**{"linger.ms": 0})

    def adopt(self, version: int, kafka_topics: dict[str, int]) -> None:
        """From the next tick on this version holds; ``kafka_topics`` maps those read to their partitions."""
        self._adoption = (version, kafka_topics)
        self._wanted.set()

    def tick(self) -> None:
        """Write the marks, then the tick.

        Who sees a version on the clock can rely on it: all that is published from then on stands after a mark of that version.
        """
        version, kafka_topics = self._adoption
        partitions = [(topic, number) for topic, count in sorted(kafka_topics.items()) for number in range(count)]
        tick = {
            "service": self._identity.service,
            "ms": time.time_ns() // 1_000_000,
            "version": version,
            "brokers": self._brokers,
            "partitions": [
                names.partition_name(names.CLOCK, 0),
                *(names.partition_name(topic, number) for topic, number in partitions),
            ],
        }
        try:
            for topic, number in partitions:
                self._producer.produce(topic, self._identity.mark(version), partition=number)
            if version != self._told_version:
                self._producer.flush()
                self._told_version = version
            self._producer.produce(names.CLOCK, json.dumps(tick), partition=0)
        except (BufferError, KafkaException) as error:
            _log.warning("a tick was left out: %s", error)
        self._producer.poll(0)

    def flush(self, timeout_s: float = 10) -> None:
        self._producer.flush(timeout_s)

    def run(self) -> None:
        next_s = time.monotonic()
        while not self._stopping.is_set():
            self.tick()
            next_s = max(next_s + self._tick_s, time.monotonic())
            # A new version does not wait for the second to end.
            if self._wanted.wait(timeout=max(0.0, next_s - time.monotonic())):
                self._wanted.clear()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        if self.is_alive():
            self.join(timeout=10)
        self._leave()
        self.flush(5)

    def _leave(self) -> None:
        """A last tick that serves nobody: who wants to serve these brokers next need not wait."""
        tick: dict[str, object] = {
            "service": self._identity.service,
            "version": self._adoption[0],
            "brokers": [],
            "partitions": [],
        }
        try:
            self._producer.produce(names.CLOCK, json.dumps(tick), partition=0)
        except (BufferError, KafkaException) as error:
            _log.warning("no goodbye on the clock: %s", error)
