"""The records of a bucket in one batch, as columns, in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaming.batch.arrays import Bools, Ints, Objects, running_max, slices, starts_of
from streaming.batch.texts import Texts
from streaming.model.entry import Entry, Origin
from streaming.wire.inputs import MARK, MESSAGE, TICK
from streaming.wire.record import Record

KINDS = (MESSAGE, MARK, TICK)
"""Kinds of records by their numbers."""
IS_MESSAGE = KINDS.index(MESSAGE)

NOT_SAID = -1
"""Stands for a published time that the publisher did not state; real ones are not negative."""
NO_SOURCE = 0


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


def in_log_order(columns: Mapping[str, Any], facts: Ints, count: Ints, texts: Texts) -> Rows:
    """Rows by append time across partitions, and by offset within each, as `streaming.wire.inputs.in_log_order` has them.

    ``facts`` are those of all rows, one after the other as the rows come; ``count`` says how many each row has.
    """
    kafka_topic = _objects(columns["kafka_topic"])
    code_of = {name: number for number, name in enumerate(sorted(set(kafka_topic.tolist())))}
    topic_code = np.fromiter(map(code_of.__getitem__, kafka_topic), dtype=np.int64, count=len(kafka_topic))
    partition, offset = _ints(columns["partition"]), _ints(columns["offset"])
    append_ms = _ints(columns["append_ms"])
    place = np.lexsort((offset, partition, topic_code))
    code, part = topic_code[place], partition[place]
    new = np.ones(len(place), dtype=bool)
    new[1:] = (code[1:] != code[:-1]) | (part[1:] != part[:-1])
    time_ms = np.empty_like(append_ms)
    time_ms[place] = running_max(append_ms[place], new)
    order = np.lexsort((offset, partition, topic_code, time_ms))
    kind = _ints(columns["kind"])[order]
    return Rows(
        kind=kind,
        kafka_topic=kafka_topic[order],
        partition=partition[order],
        offset=offset[order],
        append_ms=append_ms[order],
        record_key=_objects(columns["record_key"])[order],
        value=_objects(columns["value"])[order],
        plain=np.asarray(columns["plain"], dtype=bool)[order] & (kind == IS_MESSAGE),
        event=_ints(columns["event"])[order],
        source=_ints(columns["source"])[order],
        published_ms=_ints(columns["published_ms"])[order],
        facts=facts[slices(starts_of(count), order)],
        starts=starts_of(count[order]),
        message=_objects(columns["message"])[order],
        text=_ints(columns["text"])[order],
        texts=texts,
    )


def _ints(column: Any) -> Ints:
    return np.asarray(column, dtype=np.int64)


def _objects(column: Any) -> Objects:
    return np.asarray(column, dtype=object)
