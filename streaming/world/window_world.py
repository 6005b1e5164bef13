"""A test kit: an overlay with both pipelines, in virtual time, over a log that batches read in pieces and in disorder."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from streaming.broker.progress import clocked
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Ticked
from streaming.model.items import Publication
from streaming.model.links import PassedOn
from streaming.model.outputs import Offer, Output, PutAside, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided, WindowInput, WindowOutput
from streaming.windows import state_codec
from streaming.windows.partitioning import belongs
from streaming.windows.pipeline import step as side_step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.wire.inputs import in_log_order
from streaming.world.process import Process
from streaming.world.records import broker, link, snapshot
from tidings import names
from tidings.control import Snapshot
from tidings.message import Message
from tidings.notification import Notification
from tidings.topic import Timing
from topology.plan import Plan

SERVICE = "s"
BROKERS = ("b1", "b2", "b3", "b4")
OVERLAYS: Mapping[str, list[dict[str, Any]]] = {
    "one": [],
    "chain": [*map(broker, BROKERS), *(link(a, b) for a, b in pairwise(BROKERS))],
    "star": [*map(broker, BROKERS), *(link("b1", b) for b in BROKERS[1:])],
}
DELAYS_MS = (0, 0, 0, -400, 300, 2000, 6000)
"""How long before it enters something was published; the clocks of some publishers are fast."""
SPEEDS = (1, 2.5, 7, 0.1, 9, -3, 2**60, "fast", True, None)


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
    done: tuple[int, int] = (0, 0)
    """How far the service is, and by which version."""


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
    """By subscription, when the tick came that first named it as it is."""

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._log: dict[str, list[_Row]] = {}
        self._read: dict[str, int] = {}
        self._states = [BucketState() for _ in range(self.buckets)]
        self._offers: list[tuple[str, Offer] | Clocked] = []
        self._sides = [WindowState() for _ in range(self.side_buckets)]
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
        for name in self.plan.overlay.brokers:
            self._log.setdefault(names.publish_topic(name), [])
            for neighbour in self.plan.overlay.neighbours(name):
                self._log.setdefault(names.link_topic(name, neighbour), [])
        self.tick(0)
        had, has = held.subscriptions, self._snapshots[version].subscriptions
        self.since_ms = {name: self.since_ms[name] if had.get(name) == each else self.now_ms for name, each in has.items()}

    def tick(self, after_ms: int = 1000) -> None:
        """A mark in every partition, then a tick."""
        self.now_ms += after_ms
        version = max(self._snapshots)
        for kafka_topic in self._log:
            if kafka_topic != names.CLOCK:
                self._append(kafka_topic, _Mark(version))
        partitions = {names.partition_name(each, 0) for each in (*self._log, names.CLOCK)}
        done = min((state.clock_ms, state.version) for state in self._states)
        self._append(names.CLOCK, _Mark(version, tuple(sorted(partitions)), done))

    def play(self, names: Sequence[str], chance: Random, count: int, *, crashes: bool = False) -> None:
        """So many readings at these brokers, some of them late, while both pipelines run."""
        for _ in range(count):
            fields = {"road": chance.choice(["E45", "E20", "E6"]), "speed": chance.choice(SPEEDS)}
            at, after_ms, number = chance.choice(names), chance.randint(0, 700), len(self.published)
            published_ms = self.now_ms + after_ms - chance.choice(DELAYS_MS)
            self.publish(
                at, fields, after_ms=after_ms, key=chance.choice("abc"), id=f"m{number % 7}{number}", published_ms=published_ms
            )
            if chance.random() < 0.3:
                self.tick(chance.randint(1, 1000))
            self.run(crashes=crashes)

    def publish(self, broker: str, fields: Mapping[str, Any], *, after_ms: int = 0, key: str = "k", **more: Any) -> None:
        """A publisher's message is appended."""
        self.now_ms += after_ms
        message = Message(more.pop("topic", "reading"), key, dict(fields), **more)
        self.published.append((self.now_ms, broker, message))
        self._append(names.publish_topic(broker), message)

    def _append(self, kafka_topic: str, payload: Message | Send | _Mark) -> None:
        rows = self._log.setdefault(kafka_topic, [])
        rows.append(_Row(kafka_topic, 0, len(rows), self.now_ms, payload))

    # ---- what there is to count ---------------------------------------------------------------------------------------

    def entered(self) -> list[Publication]:
        """Everything that was published, as it entered."""
        rows = [row for name, rows in self._log.items() if name.startswith("publish.") for row in rows]
        return [
            Publication(
                key=row.payload.key,
                id=row.payload.message_id,
                published_ms=row.append_ms if row.payload.published_ms is None else row.payload.published_ms,
                entered_ms=row.append_ms,
                entered_at=(row.kafka_topic, row.partition, row.offset),
                fields=dict(row.payload.fields),
            )
            for row in rows
            if isinstance(row.payload, Message)
        ]

    def ended(self, topic: str, gatherer: str) -> list[Publication]:
        """Every event, as it was in the end at the broker that gathers. Each report says something new, and those of a key
        entered within a window; but they may have come so far apart that the event was forgotten meanwhile."""
        by_key: dict[str, dict[str, _Report]] = {}
        for name, rows in self._log.items():
            for row in rows if name != names.CLOCK and names.broker_of(name) == gatherer else ():
                sent = row.payload.record if isinstance(row.payload, Send) else row.payload
                message = sent.message if isinstance(sent, PassedOn) else sent
                origin = sent.entry.origin if isinstance(sent, PassedOn) else Origin(name, 0, row.offset, row.append_ms)
                if isinstance(message, Message) and message.topic == topic:
                    by_key.setdefault(message.key, {}).setdefault(message.message_id, _Report(row.append_ms, origin, message))
        timing = self.plan.topic(topic).timing
        ordered = [sorted(reports.values(), key=lambda each: each.came_ms) for reports in by_key.values()]
        return [_event(joined) for reports in ordered for joined in _apart(reports, timing)]

    def results(self, subscription: str) -> dict[int, list[Notification]]:
        """What a subscription was told, by the start of the window; after a crash some are told again."""
        found: dict[int, list[Notification]] = {}
        for each in self.told:
            if each.subscription == subscription and each.window is not None:
                found.setdefault(each.window.start, []).append(each)
        return found

    @property
    def plan(self) -> Plan:
        """What follows from the control data as it is now."""
        return self._plans[max(self._plans)]

    @property
    def sides(self) -> list[WindowState]:
        """What the side pipeline remembers, bucket by bucket."""
        return self._sides

    def books(self, broker: str) -> Books:
        """What both pipelines have entered for a broker."""
        kept = [*(state.books for state in self._states), *(state.books for state in self._sides)]
        return total([books[broker] for books in kept if broker in books])

    @property
    def records_now(self) -> Mapping[str, Mapping[str, Any]]:
        """The control data, by key."""
        return self._records

    @property
    def aggregates(self) -> list[Mapping[str, Any]]:
        """The records of the aggregate subscriptions that there are now."""
        return [record for record in self._records.values() if record["kind"] == "subscription" and "window" in record]

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
            inputs = [each for row in ordered for each in self._inputs(row, index)]
            rules = Rules(bucket=f"{SERVICE}/{index}", bucket_index=index, buckets=self.buckets)
            after, outputs = step(state, inputs, self._plan_at, rules)
            self._states[index] = after
            clock = clocked(after, self._plan_at(after.version), rules)
            runs.append((f"{SERVICE}/{index}", [*outputs, clock]))
        if crash:
            self._write([(name, outputs[: self._random.randint(0, len(outputs))]) for name, outputs in runs])
        self._write(runs)

    def _inputs(self, row: _Row, index: int | None) -> list[Input]:
        """What a row is to a bucket; to one that has all events if none is named."""
        partition = names.partition_name(row.kafka_topic, 0)
        if isinstance(row.payload, _Mark):
            if row.kafka_topic == names.CLOCK:
                tick = Ticked(row.append_ms, row.payload.version, row.payload.partitions)
                done = Progressed(row.append_ms, SERVICE, None, *row.payload.done)
                return [tick, done, Marked(partition, row.append_ms)]
            return [Marked(partition, row.append_ms, row.payload.version)]
        about = (row.payload.topic, row.payload.key) if isinstance(row.payload, Message) else row.payload.record.about
        broker = names.broker_of(row.kafka_topic)
        if index is not None and zlib.crc32(repr((broker, *about)).encode()) % self.buckets != index:
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

    def _put(self, bucket: str, output: Output | WindowOutput | Clocked) -> None:
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
            rules = WindowRules(SERVICE, index, self.side_buckets)
            if self._random.random() < 0.3:
                state = state_codec.decode(state_codec.encode(state))
            inputs = [each for each in self._offers[start:end] if self._is_for(each, rules)]
            taken: list[WindowInput] = [each if isinstance(each, Clocked) else Offered(*each) for each in inputs]
            self._sides[index], outputs = side_step(state, taken, self._plan_at, rules)
            runs.append((rules.name, outputs))
        if crash:
            self._write([(name, outputs[: self._random.randint(0, len(outputs))]) for name, outputs in runs])
        self._write(runs)

    def _plan_at(self, version: int) -> Plan:
        return self._plans.get(version) or Plan(Snapshot())

    def _is_for(self, each: tuple[str, Offer] | Clocked, rules: WindowRules) -> bool:
        return isinstance(each, Clocked) or belongs((each[1].sender, each[1].to, each[1].topic), rules)

    def run(self, *, crashes: bool = False) -> None:
        """Some batches of both pipelines."""
        for _ in range(self._random.randint(1, 3)):
            crash = crashes and self._random.random() < 0.3
            if self._random.random() < 0.5:
                self.main_batch(whole=self._random.random() < 0.5, crash=crash)
            else:
                self.side_batch(whole=self._random.random() < 0.5, crash=crash)

    def replayed(self) -> list[Notification]:
        """What is told if all that is in the log is decided again in one go."""
        both = Process(self._plan_at, Rules(bucket="replay"), SERVICE)
        rows = list(in_log_order([row for rows in self._log.values() for row in rows]))
        outputs = both.step([each for row in rows for each in self._inputs(row, None)])
        return [output.notification for output in outputs if isinstance(output, Tell)]

    def settle(self, seconds: int = 60) -> None:
        """Time passes in silence, until all that is due has come."""
        for _ in range(seconds):
            self.tick()
            self.main_batch()
            self.side_batch()


@dataclass(frozen=True, slots=True)
class _Report:
    came_ms: int
    origin: Origin
    message: Message


def _apart(reports: list[_Report], timing: Timing) -> Iterator[list[_Report]]:
    """The reports of each event: between those of two, an event was forgotten before its window ended."""
    joined: list[_Report] = []
    for each in reports:
        if joined:
            ends_ms = max(min(one.origin.append_ms for one in joined) + timing.window_ms, joined[0].came_ms)
            forgotten_ms = joined[-1].came_ms + timing.remember_ms
            if timing.remember_ms < timing.window_ms and forgotten_ms < ends_ms and each.came_ms >= forgotten_ms:
                yield joined
                joined = []
        joined.append(each)
    yield joined


def _event(reports: list[_Report]) -> Publication:
    first = min((each.origin for each in reports), key=lambda each: (each.append_ms, each.kafka_topic, each.offset))
    published_ms = min(each.message.published_ms or 0 for each in reports)
    fields = {name: value for each in reports for name, value in each.message.fields.items()}
    at = (first.kafka_topic, first.partition, first.offset)
    return Publication(reports[0].message.key, reports[0].message.message_id, published_ms, first.append_ms, at, fields)
