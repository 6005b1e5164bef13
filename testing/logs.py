"""A test kit: a log written by hand, without Kafka, and what a service that does right would have written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from audit.replay import Log, Replay, decide
from audit.written import Written
from clients import control
from streaming.broker.state import Rules
from streaming.model.outputs import Outcome, PutAside
from streaming.wire.aside import aside_record
from streaming.wire.clock import MARK_START, Tick, decode_tick, encode_tick
from streaming.wire.message import MessageLimits
from streaming.wire.notification import encode_notification
from streaming.wire.record import Record
from streaming.world.records import subscription, topic
from tidings import names
from tidings.topic import Timing

WINDOW_MS = 10_000
CONTROL = [topic(window_ms=WINDOW_MS), subscription("ops"), subscription("press", where="a = 1", encoding="avro")]
RULES = Rules(ahead_ms=0)
_PARTITION = "publish.b1-0"


@dataclass
class HandmadeLog:
    """A log as a service with one broker and one partition would leave it. Offsets count from ``lost`` on."""

    now_ms: int = 1_000_000
    records: list[dict[str, Any]] = field(default_factory=lambda: list(CONTROL))
    ticks: list[Record] = field(default_factory=list)
    rows: list[Record] = field(default_factory=list)
    service: str = "s1"

    def tick(self, after_ms: int = 1000, service: str | None = None, *, hands_on: bool = False) -> None:
        self.now_ms += after_ms
        tick = Tick(service or self.service, len(self.records), ("clock-0", _PARTITION), hands_on=hands_on)
        self.ticks.append(Record(names.CLOCK, 0, len(self.ticks), self.now_ms, None, encode_tick(tick)))
        self.rows.append(Record("publish.b1", 0, len(self.rows), self.now_ms, None, MARK_START))

    def publish(self, fields: dict[str, Any], key: str = "k", topic: str = "incident", **more: Any) -> None:
        self.raw(json.dumps({"topic": topic, "key": key, "fields": fields, **more}).encode())

    def raw(self, value: bytes | None) -> None:
        self.rows.append(Record("publish.b1", 0, len(self.rows), self.now_ms, b"key", value))

    def control(self) -> list[Record]:
        keyed = [(f"{record['kind']}/{record['name']}", record) for record in self.records]
        return [Record("control", 0, n, 0, key.encode(), json.dumps(record).encode()) for n, (key, record) in enumerate(keyed)]

    def log(self, lost: int = 0) -> Log:
        """The log, or what is left of it when this many records of the input are deleted."""
        ticks = [(tick, record) for record in self.ticks if (tick := decode_tick(record))]
        rows = tuple(self.rows[lost:])
        cuts = {_PARTITION: rows[0].append_ms if rows else None} if lost else {}
        return Log(tuple(ticks), tuple(control.fold(self.control())), rows, frozenset({"b1"}), cuts)


def decided(log: Log) -> Replay:
    """What the reference makes of it."""
    return decide(log, service=None, limits=MessageLimits(), rules=RULES, timing=Timing())


def as_written(log: Log, later_ms: int = 5) -> Written:
    """What a service that does the same would have written."""
    replay = decided(log)
    rows = {(row.kafka_topic, row.partition, row.offset): row for row in log.rows}
    delivered = [
        Record(tell.kafka_topic, 0, n, tell.at_ms + later_ms, b"", encode_notification(tell.notification, tell.encoding))
        for n, tell in enumerate(replay.told)
    ]
    aside: dict[Outcome, list[Record]] = {Outcome.LATE: [], Outcome.DEAD_LETTERED: []}
    for put in (output for output in replay.outputs if isinstance(output, PutAside)):
        origin, found = put.origin, aside[put.outcome]
        row = rows[origin.kafka_topic, origin.partition, origin.offset]
        headers = tuple(aside_record(put, row.entry).headers)
        found.append(Record("x", 0, len(found), origin.append_ms + later_ms, row.key, row.value, headers))
    return Written(tuple(delivered), tuple(aside[Outcome.LATE]), tuple(aside[Outcome.DEAD_LETTERED]), replay.books)
