"""Where records stand in Kafka, and publications as their publishers sent them."""

from __future__ import annotations

from msgspec import Struct


class Origin(Struct, frozen=True, array_like=True, gc=False):
    """Where a record stands in Kafka, and when it was appended."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int


class Entry(Struct, frozen=True, array_like=True):
    """Where a publication entered the overlay, and its bytes as the publisher sent them."""

    origin: Origin
    record_key: bytes | None
    value: bytes | None
