"""From records as they stand in the log to rows an engine takes: Avro all at once, JSON by the one strict reader there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streaming.batch.arrays import Ints, slices, starts_of
from streaming.batch.avro_reader import read_avro
from streaming.batch.hashing import event_hash, fact_hashes
from streaming.batch.rows import IS_MESSAGE, NO_SOURCE, NOT_SAID, Rows, in_log_order
from streaming.model.address import Address
from streaming.wire.message import MessageLimits, decode_message
from tidings import names
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.values import source_digest

COLUMNS = ("kind", "kafka_topic", "partition", "offset", "append_ms", "record_key", "value", "event")
"""What routing gives of each record: as it stands in the log, and the number of the event that it is about; 0 for none."""

_TYPES = {"kafka_topic": object, "record_key": object, "value": object}


def rows_of(columns: Mapping[str, Any], limits: MessageLimits, secret: str) -> Rows:
    """The rows of a batch in the order of the log; of messages, also the numbers that say what they state."""
    # Copied, since Arrow's columns cannot be written to; and bytes stay bytes only as objects.
    raw = {name: np.array(columns[name], dtype=_TYPES.get(name, np.int64)) for name in COLUMNS}
    avro, json = _messages(raw)
    read = read_avro(raw["value"][avro].tolist(), raw["event"][avro], limits, secret)
    rows = len(raw["kind"])
    plain, source, published_ms = np.zeros(rows, dtype=bool), np.full(rows, NO_SOURCE), np.full(rows, NOT_SAID)
    plain[avro], source[avro], published_ms[avro] = read.plain, read.source, read.published_ms
    count = np.zeros(rows, dtype=np.int64)
    count[avro] = read.count
    messages, text = np.full(rows, None, dtype=object), np.full(rows, -1)
    text[avro[read.plain]] = np.flatnonzero(read.plain)
    facts: dict[int, list[int]] = {}
    for index in json:
        if message := _read_json(raw, index, limits, secret):
            plain[index], messages[index] = True, message
            source[index], published_ms[index] = numbers_of(message)
            facts[index] = fact_hashes(int(raw["event"][index]), message.fields)
            count[index] = len(facts[index])
    flat = np.empty(int(count.sum()), dtype=np.int64)
    starts = starts_of(count)
    flat[slices(starts, avro)] = read.facts
    for index, numbers in facts.items():
        flat[starts[index] : starts[index + 1]] = numbers
    numbered = {"plain": plain, "source": source, "published_ms": published_ms, "message": messages, "text": text}
    return in_log_order({**raw, **numbered}, flat, count, read.texts)


def _messages(raw: Mapping[str, Any]) -> tuple[Ints, list[int]]:
    """Where publications stand whose event is known: those in Avro, and those in JSON."""
    index = np.flatnonzero((raw["kind"] == IS_MESSAGE) & (raw["event"] != 0))
    of_publishers = {name for name in set(raw["kafka_topic"].tolist()) if names.sender_of(name) is None}
    published = np.fromiter(map(of_publishers.__contains__, raw["kafka_topic"][index]), dtype=bool, count=len(index))
    index = index[published]
    in_json = np.array([value[:1] == b"{" for value in raw["value"][index]], dtype=bool)
    return index[~in_json], index[in_json].tolist()


def _read_json(raw: Mapping[str, Any], index: int, limits: MessageLimits, secret: str) -> Message | None:
    """The message, if it is about the event that it was routed by; else it is opened again, and refused, in its turn."""
    try:
        message = decode_message(bytes(raw["value"][index]), limits)
    except BadMessage:
        return None
    at = Address(names.broker_of(raw["kafka_topic"][index]), message.topic, message.key)
    return message if event_hash(secret, at) == raw["event"][index] else None


def numbers_of(message: Message) -> tuple[int, int]:
    """Source and published time as columns have them."""
    source = NO_SOURCE if message.source is None else source_digest(message.source)
    return source, NOT_SAID if message.published_ms is None else message.published_ms
