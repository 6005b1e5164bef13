"""What the engine spends on a message, without Kafka and Spark: one bucket of eight takes in its share of a load, batch by batch.

    PYTHONPATH=. python benchmarks/engine.py [--profile FILE]

Processor time of this one process, so other work on the machine counts little. What a redundant message costs is measured by
itself, on events that are all open; what one with news costs follows from that and from the whole. What an event costs when it
ends, and when nothing is kept of it any more, is measured at the end, with two ticks.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import loads
from loads import PARTITIONS, PREFIX, SECRET, Stream
from peers.load import Load

from streaming.batch.engine import EngineSettings, process
from streaming.batch.hashing import event_hash
from streaming.batch.rows import COLUMNS, IS_MESSAGE, KINDS, rows_of
from streaming.batch.store import Bucket, Store, read_note
from streaming.broker.state import Rules
from streaming.model.address import Address
from streaming.wire.clock import Tick, TickerIdentity, encode_tick
from streaming.wire.inputs import TICK
from streaming.wire.message import MessageLimits
from streaming.wire.outgoing import to_records
from tidings import names
from tidings.collection import no_collection
from tidings.control import Snapshot, snapshot_path
from tidings.topic import Timing
from topology.plan import Plan

BUCKETS = 8
EVENTS = 100_000
BATCH = 64_000
_PER_MS = 40
_START_MS = 1_800_000_000_000
_LATER_MS = 3_600_000
"""Longer than any window."""
_TICKER = TickerIdentity("bench", SECRET)
_LIMITS = MessageLimits()

Records = Iterable[tuple[bytes, bytes]]
Batch = dict[str, list[Any]]


@dataclass
class Job:
    """A load, and the control data it is taken in by."""

    name: str
    broker: str
    snapshot: Snapshot
    load: Callable[[float], Records]
    """By the share that is redundant."""
    rules: Rules = field(default_factory=lambda: Rules(open_events=1_000_000 // BUCKETS, buckets=BUCKETS, bucket="bench/0"))

    def __post_init__(self) -> None:
        self.plan = Plan(self.snapshot)


def jobs(messages: int) -> list[Job]:
    """That of the peers: one subscription to all. And that of `bench.py`: a thousand that share out the keys."""
    with tempfile.TemporaryDirectory() as folder:
        version = loads.control(Stream("even", messages), Path(folder))
        thousand = Snapshot.from_json(snapshot_path(Path(folder), version).read_text(), Timing())
    everything = b'{"kind": "subscription", "name": "everything", "subscriber": "bench", "topic": "incident"}'
    one = Snapshot(timing=Timing(window_ms=60_000)).apply(1, "subscription/everything", everything)

    def load(redundant: float) -> Records:
        return Load(messages, EVENTS, seed=1, redundant=redundant, prefix=PREFIX)

    return [Job("peers", "b1", one, load), Job("bench", "even", thousand, load)]


def batches(records: Records, broker: str, version: int, start_ms: int = _START_MS) -> Iterator[Batch]:
    """What routing gives the first bucket of each batch, with a tick at the end."""
    records, kafka_topic, offset = iter(records), names.publish_topic(broker), 0
    while chunk := list(islice(records, BATCH)):
        batch: Batch = {name: [] for name in COLUMNS}
        for key, value in chunk:
            offset += 1
            event = event_hash(SECRET, Address(broker, *key.decode().split("/", 1)))
            if event % BUCKETS == 0:
                cells = (
                    IS_MESSAGE,
                    kafka_topic,
                    event // BUCKETS % PARTITIONS,
                    offset,
                    start_ms + offset // _PER_MS,
                    key,
                    value,
                    event,
                )
                _append(batch, cells)
        _append(batch, _tick(version, offset, start_ms + offset // _PER_MS))
        yield batch


def silence(version: int, from_ms: int) -> Iterator[Batch]:
    """A tick with which all events have ended, and one with which nobody needs to remember them."""
    for number, later_ms in enumerate((_LATER_MS, 3 * _LATER_MS)):
        batch: Batch = {name: [] for name in COLUMNS}
        _append(batch, _tick(version, from_ms + number, from_ms + later_ms))
        yield batch


def _tick(version: int, offset: int, append_ms: int) -> tuple[Any, ...]:
    tick = encode_tick(Tick(str(_TICKER.service), version, (names.partition_name(names.CLOCK, 0),)))
    return KINDS.index(TICK), names.CLOCK, 0, offset, append_ms, None, tick, 0


def _append(batch: Batch, cells: tuple[Any, ...]) -> None:
    for name, cell in zip(COLUMNS, cells, strict=True):
        batch[name].append(cell)


class Clock:
    """Processor seconds by stage."""

    def __init__(self, profile: cProfile.Profile | None = None) -> None:
        self.spent: Counter[str] = Counter()
        self.profile = profile

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.process_time()
        if self.profile:
            self.profile.enable()
        yield
        if self.profile:
            self.profile.disable()
        self.spent[name] += time.process_time() - start


@dataclass
class Worker:
    """Takes batches in, and keeps the bucket between them."""

    job: Job
    folder: Path
    note: bytes | None = None
    held: Bucket | None = None
    taken: int = 0
    given_out: int = 0

    def run(self, given: Iterable[Batch], clock: Clock, warm: int = 0) -> float:
        """The first batches warm it up. Returns microseconds a message; the counts are of the others."""
        store = Store(self.folder, SECRET, self.job.rules.bounds)
        setting = EngineSettings(lambda _: self.job.plan, self.job.rules, _LIMITS, _TICKER)
        for number, columns in enumerate(given):
            if number == warm:
                self.taken = self.given_out = 0
                clock.spent.clear()
            with no_collection():
                with clock.stage("open"):
                    bucket = self.held = store.open(read_note(self.note) if self.note else None, self.held)
                with clock.stage("read"):
                    rows = rows_of(columns, _LIMITS, SECRET)
                with clock.stage("decide"):
                    outputs = process(bucket.state, bucket.shelf, rows, setting)
                with clock.stage("pack"):
                    bucket.shelf.pack()
                with clock.stage("save"):
                    self.note = store.save(bucket)
                with clock.stage("encode"):
                    self.given_out += len(list(to_records(outputs, "bench", 0, rows.entry_at)))
            self.taken += len(rows) - 1
        return 1e6 * sum(clock.spent.values()) / max(1, self.taken)


def measure(job: Job, profile: cProfile.Profile | None) -> None:
    version = job.snapshot.version
    with tempfile.TemporaryDirectory() as folder:
        worker, clock = Worker(job, Path(folder)), Clock(profile)
        mixed = list(batches(job.load(0.8), job.broker, version))
        whole = worker.run(mixed, clock, warm=1)
        print(f"{job.name}: {worker.taken} messages, {worker.given_out} records; {whole:.1f} µs each ({_stages(worker, clock)})")
        # The same messages once more: all that they say is known.
        again = Clock()
        later = [{**batch, "append_ms": [ms + 20_000 for ms in batch["append_ms"]]} for batch in mixed]
        redundant = worker.run(later, again, warm=1)
        print(f"    again: {_stages(worker, again)}")
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        news = (whole - 0.8 * redundant) / 0.2
        print(
            f"    redundant {redundant:.2f} µs, with news {news:.1f} µs: {news / redundant:.1f} times; files {size / 1e6:.1f} MB"
        )
        assert worker.held
        open_events, spent = worker.held.state.size, []
        for batch in silence(version, later[-1]["append_ms"][-1]):
            silent = Clock(profile)
            worker.run([batch], silent)
            spent.append(1e6 * sum(silent.spent.values()) / open_events)
        assert worker.held.state.size == 0
        print("    {} events: ended {:.1f} µs each, forgotten {:.1f} µs each".format(open_events, *spent))


def _stages(worker: Worker, clock: Clock) -> str:
    return ", ".join(f"{name} {1e6 * spent / worker.taken:.1f}" for name, spent in clock.spent.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=640_000)
    parser.add_argument("--only", default="peers,bench")
    parser.add_argument("--profile", help="where to write what cProfile saw of the mixed load")
    args = parser.parse_args()
    profile = cProfile.Profile() if args.profile else None
    for job in jobs(args.messages):
        if job.name in args.only.split(","):
            measure(job, profile)
    if profile:
        profile.dump_stats(args.profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
