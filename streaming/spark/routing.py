"""From Kafka records to buckets, in the JVM: which bucket gets which record, and the numbers that tell what it says.

A publication in Avro is taken apart here: which event it is about, a number for each fact it states, who says so and when. If
that shows it to be whole and within the bounds of a message, it is *plain*, and most of its kind are never opened in Python.
Of JSON only topic and key are read; Python reads the rest. What cannot be read is spread over the buckets by its offset.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from streaming.batch.rows import KINDS, NO_SOURCE, NOT_SAID
from streaming.batch.shuffle import labels_of
from streaming.spark.events import BucketSpec
from streaming.wire import avro
from streaming.wire.clock import MARK_START
from streaming.wire.inputs import MARK, MESSAGE, TICK
from streaming.wire.message import MessageLimits
from streaming.wire.record import MOST_VALUE_BYTES
from tidings import names

_MOST_KEY_BYTES = 512 * 1024
_END_BYTES = 8
_NUMBER, _LIST = "member2", "member4"
"""The members of a field's value, a union in `message.avsc`, that are a number with a fraction and a list."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How records are dealt out. With ``secret`` in front of what is hashed, nobody outside can aim at one bucket, or make two
    facts look the same."""

    service: str
    secret: str = field(repr=False)
    buckets: int
    limits: MessageLimits
    partitions: int = 1
    """Shuffle partitions, which the buckets are dealt out to evenly."""

    @property
    def end(self) -> bytes:
        """Stands behind each Avro message when it is decoded: if it is not found there, bytes were left over."""
        return hashlib.blake2b(b"end", key=self.secret.encode()[:64], digest_size=_END_BYTES).digest()


def deal(records: DataFrame, spec: BucketSpec, partitions: int) -> DataFrame:
    """How the pipeline of events deals out what it reads."""
    # Spark's watermark follows append time and shows in its progress; windows close by the lowest mark (see bucket state).
    timed = records.withWatermark("timestamp", "0 seconds")
    # A task for each Kafka partition would cost more than reading the few records in it.
    few = timed.coalesce(max(1, records.sparkSession.sparkContext.defaultParallelism))
    return routed(few, Routing(str(spec.ticker.service), spec.secret, spec.rules.buckets, spec.limits, partitions))


def routed(records: DataFrame, routing: Routing) -> DataFrame:
    """Kafka records with the bucket they belong to; ticks and marks go to every bucket, also ticks of other services."""
    is_clock = F.col("topic") == names.CLOCK
    is_link = F.col("topic").startswith(names.LINK)
    is_mark = F.col("value").startswith(F.lit(MARK_START))
    kind = F.when(is_clock, KINDS.index(TICK)).when(is_mark, KINDS.index(MARK)).otherwise(KINDS.index(MESSAGE))
    is_message = ~is_clock & ~is_mark
    fits = F.length("value") <= routing.limits.message_bytes
    named = records.select(
        kind.cast("tinyint").alias("kind"),
        F.col("topic").alias("kafka_topic"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("append_ms"),
        _cut(F.col("key"), _MOST_KEY_BYTES).alias("record_key"),
        _cut(F.col("value"), MOST_VALUE_BYTES).alias("value"),
        F.when(is_message & ~is_link & fits, _message(routing)).alias("message"),
        F.when(is_message, F.when(is_link, _link()).when(fits, _json())).alias("other"),
    )
    about = F.coalesce("message.topic", "other.topic"), F.coalesce("message.key", "other.key")
    event = F.xxhash64(F.lit(routing.secret), F.substring_index("kafka_topic", ".", -1), *about)
    hashed = named.withColumn("event", F.when(F.isnull(about[1]), F.lit(0)).otherwise(event))
    unreadable = F.xxhash64(F.lit(routing.secret), "offset")
    bucket = F.pmod(F.when(F.col("event") == 0, unreadable).otherwise(F.col("event")), F.lit(routing.buckets)).cast("int")
    labels = F.lit(labels_of(routing.buckets, routing.partitions)).cast("array<int>")
    target = F.when(F.col("kind") == KINDS.index(MESSAGE), F.array(F.element_at(labels, bucket + 1))).otherwise(labels)
    return hashed.select(
        F.explode(target).alias("bucket"),
        "kind",
        "kafka_topic",
        "partition",
        "offset",
        "append_ms",
        "record_key",
        "value",
        F.coalesce(_is_plain(routing), F.lit(False)).alias("plain"),
        "event",
        F.coalesce(F.when(F.isnotnull("message.source"), F.xxhash64("message.source")), F.lit(NO_SOURCE)).alias("source"),
        F.coalesce("message.published_ms", F.lit(NOT_SAID)).alias("published_ms"),
        _facts().alias("facts"),
    )


def _cut(data: Column, most_bytes: int) -> Column:
    return F.when(F.length(data) > most_bytes, F.substring(data, 1, most_bytes)).otherwise(data)


def _message(routing: Routing) -> Column:
    """A publication in Avro, with what stands behind it; null for all else."""
    schema = avro.schema("message")
    text = json.loads(schema.text)
    text["fields"].append({"name": "end", "type": {"type": "fixed", "name": "End", "size": _END_BYTES}})
    body = F.expr(f"concat(substring(value, {avro.HEADER_BYTES + 1}), X'{routing.end.hex()}')")
    datum = from_avro(body, json.dumps(text), {"mode": "PERMISSIVE"})
    return F.when(F.col("value").startswith(F.lit(schema.header)), datum)


def _link() -> Column:
    """Topic and key of a record of a link."""
    schema = avro.schema("link")
    datum = from_avro(F.expr(f"substring(value, {avro.HEADER_BYTES + 1})"), schema.text, {"mode": "PERMISSIVE"})
    return F.when(F.col("value").startswith(F.lit(schema.header)), _topic_and_key(datum))


def _json() -> Column:
    datum = F.from_json(F.col("value").cast("string"), "topic string, key string")
    return F.when(F.col("value").startswith(F.lit(b"{")), _topic_and_key(datum))


def _topic_and_key(datum: Column) -> Column:
    return F.struct(datum["topic"].alias("topic"), datum["key"].alias("key"))


def _is_plain(routing: Routing) -> Column:
    """Whether `streaming.wire.message` would take the message, as far as that does not depend on its facts, topic and key.

    Those need no look: a message with a bad one is opened and refused, so no event or fact with the same number is ever known.
    """
    limits = routing.limits
    return (
        (F.col("message.end") == F.lit(routing.end))
        & (F.size("message.fields") <= limits.fields)
        & _is_text("message.source", limits)
        & _is_text("message.id", limits)
        & (F.isnull("message.published_ms") | (F.col("message.published_ms") >= 0))
    )


def _is_text(name: str, limits: MessageLimits) -> Column:
    text = F.col(name)
    return F.isnull(text) | (F.octet_length(text).between(1, limits.key_bytes) & F.is_valid_utf8(text))


def _facts() -> Column:
    """A number for each fact. Spark hashes a list as its items, and a number as the whole number with the same bits."""

    def number(entry: Column) -> Column:
        value = entry["value"]
        kind = F.when(F.isnotnull(value[_LIST]), 2).when(F.isnotnull(value[_NUMBER]), 1).otherwise(0)
        return F.xxhash64(F.col("event"), entry["key"], value, kind)

    # Never null: Arrow's list vectors are filled up to the last list that is not, again for each row that follows.
    return F.coalesce(F.transform(F.map_entries("message.fields"), number), F.array().cast("array<bigint>"))
