"""Quix Streams: state by record key, which is topic and key of the message. The runner starts one instance for each core."""

import io
import os
from datetime import timedelta
from pathlib import Path

from fastavro import schemaless_reader
from fastavro.schema import load_schema
from quixstreams import Application, State
from quixstreams.models.serializers import Deserializer

SCHEMA = load_schema(Path(os.environ["SCHEMA"]))
WINDOW = timedelta(seconds=60)


class SingleObject(Deserializer):
    def __call__(self, value, **_):
        return schemaless_reader(io.BytesIO(value[10:]), SCHEMA, None)


def merge(report, state: State):
    known = state.get("known", {})
    news = {name: value for name, value in report["fields"].items() if name not in known}
    if not news:
        return None
    state.set("known", known | news, ttl=WINDOW)
    return {"topic": report["topic"], "key": report["key"], "news": news}


app = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group=os.environ["GROUP"],
    auto_offset_reset="earliest",
    state_dir=os.environ["STATE_DIR"],
    producer_extra_config={"linger.ms": 5},
    loglevel="WARNING",
)
inputs = [app.dataframe(app.topic(name, value_deserializer=SingleObject())) for name in os.environ["TOPICS"].split(",")]
output = app.topic(os.environ["OUTPUT"], value_serializer="json")
# Each by itself: joined, each would wait for what the other, which is silent, might still have to say.
for reports in inputs:
    reports.apply(merge, stateful=True).filter(lambda told: told is not None).to_topic(output)
app.run()
