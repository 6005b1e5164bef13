"""What a service left in Kafka: what it told, what it put aside, and its books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from audit.horizon import ALWAYS
from audit.replay import Log, cuts
from clients.books import read_books
from clients.connection import Connection
from clients.log import scan
from streaming.broker.state import NEVER
from streaming.model.books import Books
from streaming.wire.record import Record
from tidings import names
from tidings.control import Snapshot


@dataclass(frozen=True, slots=True)
class Written:
    """What the service wrote: all records of the Kafka topics for results, and the books."""

    delivered: tuple[Record, ...] = ()
    late: tuple[Record, ...] = ()
    dead_letters: tuple[Record, ...] = ()
    books: Mapping[str, Books] = field(default_factory=dict)
    gone_ms: Mapping[str, int] = field(default_factory=dict)
    """Kafka topics that have lost their beginning, with the time of the first record left."""


def read_written(connection: Connection, log: Log) -> Written:
    """What is there now; ``log`` knows who was ever to be told, and where."""
    deliver = _ever_asked(log)
    there = connection.topics()
    found: dict[str, list[Record]] = {name: [] for name in (*sorted(deliver & there.keys()), names.LATE, names.DEAD_LETTER)}
    for record in scan(connection, found):
        found[record.kafka_topic].append(record)
    first: dict[tuple[str, int], Record] = {}
    for record in (record for each in found.values() for record in each):
        first.setdefault((record.kafka_topic, record.partition), record)
    lost = cuts(connection, [(name, number) for name in found for number in range(there.get(name, 0))], first)
    gone_ms: dict[str, int] = {}
    for partition, first_ms in lost.items():
        name = partition.rpartition("-")[0]
        gone_ms[name] = max(gone_ms.get(name, ALWAYS), NEVER if first_ms is None else first_ms)
    return Written(
        delivered=tuple(record for name in sorted(deliver & there.keys()) for record in found[name]),
        late=tuple(found[names.LATE]),
        dead_letters=tuple(found[names.DEAD_LETTER]),
        books=read_books(connection),
        gone_ms=gone_ms,
    )


def _ever_asked(log: Log) -> set[str]:
    """The Kafka topics on which anybody was ever to be told. Most records stand in many versions, and are read once."""
    records = {id(record): (key, record) for snapshot in log.history for key, record in snapshot.records.items()}
    alone = (Snapshot(records={key: record}, since={key: 0}) for key, record in records.values())
    return {subscription.deliver for each in alone for subscription in each.subscriptions.values()}
