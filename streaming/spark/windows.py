"""The side pipeline on Spark: what brokers offer to links goes to buckets of links, which decide when a window expires."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.batch.shuffle import labels_of
from streaming.model.outputs import PutAside, Send, Tell
from streaming.model.windows import WindowDecided, WindowOutput
from streaming.spark.events import (
    OUTPUT_COLUMNS,
    OUTPUT_SCHEMA,
    BucketSpec,
    aside_record,
    books_records,
    load_plan,
)
from streaming.spark.query import QuerySpec, kafka_options, to_kafka
from streaming.windows import state_codec
from streaming.windows.pipeline import step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.wire import crossing, offers
from streaming.wire.codec import encode_notification
from tidings import names
from tidings.collection import no_collection

STATE_SCHEMA = "state binary"

_at_hand: dict[tuple[str, int], tuple[bytes, WindowState]] = {}
"""The buckets that this worker had last, each with the bytes it was kept as."""


def start_window_query(spark: SparkSession, settings: QuerySpec, *, over_gaps: bool = False) -> StreamingQuery:
    """Start the side pipeline beside the main one; it goes on where its checkpoint ends."""
    source = spark.readStream.format("kafka").options(**kafka_options(settings)).option("subscribe", names.OFFERS)
    source = source.option("startingOffsets", "earliest").option("failOnDataLoss", str(not over_gaps).lower())
    if settings.max_offsets_per_trigger:
        source = source.option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    rows = dealt(source.load(), settings.service, settings.buckets, partitions)
    outputs = rows.groupBy("bucket").applyInPandasWithState(
        side_function(settings.bucket, settings.buckets), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )
    return to_kafka(outputs, settings, settings.windows_checkpoint, "tidings-windows")


def dealt(records: DataFrame, service: str, buckets: int, partitions: int) -> DataFrame:
    """What this service's brokers offered, with the bucket of links it goes to; clocks go to every bucket."""
    is_clock = F.col("key") == F.lit(service.encode())
    ours = is_clock | F.col("key").startswith(F.lit(f"{service}/".encode()))
    labels = F.lit(labels_of(buckets, partitions)).cast("array<int>")
    bucket: Column = F.pmod(F.xxhash64("key"), F.lit(buckets)).cast("int")
    target = F.when(is_clock, labels).otherwise(F.array(F.element_at(labels, bucket + 1)))
    return records.where(ours).select(F.explode(target).alias("bucket"), "offset", "key", "value")


def side_function(settings: BucketSpec, buckets: int) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """The stateful function of one bucket of links: converts, calls `step`, converts back."""

    def run(key: tuple[int], frames: Iterable[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
        index = int(key[0]) % buckets
        kept = bytes(group_state.get[0]) if group_state.exists else b""
        at_hand = _at_hand.pop((settings.state_dir, index), None)
        state = at_hand[1] if at_hand is not None and at_hand[0] == kept else state_codec.decode(kept) if kept else WindowState()
        before = {broker: books.to_dict() for broker, books in state.books.items()}
        frame = pd.concat(list(frames), ignore_index=True).sort_values("offset")
        rules = WindowRules(str(settings.ticker.service), index, buckets, settings.rules.hosted)
        with no_collection():
            inputs = [offers.read(bytes(k), bytes(v)) for k, v in zip(frame["key"], frame["value"], strict=True)]
            state, outputs = step(state, inputs, lambda number: load_plan(settings, number), rules)
            # Also when only time passed: a batch that is run again must begin with the same clocks.
            kept = state_codec.encode(state)
            group_state.update((kept,))
            _at_hand[settings.state_dir, index] = kept, state
            records = [*to_records(outputs), *books_records(rules.service, f"w{index}", before, state.books)]
        if records:
            yield pd.DataFrame(records, columns=OUTPUT_COLUMNS)

    return run


def to_records(outputs: Iterable[WindowOutput]) -> Iterator[tuple[Any, ...]]:
    """Kafka records for what is to be done."""
    for output in outputs:
        match output:
            case Send():
                link = names.link_topic(output.sender, output.to)
                yield link, names.record_key(*output.record.about), crossing.encode(output.record, output.stamp), []
            case Tell():
                told = output.notification
                yield output.kafka_topic, names.record_key(told.topic, told.key), encode_notification(told, output.encoding), []
            case PutAside():
                yield aside_record(output, output.entry)
            case WindowDecided():
                key = names.record_key(output.sender, output.to)
                yield names.DECISIONS, key, decision(output), []


def decision(decided: WindowDecided) -> bytes:
    """A choice in the words of the wire."""
    datum = {
        "from": decided.sender,
        "to": decided.to,
        "topic": decided.topic,
        "subscription": decided.subscription,
        "window": {"start_ms": decided.start_ms, "end_ms": decided.end_ms},
        "decider": decided.decider,
        "choice": decided.choice,
        "reason": decided.reason,
        "items": decided.items,
        "sent": decided.sent,
        "would": dict(decided.would),
    }
    return json.dumps(datum, separators=(",", ":")).encode()
