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

from streaming.batch.desk import Handling
from streaming.batch.engine import EngineSettings, process
from streaming.batch.first_note import read_seed
from streaming.batch.rows import COLUMNS, Rows, rows_of
from streaming.batch.store import Bucket, Store, read_note, store_of
from streaming.broker.progress import clocked
from streaming.broker.state import Rules
from streaming.broker.wishes import is_news, wish_ms
from streaming.model.books import Books
from streaming.model.outputs import Output
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
    headers: bool = False
    """Whether the headers of records cross to Python with them. Nobody reads them yet, and a list in each row has its price."""


@dataclass(slots=True)
class _Kept:
    """A bucket that this worker had last, when it last said that it wants a tick, and how far it last said it was."""

    bucket: Bucket
    wished_ms: int | None
    clocked: Clocked | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """A bucket that a batch begins with."""

    store: Store
    kept: _Kept
    told: dict[str, dict[str, Any]]
    """The books of its brokers as everybody was told them."""
    gone: list[tuple[str, int]]
    """Brokers and numbers of buckets that are part of this one now."""


def bucket_function(settings: BucketSpec) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """The stateful function of one bucket."""

    def run(key: tuple[int], frames: Iterable[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
        return run_bucket(settings, int(key[0]) % settings.rules.buckets, list(frames), group_state)

    return run


def run_bucket(settings: BucketSpec, number: int, frames: list[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
    """Take in what a batch has for a bucket."""
    opened = _open(settings, number, group_state)
    bucket = opened.kept.bucket
    bucket.state.changed = False
    # A batch makes many objects and no cycles: looking for those would cost a third of its time.
    with no_collection():
        rows = _rows(frames, settings)
        handled: Counter[Handling] = Counter()
        outputs = process(bucket.state, bucket.shelf, rows, _setting(settings, number), handled)
        ways.count(settings.ways, handled)
        bucket.shelf.pack()
        if bucket.state.changed or not group_state.exists:
            group_state.update((opened.store.save(bucket),))
        records = [*to_records(outputs, str(settings.ticker.service), number, rows.entry_at)]
        records += _said_of_itself(settings, number, opened, outputs)
        at_hand.keep(here := (EVENTS, settings.state_dir, number), partition_of_task(), opened.kept)
        at_hand.forget_others(here, homes.is_elsewhere)
    if records:
        yield pd.DataFrame(records, columns=OUTPUT_COLUMNS)


def _open(settings: BucketSpec, number: int, group_state: Any) -> _Opened:
    """The bucket that Spark's state has a note of: the one at hand, if that is an earlier form of it."""
    store = store_of(Path(settings.state_dir), number, settings.secret, settings.rules.bounds)
    seed = None if group_state.exists else read_seed(store.folder)
    noted = bytes(group_state.get[0]) if group_state.exists else seed.note if seed else None
    note = read_note(noted) if noted is not None else None
    kept: _Kept | None = at_hand.take((EVENTS, settings.state_dir, number))
    # Another worker may have had the bucket since, and said something else.
    last = kept if kept and note and kept.bucket.note.name == note.name else None
    bucket = store.open(note, kept.bucket if kept else None)
    # What a seed says of the books, nobody has been told.
    told = {} if seed else {broker: books.to_dict() for broker, books in bucket.state.books.items()}
    said = (last.wished_ms, last.clocked) if last else (None, None)
    return _Opened(store, _Kept(bucket, *said), told, seed.gone if seed else [])


def _said_of_itself(settings: BucketSpec, number: int, opened: _Opened, outputs: list[Output]) -> Iterator[Outgoing]:
    """The books where they changed, how far the bucket is, and when it next wants to be woken."""
    kept, service, rules = opened.kept, str(settings.ticker.service), replace(settings.rules, bucket_index=number)
    state = kept.bucket.state
    plan = load_plan(settings, state.version)
    yield from books_records(service, number, opened.told, state.books)
    if plan.windowed_topics and (clock := clocked(state, plan, rules)) != kept.clocked:
        # After all that it offers: a bucket's records are written in their order.
        kept.clocked = clock
        yield clock_record(service, clock)
    if is_news(wants_ms := wish_ms(state, plan, rules, outputs), kept.wished_ms, state.clock_ms):
        kept.wished_ms = wants_ms
        yield wish_record(service, number, wants_ms)
    for broker, bucket in opened.gone:
        # Nothing at all would not do: whoever reads on from before would still count what it had.
        yield from books_records(service, bucket, {}, {broker: Books()})


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
