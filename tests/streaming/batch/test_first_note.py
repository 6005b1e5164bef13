"""The function of a bucket, when Spark's state store has nothing of it: it begins with its seed, if there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from streaming.batch.first_note import Seed, write_seed
from streaming.batch.resplit import resplit
from streaming.batch.store import Store, read_note
from streaming.spark.events import BucketSpec, bucket_function
from streaming.world.buckets import LIMITS, SECRET, TICKER, Buckets, columns_of, log_of
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from tidings.control import snapshot_path
from tidings.registers import Bounds


class GroupState:
    """As Spark hands it over."""

    def __init__(self) -> None:
        self.get: tuple[bytes, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.get)

    def update(self, value: tuple[bytes, ...]) -> None:
        self.get = value


def test_a_bucket_begins_with_its_seed_and_tells_the_books_anew(tmp_path: Path):
    script = Script()
    script.control(topic(hold_ms=5_000), subscription("all"))
    for number in range(6):
        script.publish({"a": 1}, f"key {number}")
    first = log_of(script)
    service = Buckets(tmp_path / "old", script, 3)
    service.run(first)
    (only,) = resplit(service.all(), 1, SECRET, Bounds())
    store = Store(tmp_path / "state" / "0", SECRET, Bounds())
    write_seed(store.folder, Seed(store.save(only), [("b1", 1), ("b1", 2)]))

    state = GroupState()
    script.tick(0)
    told = batch(tmp_path, script, log_of(script)[len(first) :], state)
    books = {key: json.loads(value) for kafka_topic, key, value, _ in told if kafka_topic == "books"}
    assert {key: (each["received"], each["held"]) for key, each in books.items()} == {
        b"svc/b1/0": (6, 6),
        b"svc/b1/1": (0, 0),
        b"svc/b1/2": (0, 0),
    }
    assert len(store.open(read_note(state.get[0])).shelf) == 6

    # From here on the state store has it, and the seed does not count any more.
    write_seed(store.folder, Seed(b"nonsense"))
    seen = len(log_of(script))
    script.tick(10_000)
    told = batch(tmp_path, script, log_of(script)[seen:], state)
    assert sum(kafka_topic == "notify.all" for kafka_topic, *_ in told) == 6
    assert [key for kafka_topic, key, *_ in told if kafka_topic == "books"] == [b"svc/b1/0"]


def batch(folder: Path, script: Script, log: list[Any], state: GroupState) -> list[tuple[Any, ...]]:
    control = folder / "control"
    control.mkdir(exist_ok=True)
    for version, snapshot in script.snapshots.items():
        snapshot_path(control, version).write_text(snapshot.to_json())
    settings = BucketSpec(TICKER, str(control), str(folder / "state"), SECRET, limits=LIMITS)
    frame = pd.DataFrame(columns_of(log))
    found = list(bucket_function(settings)((0,), [frame], state))
    return [record for frame in found for record in frame.itertuples(index=False, name=None)]
