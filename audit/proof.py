"""Whether the service did what follows from its log: the reference decides again, and both are laid beside each other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from confluent_kafka import TopicPartition

from audit.comparison import (
    ComparedSpan,
    CompareScope,
    Difference,
    Finding,
    TellTally,
    books_differences,
    delivered_items,
    found_aside_items,
    put_aside_items,
    tally,
    told_items,
)
from audit.horizon import ALWAYS, Reach, about, reach_of
from audit.replay import Log, Replay, cuts, decide, read_log
from clients.books import read_books
from clients.connection import Connection
from clients.control import service_is_alive
from clients.log import Record, scan, to_record, watermarks
from streaming.broker.state import NEVER, Rules
from streaming.model.books import Books
from streaming.model.inputs import Arrived, Refused
from streaming.model.outputs import Outcome
from streaming.wire.codec import MessageLimits
from tidings import names
from tidings.errors import TidingsError
from tidings.topic import Timing

_TOGETHER_MS = 10_000
_TURN_S = 0.5
_ASK_S = 10.0
_CLOCK_FROM_MS = 10**11


class BadPlace(TidingsError):
    """A place in the log that is not there, or that nobody can read."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Written:
    """What the service wrote: all records of the Kafka topics for results, and the books."""

    delivered: tuple[Record, ...] = ()
    late: tuple[Record, ...] = ()
    dead_letters: tuple[Record, ...] = ()
    books: Mapping[str, Books] = field(default_factory=dict)
    gone_ms: Mapping[str, int] = field(default_factory=dict)
    """Kafka topics that have lost their beginning, with the time of the first record left."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What came out. ``books`` is `same`, `differ`, or why they were not compared."""

    scope: CompareScope
    reach: Reach
    messages: int
    notifications: TellTally
    late: TellTally
    dead_letters: TellTally
    books: str
    differences: tuple[Difference, ...]
    foreign: int = 0
    """Records in the notification topics that are no notifications."""
    others_until_ms: int | None = None
    """Until then another service than the last wrote results too."""
    evicted: int = 0
    """Events that had to make room; which ones depends on the buckets, and the reference has only one."""

    @property
    def same(self) -> bool:
        return not self.differences

    @property
    def compared(self) -> int:
        return sum(each.expected + each.beside for each in (self.notifications, self.late, self.dead_letters))

    @property
    def undecided(self) -> int:
        return sum(each.undecided for each in (self.notifications, self.late, self.dead_letters))

    @property
    def missing(self) -> bool:
        """Whether waiting might help."""
        return any(each.finding is Finding.MISSING for each in self.differences)


def prove(
    connection: Connection,
    *,
    scope: CompareScope,
    limits: MessageLimits,
    rules: Rules,
    timing: Timing,
    wait_s: float = 0.0,
    now_s: Callable[[], float] = time.monotonic,
) -> Proof:
    """Decide the log again and compare. What is missing is waited for, as long as a service runs that may still write it."""
    only = (scope.topic, scope.key) if scope.topic is not None and scope.key is not None else None
    log = read_log(connection, limits=limits, timing=timing, only=only)
    replay = decide(log, service=None, limits=limits, rules=rules, timing=timing)
    deadline_s = now_s() + wait_s
    while True:
        proof = compare(log, replay, _written(connection, log), scope=scope, rules=rules, timing=timing)
        if not proof.missing or now_s() > deadline_s or not service_is_alive(connection):
            return proof
        time.sleep(_TURN_S)


def compare(log: Log, replay: Replay, written: Written, *, scope: CompareScope, rules: Rules, timing: Timing) -> Proof:
    """Lay the results of a log beside what was written."""
    # Where there are links, what is on its way is waited for.
    patience_ms = rules.patience_ms if any(snapshot.links for snapshot in log.history) else 0
    reach = reach_of(log, replay, timing, rules.ahead_ms + patience_ms)
    others_until_ms = _others_until_ms(log, replay)
    bounds = ComparedSpan(scope, reach, _followed_ms(replay), others_until_ms or ALWAYS, written.gone_ms)
    found, foreign = delivered_items(written.delivered, exact_ids=reach.exact_ids)
    notifications, differences = tally("notification", told_items(replay, exact_ids=reach.exact_ids), found, bounds)
    put_aside: dict[Outcome, TellTally] = {}
    for outcome, records in ((Outcome.LATE, written.late), (Outcome.DEAD_LETTERED, written.dead_letters)):
        should, have = put_aside_items(log, replay, outcome), found_aside_items(replay, records, outcome)
        put_aside[outcome], more = tally(names.LATE if outcome is Outcome.LATE else names.DEAD_LETTER, should, have, bounds)
        differences += more
    books, more = _books(replay, written.books, scope, reach, others_until_ms)
    return Proof(
        scope=scope,
        reach=reach,
        messages=sum(1 for _ in _messages(replay, scope)),
        notifications=notifications,
        late=put_aside[Outcome.LATE],
        dead_letters=put_aside[Outcome.DEAD_LETTERED],
        books=books,
        differences=(*differences, *more),
        foreign=foreign,
        others_until_ms=others_until_ms,
        evicted=sum(each.evicted for each in written.books.values()),
    )


def _messages(replay: Replay, scope: CompareScope) -> Iterator[Arrived | Refused]:
    """What publishers sent, of what was asked about."""
    for happened in replay.inputs:
        match happened:
            case Arrived(sender=None) | Refused():
                if scope.takes(about(happened)) and happened.origin.append_ms >= (scope.since_ms or 0):
                    yield happened


def _followed_ms(replay: Replay) -> int:
    """Until when the reference has followed all services that still tick."""
    last_ms = max(replay.clocks.values(), default=0)
    return min((ms for ms in replay.clocks.values() if ms >= last_ms - _TOGETHER_MS), default=0)


def _others_until_ms(log: Log, replay: Replay) -> int | None:
    """When the last of the services whose results are compared began, if others ticked too."""
    if {tick.service for tick, _ in log.ticks} <= replay.services.keys():
        return None
    began: dict[str, int] = {}
    for tick, _ in log.ticks:
        began.setdefault(tick.service, tick.append_ms)
    return max(began[service] for service in replay.services if service is not None)


def _books(
    replay: Replay, have: Mapping[str, Books], scope: CompareScope, reach: Reach, others_until_ms: int | None
) -> tuple[str, list[Difference]]:
    if not scope.is_all:
        return "not compared: they count everything, and you asked about a part", []
    if reach.since_ms is not None:
        return "not compared: they count what the log has forgotten, too", []
    if others_until_ms is not None:
        return "not compared: more than one service has served the same brokers", []
    differences, behind, moved_on = books_differences(replay.books, have)
    if behind:
        text = f"{behind} messages are not counted: the service is behind, or it does not run"
        differences.append(Difference("books", Finding.MISSING, text))
    if differences:
        return "differ", differences
    return "same, but messages came while the log was read" if moved_on else "same", []


# ---- reading ----------------------------------------------------------------------------------------------------------


def _written(connection: Connection, log: Log) -> Written:
    records = [record for snapshot in log.history for record in snapshot.records.values() if record["kind"] == "subscription"]
    deliver = {str(record.get("deliver") or names.notify_topic(record["subscriber"])) for record in records}
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


# ---- where to begin ---------------------------------------------------------------------------------------------------

_AGO = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORMS = "earliest, an offset like publish.b1-0:1234, a time like 2026-11-16T08:00, milliseconds since 1970, or 15m for then ago"


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
