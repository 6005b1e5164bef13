"""What a worker keeps between batches, although Spark sends it the function anew with each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.cloudpickle import dumps, loads

from streaming.batch.rows import COLUMNS, KINDS
from streaming.batch.store import Store
from streaming.broker.state import Rules
from streaming.model.windows import Clocked
from streaming.spark import at_hand, events, windows
from streaming.spark.events import BucketSpec
from streaming.windows import state_codec
from streaming.wire.clock import Tick, TickerIdentity, encode_tick
from streaming.wire.inputs import TICK
from streaming.wire.offers import clock_record
from tidings import names


class State:
    """As Spark keeps it for a bucket."""

    def __init__(self) -> None:
        self.kept: bytes | None = None

    @property
    def exists(self) -> bool:
        return self.kept is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.kept is not None
        return (self.kept,)

    def update(self, row: tuple[bytes]) -> None:
        (self.kept,) = row


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[BucketSpec]:
    yield BucketSpec(TickerIdentity("test", "s"), str(tmp_path / "control"), str(tmp_path), "s", Rules(buckets=1))
    at_hand.forget_all()


def sent(function: Any) -> Any:
    """The function as it comes to a worker, once for each task."""
    return loads(dumps(function))


def tick(spec: BucketSpec, at_ms: int) -> pd.DataFrame:
    value = encode_tick(Tick(str(spec.ticker.service), 0, (names.partition_name(names.CLOCK, 0),)))
    cells = (KINDS.index(TICK), names.CLOCK, 0, at_ms, at_ms, None, value, 0)
    return pd.DataFrame([dict(zip(COLUMNS, cells, strict=True))])


def test_a_bucket_is_read_once(spec: BucketSpec, monkeypatch: pytest.MonkeyPatch):
    read: list[object] = []
    original = Store._all
    monkeypatch.setattr(Store, "_all", lambda store, note: read.append(note) or original(store, note))
    state = State()
    for at_ms in range(1_000, 5_000, 1_000):
        list(sent(events.bucket_function(spec))((0,), [tick(spec, at_ms)], state))
    assert read == [], "it was at hand from the first batch on"
    at_hand.forget_all()
    list(sent(events.bucket_function(spec))((0,), [tick(spec, 6_000)], state))
    assert len(read) == 1


def test_so_are_windows(spec: BucketSpec, monkeypatch: pytest.MonkeyPatch):
    read: list[bytes] = []
    original = state_codec.decode
    monkeypatch.setattr(state_codec, "decode", lambda kept: read.append(kept) or original(kept))
    state = State()
    for at_ms in range(1_000, 5_000, 1_000):
        record = clock_record("test", Clocked(0, 1, at_ms, ((0, 0),)))
        frame = pd.DataFrame([{"offset": at_ms, "key": record.key, "value": record.value}])
        list(sent(windows.bucket_function(spec))((0,), [frame], state))
    assert read == []


def test_what_failed_in_the_middle_is_not_at_hand(spec: BucketSpec, monkeypatch: pytest.MonkeyPatch):
    state = State()
    function = events.bucket_function(spec)
    list(sent(function)((0,), [tick(spec, 1_000)], state))
    with monkeypatch.context() as patch:
        patch.setattr(events, "process", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(sent(function)((0,), [tick(spec, 2_000)], state))
    assert at_hand.take((events.EVENTS, spec.state_dir, 0)) is None


def test_buckets_that_others_look_after_are_forgotten():
    at_hand.keep(("events", "a", 1), 0, "one")
    at_hand.keep(("events", "a", 2), 1, "two")
    at_hand.keep(("windows", "a", 2), 1, "three")
    at_hand.keep(("events", "a", 3), 2, "four")
    at_hand.keep(("events", "a", 4), None, "five")
    at_hand.forget_others(("events", "a", 1), lambda partition: partition == 1)
    assert at_hand.take(("events", "a", 1)) == "one"
    assert at_hand.take(("events", "a", 2)) is None
    assert at_hand.take(("windows", "a", 2)) == "three"
    assert at_hand.take(("windows", "a", 2)) is None, "it was taken away"
    assert at_hand.take(("events", "a", 3)) == "four", "nobody else looks after it"
    assert at_hand.take(("events", "a", 4)) == "five"
