"""The load that every benchmark reads: messages about events, most of which say nothing new. Deterministic.

>>> load = Load(1000, events=50, seed=1)
>>> sizes = [len(value) for _, value in load]
>>> (load.redundant, load.novel, load.opened, 130 < sum(sizes) / 1000 < 170)
(800, 200, 58, True)

An event has 6 to 8 fields, each with one value; a message states 4 to 6 of them. A message is redundant if every fact in it,
a field with its value, was stated before about the same key. That is settled while the load is made, so the share is exact:
of 100 messages, 20 open an event, add a field to one, or contradict one.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from clients.connection import Connection
from clients.topics import TopicSpec, ensure_topics
from streaming.wire import avro

TOPIC: Final = "incident"
PUBLISH: Final = "publish.b1"
REDUNDANT: Final = 0.8

_NAMES = ("what", "where", "severity", "status", "building", "reported_by", "access", "people_inside")
_WORDS = {
    "what": ("fire in a bin", "smoke alarm", "smell of gas", "power failure", "burst water pipe", "broken window"),
    "where": ("kitchen, 2nd floor", "server room B", "parking deck", "main staircase", "roof terrace", "laboratory 3"),
    "status": ("reported by phone", "confirmed twice", "under control", "crew on its way", "being checked"),
    "building": ("north wing", "south wing, new part", "old library", "lecture hall A", "boiler house"),
    "reported_by": ("smoke sensor 4411", "caretaker", "passer-by, unnamed", "control centre", "camera 17 east"),
    "access": ("gate 1, then left", "gate 2, lift broken", "loading bay west", "fire lane east"),
}
_LEAST_FIELDS, _LEAST_STATED = 6, 4
_MOST_CONFLICTS = 2
_CONFLICT_EACH = 20  # of this many novel messages, one contradicts
_BATCH = 5_000

# Where the union of a field's value stands in message.avsc.
_LONG, _STRING = 2, 4
_NO_SOURCE_ID_TIME = b"\x00\x00\x00"


def _long(number: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte."""
    rest = number << 1 ^ number >> 63
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _string(text: str) -> bytes:
    data = text.encode()
    return _long(len(data)) + data


def _fact(name: str, value: str | int) -> bytes:
    union = _long(_LONG) + _long(value) if isinstance(value, int) else _long(_STRING) + _string(value)
    return _string(name) + union


# All facts there are, encoded once: a message is then a few references put together.
_FACTS = tuple(tuple(_fact(name, value) for value in _WORDS.get(name, range(1, 8))) for name in _NAMES)
_COUNTS = tuple(_long(count) for count in range(len(_NAMES) + 1))
_END = b"\x00" + _NO_SOURCE_ID_TIME


def encode(key: str, fields: dict[str, str | int]) -> bytes:
    """A message in single-object encoding, for the few that are made by hand."""
    head = avro.schema("message").header + _string(TOPIC) + _string(key)
    return b"".join((head, _long(len(fields)), *(_fact(*item) for item in fields.items()), _END))


def record_key(key: str) -> bytes:
    """What our own publisher gives the record as its key, so that an event stays in one partition."""
    return f"{TOPIC}/{key}".encode()


@dataclass(slots=True)
class _Event:
    """``facts`` become known in their order; the first ``known`` of them are. ``fields`` says of which field each is."""

    record_key: bytes
    head: bytes
    facts: list[bytes]
    fields: list[int]
    known: int
    conflicts: int = 0


