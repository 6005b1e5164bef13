"""Faust: an agent and a table. The runner starts one worker for each core. A table has no time to live: events stay."""

import io
import json
import os
from pathlib import Path

import faust
from fastavro import schemaless_reader
from fastavro.schema import load_schema

SCHEMA = load_schema(Path(os.environ["SCHEMA"]))

app = faust.App(
    os.environ["GROUP"],
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    store="rocksdb://?driver=rocksdict",
    datadir=os.environ["STATE_DIR"],
    topic_partitions=2,
    consumer_auto_offset_reset="earliest",
    producer_linger=0.005,
    web_enabled=False,
)
inputs = app.topic(*os.environ["TOPICS"].split(","), key_type=bytes, value_type=bytes, value_serializer="raw")
output = app.topic(os.environ["OUTPUT"], value_type=bytes, value_serializer="raw")
events = app.Table("events", default=dict, partitions=2)


@app.agent(inputs)
async def merge(records):
    async for event, value in records.items():
        report = schemaless_reader(io.BytesIO(value[10:]), SCHEMA, None)
        name = event.decode()
        known = events[name]
        news = {field: told for field, told in report["fields"].items() if field not in known}
        if news:
            events[name] = known | news
            told = {"topic": report["topic"], "key": report["key"], "news": news}
            output.send_soon(key=event, value=json.dumps(told).encode())
