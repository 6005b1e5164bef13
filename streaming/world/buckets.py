"""A test kit: a script as records of a log, the columns that Spark would make of them, and a service of several buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from streaming.batch.engine import EngineSettings, process
from streaming.batch.hashing import bucket_of, event_hash
from streaming.batch.resplit import resplit
from streaming.batch.rows import COLUMNS, KINDS, rows_of
from streaming.batch.store import Bucket, Store, read_note
from streaming.broker.state import BucketState
from streaming.broker.step import step
from streaming.model.address import Address
from streaming.model.inputs import Arrived, Marked, Progressed, Refused, Ticked
from streaming.model.links import PassedOn
from streaming.model.outputs import Output
from streaming.wire.clock import Tick, TickerIdentity, encode_tick
from streaming.wire.inputs import MESSAGE, in_log_order, kind_of, read
from streaming.wire.link import encode_link
from streaming.wire.message import MessageLimits, encode_message
from streaming.wire.record import Record
from streaming.world.one_broker import Script
from tidings import names
from tidings.notification import Encoding

SECRET = "a secret of the service"
TICKER = TickerIdentity("svc", "another")
LIMITS = MessageLimits()


class LogRecord(Record, frozen=True):
    """A record as the query reads it, with the topic and key that routing finds in it."""

    about: tuple[str, str] | None = None

    @property
    def event(self) -> int:
        return event_hash(SECRET, Address(names.broker_of(self.kafka_topic), *self.about)) if self.about else 0

    def bucket(self, buckets: int, *, hands_on: bool = False) -> int | None:
        """Which of this many buckets reads it; None for all."""
        if kind_of(self) != MESSAGE:
            return None
        if self.about is None:
            return self.offset % buckets
        return bucket_of(SECRET, Address(names.broker_of(self.kafka_topic), *self.about), buckets, hands_on=hands_on)


def log_of(script: Script, encodings: Sequence[Encoding] = (Encoding.AVRO,)) -> list[LogRecord]:
    """A script as a log: messages in the encodings in turn, ticks and marks as the ticker writes them."""
    log: list[LogRecord] = []
    offsets: dict[tuple[str, int], int] = defaultdict(int)

    def write(kafka_topic: str, partition: int, append_ms: int, value: bytes, about: tuple[str, str] | None = None) -> None:
        offsets[kafka_topic, partition] += 1
        log.append(LogRecord(kafka_topic, partition, offsets[kafka_topic, partition], append_ms, None, value, about=about))

    for number, happened in enumerate(script.inputs):
        match happened:
            case Arrived(passed=PassedOn() as passed):
                value = encode_link(passed, happened.stamp)
                write(happened.origin.kafka_topic, 0, happened.origin.append_ms, value, passed.about)
            case Progressed():
                done = 0, happened.done_ms, happened.version
                tick = Tick(happened.service, happened.version, (), happened.brokers, *done)
                write(names.CLOCK, 0, happened.append_ms, encode_tick(tick))
            case Arrived():
                message = happened.message
                value = encode_message(message, encodings[number % len(encodings)])
                write(happened.origin.kafka_topic, 0, happened.origin.append_ms, value, (message.topic, message.key))
            case Refused():
                write(names.publish_topic("b1"), 0, happened.origin.append_ms, b"rubbish")
            case Ticked():
                tick = Tick(str(TICKER.service), happened.version, happened.partitions)
                write(names.CLOCK, 0, happened.append_ms, encode_tick(tick))
            case Marked():
                kafka_topic, partition = happened.partition.rsplit("-", 1)
                write(kafka_topic, int(partition), happened.append_ms, TICKER.mark(happened.version or 0))
    return log


def columns_of(records: Sequence[LogRecord]) -> dict[str, Any]:
    """What routing makes of them."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for record in records:
        place = record.kafka_topic, record.partition, record.offset, record.append_ms
        cells = KINDS.index(kind_of(record)), *place, record.key, record.value, record.event
        for name, value in zip(COLUMNS, cells, strict=True):
            columns[name].append(value)
    return columns


