"""A subscriber: reads notifications, each once.

After a crash the service may write a notification again, equal byte for byte and with the same id: those are dropped here.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from clients.connection import Connection
from clients.log import watermarks
from streaming.wire.notification import decode_notification
from tidings.notification import Notification

_ASK_S = 5.0
_LOOK_AGAIN_S = 1.0
"""Between two looks for Kafka topics that are not there yet."""
_LOOK_FOR_PARTITIONS_S = 30.0

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


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification, and where and when it was appended."""

    notification: Notification
    kafka_topic: str
    append_ms: int


class Subscriber:
    """Reads one or more Kafka topics, also such as are not there yet.

    Without a ``group`` it reads all partitions and commits nothing. With one, the members of the group share the partitions,
    and what was returned counts as handled when the next is asked for: a crash repeats, it loses nothing.
    """

    def __init__(
        self,
        connection: Connection,
        kafka_topic: str | Iterable[str],
        subscription: str | None = None,
        from_beginning: bool = True,
        group: str | None = None,
        remember_ids: int = 100_000,
    ) -> None:
        self.repeats = 0
        """Notifications dropped because their id was seen before."""
        self.unreadable = 0
        """Values that were no notification."""
        self._connection = connection
        self._subscription = subscription
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._remember_ids = remember_ids
        self._group = group
        self._wanted = {kafka_topic} if isinstance(kafka_topic, str) else set(kafka_topic)
        self._assigned: set[tuple[str, int]] = set()
        self._look_s = 0.0
        self._handled: Any = None
        settings: dict[str, Any] = {"auto.offset.reset": "earliest" if from_beginning else "latest"}
        if group is not None:
            settings |= {"group.id": group, "enable.auto.commit": True, "enable.auto.offset.store": False}
            # A Kafka topic that is made after the start is found in seconds, not in five minutes.
            settings["topic.metadata.refresh.interval.ms"] = 2000
        self._consumer = connection.consumer(**settings)
        with connection.plain_errors():
            if group is None:
                self._look(from_beginning)
            else:
                self._consumer.subscribe(sorted(self._wanted))

    def poll(self, timeout_s: float) -> Notification | None:
        """The next notification, or None when none comes in time."""
        delivery = self.receive(timeout_s)
        return delivery.notification if delivery else None

    def receive(self, timeout_s: float) -> Delivery | None:
        """As `poll`, with where and when it was appended."""
        self._store_handled()
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if self._group is None and time.monotonic() >= self._look_s:
                # What appears after the start is new as a whole. A Kafka that is away for a while is waited for.
                with contextlib.suppress(KafkaException):
                    self._look(from_beginning=True)
            message = self._consumer.poll(max(0.0, min(left_s, _LOOK_AGAIN_S)))
            delivery = self._read(message) if message is not None else None
            if delivery is not None:
                self._handled = message
                return delivery
            if left_s <= 0:
                return None

    def add(self, kafka_topics: Iterable[str]) -> None:
        """Read these Kafka topics too, from their beginning."""
        self._wanted |= set(kafka_topics)
        self._look_s = 0.0
        if self._group is not None:
            self._consumer.subscribe(sorted(self._wanted))

    def close(self) -> None:
        self._store_handled()
        self._consumer.close()

    def __iter__(self) -> Iterator[Notification]:
        """Notifications for ever."""
        while True:
            if (notification := self.poll(1.0)) is not None:
                yield notification

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

    def _store_handled(self) -> None:
        if self._group is not None and self._handled is not None:
            # It fails when the partition has gone to another member of the group, who then repeats it.
            with contextlib.suppress(KafkaException):
                self._consumer.store_offsets(message=self._handled)
        self._handled = None

    def _read(self, message: Any) -> Delivery | None:
        if (error := message.error()) is not None:
            if error.code() in _PASSING or error.retriable():
                return None
            raise self._connection.in_plain_words(error) from KafkaException(error)
        try:
            notification = decode_notification(message.value() or b"")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unreadable += 1
            return None
        if self._subscription is not None and notification.subscription != self._subscription:
            return None
        if not self._is_new(notification.id):
            self.repeats += 1
            return None
        return Delivery(notification, message.topic(), message.timestamp()[1])

    def _is_new(self, notification_id: str) -> bool:
        new = notification_id not in self._seen
        self._seen[notification_id] = None
        self._seen.move_to_end(notification_id)
        if len(self._seen) > self._remember_ids:
            self._seen.popitem(last=False)
        return new
