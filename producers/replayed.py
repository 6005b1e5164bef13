"""The log replayed through the plain logic: what the service should have done, and why.

The same records, in the same order, through the same `step`, but in one bucket, in one go and without Spark. The demo and
the tests hold the service to it; `tidings explain` tells its story.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from producers import control
from producers.connection import Connection
from producers.log import Record, read_all, scan
from streaming.broker.books import Books
from streaming.broker.inputs import MESSAGE, TICK, Ticker, in_log_order, kind_of, read
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.broker.values import Arrived, Decided, Input, Origin, Output, PutAside, Tell
from tidings.codec import MessageLimits
from tidings.control import Snapshot
from tidings.topic import Timing
from topology import names


@dataclass(frozen=True, slots=True)
class Replay:
    """What happened, and what was to be done about it. ``service`` is whose ticks counted, None if there are none."""

    service: str | None
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    books: dict[str, Books]
    control: Snapshot
    """The control data that holds now."""

    @property
    def arrived(self) -> dict[Origin, Arrived]:
        """The messages that could be read."""
        return {happened.origin: happened for happened in self.inputs if isinstance(happened, Arrived)}

    @property
    def told(self) -> list[Tell]:
        return [output for output in self.outputs if isinstance(output, Tell)]

    @property
    def decided(self) -> list[Decided]:
        return [output for output in self.outputs if isinstance(output, Decided)]

    @property
    def put_aside(self) -> dict[Origin, PutAside]:
        return {output.origin: output for output in self.outputs if isinstance(output, PutAside)}


@dataclass(frozen=True, slots=True)
class _Row:
    """A record as `streaming.broker.inputs` reads it."""

    kind: str
    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    value: bytes | None


def replay(
    connection: Connection,
    *,
    service: str | None,
    limits: MessageLimits,
    rules: Rules,
    timing: Timing,
    only: tuple[str, str] | None = None,
) -> Replay:
    """Read the log up to its end now, and run it. ``service`` None is the one that ticked last.

    ``only`` leaves out all messages but those about one topic and key; the result for those is the same. (Unless the
    service had to make room: ``rules.open_events`` counts all events of a bucket.) The `control` Kafka topic is compacted, so
    long after a change the control data from before it may not be known any more.
    """
    inputs = re.compile(names.input_pattern())
    readable = [name for name in connection.topics() if inputs.fullmatch(name)]
    ticks = [record for record in read_all(connection, [names.CLOCK]) if control.read_tick(record) is not None]
    service = service or _newest_service(ticks)
    # The control data after the clock: it then has all that the ticks name.
    history = list(control.fold(read_all(connection, [names.CONTROL]), timing))
    published = scan(connection, [name for name in readable if name != names.CLOCK])
    rows = [*_clock_rows(ticks, service), *_message_rows(published, limits, only)]
    happened = [each for row in in_log_order(rows) for each in read(row, limits, Ticker(service))]
    control_at = _control_at(history, timing)
    state, outputs = step(BucketState(), happened, control_at, rules)
    return Replay(service, tuple(happened), tuple(outputs), state.books, control_at(state.version))


def _newest_service(ticks: Iterable[Record]) -> str | None:
    read_ticks = [tick for record in ticks if (tick := control.read_tick(record))]
    newest = max(read_ticks, key=lambda tick: tick.append_ms, default=None)
    return newest.service if newest else None


def _clock_rows(ticks: Iterable[Record], service: str | None) -> list[_Row]:
    return [_row(TICK, record) for record in ticks if (tick := control.read_tick(record)) and tick.service == service]


def _message_rows(records: Iterable[Record], limits: MessageLimits, only: tuple[str, str] | None) -> list[_Row]:
    rows = []
    for record in records:
        row = _row(kind_of(record.kafka_topic, record.value), record)
        if only is None or row.kind != MESSAGE or _is_about(read(row, limits, Ticker(None)), only):
            rows.append(row)
    return rows


def _row(kind: str, record: Record) -> _Row:
    return _Row(kind, record.kafka_topic, record.partition, record.offset, record.append_ms, record.value)


def _is_about(happened: list[Input], only: tuple[str, str]) -> bool:
    match happened:
        case [Arrived(message=message)]:
            return (message.topic, message.key) == only
    return False


def _control_at(history: list[Snapshot], timing: Timing) -> Callable[[int], Snapshot]:
    """The control data of a version: all records with a lower offset."""
    versions = [snapshot.version for snapshot in history]

    def at(version: int) -> Snapshot:
        index = bisect_right(versions, version)
        return history[index - 1] if index else Snapshot(timing=timing)

    return at
