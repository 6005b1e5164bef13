"""Whether the service did what follows from its log: the reference decides again, and both are laid beside each other.

Where the log does not say enough, nothing is claimed: neither that it is the same nor that it differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from audit.accounts import books_differences
from audit.comparison import ComparedSpan, CompareScope, Difference, Finding, TellTally, compare
from audit.horizon import ALWAYS, Reach, about, reach_of
from audit.replay import Log, Replay, decide, read_log
from audit.written import Written, read_written
from clients.connection import Connection
from clients.control import service_is_alive
from streaming.broker.state import Rules
from streaming.model.books import Books
from streaming.model.inputs import Arrived, Refused
from streaming.wire.message import MessageLimits
from tidings.topic import Timing

_TOGETHER_MS = 10_000
_TURN_S = 0.5


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
        proof = conclude(log, replay, read_written(connection, log), scope=scope, rules=rules, timing=timing)
        if not proof.missing or now_s() > deadline_s or not service_is_alive(connection):
            return proof
        time.sleep(_TURN_S)


def conclude(log: Log, replay: Replay, written: Written, *, scope: CompareScope, rules: Rules, timing: Timing) -> Proof:
    """What the results of a log prove about what was written."""
    # Where there are links, what is on its way is waited for.
    patience_ms = rules.patience_ms if any(snapshot.links for snapshot in log.history) else 0
    reach = reach_of(log, replay, timing, rules.ahead_ms + patience_ms)
    others_until_ms = _others_until_ms(log, replay)
    bounds = ComparedSpan(scope, reach, _followed_ms(replay), others_until_ms or ALWAYS, written.gone_ms)
    found = compare(log, replay, written, bounds)
    books, miscounted = _books(replay, written.books, scope, reach, others_until_ms)
    return Proof(
        scope=scope,
        reach=reach,
        messages=sum(1 for _ in _messages(replay, scope)),
        notifications=found.notifications,
        late=found.late,
        dead_letters=found.dead_letters,
        books=books,
        differences=(*found.differences, *miscounted),
        foreign=len(found.foreign),
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
