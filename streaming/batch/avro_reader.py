"""Publications in Avro, a batch of them at once: every message is read in step with all others, from one buffer.

First the topic of each, then the key of each, and so on, with a position for each message. What is out of the ordinary in any way
is not *plain* and is left to `streaming.wire.message`, which opens it alone. So a message is plain only if that would take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from streaming.batch.rows import NO_SOURCE, NOT_SAID, Bools, Ints, starts_of
from streaming.batch.texts import BOOLEAN, DOUBLE, LIST, LONG, NULL, STRING, Texts, TextSpans, no_texts, nowhere
from streaming.wire.avro import HEADER_BYTES, schema
from streaming.wire.message import MessageLimits
from tidings.values import SOURCE_SEED

_VARINT_BYTES = 10
_FEW = 8
_MANY_FIELDS, _MANY_ITEMS = 32, 16
"""Beyond so many fields or items, a few messages are opened one by one sooner than read in step with nobody."""
_PADDING = bytes(2 * _VARINT_BYTES)

_header = np.frombuffer(schema("message").header, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class AvroColumns:
    """Of each message whether it is plain, and if it is, what it says."""

    plain: Bools
    published_ms: Ints
    source: Ints
    facts: Ints
    """A number for each fact, message after message."""
    count: Ints
    """How many facts each message states."""
    texts: Texts
    """Where all that they say stands."""


def read_avro(values: Sequence[bytes], events: Ints, limits: MessageLimits) -> AvroColumns:
    """Read them all. ``events`` has the number of the event that each is about, which the numbers of its facts start from.

    Equal facts that are encoded alike have equal numbers; a fact that somebody encodes otherwise has another, which costs a look.
    """
    if not values:
        none = np.empty(0, dtype=np.int64)
        return AvroColumns(none.astype(bool), none, none, none, none, no_texts())
    reader = _Reader(values, limits)
    topic = reader.name(reader.rows, limits.key_bytes)
    key = reader.name(reader.rows, limits.key_bytes)
    facts = reader.fields(limits)
    source = reader.optional_name(limits.key_bytes)
    message_id = reader.optional_name(limits.key_bytes)
    published_ms = reader.optional_time()
    reader.refuse(reader.rows, reader.at[reader.rows] != reader.end[reader.rows])
    reader.check_texts()
    plain = reader.good
    facts = Spans(*(column[plain[facts.message]] for column in facts))
    count = np.bincount(facts.message, minlength=len(values))
    published_ms = np.where(plain, published_ms, NOT_SAID)
    return AvroColumns(
        plain=plain,
        published_ms=published_ms,
        source=_sources(reader.buffer, source, plain),
        facts=_numbers(reader.buffer, facts, events),
        count=count,
        texts=Texts(
            buffer=reader.buffer,
            topic=_spread(topic, len(values)),
            key=_spread(key, len(values)),
            source=_spread(source, len(values)),
            id=_spread(message_id, len(values)),
            published_ms=published_ms,
            facts=TextSpans(facts.start, facts.stop),
            starts=starts_of(count),
        ),
    )


def _spread(found: Spans, messages: int) -> TextSpans:
    """A text for each message, where not all have one."""
    spans = nowhere(messages)
    spans.start[found.message], spans.stop[found.message] = found.start, found.stop
    return spans


class Spans(NamedTuple):
    """Slices of the buffer, and the messages that they are of."""

    message: Ints
    start: Ints
    stop: Ints


class _Reader:
    """Positions in a buffer, one for each message. ``good`` are those that are plain so far."""

    def __init__(self, values: Sequence[bytes], limits: MessageLimits) -> None:
        self.buffer = b"".join((*values, _PADDING))
        self.bytes = np.frombuffer(self.buffer, dtype=np.uint8)
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        self.end = np.cumsum(lengths)
        start = self.end - lengths
        self.at = start + HEADER_BYTES
        self.good = (lengths > HEADER_BYTES) & (lengths <= limits.message_bytes)
        self.good &= (self.bytes[np.minimum(start, self.end[-1])[:, None] + np.arange(HEADER_BYTES)] == _header).all(axis=1)
        self.rows = np.flatnonzero(self.good)
        """Messages that are still read."""
        self._texts: list[Spans] = []

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
        self._texts.append(found)
        return found

    def name(self, rows: Ints, most_bytes: int) -> Spans:
        """A text that is not empty."""
        found = self.text(rows)
        length = found.stop - found.start
        self.refuse(rows, (length < 1) | (length > most_bytes))
        return found

    def optional_name(self, most_bytes: int) -> Spans:
        """A name of those who have one."""
        found = self.name(self._chosen(), most_bytes)
        here = self.good[found.message]
        return Spans(*(column[here] for column in found))

    def optional_time(self) -> Ints:
        rows = self._chosen()
        found = np.full(len(self.good), NOT_SAID, dtype=np.int64)
        found[rows] = self.varint(rows)
        self.refuse(rows, found[rows] < 0)
        return found

    def _chosen(self) -> Ints:
        """Of a union of nothing and something, the messages that have something."""
        rows = self.rows
        branch = self.varint(rows)
        self.refuse(rows, (branch < 0) | (branch > 1))
        found: Ints = rows[(branch == 1) & self.good[rows]]
        return found

    # ---- fields -------------------------------------------------------------------------------------------------------

    def fields(self, limits: MessageLimits) -> Spans:
        """All fields of all messages that have them in one block, as nearly all do: from the start of the name to the end of the
        value, message by message."""
        rows = self.rows
        left = np.zeros(len(self.good), dtype=np.int64)
        left[rows] = self.varint(rows)
        self.refuse(rows, (left[rows] < 0) | (left[rows] > limits.fields))
        some = rows[(left[rows] > 0) & self.good[rows]]
        found: list[Spans] = []
        names: list[Spans] = []
        rows = some
        while len(rows):
            if len(found) >= _MANY_FIELDS and len(rows) < _FEW:
                self.refuse(rows, np.ones(len(rows), dtype=bool))
                break
            start = self.at[rows]
            names.append(self.name(rows, limits.key_bytes))
            self._value(rows)
            found.append(Spans(rows, start, self.at[rows]))
            left[rows] -= 1
            rows = rows[(left[rows] > 0) & self.good[rows]]
        self._end_of_block(some)
        self._refuse_twins(_joined(names))
        facts = _joined(found)
        order = np.argsort(facts.message, kind="stable")
        return Spans(*(column[order] for column in facts))

    def _end_of_block(self, rows: Ints) -> None:
        """Nothing follows a block: what has several is opened."""
        rows = rows[self.good[rows]]
        self.refuse(rows, self.varint(rows) != 0)

    def _value(self, rows: Ints) -> None:
        rows = rows[self.good[rows]]
        kind = self.varint(rows)
        self.refuse(rows, (kind < NULL) | (kind > LIST))
        if len(of := rows[kind == STRING]):
            self.text(of[self.good[of]])
        if len(of := rows[kind == LONG]):
            self.varint(of)
        if len(of := rows[kind == BOOLEAN]):
            self._fixed(of, 1)
            self.refuse(of, self.bytes[np.minimum(self.at[of] - 1, self.end[-1])] > 1)
        if len(of := rows[kind == DOUBLE]):
            self._fixed(of, 8)
            high = self.bytes[self.at[of] - 1] & 0x7F, self.bytes[self.at[of] - 2] & 0xF0
            self.refuse(of, (high[0] == 0x7F) & (high[1] == 0xF0))  # not finite
        if len(of := rows[kind == LIST]):
            self._list(of)

    def _fixed(self, rows: Ints, size: int) -> None:
        self.bytes_of(rows, np.full(len(rows), size, dtype=np.int64))

    def _list(self, rows: Ints) -> None:
        left = np.zeros(len(self.good), dtype=np.int64)
        left[rows] = self.varint(rows)
        self.refuse(rows, left[rows] < 0)
        some = rows = rows[(left[rows] > 0) & self.good[rows]]
        read = 0
        while len(rows):
            if read >= _MANY_ITEMS and len(rows) < _FEW:
                self.refuse(rows, np.ones(len(rows), dtype=bool))
                break
            self.text(rows)
            left[rows] -= 1
            read += 1
            rows = rows[(left[rows] > 0) & self.good[rows]]
        self._end_of_block(some)

    # ---- what is looked at in the end ---------------------------------------------------------------------------------

    def _refuse_twins(self, names: Spans) -> None:
        """A name that stands twice in one message: of two values only one counts, and their order says which."""
        length = names.stop - names.start
        begin = self.bytes[np.minimum(names.start[:, None] + np.arange(8), len(self.bytes) - 1)]
        begin = np.where(np.arange(8) < length[:, None], begin, 0).astype(np.uint8).view(np.uint64)[:, 0]
        order = np.lexsort((begin, length, names.message))
        by_name = [column[order] for column in (names.message, length, begin)]
        alike = np.logical_and.reduce([column[1:] == column[:-1] for column in by_name])
        suspects = np.unique(by_name[0][1:][alike])
        if len(suspects):
            seen: dict[int, set[bytes]] = {}
            few = np.isin(names.message, suspects)
            for message, start, stop in zip(*(column[few].tolist() for column in names), strict=True):
                named, name = seen.setdefault(message, set()), self.buffer[start:stop]
                if name in named:
                    self.refuse(np.array([message]), np.array([True]))
                named.add(name)

    def check_texts(self) -> None:
        """What is not ASCII must be UTF-8."""
        texts = _joined(self._texts)
        beyond = np.zeros(len(self.bytes) + 1, dtype=np.int64)
        np.cumsum(self.bytes & 0x80 != 0, out=beyond[1:])
        other = np.flatnonzero((beyond[texts.stop] != beyond[texts.start]) & self.good[texts.message])
        for message, start, stop in zip(*(column[other].tolist() for column in texts), strict=True):
            try:
                self.buffer[start:stop].decode()
            except UnicodeDecodeError:
                self.good[message] = False


def _joined(parts: Sequence[Spans]) -> Spans:
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Spans(none, none, none)
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _sources(buffer: bytes, named: Spans, plain: Bools) -> Ints:
    found = np.full(len(plain), NO_SOURCE, dtype=np.int64)
    number = xxhash.xxh64_intdigest
    numbers = [number(buffer[a:b], SOURCE_SEED) for a, b in zip(named.start.tolist(), named.stop.tolist(), strict=True)]
    found[named.message] = _signed(numbers)
    found[~plain] = NO_SOURCE
    return found


def _numbers(buffer: bytes, facts: Spans, events: Ints) -> Ints:
    seeds = events[facts.message].view(np.uint64).tolist()
    number = xxhash.xxh3_64_intdigest
    return _signed([number(buffer[a:b], s) for a, b, s in zip(facts.start.tolist(), facts.stop.tolist(), seeds, strict=True)])


def _signed(numbers: list[int]) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.uint64).view(np.int64)
