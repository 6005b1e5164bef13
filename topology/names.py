"""The Kafka topics that carry what, for which broker.

Names are built here and nowhere else; nothing that a publisher wrote becomes part of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CONTROL: Final = "control"
CLOCK: Final = "clock"
BOOKS: Final = "books"
LATE: Final = "late"
DEAD_LETTER: Final = "dead-letter"

LARGEST_RECORD_BYTES: Final = 16 * 1024 * 1024
"""The largest record a publisher may send, as Kafka stores it."""

MARK_START: Final = b"\x00tidings mark"
"""Written into every input partition by the ticker. A publisher who forges one only says what time Kafka already knows."""

_PUBLISH = "publish."


def publish_topic(broker: str) -> str:
    """The Kafka topic that publishers at a broker write to."""
    return f"{_PUBLISH}{broker}"


def broker_of(kafka_topic: str) -> str:
    """The broker whose publishers write to a Kafka topic.

    >>> broker_of("publish.b1")
    'b1'
    """
    if not kafka_topic.startswith(_PUBLISH):
        raise ValueError(f"{kafka_topic!r} is not a publish topic")
    return kafka_topic.removeprefix(_PUBLISH)


def input_pattern(brokers: Iterable[str] = ()) -> str:
    """A Java regular expression for the Kafka topics a process reads; without names, those of every broker."""
    names = "|".join(sorted(brokers)) or "[^.]+"
    return rf"{CLOCK}|publish\.({names})"


def partition_name(kafka_topic: str, partition: int) -> str:
    """How a partition is named in ticks."""
    return f"{kafka_topic}-{partition}"


def record_key(topic: str, key: str) -> bytes:
    """The Kafka record key of all that concerns one event: it stays in one partition, so its order is kept."""
    return f"{topic}/{key}".encode()
