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
from topology import overlay

_log = logging.getLogger("tidings.ticker")


class Ticker(threading.Thread):
    """``adopt`` names the version and the partitions that the next tick tells."""

    def __init__(self, connection: Connection, service: str, tick_ms: int) -> None:
        super().__init__(name="ticker", daemon=True)
        self._service = service
        self._tick_s = tick_ms / 1000
        self._adoption: tuple[int, dict[str, int]] = (0, {})
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._producer = connection.producer(**{"linger.ms": 0})

    def adopt(self, version: int, inputs: dict[str, int]) -> None:
        """From the next tick on this version holds; ``inputs`` maps the Kafka topics read to their partitions."""
        self._adoption = (version, inputs)
        self._wanted.set()

    def tick(self) -> None:
        """Write one tick, then the marks."""
        version, inputs = self._adoption
        partitions = [(topic, number) for topic, count in sorted(inputs.items()) for number in range(count)]
        tick = {
            "service": self._service,
            "ms": time.time_ns() // 1_000_000,
            "version": version,
            "partitions": [
                overlay.partition_name(overlay.CLOCK, 0),
                *(overlay.partition_name(topic, number) for topic, number in partitions),
            ],
        }
        try:
            self._producer.produce(overlay.CLOCK, json.dumps(tick), partition=0)
            for topic, number in partitions:
                self._producer.produce(topic, overlay.MARK_VALUE, partition=number)
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
        self.flush(5)
