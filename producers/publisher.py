"""A publisher: sends messages to a broker's publish topic, each exactly once in the log, in the order they were given."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException

from clients.connection import Connection
from streaming.wire.message import encode_message
from tidings import names
from tidings.control import DEFAULT_BROKER
from tidings.errors import KafkaUnreachable, TidingsError
from tidings.message import Message
from tidings.notification import Encoding


class Publisher:
    """Sends in the background; `flush` waits, and raises what went wrong.

    Used as a context manager, it flushes at the end of the block.
    """

    def __init__(self, connection: Connection, broker: str = DEFAULT_BROKER) -> None:
        self.kafka_topic = names.publish_topic(broker)
        self.sent = 0
        """Messages that Kafka has acknowledged."""
        self._connection = connection
        # The service dead-letters what is too large for it; the client sends whatever the Kafka topic takes.
        self._producer = connection.producer(**{"message.max.bytes": names.LARGEST_RECORD_BYTES, "linger.ms": 5})
        self._failures: list[KafkaError] = []

    def publish(self, message: Message, encoding: Encoding = Encoding.JSON) -> None:
        """Send a message. All messages about one event go to one partition, so their order is kept."""
        self.publish_raw(encode_message(message, encoding), names.record_key(message.topic, message.key))

    def publish_raw(self, value: bytes | None, key: bytes | None = None) -> None:
        """Send bytes as they are, be they a message or not."""
        while True:
            try:
                self._producer.produce(self.kafka_topic, value=value, key=key, on_delivery=self._noted)
                break
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: wait for answers
            except KafkaException as error:
                raise self._refused([error.args[0]]) from error
        self._producer.poll(0)

    def flush(self, timeout_s: float = 60) -> None:
        """Wait until all that was published is in the log. Raises when some of it is not."""
        left = self._producer.flush(timeout_s)
        failures, self._failures = self._failures, []
        if failures:
            raise self._refused(failures)
        if left:
            raise KafkaUnreachable(
                f"Kafka at {self._connection.bootstrap} did not acknowledge {left} messages within {timeout_s:g} s; "
                "see whether it is overloaded"
            )

    def close(self) -> None:
        """Flush, and give up what could not be sent."""
        try:
            self.flush()
        finally:
            self._producer.purge()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            # What was published still goes out, but another error must not hide the first one.
            self._producer.flush(5)
            self._producer.purge()

    def _noted(self, error: KafkaError | None, _record: Any) -> None:
        if error is None:
            self.sent += 1
        else:
            self._failures.append(error)

    def _refused(self, failures: list[KafkaError]) -> TidingsError:
        plain = self._connection.in_plain_words(failures[0])
        if isinstance(plain, KafkaUnreachable):
            return plain
        return TidingsError(f"Kafka did not take {len(failures)} of the messages for {self.kafka_topic}: {failures[0].str()}")
