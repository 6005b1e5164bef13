"""Ticks and marks: whose they are, and what they may say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.wire.clock import MARK_START, Tick, TickerIdentity, decode_tick, encode_tick
from streaming.wire.inputs import MARK, kind_of
from streaming.wire.record import Record

OURS = TickerIdentity("s1", "secret")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COUNTS = st.integers(0, 2**60)
SAID: Any = {
    "partitions": st.lists(TEXTS).map(tuple),
    "brokers": st.none() | st.frozensets(TEXTS),
    "append_ms": COUNTS,
    "hands_on": st.booleans(),
}
TICKS = st.builds(Tick, TEXTS, COUNTS, **SAID) | st.builds(
    Tick, TEXTS, COUNTS, **SAID, ms=COUNTS, done_ms=COUNTS, done_version=COUNTS, offset=COUNTS
)


def on(kafka_topic: str, value: bytes | None) -> Record:
    return Record(kafka_topic, 0, 3, 1000, None, value)


@given(TICKS)
def test_a_tick_reads_as_it_was_written(tick: Tick) -> None:
    assert decode_tick(Record("clock", 0, tick.offset, tick.append_ms, None, encode_tick(tick))) == tick


def spoiled(**changes: Any) -> bytes:
    datum = {"service": "s1", "version": 7, "partitions": ["clock-0"], "brokers": None, "done_ms": 5, "done_version": 7} | changes
    return json.dumps({name: value for name, value in datum.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"7",
        b"\xff",
        b"[" * 100_000,
        spoiled(service=...),
        spoiled(version="new"),
        spoiled(version=...),
        spoiled(version=None),
        b'{"service": "s1", "version": 1e400, "partitions": []}',
        spoiled(partitions=...),
        spoiled(partitions=7),
        spoiled(brokers=7),
    ],
)
def test_what_is_no_tick_is_none(value: bytes | None) -> None:
    assert decode_tick(on("clock", value)) is None


@pytest.mark.parametrize("value", [spoiled(done_ms=True), spoiled(done_ms="5"), spoiled(done_version=...), spoiled(brokers=...)])
def test_who_does_not_say_all_of_how_far_it_is_says_nothing_of_it(value: bytes) -> None:
    tick = decode_tick(on("clock", value))
    assert tick is not None
    assert (tick.version, tick.done_ms, tick.done_version) == (7, None, 0)


def test_a_mark_says_its_version_to_its_own_service():
    assert OURS.version_in(OURS.mark(7)) == 7
    assert kind_of(on("publish.b1", OURS.mark(7))) == MARK


@pytest.mark.parametrize(
    "mark",
    [
        TickerIdentity("s2", "secret").mark(7),
        TickerIdentity("s1", "another secret").mark(7),
        OURS.mark(7).replace(b" 7 ", b" 8 "),
        MARK_START,
        MARK_START + b" s1 x y",
        MARK_START + b" s1 " + b"9" * 400 + b" y",
    ],
)
def test_others_marks_only_tell_the_time(mark):
    assert kind_of(on("publish.b1", mark)) == MARK
    assert OURS.version_in(mark) is None


def test_who_replays_the_log_need_not_know_the_secret():
    assert TickerIdentity("s1").version_in(OURS.mark(7)) == 7
