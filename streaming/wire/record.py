"""Records of Kafka: as they stand in the log, and as they are to be written."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from msgspec import Struct

from streaming.model.entry import Entry, Origin
from tidings import names

MOST_VALUE_BYTES = names.LARGEST_RECORD_BYTES + 1
"""Kafka bounds records as they are compressed; a few bytes can unfold to gigabytes. The service reads no more of a value."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(Struct, frozen=True, gc=False):
    """A record as it stands in Kafka. ``append_ms`` is the append time, as all Kafka topics of a service have it."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def origin(self) -> Origin:
        return Origin(self.kafka_topic, self.partition, self.offset, self.append_ms)

    @property
    def entry(self) -> Entry:
        """Its bytes, and where they stand."""
        return Entry(self.origin, self.key, self.value)


class Outgoing(NamedTuple):
    """A record that is to be written, in the words of Spark's sink for Kafka."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
