"""The function handed to `applyInPandasWithState`: converts, calls the engine, converts back. Nothing else.

Workers find the control data of a version in a file of its own, which never changes once it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark import TaskContext

from streaming.batch.course import Handling
from streaming.batch.engine import process
from streaming.batch.first_note import read_seed
from streaming.batch.reading import COLUMNS, rows_of
from streaming.batch.rows import Rows
from streaming.batch.segment import EngineSettings
from streaming.batch.store import Bucket, read_note, store_of
from streaming.broker.progress import clocked
from streaming.broker.state import Rules
from streaming.broker.wishes import is_news, wish_ms
from streaming.model.books import Books
from streaming.model.windows import Clocked
from streaming.spark import at_hand, homes, ways
from streaming.spark.ways import Ways
from streaming.wire.books import books_records
from streaming.wire.clock import TickerIdentity
from streaming.wire.message import MessageLimits
from streaming.wire.offers import clock_record
from streaming.wire.outgoing import to_records
from streaming.wire.pulse import wish_record
from streaming.wire.record import Outgoing
from tidings.collection import no_collection
from tidings.control import Snapshot, snapshot_path
from tidings.errors import BadState
from tidings.topic import Timing
from topology.plan import Plan

STATE_SCHEMA = "note binary"
OUTPUT_SCHEMA = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
OUTPUT_COLUMNS = list(Outgoing._fields)
EVENTS = "events"


@dataclass(frozen=True)
class BucketSpec:
    """All a worker needs to know; it travels to the workers with the function."""

    ticker: TickerIdentity
    control_dir: str
    state_dir: str
    secret: str = field(repr=False)
    rules: Rules = field(default_factory=Rules)
    limits: MessageLimits = field(default_factory=MessageLimits)
    timing: Timing = field(default_factory=Timing)
    ways: Ways = field(default=None, compare=False, repr=False)
    """Where it is counted which way messages went, if anywhere."""


@dataclass(slots=True)
class _Kept:
    """A bucket that this worker had last, when it last said that it wants a tick, and how far it last said it was."""

    bucket: Bucket
    wished_ms: int | None
    clocked: Clocked | None


def bucket_function(settings: BucketSpec) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """The stateful function of one bucket."""

    def run(key: tuple[int], frames: Iterable[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
        return run_bucket(settings, int(key[0]) % settings.rules.buckets, list(frames), group_state)

    return run


def run_bucket(settings: BucketSpec, number: int, frames: list[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
    """Take in what a batch has for a bucket."""
    store = store_of(Path(settings.state_dir), number, settings.secret, settings.rules.bounds)
    seed = None if group_state.exists else read_seed(store.folder)
    noted = bytes(group_state.get[0]) if group_state.exists else seed.note if seed else None
    note = read_note(noted) if noted is not None else None
    here = EVENTS, settings.state_dir, number
    kept: _Kept | None = at_hand.take(here)
    # Another worker may have had the bucket since, and said something else.
    last = kept if kept and note and kept.bucket.note.name == note.name else None
    wished_ms, said = (last.wished_ms, last.clocked) if last else (None, None)
    bucket = store.open(note, kept.bucket if kept else None)
    state = bucket.state
    # What a seed says of the books, nobody has been told.
    before = {} if seed else {broker: books.to_dict() for broker, books in state.books.items()}
    state.changed = False
    # A batch makes many objects and no cycles: looking for those would cost a third of its time.
    with no_collection():
        rows = _rows(frames, settings)
        handled: Counter[Handling] = Counter()
        outputs = process(state, bucket.shelf, rows, _setting(settings, number), handled)
        ways.count(settings.ways, handled)
        bucket.shelf.pack()
        if state.changed or not group_state.exists:
            group_state.update((store.save(bucket),))
        service = str(settings.ticker.service)
        records = [*to_records(outputs, service, number, rows.entry_at), *books_records(service, number, before, state.books)]
        plan, rules = load_plan(settings, state.version), replace(settings.rules, bucket_index=number)
        if plan.windowed_topics and (clock := clocked(state, plan, rules)) != said:
            # After all that it offers: a bucket's records are written in their order.
            records.append(clock_record(service, clock))
            said = clock
        if is_news(wants_ms := wish_ms(state, plan, rules, outputs), wished_ms, state.clock_ms):
            wished_ms = wants_ms
            records.append(wish_record(service, number, wants_ms))
        records += [record for gone in (seed.gone if seed else ()) for record in _empty_books(service, *gone)]
        at_hand.keep(here, partition_of_task(), _Kept(bucket, wished_ms, said))
        at_hand.forget_others(here, homes.is_elsewhere)
    if records:
        yield pd.DataFrame(records, columns=OUTPUT_COLUMNS)


def partition_of_task() -> int | None:
    """Which shuffle partition is being worked on; None outside of Spark."""
    task = TaskContext.get()
    return task.partitionId() if task else None


def _rows(frames: list[pd.DataFrame], settings: BucketSpec) -> Rows:
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    columns = {name: frame[name].to_numpy() for name in COLUMNS}
    return rows_of(columns, settings.limits, settings.secret)


def _setting(settings: BucketSpec, number: int) -> EngineSettings:
    rules = replace(settings.rules, bucket=f"{settings.ticker.service}/{number}", bucket_index=number)
    return EngineSettings(lambda version: load_plan(settings, version), rules, settings.limits, settings.ticker)


def _empty_books(service: str, broker: str, bucket: int) -> Iterator[Outgoing]:
    """For a bucket that is no more. Nothing at all would not do: whoever reads on from before would still count what it had."""
    return books_records(service, bucket, {}, {broker: Books()})


@lru_cache(maxsize=8)
def load_plan(settings: BucketSpec, version: int) -> Plan:
    """What follows from a version of the control data."""
    return Plan(load_control(settings, version))


def load_control(settings: BucketSpec, version: int) -> Snapshot:
    """The control data of a version. Version 0 is the empty control data from before the first tick."""
    if version == 0:
        return Snapshot(timing=settings.timing)
    path = snapshot_path(Path(settings.control_dir), version)
    try:
        return Snapshot.from_json(path.read_text(encoding="utf-8"), settings.timing)
    except FileNotFoundError:
        raise BadState(f"the control data of version {version} is missing: {path.name} must be in the control folder") from None
