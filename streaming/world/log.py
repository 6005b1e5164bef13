"""The log of a world in memory: Kafka topics of one partition each, with records as they were before they were bytes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TypeAlias

from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Input, Marked, Progressed, Ticked
from streaming.model.outputs import Send
from streaming.wire.inputs import arrival
from tidings import names
from tidings.message import Message


@dataclass(frozen=True, slots=True)
class Mark:
    """A service's mark in a partition."""

    service: str
    version: int


@dataclass(frozen=True, slots=True)
class WorldTick:
    """A service's tick on the clock."""

    service: str
    version: int
    partitions: tuple[str, ...]
    brokers: frozenset[str] | None
    done: tuple[int, int]
    """How far the service is, and by which version."""


Payload: TypeAlias = Message | Send | Mark | WorldTick


@dataclass(frozen=True, slots=True)
class Appended:
    """A record of the log, as it was before it was bytes."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    payload: Payload

    @property
    def origin(self) -> Origin:
        return Origin(self.kafka_topic, self.partition, self.offset, self.append_ms)


class WorldLog(dict[str, list[Appended]]):
    """By Kafka topic."""

    def create(self, kafka_topic: str) -> None:
        """There is such a Kafka topic from here on, if there was none."""
        self.setdefault(kafka_topic, [])

    def append(self, kafka_topic: str, append_ms: int, payload: Payload) -> None:
        rows = self.setdefault(kafka_topic, [])
        rows.append(Appended(kafka_topic, 0, len(rows), append_ms, payload))


def is_for(row: Appended, bucket: int, buckets: int, *, hands_on: bool) -> bool:
    """Whether a bucket reads a row: those about an event are dealt, all others are for all."""
    match row.payload:
        case Message(topic=topic, key=key):
            about = (topic, key)
        case Send(record=record):
            about = record.about
        case _:
            return True
    dealt_by = about if hands_on else (names.broker_of(row.kafka_topic), *about)
    return zlib.crc32(repr(dealt_by).encode()) % buckets == bucket


def inputs_of(row: Appended, service: str) -> list[Input]:
    """What a row is to a service."""
    partition = names.partition_name(row.kafka_topic, 0)
    match row.payload:
        case WorldTick() as tick:
            ticked = [Ticked(row.append_ms, tick.version, tick.partitions)] if tick.service == service else []
            return [*ticked, Progressed(row.append_ms, tick.service, tick.brokers, *tick.done), Marked(partition, row.append_ms)]
        case Mark(whose, version):
            return [Marked(partition, row.append_ms, version if whose == service else None)]
        case Message() as message:
            return [Arrived(row.origin, names.broker_of(row.kafka_topic), message)]
        case Send() as send:
            return [arrival(row.origin, send.sender, send.to, send.record, send.stamp)]
