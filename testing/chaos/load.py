"""A stream that does not care what becomes of the service: a town's incidents by a seed, at their own pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import Self

from clients.connection import Connection
from producers.incidents import incidents
from producers.publisher import Publisher
from producers.workload import SentMessage, dated
from streaming.world.records import subscription, topic

CONTROL = (
    topic(fields={"severity": "max", "injured": "max", "tags": "union"}, hold_ms=400, window_ms=6000),
    subscription("all"),
    subscription("some", where="severity >= 3", missing="patient", every_ms=1500, fields=["what", "where", "tags"]),
)
"""What the stream is about: a hold, a cadence, a choice of fields and a predicate that waits."""
AGGREGATES = (
    subscription("ended", window={"size_ms": 4000, "shift_ms": 2000, "of": {"events": "count()", "worst": "max(severity)"}}),
)
"""And how many of its events ended, over windows that slide: with these, both pipelines run."""

_ROUND_MS = 5000


def stream(seed: int, events: int, witnesses: int) -> Iterator[SentMessage]:
    """Without end: ``events`` incidents begin in every five seconds. ``at_ms`` counts from 0."""
    for number in count():
        for one in incidents(events, witnesses, seed * 100_000 + number, _ROUND_MS, _ROUND_MS):
            at_ms = number * _ROUND_MS + one.at_ms
            yield SentMessage(at_ms, one.publisher, one.message)


class Load(threading.Thread):
    """Publishes until it is told to stop. What Kafka does not take now is kept and sent when it is back."""

    def __init__(self, connection: Connection, seed: int, events: int = 6, witnesses: int = 12) -> None:
        super().__init__(name="load", daemon=True)
        self.failure: Exception | None = None
        self._publisher = Publisher(connection)
        self._run = stream(seed, events, witnesses)
        self._stopping = threading.Event()

    @property
    def published(self) -> int:
        """Messages that are in the log."""
        return self._publisher.sent

    def run(self) -> None:
        try:
            for one in dated(self._run, time.time_ns() // 1_000_000):
                if self._stopping.wait(max(0.0, one.at_ms / 1000 - time.time())):
                    break
                self._publisher.publish(one.message)
            self._publisher.flush(120)
        except Exception as error:  # told to whoever asks for the stream's end
            self.failure = error

    def finish(self) -> int:
        """Stop, and see that all is in the log; returns how many messages that are."""
        self._stopping.set()
        if self.is_alive():
            self.join(150)
        if self.failure is not None:
            raise self.failure
        return self.published

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self.join(10)
