"""The streaming query: Kafka in, buckets, Kafka out. One query serves every broker the process hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.spark.events import OUTPUT_SCHEMA, STATE_SCHEMA, BucketSpec, bucket_function
from streaming.spark.routing import Routing, routed
from tidings import names


@dataclass(frozen=True)
class QuerySpec:
    """What the query is started with. ``service`` names whose ticks count; ``secret`` decides which bucket a key is in. Both are
    fixed for a checkpoint."""

    bootstrap_servers: str
    checkpoint: Path
    windows_checkpoint: Path
    """That of the side pipeline."""
    service: str
    secret: str = field(repr=False)
    buckets: int
    bucket: BucketSpec
    trigger_ms: int = 0
    max_offsets_per_trigger: int = 0
    kafka_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """A pattern for the Kafka topics that are read."""
        return names.input_pattern(self.bucket.rules.hosted)


def start_query(
    spark: SparkSession, settings: QuerySpec, *, over_gaps: bool = False, starting: str = "earliest"
) -> StreamingQuery:
    """Start the query; it goes on where its checkpoint ends, and starts at ``starting`` if that is empty.

    It refuses to if records that it has not read are gone, unless it is told to go ``over_gaps``.
    """
    source = spark.readStream.format("kafka").options(**kafka_options(settings))
    source = source.option("subscribePattern", settings.inputs).option("startingOffsets", starting)
    source = source.option("failOnDataLoss", str(not over_gaps).lower())
    if settings.max_offsets_per_trigger:
        source = source.option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
    # Spark's watermark follows append time and shows in its progress; windows close by the lowest mark (see bucket state).
    records = source.load().withWatermark("timestamp", "0 seconds")
    # A task for each Kafka partition would cost more than reading the few records in it.
    records = records.coalesce(max(1, spark.sparkContext.defaultParallelism))
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    routing = Routing(settings.service, settings.secret, settings.buckets, settings.bucket.limits, partitions)
    rows = routed(records, routing)
    # NoTimeout: with a timeout Spark would drop late rows without a word.
    outputs = rows.groupBy("bucket").applyInPandasWithState(
        bucket_function(settings.bucket), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout
    )
    return to_kafka(outputs, settings, settings.checkpoint, "tidings")


def kafka_options(settings: QuerySpec) -> dict[str, str]:
    """How to reach Kafka, in the words of Spark."""
    kafka = {f"kafka.{name}": value for name, value in settings.kafka_properties.items()}
    kafka["kafka.bootstrap.servers"] = settings.bootstrap_servers
    # Spark reads only what is there already; the default half second of waiting for more would be half of a small batch.
    kafka["kafka.fetch.max.wait.ms"] = "10"
    return kafka


def to_kafka(outputs: DataFrame, settings: QuerySpec, checkpoint: Path, name: str) -> StreamingQuery:
    """Start a query that writes each row to the Kafka topic it names."""
    sink = outputs.writeStream.format("kafka").options(**kafka_options(settings))
    # Dead letters are as large as what was sent, and have their reason with them.
    sink = sink.option("kafka.max.request.size", str(names.LARGEST_RECORD_BYTES + 1024 * 1024))
    # Resolved, as the file system that is used has no symbolic links (decision 0016).
    sink = sink.option("checkpointLocation", str(checkpoint.resolve())).outputMode("append").queryName(name)
    return sink.trigger(processingTime=f"{settings.trigger_ms} milliseconds").start()
