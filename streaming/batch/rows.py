"""The records of a bucket in one batch, as columns, in the order of the log: Avro is read all at once, JSON by the one strict
reader there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from streaming.batch.arrays import NO_SOURCE, NOT_SAID, Bools, Ints, Objects, running_max, slices, starts_of
from streaming.batch.avro_reader import read_avro
from streaming.batch.hashing import event_hash, fact_hashes
from streaming.batch.texts import Texts
from streaming.model.address import Address
from streaming.model.entry import Entry, Origin
from streaming.wire.inputs import MARK, MESSAGE, TICK
from streaming.wire.message import MessageLimits, decode_message
from streaming.wire.record import Record
from tidings import names
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.values import source_digest

KINDS = (MESSAGE, MARK, TICK)
"""Kinds of records by their numbers."""
IS_MESSAGE = KINDS.index(MESSAGE)

COLUMNS = ("kind", "kafka_topic", "partition", "offset", "append_ms", "record_key", "value", "event")
"""What routing gives of each record: as it stands in the log, and the number of the event that it is about; 0 for none."""

_TYPES = {"kafka_topic": object, "record_key": object, "value": object}
"""Bytes stay bytes only as objects."""


@dataclass(slots=True)
class Rows:
    """The records of one batch. ``event``, ``facts``, ``source`` and ``published_ms`` count where ``plain`` is true.

    Such a message was found whole and within the bounds of a message, so its numbers say all that matters of it.
    """

    kind: Ints
    kafka_topic: Objects
    partition: Ints
    offset: Ints
    append_ms: Ints
    record_key: Objects
    value: Objects
    plain: Bools
    event: Ints
    source: Ints
    published_ms: Ints
    facts: Ints
    """The facts of all rows, one after the other."""
    starts: Ints
    """Where in ``facts`` those of each row start; one more than there are rows."""
    message: Objects
    """Messages that had to be decoded to get their numbers, or were opened since; None for others."""
    text: Ints
    """Of the other plain ones, the number in ``texts``; -1 for all that is not one of them."""
    texts: Texts

    def __len__(self) -> int:
        return len(self.kind)

    def facts_of(self, index: Ints) -> Ints:
        """Where in ``facts`` those of these rows stand, row by row."""
        return slices(self.starts, index)

    def open(self, index: Ints) -> None:
        """Put together what plain messages say, for those that are opened."""
        read = index[self.text[index] >= 0]
        self.message[read] = self.texts.messages(self.text[read])

    def record(self, index: int) -> Record:
        """The record of a row, for those that must be opened."""
        return Record(
            self.kafka_topic[index],
            int(self.partition[index]),
            int(self.offset[index]),
            int(self.append_ms[index]),
            self.record_key[index],
            self.value[index],
        )

    def entry_at(self, origin: Origin) -> Entry:
        """The bytes of a record of the batch, by where it stands."""
        at = (self.offset == origin.offset) & (self.partition == origin.partition) & (self.kafka_topic == origin.kafka_topic)
        return self.record(int(np.flatnonzero(at)[0])).entry


def rows_of(columns: Mapping[str, Any], limits: MessageLimits, secret: str) -> Rows:
    """The rows of a batch; of messages, also the numbers that say what they state."""
    raw = {name: np.asarray(columns[name], dtype=_TYPES.get(name, np.int64)) for name in COLUMNS}
    order = _log_order(raw)
    raw = {name: column[order] for name, column in raw.items()}
    avro, json = _messages(raw)
    read = read_avro(raw["value"][avro].tolist(), raw["event"][avro], limits, secret)
    opened, messages, stated = _read_json(raw, json, limits, secret)
    size = len(order)
    plain, source, published_ms = np.zeros(size, dtype=bool), np.full(size, NO_SOURCE), np.full(size, NOT_SAID)
    plain[avro], source[avro], published_ms[avro] = read.plain, read.source, read.published_ms
    count, text = np.zeros(size, dtype=np.int64), np.full(size, -1)
    count[avro], text[avro[read.plain]] = read.count, np.flatnonzero(read.plain)
    message = np.full(size, None, dtype=object)
    plain[opened], message[opened], count[opened] = True, messages, [len(facts) for facts in stated]
    source[opened], published_ms[opened] = np.array([*map(numbers_of, messages)], dtype=np.int64).reshape(-1, 2).T
    starts = starts_of(count)
    flat = np.empty(starts[-1], dtype=np.int64)
    flat[slices(starts, avro)] = read.facts
    flat[slices(starts, opened)] = [*chain.from_iterable(stated)]
    said = {"plain": plain, "source": source, "published_ms": published_ms, "message": message, "text": text}
    return Rows(**raw, **said, facts=flat, starts=starts, texts=read.texts)


def _log_order(raw: Mapping[str, Any]) -> Ints:
    """By append time across partitions, and by offset within each, as `streaming.wire.inputs.in_log_order` has them."""
    kafka_topics = raw["kafka_topic"].tolist()
    code_of = {name: number for number, name in enumerate(sorted(set(kafka_topics)))}
    topic = np.fromiter(map(code_of.__getitem__, kafka_topics), dtype=np.int64, count=len(kafka_topics))
    partition, offset, append_ms = raw["partition"], raw["offset"], raw["append_ms"]
    place = np.lexsort((offset, partition, topic))
    begins = np.ones(len(place), dtype=bool)
    begins[1:] = (np.diff(topic[place]) != 0) | (np.diff(partition[place]) != 0)
    time_ms = np.empty_like(append_ms)
    time_ms[place] = running_max(append_ms[place], begins)
    return np.lexsort((offset, partition, topic, time_ms))


def _messages(raw: Mapping[str, Any]) -> tuple[Ints, Ints]:
    """Where publications stand whose event is known: those in Avro, and those in JSON."""
    index = np.flatnonzero((raw["kind"] == IS_MESSAGE) & (raw["event"] != 0))
    of_publishers = {name for name in set(raw["kafka_topic"].tolist()) if names.sender_of(name) is None}
    published = np.fromiter(map(of_publishers.__contains__, raw["kafka_topic"][index]), dtype=bool, count=len(index))
    index = index[published]
    in_json = np.array([value[:1] == b"{" for value in raw["value"][index]], dtype=bool)
    return index[~in_json], index[in_json]


def _read_json(
    raw: Mapping[str, Any], rows: Ints, limits: MessageLimits, secret: str
) -> tuple[Ints, list[Message], list[list[int]]]:
    """Rows with their messages and the numbers of their facts. One that cannot be read, or is not about the event it was routed
    by, is left out: it is opened again, and refused, in its turn."""
    opened: list[int] = []
    messages: list[Message] = []
    stated: list[list[int]] = []
    columns = rows.tolist(), raw["kafka_topic"][rows].tolist(), raw["value"][rows].tolist(), raw["event"][rows].tolist()
    broker_of = {kafka_topic: names.broker_of(kafka_topic) for kafka_topic in set(columns[1])}
    for index, kafka_topic, value, event in zip(*columns, strict=True):
        try:
            message = decode_message(bytes(value), limits)
        except BadMessage:
            continue
        if event_hash(secret, Address(broker_of[kafka_topic], message.topic, message.key)) == event:
            opened.append(index)
            messages.append(message)
            stated.append(fact_hashes(event, message.fields))
    return np.array(opened, dtype=np.int64), messages, stated


def numbers_of(message: Message) -> tuple[int, int]:
    """Source and published time as columns have them."""
    source = NO_SOURCE if message.source is None else source_digest(message.source)
    return source, NOT_SAID if message.published_ms is None else message.published_ms
