"""Bytewax: a stateful step by key. The runner starts one process for each core, a recovery store, a snapshot every 10 s."""

import io
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulLogic
from fastavro import schemaless_reader
from fastavro.schema import load_schema

SCHEMA = load_schema(Path(os.environ["SCHEMA"]))
WINDOW = timedelta(seconds=60)


def read(record):
    report = schemaless_reader(io.BytesIO(record.value[10:]), SCHEMA, None)
    return f"{report['topic']}/{report['key']}", report


class Event(StatefulLogic):
    def __init__(self, resumed):
        self.known, self.end = resumed or ({}, datetime.now(UTC) + WINDOW)

    def on_item(self, report):
        news = {name: value for name, value in report["fields"].items() if name not in self.known}
        if not news:
            return (), StatefulLogic.RETAIN
        self.known |= news
        return ({"topic": report["topic"], "key": report["key"], "news": news},), StatefulLogic.RETAIN

    def on_notify(self):
        return (), StatefulLogic.DISCARD

    def notify_at(self):
        return self.end

    def snapshot(self):
        return dict(self.known), self.end


flow = Dataflow("merge")
brokers = [os.environ["BOOTSTRAP"]]
records = kop.input("in", flow, brokers=brokers, topics=os.environ["TOPICS"].split(","))
reports = op.map("read", records.oks, read)
told = op.stateful("merge", reports, Event)
values = op.map("write", told, lambda item: KafkaSinkMessage(item[0].encode(), json.dumps(item[1]).encode()))
kop.output("out", values, brokers=brokers, topic=os.environ["OUTPUT"], add_config={"linger.ms": "5"})
