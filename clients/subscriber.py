"""A subscriber: reads notifications, each once.

After a crash the service may write a notification again, equal byte for byte and with the same id: those are dropped here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from clients.connection import Connection
from clients.following import REMEMBERED, Follower, Seen
from streaming.wire.notification import decode_notification
from tidings.notification import Notification


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification, and where and when it was appended."""

    notification: Notification
    kafka_topic: str
    append_ms: int


class Subscriber(Follower[Delivery]):
    """Reads one or more Kafka topics, also ones that are not there yet.

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
        remember_ids: int = REMEMBERED,
    ) -> None:
        self.repeats = 0
        """Notifications dropped because their id was seen before."""
        self.unreadable = 0
        """Values that were no notification."""
        self._subscription = subscription
        self._seen = Seen(remember_ids)
        self._handled: Any = None
        settings: dict[str, Any] = {"auto.offset.reset": "earliest" if from_beginning else "latest"}
        if group is not None:
            settings |= {"enable.auto.commit": True, "enable.auto.offset.store": False}
            # A Kafka topic that is made after the start is found in seconds, not in five minutes.
            settings["topic.metadata.refresh.interval.ms"] = 2000
        kafka_topics = [kafka_topic] if isinstance(kafka_topic, str) else kafka_topic
        super().__init__(connection, kafka_topics, from_beginning=from_beginning, group=group, **settings)

    def poll(self, timeout_s: float) -> Notification | None:
        """The next notification, or None when none comes in time."""
        delivery = self.receive(timeout_s)
        return delivery.notification if delivery else None

    def receive(self, timeout_s: float) -> Delivery | None:
        """As `poll`, with where and when it was appended."""
        self._store_handled()
        return super().receive(timeout_s)

    def close(self) -> None:
        self._store_handled()
        super().close()

    def __iter__(self) -> Iterator[Notification]:
        """Notifications for ever."""
        while True:
            if (notification := self.poll(1.0)) is not None:
                yield notification

    def _store_handled(self) -> None:
        if self._group is not None and self._handled is not None:
            # It fails when the partition has gone to another member of the group, who then repeats it.
            with contextlib.suppress(KafkaException):
                self._consumer.store_offsets(message=self._handled)
        self._handled = None

    def _take(self, message: Any) -> Delivery | None:
        try:
            notification = decode_notification(message.value() or b"")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unreadable += 1
            return None
        if self._subscription is not None and notification.subscription != self._subscription:
            return None
        if not self._seen.is_new(notification.id):
            self.repeats += 1
            return None
        self._handled = message
        return Delivery(notification, message.topic(), message.timestamp()[1])
