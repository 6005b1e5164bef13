"""The streaming query of a pipeline: Kafka in, buckets, Kafka out. One query serves every broker the process hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.spark.events import OUTPUT_SCHEMA, BucketSpec
from streaming.spark.pipelines import Pipeline
from tidings import names


@dataclass(frozen=True)
class QuerySpec:
    """What all pipelines of a service share. Each has its checkpoint in ``directory``."""

    bootstrap_servers: str
    directory: Path
    bucket: BucketSpec
    trigger_ms: int = 0
    max_offsets_per_trigger: int = 0
    kafka_properties: Mapping[str, str] = field(default_factory=dict)


def start(
    spark: SparkSession, pipeline: Pipeline, spec: QuerySpec, *, over_gaps: bool = False, starting: str = "earliest"
) -> StreamingQuery:
    """Start a pipeline; it goes on where its checkpoint ends, and starts at ``starting`` if that is empty.

    It refuses to if records that it has not read are gone, unless it is told to go ``over_gaps``.
    """
    source = spark.readStream.format("kafka").options(**_kafka_options(spec)).options(**pipeline.source(spec.bucket))
    source = source.option("startingOffsets", starting).option("failOnDataLoss", str(not over_gaps).lower())
    if spec.max_offsets_per_trigger:
        source = source.option("maxOffsetsPerTrigger", spec.max_offsets_per_trigger)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    rows = pipeline.deal(source.load(), spec.bucket, partitions)
    # NoTimeout: with a timeout Spark would drop late rows without a word.
    outputs = rows.groupBy("bucket").applyInPandasWithState(
        pipeline.logic(spec.bucket), OUTPUT_SCHEMA, pipeline.state, "append", GroupStateTimeout.NoTimeout
    )
    # Each row names the Kafka topic it goes to.
    sink = outputs.writeStream.format("kafka").options(**_kafka_options(spec))
    # Dead letters are as large as what was sent, and have their reason with them.
    sink = sink.option("kafka.max.request.size", str(names.LARGEST_RECORD_BYTES + 1024 * 1024))
    # Resolved, as the file system that is used has no symbolic links (decision 0016).
    sink = sink.option("checkpointLocation", str((spec.directory / pipeline.checkpoint).resolve())).outputMode("append")
    return sink.queryName(pipeline.query).trigger(processingTime=f"{spec.trigger_ms} milliseconds").start()


def _kafka_options(spec: QuerySpec) -> dict[str, str]:
    """How to reach Kafka, in the words of Spark."""
    kafka = {f"kafka.{name}": value for name, value in spec.kafka_properties.items()}
    kafka["kafka.bootstrap.servers"] = spec.bootstrap_servers
    # Spark reads only what is there already; the default half second of waiting for more would be half of a small batch.
    kafka["kafka.fetch.max.wait.ms"] = "10"
    return kafka
