"""From Kafka records to buckets, in the JVM: which bucket gets which record.

Only topic and key are read here, to hash them with the broker that reads the record; the bucket function reads the message
itself and checks that it found the same two. What cannot be read is spread over the buckets by its offset, so that rubbish loads
none of them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from streaming.broker.inputs import MARK, MESSAGE, MOST_VALUE_BYTES, TICK
from tidings import avro
from topology import names

_MOST_KEY_BYTES = 512 * 1024


def routed(records: DataFrame, *, service: str, secret: str, buckets: int, message_bytes: int) -> DataFrame:
    """Kafka records with the bucket they belong to; ticks and marks go to every bucket."""
    is_clock = F.col("topic") == names.CLOCK
    kind = F.when(is_clock, TICK).when(F.col("value").startswith(F.lit(names.MARK_START)), MARK).otherwise(MESSAGE)
    read = _topic_and_key(F.col("value"), message_bytes)
    named = records.select(
        kind.alias("kind"),
        F.col("topic").alias("kafka_topic"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("append_ms"),
        _cut(F.col("key"), _MOST_KEY_BYTES).alias("record_key"),
        _cut(F.col("value"), MOST_VALUE_BYTES).alias("value"),
        F.when(kind == MESSAGE, read).alias("read"),
    ).where(~is_clock | (F.get_json_object(F.col("value").cast("string"), "$.service") == service))
    # With a secret in front nobody outside can aim many keys at one bucket.
    readable = F.xxhash64(F.lit(secret), F.substring_index("kafka_topic", ".", -1), "read.topic", "read.key")
    unreadable = F.xxhash64(F.lit(secret), "offset")
    bucket = F.pmod(F.when(F.col("read.key").isNull(), unreadable).otherwise(readable), F.lit(buckets)).cast("int")
    every_bucket = F.sequence(F.lit(0), F.lit(buckets - 1))
    target = F.when(F.col("kind") == MESSAGE, F.array(bucket)).otherwise(every_bucket)
    return named.select(
        F.explode(target).alias("bucket"),
        "kind",
        "kafka_topic",
        "partition",
        "offset",
        "append_ms",
        "record_key",
        "value",
        F.col("read.topic").alias("topic"),
        F.col("read.key").alias("key"),
    )


def _cut(data: Column, most_bytes: int) -> Column:
    return F.when(F.length(data) > most_bytes, F.substring(data, 1, most_bytes)).otherwise(data)


def _topic_and_key(value: Column, message_bytes: int) -> Column:
    """A struct of topic and key; null where they cannot be read."""
    message, link = avro.schema("message"), avro.schema("link")
    json = F.from_json(value.cast("string"), "topic string, key string")
    fits = F.length(value) <= message_bytes
    return (
        F.when(F.col("topic").startswith("link."), F.when(value.startswith(F.lit(link.header)), _from_avro(link)))
        .when(fits & value.startswith(F.lit(b"{")), json)
        .when(fits & value.startswith(F.lit(message.header)), _from_avro(message))
    )


def _from_avro(schema: avro.Schema) -> Column:
    datum = from_avro(F.expr(f"substring(value, {avro.HEADER_BYTES + 1})"), schema.text, {"mode": "PERMISSIVE"})
    return F.struct(datum["topic"].alias("topic"), datum["key"].alias("key"))
