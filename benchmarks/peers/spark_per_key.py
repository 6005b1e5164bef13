"""Plain Spark, stateful: one group for each event, as the guide to `applyInPandasWithState` shows it."""

import json
import os
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming.state import GroupStateTimeout

STORE = "spark.sql.streaming.stateStore"


def merge(event, frames, state):
    if state.hasTimedOut:
        state.remove()
        return
    known = json.loads(state.get[0]) if state.exists else {}
    told = []
    for fields in pd.concat(frames).sort_values("offset")["fields"]:
        news = {name: value for name, value in fields.items() if name not in known}
        if news:
            known |= news
            told.append(json.dumps({"topic": event[0], "key": event[1], "news": news}))
    if told:
        state.update((json.dumps(known),))
        yield pd.DataFrame({"value": told})
    state.setTimeoutDuration(60_000)


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
fields = F.transform_values("m.fields", lambda _, value: F.coalesce(*(value[f"member{n}"].cast("string") for n in range(5))))
reports = records.select("offset", message.alias("m")).select("offset", "m.topic", "m.key", fields.alias("fields"))
(
    reports.groupBy("topic", "key")
    .applyInPandasWithState(merge, "value string", "known string", "append", GroupStateTimeout.ProcessingTimeTimeout)
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["BOOTSTRAP"])
    .option("topic", os.environ["OUTPUT"])
    .option("checkpointLocation", os.environ["STATE_DIR"])
    .start()
    .awaitTermination()
)
