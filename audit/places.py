"""A place in the log as somebody says it: an offset, a time, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime

from confluent_kafka import TopicPartition

from clients.connection import Connection
from clients.log import to_record, watermarks
from tidings import names
from tidings.errors import TidingsError

_ASK_S = 10.0
_CLOCK_FROM_MS = 10**11
_AGO = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORMS = "earliest, an offset like publish.b1-0:1234, a time like 2026-11-16T08:00, milliseconds since 1970, or 15m for then ago"


class BadPlace(TidingsError):
    """A place in the log that is not there, or that nobody can read."""

    exit_code = 2


def since_of(connection: Connection, text: str, now_ms: int) -> int | None:
    """The time that ``--from`` means; None for the beginning. An offset means the append time of its record."""
    if text == "earliest":
        return None
    if at := re.fullmatch(r"(?:(?P<topic>.+)-(?P<partition>\d+):)?(?P<offset>\d{1,18})", text):
        offset = int(at["offset"])
        if at["topic"] is None and offset >= _CLOCK_FROM_MS:
            return offset
        partition = (at["topic"], int(at["partition"])) if at["topic"] else _only_partition(connection, text)
        return _append_ms(connection, partition, offset)
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return now_ms - int(ago[1]) * _AGO[ago[2]]
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise BadPlace(f"{text!r} is no place in the log; say {_FORMS}") from None


def _only_partition(connection: Connection, text: str) -> tuple[str, int]:
    found = [(name, n) for name, count in connection.topics().items() if name.startswith(names.PUBLISH) for n in range(count)]
    if len(found) != 1:
        example = f"; say which, like {names.partition_name(*min(found))}:{text}" if found else ""
        raise BadPlace(f"an offset is one of a partition, and there are {len(found)} that publishers write to{example}")
    return found[0]


def _append_ms(connection: Connection, partition: tuple[str, int], offset: int) -> int:
    name = names.partition_name(*partition)
    if partition[1] >= connection.topics().get(partition[0], 0):
        raise BadPlace(f"there is no partition {name}; say {_FORMS}")
    consumer = connection.consumer()
    try:
        with connection.plain_errors():
            low, end = watermarks(consumer, *partition)
            if not low <= offset < end:
                raise BadPlace(f"{name} goes from offset {low} to {end - 1} now; {offset} is not there")
            consumer.assign([TopicPartition(*partition, offset)])
            for message in consumer.consume(1, timeout=_ASK_S):
                if message.error() is None:
                    return to_record(message).append_ms
    finally:
        consumer.close()
    raise BadPlace(f"the record at offset {offset} of {name} could not be read")
