"""A test kit: an overlay with both pipelines, in virtual time, over a log that batches read in pieces and in disorder."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from streaming.broker.inputs import in_log_order
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.broker.values import Arrived, Heard, Input, Marked, Offer, Output, PassedOn, PutAside, Send, Tell, Ticked
from streaming.gather.entry import Origin
from streaming.side import blob
from streaming.side.dealing import belongs
from streaming.side.state import SideState
from streaming.side.step import step as side_step
from streaming.side.values import Clocked, Offered, SideInput, SideOutput, SideRules, WindowDecided
from streaming.testing import snapshot
from tidings.control import Snapshot
from tidings.message import Message
from tidings.notification import Notification
from topology import names
from topology.plan import Plan

SERVICE = "s"


@dataclass(slots=True)
class _Row:
    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    payload: Message | Send | _Mark


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark in a partition; on the clock, a tick that lists the partitions."""

    version: int
    partitions: tuple[str, ...] = ()


@dataclass
class World:
    """Brokers, links and subscriptions as control records make them; several buckets of each pipeline."""

    records: Iterable[Mapping[str, Any]]
    buckets: int = 2
    side_buckets: int = 2
    seed: int = 0
    now_ms: int = 1_000_000
    told: list[Notification] = field(default_factory=list)
    decided: list[WindowDecided] = field(default_factory=list)
    put_aside: list[PutAside] = field(default_factory=list)
    crossed: list[Send] = field(default_factory=list)
    published: list[tuple[int, str, Message]] = field(default_factory=list)
    """When each entered, at which broker."""
    since_ms: dict[str, int] = field(default_factory=dict)
    """By subscription, when the tick came that first named it."""

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._log: dict[str, list[_Row]] = {}
        self._read: dict[str, int] = {}
        self._states = [BucketState() for _ in range(self.buckets)]
        self._offers: list[tuple[str, Offer] | Clocked] = []
        self._sides = [SideState() for _ in range(self.side_buckets)]
        self._sides_read = 0
        self._snapshots: dict[int, Snapshot] = {}
        self._plans: dict[int, Plan] = {}
        self.control(*self.records)

    # ---- what happens -------------------------------------------------------------------------------------------------

    def control(self, *records: Mapping[str, Any], delete: Iterable[str] = ()) -> None:
        """Other control data holds from the next tick on."""
        self._records = {**getattr(self, "_records", {}), **{f"{r['kind']}/{r['name']}": r for r in records}}
        for key in delete:
            del self._records[key]
        held = self._snapshots[max(self._snapshots)] if self._snapshots else Snapshot()
        made = snapshot(*self._records.values())
        version = held.version + 100
        since = {key: held.since.get(key, version) for key in made.records}
        self._snapshots[version] = Snapshot(version, made.records, made.timing, since)
        self._plans[version] = Plan(self._snapshots[version])
        for broker in self._plans[version].overlay.brokers:
            self._log.setdefault(names.publish_topic(broker), [])
            for neighbour in self._plans[version].overlay.neighbours(broker):
                self._log.setdefault(names.link_topic(broker, neighbour), [])
        self.tick(0)
        for name in self._snapshots[version].subscriptions:
            self.since_ms.setdefault(name, self.now_ms)

    def tick(self, after_ms: int = 1000) -> None:
        """A mark in every partition, then a tick."""
        self.now_ms += after_ms
        version = max(self._snapshots)
        for kafka_topic in self._log:
            if kafka_topic != names.CLOCK:
                self._append(kafka_topic, _Mark(version))
        partitions = {names.partition_name(each, 0) for each in (*self._log, names.CLOCK)}
        self._append(names.CLOCK, _Mark(version, tuple(sorted(partitions))))

    def publish(self, broker: str, fields: Mapping[str, Any], *, after_ms: int = 0, key: str = "k", **more: Any) -> None:
        """A publisher's message is appended."""
        self.now_ms += after_ms
        message = Message(more.pop("topic", "reading"), key, dict(fields), **more)
        self.published.append((self.now_ms, broker, message))
        self._append(names.publish_topic(broker), message)

    def _append(self, kafka_topic: str, payload: Message | Send | _Mark) -> None:
        rows = self._log.setdefault(kafka_topic, [])
        rows.append(_Row(kafka_topic, 0, len(rows), self.now_ms, payload))

    # ---- batches ------------------------------------------------------------------------------------------------------

    def main_batch(self, *, whole: bool = True, crash: bool = False) -> None:
        """Read on in every partition, all there is or some of it. A crash before the end makes the batch run again."""
        taken: list[_Row] = []
        for kafka_topic, rows in self._log.items():
            start = self._read.get(kafka_topic, 0)
            end = len(rows) if whole else self._random.randint(start, len(rows))
            self._read[kafka_topic] = end
            taken += rows[start:end]
        ordered = list(in_log_order(taken))
        runs = []
        for index, state in enumerate(self._states):
            before = Clocked(index, self.buckets, state.clock_ms, state.ticked)
            inputs = [each for row in ordered for each in self._inputs(row, index)]
            rules = Rules(bucket=f"{SERVICE}/{index}", bucket_index=index, buckets=self.buckets)
            self._states[index], outputs = step(state, inputs, self._plan_at, rules)
            runs.append((f"{SERVICE}/{index}", [before, *outputs]))
        if crash:
            self._write([(name, outputs[: self._random.randint(0, len(outputs))]) for name, outputs in runs])
        self._write(runs)

    def _inputs(self, row: _Row, index: int) -> list[Input]:
        partition = names.partition_name(row.kafka_topic, 0)
        if isinstance(row.payload, _Mark):
            if row.kafka_topic == names.CLOCK:
                tick = Ticked(row.append_ms, row.payload.version, row.payload.partitions)
                return [tick, Marked(partition, row.append_ms)]
            return [Marked(partition, row.append_ms, row.payload.version)]
        about = (row.payload.topic, row.payload.key) if isinstance(row.payload, Message) else row.payload.record.about
        broker = names.broker_of(row.kafka_topic)
        if zlib.crc32(repr((broker, *about)).encode()) % self.buckets != index:
            return []
        origin = Origin(row.kafka_topic, 0, row.offset, row.append_ms)
        if isinstance(row.payload, Message):
            return [Arrived(origin, broker, row.payload)]
        send = row.payload
        if isinstance(send.record, PassedOn):
            return [Arrived(origin, broker, send.record.message, sender=send.sender, passed=send.record, stamp=send.stamp)]
        return [Heard(origin, broker, send.sender, send.record, send.stamp)]

    def _write(self, runs: list[tuple[str, list[Any]]]) -> None:
        """The buckets' outputs reach the log each in its order, but mixed with each other."""
        queues = [(name, list(outputs)) for name, outputs in runs if outputs]
        while queues:
            place = self._random.randrange(len(queues))
            name, outputs = queues[place]
            self._put(name, outputs.pop(0))
            if not outputs:
                queues.pop(place)

    def _put(self, bucket: str, output: Output | SideOutput | Clocked) -> None:
        match output:
            case Clocked():
                self._offers.append(output)
            case Offer():
                self._offers.append((bucket, output))
            case Send():
                self.crossed.append(output)
                self._append(names.link_topic(output.sender, output.to), output)
            case Tell():
                self.told.append(output.notification)
            case PutAside():
                self.put_aside.append(output)
            case WindowDecided():
                self.decided.append(output)
            case _:
                pass

    def side_batch(self, *, whole: bool = True, crash: bool = False) -> None:
        """Read on in what was offered. Between batches a state is bytes, now and then."""
        start = self._sides_read
        end = len(self._offers) if whole else self._random.randint(start, len(self._offers))
        self._sides_read = end
        runs: list[tuple[str, list[Any]]] = []
        for index, state in enumerate(self._sides):
            rules = SideRules(SERVICE, index, self.side_buckets)
            if self._random.random() < 0.3:
                state = blob.decode(blob.encode(state))
            inputs = [each for each in self._offers[start:end] if self._is_for(each, rules)]
            taken: list[SideInput] = [each if isinstance(each, Clocked) else Offered(*each) for each in inputs]
            self._sides[index], outputs = side_step(state, taken, self._plan_at, rules)
            runs.append((rules.name, outputs))
        if crash:
            self._write([(name, outputs[: self._random.randint(0, len(outputs))]) for name, outputs in runs])
        self._write(runs)

    def _plan_at(self, version: int) -> Plan:
        return self._plans.get(version) or Plan(Snapshot())

    def _is_for(self, each: tuple[str, Offer] | Clocked, rules: SideRules) -> bool:
        return isinstance(each, Clocked) or belongs((each[1].sender, each[1].to, each[1].topic), rules)

    def run(self, *, crashes: bool = False) -> None:
        """Some batches of both pipelines."""
        for _ in range(self._random.randint(1, 3)):
            crash = crashes and self._random.random() < 0.3
            if self._random.random() < 0.5:
                self.main_batch(whole=self._random.random() < 0.5, crash=crash)
            else:
                self.side_batch(whole=self._random.random() < 0.5, crash=crash)

    def settle(self, seconds: int = 60) -> None:
        """Time passes in silence, until all that is due has come."""
        for _ in range(seconds):
            self.tick()
            self.main_batch()
            self.side_batch()
