"""The queries that are compared, over the same stream: from Kafka alone to the whole gatherer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from loads import SECRET, Stream
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.broker.state import Rules
from streaming.spark.events import BucketSpec
from streaming.spark.pipelines import EVENTS, WINDOWS
from streaming.spark.query import QuerySpec, start
from streaming.spark.routing import Routing, routed
from streaming.wire import avro
from streaming.wire.clock import MARK_START
from streaming.wire.message import MessageLimits
from tidings import names
from tidings.topic import Timing

BUCKETS = 8
LIMITS = MessageLimits()

Query = Callable[["Bench", Stream, Path], StreamingQuery]


class Bench:
    """What all queries share."""

    def __init__(self, spark: SparkSession, bootstrap: str, batch: int, control: Path) -> None:
        self.spark, self.bootstrap, self.batch, self.control = spark, bootstrap, batch, control

    def records(self, stream: Stream) -> DataFrame:
        source = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        source = source.option("subscribePattern", names.input_pattern([stream.name])).option("startingOffsets", "earliest")
        source = source.option("maxOffsetsPerTrigger", self.batch).option("kafka.fetch.max.wait.ms", "10")
        return source.load().withWatermark("timestamp", "1 hour")


def decode(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """`from_avro`, and nothing else."""
    return _to_nothing(_decoded(bench, stream), folder)


def identity(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """The columns that the gatherer gets, through Python and back."""
    rows = routed(bench.records(stream), _routing(stream))

    def same(batches: Iterable[Any]) -> Iterator[Any]:
        yield from batches

    return _to_nothing(rows.mapInArrow(same, rows.schema), folder)


def dedup(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """Spark's own dropping of exact repeats, in the same state store."""
    reports = _decoded(bench, stream).withColumn("hash", F.xxhash64(F.array_sort(F.map_entries("fields"))))
    return _to_nothing(reports.dropDuplicatesWithinWatermark(["topic", "key", "hash"]), folder)


def per_event(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """A group for each event, as one writes it first."""
    value = F.transform_values("fields", lambda _, each: F.coalesce(*(each[f"member{n}"].cast("string") for n in range(5))))
    reports = _decoded(bench, stream).select("key", F.to_json(value).alias("fields"))

    def merge(key: tuple[str], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        known = json.loads(state.get[0]) if state.exists else {}
        news: dict[str, str] = {}
        for frame in frames:
            for fields in map(json.loads, frame["fields"]):
                news.update((name, value) for name, value in fields.items() if name not in known)
                known = {**fields, **known}
        state.update((json.dumps(known),))
        if news:
            yield pd.DataFrame({"key": [key[0]], "news": [json.dumps(news)]})

    told = reports.groupBy("key").applyInPandasWithState(
        merge, "key string, news string", "known string", "append", GroupStateTimeout.NoTimeout
    )
    return _to_nothing(told, folder)


def tidings(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """The gatherer as the service runs it, all promises kept, to Kafka."""
    return start(bench.spark, EVENTS, _settings(bench, stream, folder))


def windows(bench: Bench, stream: Stream, folder: Path) -> StreamingQuery:
    """The pipeline of windows as the service runs it, over what brokers offer."""
    return start(bench.spark, WINDOWS, _settings(bench, stream, folder))


def _settings(bench: Bench, stream: Stream, folder: Path) -> QuerySpec:
    return QuerySpec(
        bootstrap_servers=bench.bootstrap,
        directory=folder,
        bucket=BucketSpec(
            ticker=stream.ticker,
            control_dir=str(bench.control / stream.name),
            state_dir=str(folder / "state"),
            secret=SECRET,
            rules=replace(Rules(), hosted=frozenset({stream.name}), open_events=10_000_000, buckets=BUCKETS),
            limits=LIMITS,
            timing=Timing(),
        ),
        max_offsets_per_trigger=bench.batch,
    )


def _routing(stream: Stream) -> Routing:
    return Routing(str(stream.ticker.service), SECRET, BUCKETS, LIMITS)


def _decoded(bench: Bench, stream: Stream) -> DataFrame:
    body = F.expr(f"substring(value, {avro.HEADER_BYTES + 1})")
    message = from_avro(body, avro.schema("message").text, {"mode": "PERMISSIVE"})
    found = bench.records(stream).where(F.col("topic") != names.CLOCK).where(~F.col("value").startswith(F.lit(MARK_START)))
    return found.select("timestamp", message.alias("m")).select("timestamp", "m.topic", "m.key", "m.fields")


def _to_nothing(frame: DataFrame, folder: Path) -> StreamingQuery:
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return sink.outputMode("append").start()