def plainly(script: Script, batches: Sequence[Sequence[LogRecord]]) -> tuple[BucketState, list[Output]]:
    """What the plain logic makes of a log."""
    state, outputs = BucketState(), list[Output]()
    for batch in batches:
        happened = [each for record in in_log_order(batch) for each in read(record, LIMITS, TICKER)]
        state, more = step(state, happened, script.plan_at, script.rules)
        outputs += more
    return state, outputs


@dataclass
class Buckets:
    """A service of several buckets without Spark: batches in, outputs out. ``notes`` are what its state store would have."""

    folder: Path
    script: Script
    count: int
    inline_bytes: int = 64 * 1024
    notes: dict[int, bytes] = field(default_factory=dict)
    _generation: int = 0

    def run(self, batch: Sequence[LogRecord]) -> list[Output]:
        outputs: list[Output] = []
        for number in range(self.count):
            store, bucket = self.store(number), self.open(number)
            rules = replace(self.script.rules, bucket=f"svc/{number}", bucket_index=number, buckets=self.count)
            mine = [
                record for record in batch if record.bucket(self.count, hands_on=self.script.rules.hands_on) in (None, number)
            ]
            rows = rows_of(columns_of(mine), LIMITS, SECRET)
            bucket.state.changed = False
            outputs += process(bucket.state, bucket.shelf, rows, EngineSettings(self.script.plan_at, rules, LIMITS, TICKER))
            bucket.shelf.pack()
            if bucket.state.changed or number not in self.notes:
                self.notes[number] = store.save(bucket)
        return outputs

    def migrate(self, count: int) -> None:
        """Go on with another number of buckets, in another folder."""
        buckets = resplit(self.all(), count, SECRET, self.script.rules.bounds, hands_on=self.script.rules.hands_on)
        self.count, self._generation = count, self._generation + 1
        self.notes = {number: self.store(number).save(bucket) for number, bucket in enumerate(buckets)}

    def all(self) -> list[Bucket]:
        return [self.open(number) for number in range(self.count)]

    def open(self, number: int) -> Bucket:
        return self.store(number).open(read_note(self.notes[number]) if number in self.notes else None)

    def store(self, number: int) -> Store:
        folder = self.folder / str(self._generation) / str(number)
        bounds = self.script.rules.bounds
        return Store(folder, SECRET, bounds, inline_bytes=self.inline_bytes, least_file_bytes=self.inline_bytes)


def described(bucket: Bucket) -> dict[str, Any]:
    """A bucket in words that outlive its form: what later releases must still find in a state of this one."""
    state = bucket.state
    events = [
        {
            "at": list(event.at),
            "id": event.id,
            "opened_ms": event.opened_ms,
            "span": [event.span.first_ms, event.span.last_ms],
            "known": {name: repr(register.value) for name, register in sorted(event.knowledge.items())},
            "reports": event.reports,
            "sources": event.source_count,
            "held": [event.held, sorted(event.held_fields)],
            "told": {name: ledger.due_ms for name, ledger in sorted(event.ledgers.items())},
        }
        for event in state.events()
    ]
    return {
        "version": state.version,
        "marks": dict(sorted(state.marks.items())),
        "events": events,
        "graves": sum(len(slot.closed) for slot in state.slots.values()),
        "caps": sum(len(slot.caps) for slot in state.slots.values()),
        "size": state.size,
        "facts": sorted(bucket.shelf.facts.keys.tolist()),
        "sources": sorted(bucket.shelf.sources.keys.tolist()),
        "books": {broker: books.to_dict() for broker, books in sorted(state.books.items())},
        "sent": [[*key, number] for key, number in sorted(state.sent.items())],
        "heard": [[*key, number] for key, number in sorted(state.heard.items())],
        "beats": dict(sorted(state.beats.items())),
    }
