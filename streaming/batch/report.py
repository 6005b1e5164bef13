"""A plain message that is opened, with all that is known of it without looking into it."""

from __future__ import annotations

from typing import NamedTuple

from streaming.batch.arrays import Ints
from streaming.batch.judge import Judged
from streaming.batch.rows import Rows
from tidings.message import Message


class Report(NamedTuple):
    """Taken out of the columns of a batch."""

    batch_row: int
    position: int
    """Where it stands among the messages by event."""
    number: int
    """Of its event."""
    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    published_ms: int
    """The append time, if it does not say."""
    source: int
    unknown_facts: int
    reports: int
    """How many messages of the batch about the event there are, up to this one; how many sources they add; and the first and
    last of their published times."""
    sources: int
    first_ms: int
    last_ms: int
    message: Message
    message_id: str


def reports_of(rows: Rows, judged: Judged, positions: Ints) -> list[Report]:
    """The messages at these positions."""
    index = judged.index[positions]
    rows.open(index)
    columns = (
        *(index, positions, rows.event[index], rows.kafka_topic[index], rows.partition[index], rows.offset[index]),
        *(rows.append_ms[index], judged.published_ms[positions], judged.source[positions], judged.unknown_facts[positions]),
        *(column[positions] for column in judged.so_far),
    )
    messages = rows.message[index].tolist()
    ids = [message.message_id for message in messages]
    return list(map(Report._make, zip(*(column.tolist() for column in columns), messages, ids, strict=True)))
