"""What is put aside on the Kafka topics `late` and `dead-letter`: the bytes as they came, with the reason in headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streaming.model.entry import Entry, Origin
from streaming.model.outputs import Outcome, PutAside
from streaming.wire.record import MOST_VALUE_BYTES, Headers, Outgoing, Record
from tidings import names

BAD_CONTROL: Final = "bad-control"
"""The reason for a control record that cannot be applied."""


@dataclass(frozen=True, slots=True)
class Aside:
    """What the headers say: why a record was put aside, where it came from and when."""

    reason: str
    detail: str
    origin: Origin
    merged: bool = False
    """It is no publisher's record, but what the reports of an event said together. The first of them stands at ``origin``."""
    cut: bool = False
    """Not all of its value is there."""

    @property
    def is_control(self) -> bool:
        """Whether it is a control record, and no message."""
        return self.origin.kafka_topic == names.CONTROL


def topic_of(outcome: Outcome) -> str:
    """The Kafka topic for what ends like that."""
    return names.LATE if outcome is Outcome.LATE else names.DEAD_LETTER


def aside_record(put: PutAside, entry: Entry) -> Outgoing:
    """A publication that is put aside."""
    cut = entry.value is not None and len(entry.value) == MOST_VALUE_BYTES
    said = Aside(put.reason, put.detail, put.origin, put.merged, cut)
    return Outgoing(topic_of(put.outcome), entry.record_key, entry.value, list(_headers(said)))


def control_aside_record(record: Record, detail: str) -> Outgoing:
    """A control record that cannot be applied."""
    return Outgoing(names.DEAD_LETTER, record.key, record.value, list(_headers(Aside(BAD_CONTROL, detail, record.origin))))


def _headers(aside: Aside) -> Iterator[tuple[str, bytes]]:
    origin = aside.origin
    yield "reason", str(aside.reason).encode()
    yield "detail", aside.detail.encode(errors="replace")
    yield "origin", origin.kafka_topic.encode()
    yield "partition", str(origin.partition).encode()
    yield "offset", str(origin.offset).encode()
    yield "time", str(origin.append_ms).encode()
    if aside.merged:
        yield "merged", b"true"
    if aside.cut:
        yield "cut", b"true"


def read_aside(headers: Headers) -> Aside:
    """What headers say. Others may write there too: what they leave out is empty, and a number that is none is -1."""
    said = {name: (value or b"").decode(errors="replace") for name, value in headers}
    partition, offset, time_ms = (
        int(said[name]) if said.get(name, "").isdecimal() else -1 for name in ("partition", "offset", "time")
    )
    origin = Origin(said.get("origin", ""), partition, offset, time_ms)
    return Aside(said.get("reason", ""), said.get("detail", ""), origin, "merged" in said, "cut" in said)
