"""What a tick says of how far a service is: only what has been read in every partition, by a batch that has ended."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from service.clock.ticker import Ticker
from streaming.model.inputs import Marked, Progressed, Ticked
from streaming.wire.clock import TickerIdentity
from streaming.wire.inputs import read
from streaming.wire.message import MessageLimits
from streaming.wire.record import Record
from testing.service import wait_for

GOLDEN = Path(__file__).parents[2] / "streaming" / "wire" / "golden" / "clock.json"


class Delivered:
    """A record that a producer has written."""

    def __init__(self, topic: str, partition: int, offset: int, append_ms: int, kind: int) -> None:
        self._said = topic, partition, offset, (kind, append_ms)

    def topic(self) -> str:
        return self._said[0]

    def partition(self) -> int:
        return self._said[1]

    def offset(self) -> int:
        return self._said[2]

    def timestamp(self) -> tuple[int, int]:
        return self._said[3]


class Producer:
    """Writes to partitions in memory, at a time that is moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.kind = TIMESTAMP_LOG_APPEND_TIME
        self.ticks: list[dict[str, Any]] = []
        self.written: list[tuple[str, bytes]] = []
        self._offsets: dict[tuple[str, int], int] = {}

    def produce(self, topic: str, value: Any, key: Any = None, *, partition: int, on_delivery: Any = None) -> None:
        assert (key is not None) == (topic == "pulse")
        offset = self._offsets[topic, partition] = self._offsets.get((topic, partition), -1) + 1
        self.written.append((topic, value))
        if topic == "clock":
            self.ticks.append(json.loads(value))
        if on_delivery:
            on_delivery(None, Delivered(topic, partition, offset, self.now_ms, self.kind))

    def poll(self, _: float) -> None: ...

    def flush(self, *_: float) -> None: ...


class Connection:
    def __init__(self) -> None:
        self.made = Producer()

    def producer(self, **_: Any) -> Producer:
        return self.made


def ticking() -> tuple[Ticker, Producer, dict[str, int]]:
    return ticking_each(1000)


def ticking_each(tick_ms: int) -> tuple[Ticker, Producer, dict[str, int]]:
    connection, ends = Connection(), dict[str, int]()
    ticker = Ticker(connection, TickerIdentity("svc", "secret"), tick_ms, frozenset({"b1"}))  # type: ignore[arg-type]
    ticker.tell_progress(lambda: ends)
    ticker.adopt(7, {"publish.b1": 2})
    return ticker, connection.made, ends


def tick(ticker: Ticker, producer: Producer) -> tuple[int | None, int]:
    ticker.tick()
    producer.now_ms += 1_000
    return producer.ticks[-1]["done_ms"], producer.ticks[-1]["done_version"]


def test_nothing_is_done_before_a_batch_has_read_the_marks_in_all_partitions() -> None:
    ticker, producer, ends = ticking()
    assert tick(ticker, producer) == (None, 0)
    ends.update({"clock-0": 1, "publish.b1-0": 1})
    assert tick(ticker, producer) == (None, 0), "one partition is behind"
    ends["publish.b1-1"] = 1
    assert tick(ticker, producer) == (1_000, 7)


def test_the_last_tick_that_was_read_counts_and_the_version_of_its_marks() -> None:
    ticker, producer, ends = ticking()
    for _ in range(3):
        tick(ticker, producer)
    ticker.adopt(9, {"publish.b1": 2})
    ends.update({"clock-0": 2, "publish.b1-0": 5, "publish.b1-1": 2})
    assert tick(ticker, producer) == (2_000, 7)
    ends.update({"clock-0": 9, "publish.b1-0": 9, "publish.b1-1": 9})
    assert tick(ticker, producer) == (4_000, 9)
    assert tick(ticker, producer) == (5_000, 9)


def test_times_that_are_not_the_logs_say_nothing() -> None:
    ticker, producer, ends = ticking()
    producer.kind = TIMESTAMP_CREATE_TIME
    ends.update({"clock-0": 9, "publish.b1-0": 9, "publish.b1-1": 9})
    tick(ticker, producer)
    assert tick(ticker, producer) == (None, 0)


def test_a_tick_reads_as_it_was_written() -> None:
    ticker, producer, ends = ticking()
    tick(ticker, producer)
    ends.update({"clock-0": 1, "publish.b1-0": 1, "publish.b1-1": 1})
    tick(ticker, producer)
    record = Record("clock", 0, 1, 2_000, None, json.dumps(producer.ticks[-1]).encode())
    partitions = ("clock-0", "publish.b1-0", "publish.b1-1")
    said, mark = Progressed(2_000, "svc", frozenset({"b1"}), 1_000, 7), Marked("clock-0", 2_000)
    assert read(record, MessageLimits(), TickerIdentity("svc", "secret")) == [Ticked(2_000, 7, partitions), said, mark]
    assert read(record, MessageLimits(), TickerIdentity("another", "secret")) == [said, mark]


def test_marks_and_ticks_are_those_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_001_000_000_000)
    connection: Any = Connection()
    ticker = Ticker(connection, TickerIdentity("s1", "secret"), 1000, frozenset({"b2", "b1"}))
    ticker._done = (1_800_000_000_123, 8)
    ticker.adopt(9, {"publish.b1": 1})
    ticker.tick()
    ticker.stop()
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    expected = [(golden[name]["kafka_topic"], golden[name]["value"].encode()) for name in ("mark", "tick", "last tick")]
    assert [each for each in connection.made.written if each[0] != "pulse"] == expected


def test_who_hands_on_says_so_and_marks_no_link() -> None:
    connection: Any = Connection()
    ticker = Ticker(connection, TickerIdentity("s1", "secret"), 1000, hands_on=True)
    ticker.adopt(9, {"publish.b1": 1, "link.b1.b2": 1})
    ticker.tick()
    (tick,) = connection.made.ticks
    assert (tick["hands_on"], tick["partitions"]) == (True, ["clock-0", "publish.b1-0"])
    assert "link.b1.b2" not in [kafka_topic for kafka_topic, _ in connection.made.written]


def test_a_tick_that_is_wanted_comes_as_soon_as_the_last_one_has_been_read() -> None:
    ticker, producer, ends = ticking_each(60_000)
    producer.now_ms = time.time_ns() // 1_000_000
    ticker.rest()
    ticker.start()
    try:
        wait_for("the tick of the new version", lambda: producer.ticks, 5)
        ticker.wish("s/1", producer.now_ms + 50)
        time.sleep(0.5)
        assert len(producer.ticks) == 1, "it would only stand behind the other"
        ends.update({"clock-0": 1, "publish.b1-0": 1, "publish.b1-1": 1})
        wait_for("the tick that was wanted", lambda: len(producer.ticks) == 2, 5)
    finally:
        ticker.stop()
