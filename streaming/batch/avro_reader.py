"""Publications in Avro, a batch of them at once: every message is read in step with all others, from one buffer.

First the topic of each, then the key of each, and so on, with a position for each message. What is out of the ordinary in any way
is not *plain* and is left to `streaming.wire.message`, which opens it alone. So a message is plain only if that would take it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import xxhash

from streaming.batch.arrays import NO_SOURCE, NOT_SAID, Bools, Ints, starts_of
from streaming.batch.avro_cursor import HEADER, WORD, Cursor, Spans, joined
from streaming.batch.fact_numbers import LEFT, fact_numbers
from streaming.batch.texts import BOOLEAN, DOUBLE, LIST, LONG, NULL, STRING, Texts, TextSpans, no_texts, nowhere
from streaming.wire.message import MessageLimits
from tidings.values import SOURCE_SEED

_FEW = 8
_MANY_FIELDS, _MANY_ITEMS = 32, 16
"""Beyond so many fields or items, a few messages are opened one by one sooner than read in step with nobody."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


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


def read_avro(values: Sequence[bytes], events: Ints, limits: MessageLimits, secret: str) -> AvroColumns:
    """Read them all. ``events`` has the number of the event that each is about, which the numbers of its facts start from.

    Equal facts that are encoded alike have equal numbers; a fact that somebody encodes otherwise has another, which costs a look.
    """
    if not values:
        none = np.empty(0, dtype=np.int64)
        return AvroColumns(none.astype(bool), none, none, none, none, no_texts())
    reader = _Reader(values, limits)
    topic = reader.name(reader.rows, limits.key_bytes)
    key = reader.name(reader.rows, limits.key_bytes)
    fields = reader.fields(limits)
    source = reader.optional_name(limits.key_bytes)
    message_id = reader.optional_name(limits.key_bytes)
    said_ms = reader.optional_time()
    reader.refuse(reader.rows, reader.at[reader.rows] != reader.end[reader.rows])
    reader.check_texts()
    plain = reader.good
    published_ms = np.where(plain, said_ms, NOT_SAID)
    facts = Spans(*(column[plain[fields.message]] for column in fields))
    count = np.bincount(facts.message, minlength=len(values))
    return AvroColumns(
        plain=plain,
        published_ms=published_ms,
        source=_sources(reader.buffer, source, plain),
        facts=fact_numbers(reader.buffer, reader.words, facts, events, secret),
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


class _Reader(Cursor):
    """Reads the fields of messages, and sees in the end whether names and texts are as they must be."""

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
        self._refuse_twins(names)
        facts = joined(found)
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

    def _refuse_twins(self, names: Sequence[Spans]) -> None:
        """A name that stands twice in one message: of two values only one counts, and their order says which.

        ``names`` has the first of each message, then the second of those that have two, and so on.
        """
        if len(names) < 2:
            return
        looks = np.tile(-1 - np.arange(len(names)), (len(self.good), 1))  # no two alike where there is none
        for number, spans in enumerate(names):
            looks[spans.message, number] = self._look(spans)
        looks.sort(axis=1)
        suspects = np.flatnonzero((looks[:, 1:] == looks[:, :-1]).any(axis=1))
        if len(suspects):
            self._compare(suspects, joined(names))

    def _look(self, names: Spans) -> Ints:
        """A number for each name, the same for the same name and mostly another for others; not negative."""
        length = names.stop - names.start
        few = np.minimum(length, WORD)
        begin = self.words[names.start] & LEFT[few]
        end = self.words[names.stop - few] & LEFT[few]
        mixed = (begin * _MIX ^ end) * _MIX ^ length.astype(np.uint64)
        found: Ints = (mixed >> np.uint64(1)).astype(np.int64)
        return found

    def _compare(self, messages: Ints, names: Spans) -> None:
        seen: dict[int, set[bytes]] = {}
        few = np.isin(names.message, messages)
        for message, start, stop in zip(*(column[few].tolist() for column in names), strict=True):
            named, name = seen.setdefault(message, set()), self.buffer[start:stop]
            if name in named:
                self.refuse(np.array([message]), np.array([True]))
            named.add(name)

    def check_texts(self) -> None:
        """What is not ASCII must be UTF-8."""
        other = self.bytes > 0x7F
        if np.count_nonzero(other) == len(self.good) * np.count_nonzero(HEADER > 0x7F) and self.are_headed.all():
            return  # only the headers have such bytes, as it mostly is
        beyond = np.flatnonzero(other)
        message = np.searchsorted(self.end, beyond, side="right")  # what is behind the last is padding, and ASCII
        suspect = np.zeros(len(self.good), dtype=bool)
        suspect[message[beyond >= self.body[message]]] = True
        texts = joined(self.texts)
        looked_at = suspect[texts.message] & self.good[texts.message]
        for number, start, stop in zip(*(column[looked_at].tolist() for column in texts), strict=True):
            try:
                self.buffer[start:stop].decode()
            except UnicodeDecodeError:
                self.good[number] = False


def _sources(buffer: bytes, named: Spans, plain: Bools) -> Ints:
    found = np.full(len(plain), NO_SOURCE, dtype=np.int64)
    numbers = map(xxhash.xxh64_digest, _slices(buffer, named), repeat(SOURCE_SEED))
    found[named.message] = _signed(numbers)
    found[~plain] = NO_SOURCE
    return found


def _slices(buffer: bytes, spans: Spans) -> Iterator[bytes]:
    return map(buffer.__getitem__, map(slice, spans.start.tolist(), spans.stop.tolist()))


def _signed(digests: Iterable[bytes]) -> Ints:
    """As numbers; a digest has its high byte first."""
    return np.frombuffer(b"".join(digests), dtype=">i8").astype(np.int64)
