"""The streams that `bench.py` measures with: each a load in a Kafka topic of its own, with the ticks and marks of a service.

Each stream has a broker of its own, so one Kafka holds them all and a query reads just one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from peers.load import TOPIC, Load, encode, record_key

from clients.connection import Connection
from clients.topics import delivery_specs, ensure_topics, link_specs, publish_specs, service_topics
from streaming.model.items import Publication
from streaming.model.outputs import Offer
from streaming.model.windows import Clocked
from streaming.wire.clock import Tick, TickerIdentity, encode_tick
from streaming.wire.message import MessageLimits, decode_message, encode_message
from streaming.wire.offers import clock_record, offer_record
from streaming.wire.record import Outgoing
from tidings import names
from tidings.control import Link, Snapshot, snapshot_path
from tidings.notification import Encoding

PARTITIONS = 2
SECRET = "benchmark"
PREFIX = "campus-2026-"
CADENCES_MS = (0, 1_000, 5_000, 30_000)
WINDOW_MS = 3_600_000
_TICK_EACH = 20_000  # messages
_CHUNK = 5_000
_START_MS = 1_800_000_000_000
READING = "reading"
FAR = 12


@dataclass(frozen=True)
class Stream:
    """A load in Kafka. ``before`` messages come first, to build up state, and are not measured."""

    name: str
    messages: int
    before: int = 0
    subscriptions: int = 1_000
    windowed: bool = False
    """Whether it is what a broker offers to its links, for subscriptions to aggregates beyond them."""

    @property
    def ticker(self) -> TickerIdentity:
        return TickerIdentity(f"bench-{self.name}", SECRET)


def control(stream: Stream, folder: Path) -> int:
    """Write the control data of a stream; returns its version.

    Each has its own: brokers without links between them would be an overlay that is cut, and each would keep what it cannot send
    to the others' subscribers.
    """
    snapshot = Snapshot()
    version = 0
    for record in chain([_topic()], _records(stream)):
        version += 1
        snapshot = snapshot.apply(version, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    folder.mkdir(parents=True, exist_ok=True)
    snapshot_path(folder, version).write_text(snapshot.to_json(), encoding="utf-8")
    return version


def _topic() -> dict[str, Any]:
    return {"kind": "topic", "name": TOPIC, "window_ms": WINDOW_MS}


def _records(stream: Stream) -> Iterator[dict[str, Any]]:
    """A broker, and subscriptions that share out the keys among them: an event concerns one, whatever their number."""
    yield {"kind": "broker", "name": stream.name}
    if stream.windowed:
        yield from _windowed(stream)
        return
    digits = len(str(stream.subscriptions)) - 1
    for number in range(stream.subscriptions):
        yield {
            "kind": "subscription",
            "name": f"{stream.name}-{number}",
            "subscriber": stream.name,
            "broker": stream.name,
            "topic": TOPIC,
            "where": f"key prefix '{PREFIX}00{number:0{digits}d}' and severity >= 2",
            "every_ms": CADENCES_MS[number % len(CADENCES_MS)],
        }


def _windowed(stream: Stream) -> Iterator[dict[str, Any]]:
    """Subscriptions to averages, beyond four links."""
    yield {"kind": "topic", "name": READING, "gather": False}
    yield {"kind": "advertisement", "name": stream.name, "broker": stream.name, "topic": READING}
    for number in range(FAR):
        yield {"kind": "broker", "name": f"{stream.name}-far{number}"}
        yield {"kind": "link", "name": f"{stream.name}-{number}", "a": stream.name, "b": f"{stream.name}-far{number}"}
    for number in range(stream.subscriptions):
        yield {
            "kind": "subscription",
            "name": f"{stream.name}-{number}",
            "subscriber": stream.name,
            "broker": f"{stream.name}-far{number % FAR}",
            "topic": READING,
            "where": f"key prefix '{PREFIX}00{number:03d}'",
            "window": {"size_ms": 10_000, "shift_ms": 5_000, "of": {"n": "count()", "mean": "avg(severity)"}},
        }


def fill_offers(connection: Connection, stream: Stream, records: Iterable[tuple[bytes, bytes]], version: int) -> None:
    """Write what the pipeline of events would offer of these messages, a millisecond after each other, and its clocks."""
    ensure_topics(connection, service_topics(1, 1))
    ensure_topics(connection, [*publish_specs([stream.name], 1, 1), *delivery_specs([f"notify.{stream.name}"], 1)])
    links = [Link(f"{n}", stream.name, f"{stream.name}-far{n}") for n in range(FAR)]
    ensure_topics(connection, link_specs(links, 1))
    producer = connection.producer(**{"linger.ms": 20, "batch.size": 524288, "queue.buffering.max.messages": 200_000})
    service, limits = str(stream.ticker.service), MessageLimits()
    for count, (_, value) in enumerate(records):
        now_ms = _START_MS + count
        if count % 1000 == 0:
            clock = Clocked(0, 1, now_ms, ((version, _START_MS),))
            _produce(producer, clock_record(service, clock))
        message = decode_message(value, limits)
        number = int(message.key.removeprefix(PREFIX)[2:5])
        item = Publication(message.key, f"m{count}", now_ms, now_ms, ("publish", 0, count), dict(message.fields))
        offer = Offer(stream.name, f"{stream.name}-far{number % FAR}", READING, item, count + 1, version=version)
        _produce(producer, offer_record(service, f"{service}/0", offer))
    if producer.flush(120):
        raise RuntimeError("Kafka did not take the whole load")


def _produce(producer: Any, record: Outgoing) -> None:
    while True:
        try:
            producer.produce(record.topic, record.value, record.key)
            return
        except BufferError:
            producer.poll(0.1)


class Mix(Load):
    """A load that first opens all its events, and then goes on about them."""

    def again(self, n: int, redundant: float) -> Iterator[tuple[bytes, bytes]]:
        """``n`` more messages about the events there are."""
        self.n, self._novel, self._paced = n, max(1, round(n * (1 - redundant))), 0
        self.novel = self.redundant = 0
        return iter(self)


def opened_then_mixed(events: int, n: int, redundant: float, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """``events`` messages that open as many events, then ``n`` about them."""
    mix = Mix(events, events, seed, redundant=0.0, prefix=PREFIX)
    yield from mix
    yield from mix.again(n, redundant)


def in_json(records: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    limits = MessageLimits()
    for key, value in records:
        yield key, encode_message(decode_message(value, limits), Encoding.JSON)


def hot(records: Iterable[tuple[bytes, bytes]], share: float = 0.9, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """This share of the traffic is about one key."""
    chance = random.Random(seed)
    key = f"{PREFIX}0000000"
    facts: dict[str, str | int] = {f"sensor_{number}": number for number in range(8)}
    about_one = [encode(key, dict(chance.sample(sorted(facts.items()), 5))) for _ in range(200)]
    for other in records:
        yield (record_key(key), chance.choice(about_one)) if chance.random() < share else other


def fill(connection: Connection, stream: Stream, records: Iterable[tuple[bytes, bytes]], version: int) -> None:
    """Write a stream to Kafka: messages, and time that passes between them."""
    ensure_topics(connection, service_topics(1, 1))
    ensure_topics(connection, [*publish_specs([stream.name], PARTITIONS, 1), *delivery_specs([f"notify.{stream.name}"], 1)])
    producer = connection.producer(**{"linger.ms": 20, "batch.size": 524288, "queue.buffering.max.messages": 200_000})
    kafka_topic = names.publish_topic(stream.name)
    written = iter(records)
    count = 0
    _tick(producer, stream, version)
    while chunk := list(islice(written, _CHUNK)):
        for key, value in chunk:
            while True:
                try:
                    producer.produce(kafka_topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
        count += len(chunk)
        if count % _TICK_EACH == 0:
            _tick(producer, stream, version)
    _tick(producer, stream, version)
    if producer.flush(120):
        raise RuntimeError("Kafka did not take the whole load")


def _tick(producer: Any, stream: Stream, version: int) -> None:
    """A mark in every partition, then a tick, as the service's ticker writes them."""
    kafka_topic = names.publish_topic(stream.name)
    for partition in range(PARTITIONS):
        producer.produce(kafka_topic, stream.ticker.mark(version), partition=partition)
    counted = [names.partition_name(names.CLOCK, 0), *(names.partition_name(kafka_topic, n) for n in range(PARTITIONS))]
    producer.produce(names.CLOCK, encode_tick(Tick(str(stream.ticker.service), version, tuple(counted))), partition=0)
