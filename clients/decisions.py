"""What was chosen for windows and by adaptive filters, as anybody can read it: the Kafka topic `decisions`."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from clients.connection import Connection
from clients.log import read_all, watermarks
from streaming.model.books import Books
from streaming.model.windows import WindowDecided
from streaming.wire.decisions import AnyDecided, read_decision
from tidings import names

_ASK_S = 5.0
_LOOK_AGAIN_S = 1.0
_REMEMBERED = 100_000

_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What librdkafka gets over by itself."""


# ---- each once --------------------------------------------------------------------------------------------------------


class Choices:
    """Reads records, each choice once: after a crash the service may write one again, equal byte for byte."""

    def __init__(self, remember: int = _REMEMBERED) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._remember = remember

    def take(self, value: bytes | None) -> AnyDecided | None:
        """The choice in a record; None if it was there before, or if nobody can read it."""
        try:
            decided = read_decision(value)
        except ValueError:
            return None
        seen = blake2b(value or b"", digest_size=16).digest()
        new = seen not in self._seen
        self._seen[seen] = None
        self._seen.move_to_end(seen)
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)
        return decided if new else None


# ---- what was saved ---------------------------------------------------------------------------------------------------

Way: TypeAlias = tuple[str, str]
"""A link in one direction: from a broker to a neighbour."""


@dataclass(slots=True)
class WindowTraffic:
    """What crossed a link in one direction for windows, and what would have. ``counts`` has the words of the books."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def forwarded(self) -> int:
        return self.counts["forward"]

    @property
    def aggregated(self) -> int:
        return self.counts["aggregate"]

    @property
    def windows(self) -> int:
        return self.forwarded + self.aggregated

    @property
    def sent(self) -> int:
        return self.counts["sent"]

    def would(self, decider: str) -> int:
        """What would have crossed by another decider: `forward` and `aggregate` always do just that."""
        return self.counts[f"would-{decider}"]

    def saved_against(self, decider: str) -> int:
        """Messages that did not cross and would have; below zero if the other had been better."""
        return self.would(decider) - self.sent

    def add(self, decided: WindowDecided) -> None:
        self.counts[str(decided.choice)] += 1
        self.counts["sent"] += decided.sent
        for decider, count in decided.would.items():
            self.counts[f"would-{decider}"] += count

    def to_dict(self) -> dict[str, Any]:
        prefix = "would-"
        would = {word.removeprefix(prefix): count for word, count in sorted(self.counts.items()) if word.startswith(prefix)}
        return {
            "windows": self.windows,
            "forwarded": self.forwarded,
            "aggregated": self.aggregated,
            "sent": self.sent,
            "would": would,
            "saved_against_forward": self.saved_against("forward"),
            "saved_against_aggregate": self.saved_against("aggregate"),
        }


def crossed_by_books(by_broker: Mapping[str, Books]) -> dict[Way, WindowTraffic]:
    """The links that windows were decided for, as the books of the brokers have them."""
    found: dict[Way, WindowTraffic] = {}
    for broker, books in sorted(by_broker.items()):
        for (neighbour, word), count in sorted(books.windows.items()):
            if count:
                found.setdefault((broker, neighbour), WindowTraffic()).counts[word] += count
    return found


def total(crossed: Iterable[WindowTraffic]) -> WindowTraffic:
    """Several links as one."""
    whole = WindowTraffic()
    for each in crossed:
        whole.counts.update(each.counts)
    return whole


# ---- reading ----------------------------------------------------------------------------------------------------------


def read_decisions(connection: Connection) -> list[AnyDecided]:
    """All choices there are now."""
    choices = Choices()
    found = (choices.take(record.value) for record in read_all(connection, [names.DECISIONS]))
    return [decided for decided in found if decided is not None]


class DecisionReader:
    """Reads choices as they are made; also from a Kafka topic that is not there yet. Commits nothing."""

    def __init__(self, connection: Connection, from_beginning: bool = False) -> None:
        self._connection = connection
        self._choices = Choices()
        self._look_s: float | None = 0.0
        self._consumer = connection.consumer()
        with connection.plain_errors():
            self._look(from_beginning)

    def receive(self, timeout_s: float) -> AnyDecided | None:
        """The next choice, or None when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if self._look_s is not None and time.monotonic() >= self._look_s:
                # What appears after the start is new as a whole. A Kafka that is away for a while is waited for.
                with contextlib.suppress(KafkaException):
                    self._look(from_beginning=True)
            message = self._consumer.poll(max(0.0, min(left_s, _LOOK_AGAIN_S)))
            decided = self._read(message) if message is not None else None
            if decided is not None or left_s <= 0:
                return decided

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _look(self, from_beginning: bool) -> None:
        """Start on the Kafka topic if it is there; otherwise look again in a while."""
        self._look_s = time.monotonic() + _LOOK_AGAIN_S
        found = self._consumer.list_topics(timeout=_ASK_S).topics.get(names.DECISIONS)
        if found is None or not found.partitions:
            return
        starts = []
        for partition in sorted(found.partitions):
            # The end is asked for now: what is appended before the first poll must not be missed.
            offset = OFFSET_BEGINNING if from_beginning else watermarks(self._consumer, names.DECISIONS, partition)[1]
            starts.append(TopicPartition(names.DECISIONS, partition, offset))
        self._consumer.assign(starts)
        self._look_s = None

    def _read(self, message: Any) -> AnyDecided | None:
        if (error := message.error()) is None:
            return self._choices.take(message.value())
        if error.code() in _PASSING or error.retriable():
            return None
        raise self._connection.in_plain_words(error) from KafkaException(error)
