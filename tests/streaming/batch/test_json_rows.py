"""Rows of JSON say what the strict reader says of each message alone, and leave out what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.hashing import event_hash, fact_hashes
from streaming.batch.rows import COLUMNS, IS_MESSAGE, Rows, numbers_of, rows_of
from streaming.model.address import Address
from streaming.wire.message import MessageLimits, decode_message, encode_message
from testing.json_texts import json_messages
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.notification import Encoding

LIMITS = MessageLimits()
AVRO = encode_message(Message("t", "k", {"a": 1, "b": 2}), Encoding.AVRO)


def strictly(value: bytes) -> Message | None:
    """The message, if the strict reader takes it."""
    try:
        return decode_message(value, LIMITS)
    except BadMessage:
        return None


def number_of(message: Message | None) -> int:
    return event_hash("s", Address("b1", message.topic, message.key)) if message else 7


def read(values: Sequence[bytes], events: Sequence[int]) -> Rows:
    cells = [(IS_MESSAGE, "publish.b1", 0, n, n, None, *each) for n, each in enumerate(zip(values, events, strict=True))]
    return rows_of(dict(zip(COLUMNS, zip(*cells, strict=True), strict=True)), LIMITS, "s")


@given(st.lists(json_messages() | st.just(AVRO), min_size=1, max_size=8), st.data())
def test_rows_are_what_the_strict_reader_finds(values: list[bytes], data: st.DataObject) -> None:
    taken = [strictly(value) for value in values]
    rightly = [data.draw(st.integers(0, 4)) > 0 for _ in values]
    events = [number_of(each) if right else 9 for each, right in zip(taken, rightly, strict=True)]
    rows = read(values, events)
    for index, (value, message, right) in enumerate(zip(values, taken, rightly, strict=True)):
        assert rows.plain[index] == (message is not None and (right or value is AVRO))
        if message and rows.plain[index] and value is not AVRO:
            assert repr(rows.message[index]) == repr(message)
            assert (rows.source[index], rows.published_ms[index]) == numbers_of(message)
            facts = rows.facts[rows.facts_of(np.array([index]))].tolist()
            assert facts == fact_hashes(events[index], message.fields)
