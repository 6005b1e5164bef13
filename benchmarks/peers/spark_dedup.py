"""Plain Spark, built-in: drop messages whose topic, key and fields were all seen before."""

import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

STORE = "spark.sql.streaming.stateStore"

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", os.environ["SPARK_JARS"])
    .config("spark.driver.memory", "2g")
    .config("spark.sql.shuffle.partitions", 2)
    .config(f"{STORE}.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    .config(f"{STORE}.rocksdb.changelogCheckpointing.enabled", "true")
    .config(f"{STORE}.rocksdb.trackTotalNumberOfRows", "false")
    .getOrCreate()
)
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP"])
    .option("subscribe", os.environ["TOPICS"])
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", os.environ["BATCH"])
    .option("kafka.fetch.max.wait.ms", "10")
    .load()
)
# Single-object encoding has ten bytes before the datum; a union of several types becomes a struct of them.
schema = Path(os.environ["SCHEMA"]).read_text(encoding="utf-8")
message = from_avro(F.expr("substring(value, 11)"), schema)
reports = records.select("timestamp", message.alias("m")).select("timestamp", "m.topic", "m.key", "m.fields")
fresh = (
    reports.withColumn("hash", F.xxhash64(F.array_sort(F.map_entries("fields"))))
    .withWatermark("timestamp", "60 seconds")
    .dropDuplicatesWithinWatermark(["topic", "key", "hash"])
)
news = F.transform_values("fields", lambda _, value: F.coalesce(*(value[f"member{n}"].cast("string") for n in range(5))))
(
    fresh.select(F.to_json(F.struct("topic", "key", news.alias("news"))).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP"])
    .option("topic", os.environ["OUTPUT"])
    .option("checkpointLocation", os.environ["STATE_DIR"])
    .start()
    .awaitTermination()
)