class Load:
    """Iterate once: pairs of record key and value. The counts are those of what was taken so far.

    ``events`` keys are opened evenly over the load, fewer if there is not so much news, more if they would run out of facts.
    """

    def __init__(self, n: int, events: int, seed: int, redundant: float = REDUNDANT, prefix: str = "campus-2026-") -> None:
        if n < 0 or events < 1 or not 0 <= redundant < 1:
            raise ValueError("a load needs n >= 0, at least one event, and a redundant share from 0 to below 1")
        self.n = n
        self.redundant = self.novel = self.conflicts = self.facts = 0
        self._novel = max(round(n * (1 - redundant)), 1)
        self._paced = min(events, self._novel)
        self._bits = random.Random(seed).getrandbits
        self._prefix = prefix
        self._head = avro.schema("message").header + _string(TOPIC)
        self._events: list[_Event] = []
        self._incomplete: deque[_Event] = deque()

    @property
    def opened(self) -> int:
        """Keys that were used."""
        return len(self._events)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        n, novel, bits, events, join = self.n, self._novel, self._bits, self._events, b"".join
        for index in range(n):
            if index * novel % n < novel:
                self.novel += 1
                event, stated = self._something_new()
            else:
                self.redundant += 1
                chance = bits(48)
                event = events[(chance >> 8) % len(events)]
                size = min(_LEAST_STATED + chance % 3, event.known)
                start = (chance >> 2 & 0x3F) % (event.known - size + 1)
                stated = event.facts[start : start + size]
            yield event.record_key, join((event.head, _COUNTS[len(stated)], *stated, _END))

    def _something_new(self) -> tuple[_Event, list[bytes]]:
        if len(self._events) * self._novel < self.novel * self._paced:
            return self._opening()
        if self.novel % _CONFLICT_EACH == 0 and (event := self._events[self._bits(40) % self.opened]).conflicts < _MOST_CONFLICTS:
            return self._conflict(event)
        return self._adding(self._incomplete.popleft()) if self._incomplete else self._opening()

    def _opening(self) -> tuple[_Event, list[bytes]]:
        chance = self._bits(64)
        key = f"{self._prefix}{self.opened:07d}"
        size = _LEAST_FIELDS + chance % 3
        fields = [(number + (chance >> 4)) % len(_NAMES) for number in range(size)]
        facts = [_FACTS[field][(chance >> 8 + 6 * place) % len(_FACTS[field])] for place, field in enumerate(fields)]
        known = _LEAST_STATED + (chance >> 2 & 3) % 3
        event = _Event(record_key(key), self._head + _string(key), facts, fields, known)
        self._events.append(event)
        self.facts += known
        if known < size:
            self._incomplete.append(event)
        return event, facts[:known]

    def _adding(self, event: _Event) -> tuple[_Event, list[bytes]]:
        """One more field, among known ones."""
        before = _LEAST_STATED - 1 + self._bits(1)
        stated = [*event.facts[: min(before, event.known)], event.facts[event.known]]
        event.known += 1
        self.facts += 1
        if event.known < len(event.facts):
            self._incomplete.append(event)
        return event, stated

    def _conflict(self, event: _Event) -> tuple[_Event, list[bytes]]:
        """Another value for a known field: no news for somebody who keeps the first, but not redundant."""
        place = event.conflicts
        values = _FACTS[event.fields[place]]
        event.conflicts += 1
        self.conflicts += 1
        stated = event.facts[:_LEAST_STATED]
        stated[place] = values[(values.index(event.facts[place]) + 1) % len(values)]
        return event, stated


def messages(n: int, events: int, seed: int, redundant: float = REDUNDANT) -> Iterator[bytes]:
    """The values of a `Load`."""
    return (value for _, value in Load(n, events, seed, redundant))


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a Kafka topic with Kafka's append time, if there is none of this name."""
    ensure_topics(Connection(bootstrap), [TopicSpec(topic, partitions)])


def fill(
    bootstrap: str, topic: str, n: int, events: int = 100_000, seed: int = 1, redundant: float = REDUNDANT, partitions: int = 2
) -> Load:
    """Write a load to a Kafka topic, which is made if it is not there; returns the load with its counts."""
    make_topic(bootstrap, topic, partitions)
    load = Load(n, events, seed, redundant)
    send(bootstrap, topic, load)
    return load


def send(bootstrap: str, topic: str, load: Load) -> None:
    """Write a load to a Kafka topic as fast as one Python thread can."""
    settings = {"linger.ms": 20, "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000}
    producer = Connection(bootstrap).producer(**settings)
    records = iter(load)
    while batch := list(islice(records, _BATCH)):
        for key, value in batch:
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"Kafka at {bootstrap} did not take the whole load")
