"""What routing of JSON costs Java: as it is, with `from_json` for each message as it was before, and for Avro.

    python benchmarks/routing.py

"By name" has the names of each message in order, so its fields come first. What is printed is the processor time of Spark's
Java process for a message, the best and the middle of several turns; nothing crosses to Python.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec
from loads import PREFIX
from peers.load import Load
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from service.kafka.jars import spark_jars
from streaming.spark import routing
from streaming.spark.session import start_session, stop_session
from streaming.wire.message import MessageLimits, decode_message, encode_message

COUNT, TURNS = 200_000, 12


def from_json(rows: DataFrame, *names: str) -> DataFrame:
    """Topic and key as Spark's own parser finds them."""
    parsed = F.from_json("json", ", ".join(f"{name} string" for name in names))
    found = rows.withColumn("parsed", parsed)
    return found.withColumns({name: F.coalesce(name, f"parsed.{name}") for name in names})


def routed(records: DataFrame) -> DataFrame:
    return routing.routed(records, routing.Routing("svc", "secret", 8, MessageLimits()))


def routed_before(records: DataFrame) -> DataFrame:
    with mock.patch.object(routing, "_with_json", from_json):
        return routed(records)


def records(spark: SparkSession, values: list[bytes], file: Path) -> DataFrame:
    """Publications as the source for Kafka has them, in a file."""
    columns = "topic string, partition int, offset long, value binary, key binary, timestamp timestamp"
    rows = spark.createDataFrame([(value,) for value in values], "value binary")
    place = F.lit("publish.b1").alias("topic"), F.lit(0).alias("partition"), F.monotonically_increasing_id().alias("offset")
    times = COUNT // len(values)
    many = rows.select(*place, "value", F.lit(b"t/k").alias("key"), F.current_timestamp().alias("timestamp"))
    many.crossJoin(spark.range(times)).drop("id").coalesce(1).write.parquet(str(file))
    return spark.read.schema(columns).parquet(str(file))


def cpu_s(spark: SparkSession) -> float:
    """Processor time of Java so far, its collector and its compiler included."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    said = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat").read_text().rpartition(")")[2].split()
    return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    avro = [value for _, value in Load(5_000, 2_000, 1, prefix=PREFIX)]
    messages = [decode_message(value, MessageLimits()) for value in avro]
    json = [encode_message(message) for message in messages]
    by_name = [msgspec.json.encode(msgspec.json.decode(value), order="sorted") for value in json]
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session("local[1]", spark_jars(), shuffle_partitions=1, local_dir=Path(folder) / "spark")
        kinds = {"JSON": json, "JSON by name": by_name, "Avro": avro}
        read = {kind: records(spark, values, Path(folder) / kind) for kind, values in kinds.items()}
        runs: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
            "read only": (lambda found: found, "JSON"),
            "JSON with from_json": (routed_before, "JSON"),
            "JSON": (routed, "JSON"),
            "by name with from_json": (routed_before, "JSON by name"),
            "by name": (routed, "JSON by name"),
            "Avro": (routed, "Avro"),
        }
        took: dict[str, list[float]] = defaultdict(list)
        for _ in range(TURNS):
            for name, (make, kind) in runs.items():
                before = cpu_s(spark)
                make(read[kind]).write.format("noop").mode("overwrite").save()
                took[name].append((cpu_s(spark) - before) / COUNT * 1e6)
        stop_session(spark)
    for name, each in took.items():
        print(f"{name:25} {min(each):6.2f} µs, {statistics.median(each):6.2f} in the middle")


if __name__ == "__main__":
    sys.exit(main())
