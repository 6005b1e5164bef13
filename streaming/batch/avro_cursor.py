"""Positions in a buffer of messages in Avro, one for each message: what is read, is read of all of them in step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streaming.batch.arrays import NOT_SAID, Bools, Ints
from streaming.wire.avro import HEADER_BYTES, schema
from streaming.wire.message import MessageLimits

_VARINT_BYTES = 10
_PADDING = bytes(2 * _VARINT_BYTES)
WORD = 8
HEADER = np.frombuffer(schema("message").header, dtype=np.uint8)


class Spans(NamedTuple):
    """Slices of the buffer, and the messages that they are of."""

    message: Ints
    start: Ints
    stop: Ints


def joined(parts: Sequence[Spans]) -> Spans:
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Spans(none, none, none)
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Cursor:
    """Positions in a buffer, one for each message. ``good`` are those that are plain so far."""

    def __init__(self, values: Sequence[bytes], limits: MessageLimits) -> None:
        self.buffer = b"".join((*values, _PADDING))
        self.bytes = np.frombuffer(self.buffer, dtype=np.uint8)
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        self.end = np.cumsum(lengths)
        start = self.end - lengths
        self.at = start + HEADER_BYTES
        self.body = self.at.copy()
        self.words = np.ndarray(len(self.buffer) - WORD + 1, dtype="<u8", buffer=self.buffer, strides=(1,))
        """The eight bytes from each position on."""
        self.good = (lengths > HEADER_BYTES) & (lengths <= limits.message_bytes)
        self.are_headed = (self.bytes[np.minimum(start, self.end[-1])[:, None] + np.arange(HEADER_BYTES)] == HEADER).all(axis=1)
        self.good &= self.are_headed
        self.rows = np.flatnonzero(self.good)
        """Messages that are still read."""
        self.texts: list[Spans] = []

    def refuse(self, rows: Ints, bad: Bools) -> None:
        """These are not plain: nobody reads on in them."""
        if bad.any():
            self.good[rows[bad]] = False
            self.at[rows[bad]] = self.end[rows[bad]]
            self.rows = self.rows[self.good[self.rows]]

    # ---- what a message is made of ------------------------------------------------------------------------------------

    def varint(self, rows: Ints) -> Ints:
        """A whole number of each."""
        at = self.at[rows]
        byte = self.bytes[at]
        bits = (byte & 0x7F).astype(np.uint64)
        at += 1
        bad = np.zeros(len(rows), dtype=bool)
        more = np.flatnonzero(byte & 0x80)
        for number in range(1, _VARINT_BYTES):
            if not len(more):
                break
            byte = self.bytes[at[more]]
            bits[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            at[more] += 1
            if number == _VARINT_BYTES - 1:
                bad[more] = byte > 1  # beyond 64 bits
            more = more[(byte & 0x80) != 0]
        self.at[rows] = at
        self.refuse(rows, bad | (at > self.end[rows]))
        value: Ints = (bits >> np.uint64(1)).astype(np.int64) ^ -(bits & np.uint64(1)).astype(np.int64)
        return value

    def bytes_of(self, rows: Ints, length: Ints) -> Spans:
        start = self.at[rows]
        fits = (length >= 0) & (length <= self.end[rows] - start)
        stop = start + np.where(fits, length, 0)
        self.at[rows] = stop
        self.refuse(rows, ~fits)
        return Spans(rows, start, stop)

    def text(self, rows: Ints) -> Spans:
        """A text of each, which is looked at in the end."""
        found = self.bytes_of(rows, self.varint(rows))
        self.texts.append(found)
        return found

    def name(self, rows: Ints, most_bytes: int) -> Spans:
        """A text that is not empty."""
        found = self.text(rows)
        length = found.stop - found.start
        self.refuse(rows, (length < 1) | (length > most_bytes))
        return found

    def optional_name(self, most_bytes: int) -> Spans:
        """A name of those who have one."""
        found = self.name(self.chosen(), most_bytes)
        here = self.good[found.message]
        return Spans(*(column[here] for column in found))

    def optional_time(self) -> Ints:
        rows = self.chosen()
        found = np.full(len(self.good), NOT_SAID, dtype=np.int64)
        found[rows] = self.varint(rows)
        self.refuse(rows, found[rows] < 0)
        return found

    def chosen(self) -> Ints:
        """Of a union of nothing and something, the messages that have something."""
        rows = self.rows
        branch = self.varint(rows)
        self.refuse(rows, (branch < 0) | (branch > 1))
        found: Ints = rows[(branch == 1) & self.good[rows]]
        return found
