"""The pipeline of windows on Spark: what brokers offer to links goes to buckets of links, which decide when a window expires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.batch.shuffle import labels_of
from streaming.broker.wishes import is_news
from streaming.spark import at_hand
from streaming.spark.events import OUTPUT_COLUMNS, BucketSpec, load_plan, partition_of_task
from streaming.windows import state_codec
from streaming.windows.pipeline import step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.windows.wishes import wish_ms
from streaming.wire import offers
from streaming.wire.books import books_records
from streaming.wire.outgoing import to_records
from streaming.wire.pulse import wish_record
from streaming.wire.record import Outgoing
from tidings.collection import no_collection
from topology.plan import Plan

STATE_SCHEMA = "state binary"
WINDOWS = "windows"


def deal(records: DataFrame, settings: BucketSpec, partitions: int) -> DataFrame:
    """What this service's brokers offered, with the bucket it goes to (see `WindowRules.has`); clocks go to every bucket."""
    service, buckets = str(settings.ticker.service), settings.rules.buckets
    is_clock = F.col("key") == F.lit(service.encode())
    ours = is_clock | F.col("key").startswith(F.lit(f"{service}/".encode()))
    labels = F.lit(labels_of(buckets, partitions)).cast("array<int>")
    # A process that serves all brokers has all places of a topic in one bucket. Only the topic may have a slash in it.
    topic = F.split(F.col("key").cast("string"), "/", 4)[3].cast("binary")
    dealt_by = topic if settings.rules.serves_all else F.col("key")
    bucket: Column = F.pmod(F.xxhash64(dealt_by), F.lit(buckets)).cast("int")
    target = F.when(is_clock, labels).otherwise(F.array(F.element_at(labels, bucket + 1)))
    return records.where(ours).select(F.explode(target).alias("bucket"), "offset", "key", "value")


def bucket_function(settings: BucketSpec) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """The stateful function of one bucket of links."""

    def run(key: tuple[int], frames: Iterable[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
        return run_bucket(settings, int(key[0]) % settings.rules.buckets, list(frames), group_state)

    return run


@dataclass(slots=True)
class _Kept:
    """A bucket that this worker had last, with the bytes it was kept as, and when it was last said that a tick is wanted."""

    kept: bytes
    state: WindowState
    wished_ms: int | None


def run_bucket(settings: BucketSpec, index: int, frames: list[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
    """Take in what a batch has for a bucket of links: converts, calls `step`, converts back."""
    rules = WindowRules(
        str(settings.ticker.service), index, settings.rules.buckets, settings.rules.hosted, settings.rules.hands_on
    )
    here = WINDOWS, settings.state_dir, index
    bucket = _opened(here, bytes(group_state.get[0]) if group_state.exists else b"")
    before = {broker: books.to_dict() for broker, books in bucket.state.books.items()}
    frame = pd.concat(frames, ignore_index=True).sort_values("offset")
    with no_collection():
        inputs = [offers.read(bytes(k), bytes(v)) for k, v in zip(frame["key"], frame["value"], strict=True)]
        bucket.state, outputs = step(bucket.state, inputs, lambda version: load_plan(settings, version), rules)
        # Also when only time passed: a batch that is run again must begin with the same clocks.
        bucket.kept = state_codec.encode(bucket.state)
        group_state.update((bucket.kept,))
        records = list(to_records(outputs, rules.service, f"w{index}"))
        records += books_records(rules.service, f"w{index}", before, bucket.state.books)
        records += _wish(bucket, rules, load_plan(settings, bucket.state.version))
        at_hand.keep(here, partition_of_task(), bucket)
    if records:
        yield pd.DataFrame(records, columns=OUTPUT_COLUMNS)


def _opened(here: at_hand.Bucket, noted: bytes) -> _Kept:
    """A bucket as it was noted: the one at hand, unless another worker has had it since."""
    kept: _Kept | None = at_hand.take(here)
    if kept is not None and kept.kept == noted:
        return kept
    return _Kept(noted, state_codec.decode(noted) if noted else WindowState(), None)


def _wish(bucket: _Kept, rules: WindowRules, plan: Plan) -> Iterator[Outgoing]:
    """When it wants a tick, if that is news."""
    wants_ms = wish_ms(bucket.state, plan)
    if is_news(wants_ms, bucket.wished_ms, bucket.state.clock_ms):
        bucket.wished_ms = wants_ms
        yield wish_record(rules.service, f"w{rules.index}", wants_ms)
