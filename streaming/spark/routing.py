"""From Kafka records to buckets, in the JVM: which event a record is about, and so which bucket gets it.

Of Avro only the first two texts are looked at, the topic and the key; in JSON these two are found by their names, and parsed
only where they are not written plainly. Everything else crosses to Python as it stands in the log, and is read there. What
cannot be read is spread over the buckets by its offset.

All that is asked of JSON is to be right about what `streaming/wire/message.py` takes: the rest is dead-lettered by any bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streaming.batch.rows import COLUMNS, KINDS
from streaming.batch.shuffle import labels_of
from streaming.spark.events import BucketSpec
from streaming.wire import avro
from streaming.wire.clock import MARK_START
from streaming.wire.inputs import MARK, MESSAGE, TICK
from streaming.wire.message import MessageLimits
from streaming.wire.record import MOST_VALUE_BYTES
from tidings import names

_MOST_KEY_BYTES = 512 * 1024
_LENGTH_BYTES = 3
"""The length of a topic or key has at most so many bytes in Avro, however long it may be; mostly it is one."""
_MOST_BEFORE = 4
"""A message has so many names of texts and numbers beside each of these two; Java would run out of stack over very many."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How records are dealt out. With ``secret`` in front of what is hashed, nobody outside can aim at one bucket."""

    service: str
    secret: str = field(repr=False)
    buckets: int
    limits: MessageLimits
    partitions: int = 1
    """Shuffle partitions, which the buckets are dealt out to evenly."""
    hands_on: bool = False
    """Whether all that is about a topic and key goes to one bucket, at whichever broker."""


def deal(records: DataFrame, spec: BucketSpec, partitions: int) -> DataFrame:
    """How the pipeline of events deals out what it reads."""
    # Spark's watermark follows append time and shows in its progress; windows close by the lowest mark (see bucket state).
    timed = records.withWatermark("timestamp", "0 seconds")
    # A task for each Kafka partition would cost more than reading the few records in it.
    few = timed.coalesce(max(1, records.sparkSession.sparkContext.defaultParallelism))
    return routed(
        few, Routing(str(spec.ticker.service), spec.secret, spec.rules.buckets, spec.limits, partitions, spec.rules.hands_on)
    )


def routed(records: DataFrame, routing: Routing) -> DataFrame:
    """Kafka records with the bucket they belong to; ticks and marks go to every bucket, also ticks of other services.

    Headers cross with them if the source brings any (`BucketSpec.headers`).
    """
    is_clock = F.col("topic") == names.CLOCK
    is_link = F.col("topic").startswith(names.LINK)
    is_mark = F.col("value").startswith(F.lit(MARK_START))
    kind = F.when(is_clock, KINDS.index(TICK)).when(is_mark, KINDS.index(MARK)).otherwise(KINDS.index(MESSAGE))
    is_message = ~is_clock & ~is_mark
    fits = F.length("value") <= routing.limits.message_bytes
    is_avro = F.when(is_link, _starts_with("link")).otherwise(fits & _starts_with("message"))
    is_json = ~is_link & fits & F.col("value").startswith(F.lit(b"{"))
    headers = ["headers"] if "headers" in records.columns else []
    raw = records.select(
        kind.cast("tinyint").alias("kind"),
        F.col("topic").alias("kafka_topic"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("append_ms"),
        _cut(F.col("key"), _MOST_KEY_BYTES).alias("record_key"),
        _cut(F.col("value"), MOST_VALUE_BYTES).alias("value"),
        *headers,
        F.when(is_message & is_avro, F.lit(avro.HEADER_BYTES + 1)).alias("next"),
        F.when(is_message & is_json, F.col("value").cast("string")).alias("json"),
    )
    named = _with_json(_with_text(_with_text(raw, "topic"), "key"), "topic", "key")
    event = F.xxhash64(F.lit(routing.secret), F.substring_index("kafka_topic", ".", -1), "topic", "key")
    unknown = F.isnull("topic") | F.isnull("key")
    hashed = named.withColumn("event", F.when(unknown, F.lit(0)).otherwise(event))
    unreadable = F.xxhash64(F.lit(routing.secret), "offset")
    dealt_by = F.xxhash64(F.lit(routing.secret), "topic", "key") if routing.hands_on else F.col("event")
    bucket = F.pmod(F.when(F.col("event") == 0, unreadable).otherwise(dealt_by), F.lit(routing.buckets)).cast("int")
    labels = F.lit(labels_of(routing.buckets, routing.partitions)).cast("array<int>")
    target = F.when(F.col("kind") == KINDS.index(MESSAGE), F.array(F.element_at(labels, bucket + 1))).otherwise(labels)
    return hashed.select(F.explode(target).alias("bucket"), *COLUMNS, *headers)


def _cut(data: Column, most_bytes: int) -> Column:
    return F.when(F.length(data) > most_bytes, F.substring(data, 1, most_bytes)).otherwise(data)


def _starts_with(schema: str) -> Column:
    return F.col("value").startswith(F.lit(avro.schema(schema).header))


def _with_text(rows: DataFrame, name: str) -> DataFrame:
    """The text in Avro that stands in ``value`` at ``next``, as a column; ``next`` is then what follows. Null if there is none.

    Its length comes first, seven bits in each byte, the lowest first; a high bit says that there is another byte. It is doubled:
    an odd one would be negative.
    """
    # Each step is a column, so that the next one need not find it again.
    begun = rows.withColumn("word", F.conv(F.hex(F.substring("value", F.col("next"), _LENGTH_BYTES)), 16, 10).cast("int"))
    bytes_ = [F.shiftright("word", 8 * (_LENGTH_BYTES - 1 - n)).bitwiseAND(255) for n in range(_LENGTH_BYTES)]
    bits = [F.shiftleft(byte.bitwiseAND(127), 7 * n) for n, byte in enumerate(bytes_)]
    doubled, size = F.when(bytes_[0] < 128, bits[0]), F.when(bytes_[0] < 128, 1)
    for n in range(1, _LENGTH_BYTES):
        doubled, size = doubled.when(bytes_[n] < 128, sum(bits[1 : n + 1], bits[0])), size.when(bytes_[n] < 128, n + 1)
    sized = begun.withColumn("doubled", doubled).withColumn("next", F.col("next") + size)
    length = F.shiftright("doubled", 1)
    is_there = (F.col("doubled") % 2 == 0) & (F.col("next") - 1 + length <= F.length("value"))
    text = F.when(is_there, F.substring("value", F.col("next"), length).cast("string"))
    return sized.withColumn(name, text).withColumn("next", F.when(is_there, F.col("next") + length)).drop("word", "doubled")


def _with_json(rows: DataFrame, *names_: str) -> DataFrame:
    """What stands under these names in ``json`` fills what is null: cut out where it is written plainly, else parsed."""
    found = {name: F.nullif(F.regexp_extract("json", plainly(name), 1), F.lit("")) for name in names_}
    parsed = {name: F.get_json_object("json", f"$.{name}") for name in names_}
    return rows.withColumns({name: F.coalesce(name, found[name], parsed[name]) for name in names_})


def plainly(name: str) -> str:
    """Finds the text of a name in an object that begins with it, or with a few other names of texts and numbers, where nothing is
    escaped. A name that stands twice is no matter: that is refused.

    Each part ends where the next one begins, so this looks at no byte twice, whatever a text holds.
    """
    member = r'"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[^\s"{}\[\]\\,]+)\s*,\s*'
    return rf'^\{{\s*(?:{member}){{0,{_MOST_BEFORE}}}?"{name}"\s*:\s*"([^"\\]+)"'
