"""A dry run: control data and a file of messages through the same `step` as the service, in virtual time, without Kafka.

All brokers are in one bucket, links take no time unless told so, and after the last line time passes until nothing is open.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from streaming.broker.state import NEVER, BucketState, Rules
from streaming.model.address import Address
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Refused, Ticked
from streaming.model.links import PassedOn
from streaming.model.outputs import Decided, MessageReason, Outcome, PutAside, Send, Tell
from streaming.notify.pace import HEARTBEAT
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.both import Both, BothOutput
from streaming.world.script import ControlLine, Line, MessageLine, encoded
from streaming.world.silence import Came, Seen, Untold, untold
from tidings import event as events
from tidings import names
from tidings.control import Snapshot
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.notification import Notification, Reason
from topology.plan import Plan

_CLOCK = "dry-run"
_GRAIN_MS = 1000

# ---- what came of it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """A subscription is told something. ``number`` counts from 1, in the order of time.

    ``order`` is its place among all that was decided: it tells what came first at the same time.
    """

    number: int
    order: int
    at_ms: int
    broker: str
    kafka_topic: str
    notification: Notification


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of the message of a line, at the broker that decides. ``told_in`` are the numbers of what carries its news."""

    line: int
    order: int
    at_ms: int
    broker: str
    message: Message | None
    """None for one that cannot be read."""
    outcome: Outcome
    reason: str
    detail: str = ""
    event: str | None = None
    added: tuple[str, ...] = ()
    told_in: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """All that follows, in the order of time."""

    told: tuple[Told, ...]
    fates: tuple[Fate, ...]
    untold: tuple[Untold, ...]
    books: Mapping[str, Books]
    snapshot: Snapshot
    start_ms: int
    end_ms: int
    beats: frozenset[str] = frozenset()
    """Subscriptions that are also sent heartbeats; these do not depend on messages, and are left out of ``told``."""


def dry_run(
    snapshot: Snapshot,
    happenings: Iterable[Line],
    *,
    rules: Rules | None = None,
    limits: MessageLimits | None = None,
    hop_ms: int = 0,
) -> DryRun:
    """Let it all happen. ``hop_ms`` is how long a record takes over a link."""
    run = _Run(snapshot, replace(rules or Rules(), hosted=None), limits or MessageLimits(), hop_ms)
    ordered = sorted(happenings, key=lambda happening: happening.at_ms)
    start_ms = ordered[0].at_ms if ordered else 0
    run.adopt(snapshot, start_ms - 1)  # windows count what enters after the tick that names their subscription
    for happening in ordered:
        run.push(happening.at_ms, happening)
    run.go()
    return run.result(start_ms)


