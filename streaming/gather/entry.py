"""Where records stand in Kafka, and publications as their publishers sent them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record stands in Kafka, and when it was appended."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a publication entered the overlay, and its bytes as the publisher sent them."""

    origin: Origin
    record_key: bytes | None
    value: bytes | None
