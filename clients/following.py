"""Following Kafka topics: records as they come, also those of topics and partitions that are not there yet."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from clients.connection import Connection
from clients.log import watermarks

_ASK_S = 5.0
_LOOK_AGAIN_S = 1.0
"""Between two looks for Kafka topics that are not there yet."""
_LOOK_FOR_PARTITIONS_S = 30.0

REMEMBERED = 100_000
"""How many records are remembered, to know them again."""

_PASSING = frozenset(
    {
        KafkaError._PARTITION_EOF,
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

Found = TypeVar("Found")


class Follower(ABC, Generic[Found]):
    """Reads one or more Kafka topics; a subclass says what a record means.

    Without a ``group`` it reads all partitions. With one, the members of the group share them. ``settings`` are the
    consumer's.
    """

    def __init__(
        self,
        connection: Connection,
        kafka_topics: Iterable[str],
        *,
        from_beginning: bool,
        group: str | None = None,
        **settings: Any,
    ) -> None:
        self._connection = connection
        self._group = group
        self._wanted = set(kafka_topics)
        self._assigned: set[tuple[str, int]] = set()
        self._look_s = 0.0
        self._consumer = connection.consumer(**settings, **({"group.id": group} if group is not None else {}))
        with connection.plain_errors():
            if group is None:
                self._look(from_beginning)
            else:
                self._consumer.subscribe(sorted(self._wanted))

    @abstractmethod
    def _take(self, message: Any) -> Found | None:
        """What a confluent-kafka message holds; None if that is nothing new."""

    def receive(self, timeout_s: float) -> Found | None:
        """The next, or None when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if self._group is None and time.monotonic() >= self._look_s:
                # What appears after the start is new as a whole. A Kafka that is away for a while is waited for.
                with contextlib.suppress(KafkaException):
                    self._look(from_beginning=True)
            message = self._consumer.poll(max(0.0, min(left_s, _LOOK_AGAIN_S)))
            found = self._take(message) if message is not None and not self._is_passing(message.error()) else None
            if found is not None or left_s <= 0:
                return found

    def add(self, kafka_topics: Iterable[str]) -> None:
        """Read these Kafka topics too, from their beginning."""
        self._wanted |= set(kafka_topics)
        self._look_s = 0.0
        if self._group is not None:
            self._consumer.subscribe(sorted(self._wanted))

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _look(self, from_beginning: bool) -> None:
        """Start on partitions that were not there at the last look."""
        self._look_s = time.monotonic() + _LOOK_AGAIN_S
        found = self._consumer.list_topics(timeout=_ASK_S).topics
        here = {(name, number) for name in self._wanted & found.keys() for number in found[name].partitions}
        starts = []
        for at in sorted(here - self._assigned):
            offset = OFFSET_BEGINNING
            if not from_beginning:
                # The end is asked for now: what is appended before the first poll must not be missed.
                _, offset = watermarks(self._consumer, *at)
            starts.append(TopicPartition(*at, offset))
        if starts:
            self._consumer.incremental_assign(starts)
            self._assigned |= here
        if self._wanted <= {name for name, _ in self._assigned}:
            self._look_s = time.monotonic() + _LOOK_FOR_PARTITIONS_S

    def _is_passing(self, error: KafkaError | None) -> bool:
        """Whether an error came that goes by; any other is raised."""
        if error is None:
            return False
        if error.code() in _PASSING or error.retriable():
            return True
        raise self._connection.in_plain_words(error) from KafkaException(error)


class Seen:
    """The newest of what came, so that what comes again is recognised. After a crash the service may write a record again."""

    def __init__(self, remember: int = REMEMBERED) -> None:
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._remember = remember

    def __len__(self) -> int:
        return len(self._seen)

    def is_new(self, each: Hashable) -> bool:
        """Whether it did not come before; it has now."""
        new = each not in self._seen
        self._seen[each] = None
        self._seen.move_to_end(each)
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)
        return new