@dataclass
class _Run:
    snapshot: Snapshot
    rules: Rules
    limits: MessageLimits
    hop_ms: int
    now_ms: int = 0
    outputs: list[tuple[BothOutput, str]] = field(default_factory=list)
    """With the broker where it was decided; for a notification, that of its subscription."""
    came: dict[str, Came] = field(default_factory=dict)
    _arrived: dict[Origin, Arrived | Refused] = field(default_factory=dict)
    _lines: dict[Origin, int] = field(default_factory=dict)
    _seen: dict[tuple[Address, str], Seen] = field(default_factory=dict)
    _plans: dict[int, Plan] = field(default_factory=dict)
    _heap: list[tuple[int, int, Line | Input]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    _wakes_ms: int = NEVER
    _said_ms: int = -1

    def __post_init__(self) -> None:
        self.both = Both(self._plans.__getitem__, self.rules, _CLOCK)

    @property
    def state(self) -> BucketState:
        return self.both.main

    # ---- time ---------------------------------------------------------------------------------------------------------

    def push(self, at_ms: int, happening: Line | Input) -> None:
        heapq.heappush(self._heap, (at_ms, next(self._order), happening))

    def adopt(self, snapshot: Snapshot, at_ms: int) -> None:
        """From here on this control data holds."""
        self.snapshot = snapshot
        version = len(self._plans) + 1
        self._plans[version] = Plan(snapshot)
        for name, subscription in snapshot.subscriptions.items():
            since_ms = self.came[name].since_ms if name in self.came else at_ms
            self.came[name] = Came(subscription, since_ms)
        for name, came in self.came.items():
            if name not in snapshot.subscriptions and came.until_ms is None:
                self.came[name] = replace(came, until_ms=at_ms)
        self._step(Ticked(at_ms, version, (_CLOCK,)))

    def go(self) -> None:
        """What happens at the same time happens in the order of the file."""
        while self._heap:
            self.now_ms, _, happening = heapq.heappop(self._heap)
            match happening:
                case ControlLine(_, at_ms, key, record):
                    self._step(Marked(_CLOCK, at_ms))  # what was due by then is told by what held before
                    value = None if record is None else encoded(record)
                    self.adopt(self.snapshot.apply(self.snapshot.version + 1, key, value), at_ms)
                case MessageLine():
                    self._step(self._read(happening))
                case Marked():
                    self._wakes_ms = NEVER if self._wakes_ms == self.now_ms else self._wakes_ms
                    self._step(happening)
                case _:
                    self._step(happening)

    def _read(self, published: MessageLine) -> Input:
        # The line's number stands in for the offset: it says where to look.
        origin = Origin(names.publish_topic(published.broker), 0, published.line, published.at_ms)
        self._lines[origin] = published.line
        try:
            return Arrived(origin, published.broker, decode_message(published.value, self.limits), None, published.value)
        except BadMessage as error:
            return Refused(origin, published.broker, error.reason, error.detail)

    def _step(self, happened: Input) -> None:
        outputs = self.both.step((happened,))
        if isinstance(happened, Arrived | Refused):
            self._arrived[happened.origin] = happened
        for output in outputs:
            if isinstance(output, Send):
                self.push(self.now_ms + self.hop_ms, self._arrival(output))
            self.outputs.append((output, self._broker_of(output, happened)))
        if isinstance(happened, Arrived | Heard):
            self._look(happened, outputs)
        if isinstance(happened, Marked) and self.now_ms > self._said_ms and self._waits_for_progress():
            # All that happened before now has been sent, and will have come when a hop has passed.
            self._said_ms = said_ms = self.now_ms + self.hop_ms
            self.push(said_ms, Progressed(said_ms, _CLOCK, None, self.now_ms, self.state.version))
            self.push(said_ms + 1, Marked(_CLOCK, said_ms + 1))
        if (self.state.slots or self.both.side.is_open) and (wake_ms := self._next_mark_ms(happened)) < self._wakes_ms:
            self._wakes_ms = wake_ms
            self.push(wake_ms, Marked(_CLOCK, wake_ms))

    def _waits_for_progress(self) -> bool:
        """Whether events that have ended, or windows of events, wait for what may be on its way to the broker that gathers."""
        return bool(self.state.ending) or self.both.side.next_ms <= self.state.clock_ms

    def _next_mark_ms(self, happened: Input) -> int:
        """When the next mark comes. Each timer fires at its own time, whenever the mark that lets it is.

        So exact marks only matter to what then crosses a link. Elsewhere they come together, the fewer the more there is to
        look through at each.
        """
        side_ms = self.both.side.next_ms
        if side_ms <= self.state.clock_ms and isinstance(happened, Marked):
            side_ms = NEVER  # these windows wait for somebody to say something: that time passes is not enough
        next_ms = min(self.state.wake_ms if self.state.slots else NEVER, side_ms)
        wake_ms = max(next_ms, self.now_ms, self.state.clock_ms + 1)  # a mark must be later than the last
        if wake_ms >= NEVER or self._plans[len(self._plans)].overlay.links:
            return min(wake_ms, NEVER)
        grain_ms = _GRAIN_MS * (1 + len(self.state.slots) // 100)
        return -(-wake_ms // grain_ms) * grain_ms

    def _arrival(self, send: Send) -> Input:
        record, at_ms = send.record, self.now_ms + self.hop_ms
        origin = Origin(names.link_topic(send.sender, send.to), 0, next(self._order), at_ms)
        if isinstance(record, PassedOn):
            return Arrived(origin, send.to, record.message, sender=send.sender, passed=record, stamp=send.stamp)
        return Heard(origin, send.to, send.sender, record, send.stamp)

    def _broker_of(self, output: BothOutput, happened: Input) -> str:
        if isinstance(output, Tell):
            return self.came[output.notification.subscription].subscription.broker
        return getattr(happened, "broker", "")

    def _look(self, happened: Arrived | Heard, outputs: list[BothOutput]) -> None:
        """Note the events that this is about."""
        at = happened.at
        slot = self.state.slots.get(at)
        for event in slot.open if slot else ():
            self._seen[at, event.id] = Seen.opened(event)
        if isinstance(happened, Arrived):
            # A measurement is an event of its own, and over at once.
            for output in outputs:
                if isinstance(output, Decided) and output.event is not None and (at, output.event) not in self._seen:
                    report = events.report(
                        happened.message, happened.published_ms, self.snapshot.topic(at.topic), self.rules.bounds
                    )
                    self._seen[at, output.event] = Seen.measured(output.event, at, happened, report)

    # ---- what came of it ----------------------------------------------------------------------------------------------

    def result(self, start_ms: int) -> DryRun:
        told = tuple(self._told())
        return DryRun(
            told=told,
            fates=tuple(self._fates(told)),
            untold=tuple(self._untold(told)),
            books={broker: total(self.both.books_of(broker)) for broker in sorted(self.state.books)},
            snapshot=self.snapshot,
            start_ms=start_ms,
            end_ms=self.now_ms,
            beats=frozenset(s.name for s in self.snapshot.subscriptions.values() if HEARTBEAT.asked_by(s)),
        )

    def _told(self) -> Iterator[Told]:
        tells = [
            (output.at_ms, order, broker, output)
            for order, (output, broker) in enumerate(self.outputs)
            if isinstance(output, Tell) and output.notification.reason is not Reason.HEARTBEAT
        ]
        # Timers of many events fire at one mark, each at its own time.
        for number, (at_ms, order, broker, tell) in enumerate(sorted(tells, key=lambda each: each[:2]), 1):
            yield Told(number, order, at_ms, broker, tell.kafka_topic, tell.notification)

    def _fates(self, told: Iterable[Told]) -> Iterator[Fate]:
        carried = _by_event(told)
        aside = {output.origin: output for output, _ in self.outputs if isinstance(output, PutAside)}
        by_line: dict[int, list[Fate]] = {}
        for order, (output, broker) in enumerate(self.outputs):
            if not isinstance(output, Decided) or (came := self._arrived.get(output.origin)) is None:
                continue
            entry = came.entry.origin if isinstance(came, Arrived) else came.origin
            put = aside.get(entry)
            fate = Fate(
                line=self._lines[entry],
                order=order,
                at_ms=entry.append_ms,
                broker=broker,
                message=came.message if isinstance(came, Arrived) else None,
                outcome=output.outcome,
                reason=str(output.reason),
                detail=put.detail if put and output.outcome in (Outcome.LATE, Outcome.DEAD_LETTERED) else "",
                event=output.event,
                added=tuple(sorted(output.added)),
            )
            by_line.setdefault(fate.line, []).append(self._untaken(_settled(fate, carried), put))
        for line in sorted(by_line):
            fates = by_line[line]
            # A message that was passed on is decided about where it went.
            yield from [f for f in fates if f.outcome is not Outcome.FORWARDED] or fates[-1:]

    def _untaken(self, fate: Fate, put: PutAside | None) -> Fate:
        """Of a message that nobody is told of, whether it counts in windows, or was too late for them, or no link led on."""
        if fate.reason != MessageReason.UNWANTED or fate.message is None:
            return fate
        late = put.detail if put else ""
        if put and put.reason == MessageReason.CUT_OFF:
            return replace(fate, outcome=Outcome.LATE, reason=str(MessageReason.CUT_OFF), detail=late)
        if not self.both.counted.isdisjoint({(fate.message.topic, name) for name in (fate.message.message_id, fate.event or "")}):
            return replace(fate, reason=str(MessageReason.WINDOWED), detail=late)
        return replace(fate, outcome=Outcome.LATE, reason=str(MessageReason.WINDOW_CLOSED), detail=late) if late else fate

    def _untold(self, told: tuple[Told, ...]) -> Iterator[Untold]:
        aside = {
            came.message.topic
            for output, _ in self.outputs
            if isinstance(output, PutAside) and isinstance(came := self._arrived.get(output.origin), Arrived)
        }
        plan = self._plans[len(self._plans)]
        for name in sorted(self.came):
            about = [(event, news) for each in told for event, news in _says(each.notification, name)]
            yield from untold(plan, self.came[name], list(self._seen.values()), about, aside)


def _says(notification: Notification, subscription: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events a notification is about, with the news of each; a digest speaks of more than one."""
    if notification.subscription == subscription:
        yield notification.event, notification.news
        for part in notification.digest:
            yield part.event, part.news


def _by_event(told: Iterable[Told]) -> dict[str, list[tuple[Told, frozenset[str]]]]:
    found: dict[str, list[tuple[Told, frozenset[str]]]] = {}
    for each in told:
        for event, news in _says(each.notification, each.notification.subscription):
            found.setdefault(event, []).append((each, frozenset(news)))
    return found


def _settled(fate: Fate, carried: Mapping[str, list[tuple[Told, frozenset[str]]]]) -> Fate:
    """What was held when it came has left since, or its event has ended."""
    if fate.outcome is not Outcome.HELD:
        return fate
    first: dict[str, Told] = {}
    for each, news in carried.get(fate.event or "", ()):
        if each.at_ms >= fate.at_ms and not news.isdisjoint(fate.added):
            first.setdefault(each.notification.subscription, each)
    if not first:
        return replace(fate, outcome=Outcome.MERGED, reason=str(MessageReason.UNWANTED))
    numbers = tuple(each.number for each in first.values())
    return replace(fate, outcome=Outcome.TOLD, reason=str(next(iter(first.values())).notification.reason), told_in=numbers)
