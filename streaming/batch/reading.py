"""From the columns that Spark gives to rows an engine takes. JSON is decoded here, by the one strict reader there is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaming.batch.hashing import event_hash, fact_hashes
from streaming.batch.rows import IS_MESSAGE, NO_SOURCE, NOT_SAID, Rows, in_log_order
from streaming.model.address import Address
from streaming.wire.avro import HEADER_BYTES, schema
from streaming.wire.message import MessageLimits, decode_message
from tidings import names
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.values import source_digest

COLUMNS = (
    *("kind", "kafka_topic", "partition", "offset", "append_ms", "record_key", "value"),
    *("plain", "event", "source", "published_ms"),
)

_schema = schema("message")

_TYPES = {"kafka_topic": object, "record_key": object, "value": object, "plain": bool}


def rows_of(columns: dict[str, Any], facts: list[Any], limits: MessageLimits, secret: str) -> Rows:
    """The rows of a batch in the order of the log."""
    # Copied, since Arrow's columns cannot be written to; and bytes stay bytes only as objects.
    columns = {name: np.array(column, dtype=_TYPES.get(name, np.int64)) for name, column in columns.items()}
    columns["message"] = np.full(len(facts), None, dtype=object)
    for index in np.flatnonzero((columns["kind"] == IS_MESSAGE) & ~columns["plain"]).tolist():
        value, kafka_topic = columns["value"][index], columns["kafka_topic"][index]
        if value is not None and value[:1] == b"{" and names.sender_of(kafka_topic) is None:
            _open_json(columns, facts, index, limits, secret)
    return in_log_order(columns, facts)


def _open_json(columns: dict[str, Any], facts: list[Any], index: int, limits: MessageLimits, secret: str) -> None:
    try:
        message = decode_message(bytes(columns["value"][index]), limits)
    except BadMessage:
        return  # it is opened again, and refused, in its turn
    broker = names.broker_of(columns["kafka_topic"][index])
    event = event_hash(secret, Address(broker, message.topic, message.key))
    if event == columns["event"][index]:
        columns["plain"][index] = True
        columns["message"][index] = message
        columns["source"][index], columns["published_ms"][index] = numbers_of(message)
        facts[index] = fact_hashes(event, message.fields)


def numbers_of(message: Message) -> tuple[int, int]:
    """Source and published time as columns have them."""
    source = NO_SOURCE if message.source is None else source_digest(message.source)
    return source, NOT_SAID if message.published_ms is None else message.published_ms


def quick_message(value: bytes | None, limits: MessageLimits) -> Message | None:
    """A plain message in Avro. None if something in it needs a closer look."""
    if value is None or value[:1] == b"{":
        return None
    try:
        datum = _schema.decode(value[HEADER_BYTES:])
    except ValueError:
        return None
    topic, key, fields = datum["topic"], datum["key"], datum["fields"]
    short = limits.key_bytes // 4  # a text of that many characters has no more bytes than allowed
    if not (0 < len(topic) <= short and 0 < len(key) <= short):
        return None
    for name, stated in fields.items():
        kind = type(stated)
        if kind is list:
            fields[name] = tuple(stated)
        elif (kind is float and not math.isfinite(stated)) or not 0 < len(name) <= short:
            return None
    return Message(topic, key, fields, datum["source"], datum["id"], datum["published_ms"])
