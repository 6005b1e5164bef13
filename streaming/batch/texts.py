"""What plain messages in Avro say, put together from where their texts and facts stand in the buffer they were read from.

The reader has found every text and fact of a batch; only those of messages that are opened become values. Most facts were met
before, about whichever event: a fact has a name and a value that follow from its bytes, so they are looked up.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from streaming.batch.arrays import Ints, slices
from tidings.message import Message
from tidings.values import Value

NULL, BOOLEAN, LONG, DOUBLE, STRING, LIST = range(6)
"""The kinds of a field's value, in the order of the union in `message.avsc`."""

_MOST_KNOWN = 65_536
_SHORT = 128
"""Facts of more bytes are not kept: few are met again."""

Fact: TypeAlias = tuple[str, Value]

_known: dict[bytes, Fact] = {}


class TextSpans(NamedTuple):
    """Of each message, where one of its texts stands; nowhere (-1) if it has none."""

    start: Ints
    stop: Ints


@dataclass(frozen=True, slots=True)
class Texts:
    """Plain messages of a batch, by the numbers they were read under."""

    buffer: bytes
    topic: TextSpans
    key: TextSpans
    source: TextSpans
    id: TextSpans
    published_ms: Ints
    """Negative where it is not said."""
    facts: TextSpans
    """Of all messages, one after the other."""
    starts: Ints
    """Where in ``facts`` those of each message start; one more than there are messages."""

    def messages(self, numbers: Ints) -> list[Message]:
        """These messages, in this order."""
        buffer, known = self.buffer, _known
        cells = (*self.topic, *self.key, *self.source, *self.id, self.published_ms, np.diff(self.starts))
        at = slices(self.starts, numbers)
        facts = map(slice, self.facts.start[at].tolist(), self.facts.stop[at].tolist())
        found = []
        for t, t_end, k, k_end, s, s_end, i, i_end, ms, count in zip(*(cell[numbers].tolist() for cell in cells), strict=True):
            fields = {}
            for fact in islice(facts, count):
                name, value = known.get(buffer[fact]) or _learn(buffer[fact])
                fields[name] = value
            source = buffer[s:s_end].decode() if s >= 0 else None
            message_id = buffer[i:i_end].decode() if i >= 0 else None
            published_ms = ms if ms >= 0 else None
            found.append(Message(buffer[t:t_end].decode(), buffer[k:k_end].decode(), fields, source, message_id, published_ms))
        return found


def _learn(data: bytes) -> Fact:
    fact = read_fact(data)
    if len(data) <= _SHORT:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[data] = fact
    return fact


def read_fact(data: bytes) -> Fact:
    """Name and value of a field, as they stand in a message that was found to be whole."""
    name, at = _text(data, 0)
    kind, at = _long(data, at)
    if kind == STRING:
        return name, _text(data, at)[0]
    if kind == LONG:
        return name, _long(data, at)[0]
    if kind == DOUBLE:
        (number,) = struct.unpack_from("<d", data, at)
        return name, float(number)
    if kind == BOOLEAN:
        return name, data[at] == 1
    return name, _list(data, at) if kind == LIST else None


def _list(data: bytes, at: int) -> tuple[str, ...]:
    count, at = _long(data, at)
    items = []
    for _ in range(count):
        item, at = _text(data, at)
        items.append(item)
    return tuple(items)


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _long(data, at)
    return data[at : at + size].decode(), at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    bits = shift = 0
    while True:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return bits >> 1 ^ -(bits & 1), at
        shift += 7


def no_texts() -> Texts:
    """Of a batch without Avro."""
    nobody = nowhere(0)
    return Texts(b"", nobody, nobody, nobody, nobody, nobody.start, nobody, np.zeros(1, dtype=np.int64))


def nowhere(messages: int) -> TextSpans:
    """For texts that nobody has."""
    return TextSpans(np.full(messages, -1), np.full(messages, -1))
