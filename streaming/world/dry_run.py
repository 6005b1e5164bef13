"""A dry run: control data and a file of messages through the same `step` as the service, in virtual time, without Kafka.

All brokers are in one bucket, links take no time unless told so, and after the last line time passes until nothing is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.broker.state import NEVER, Rules
from streaming.model.address import Address
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input, Marked, Progressed, Refused, Ticked
from streaming.model.items import Publication
from streaming.model.outputs import Decided, MessageReason, Outcome, PutAside, Tell
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.process import Process, ProcessOutput
from streaming.world.script import Line, MessageLine, encoded
from streaming.world.silence import Came, SeenEvent, Untold, untold
from streaming.world.simulator import CLOCK, VirtualTime
from tidings import event as events
from tidings import names
from tidings.control import Snapshot
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.notification import Notification, Reason
from topology.plan import Plan

_PROCESS = "dry-run"
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
    ordered = sorted(happenings, key=lambda happening: happening.at_ms)
    start_ms = ordered[0].at_ms if ordered else 0
    run = _Run(snapshot, start_ms, rules or Rules(), limits or MessageLimits(), hop_ms)
    for happening in ordered:
        run.line(happening)
    run.run()
    return run.result()


class _Run(VirtualTime):
    """One process serves all brokers."""

    def __init__(self, snapshot: Snapshot, start_ms: int, rules: Rules, limits: MessageLimits, hop_ms: int) -> None:
        super().__init__(lambda *_: hop_ms, rules=rules)
        self.came: dict[str, Came] = {}
        self.done: list[tuple[ProcessOutput, str]] = []
        """With the broker where it was decided; for a notification, that of its subscription."""
        self._limits = limits
        self._hop_ms = hop_ms
        self._start_ms = start_ms
        self._arrived: dict[Origin, Arrived | Refused] = {}
        self._counted: set[tuple[str, str]] = set()
        """What was offered to windows: the topic, and the id of the message or the event."""
        self._lines: dict[Origin, int] = {}
        self._seen: dict[tuple[Address, str], SeenEvent] = {}
        self.start(_PROCESS, None)
        self._process = self.processes[_PROCESS]
        # Windows count what enters after the tick that names their subscription. What is sent by it has come long before.
        self.push(0, _PROCESS, Ticked(start_ms - 1, self.versions.add(Plan(snapshot)), (CLOCK,)))

    def process_of(self, broker: str) -> str:
        del broker
        return _PROCESS

    # ---- what happens -------------------------------------------------------------------------------------------------

    def line(self, happening: Line) -> None:
        """What happens at the same time happens in the order of the file."""
        at_ms = happening.at_ms
        if isinstance(happening, MessageLine):
            self.push(at_ms, _PROCESS, self._read(happening))
            return
        value = None if happening.record is None else encoded(happening.record)
        held = self.versions.snapshot
        self.tick(at_ms, _PROCESS, self.versions.add(Plan(held.apply(held.version + 1, happening.key, value))))

    def _read(self, published: MessageLine) -> Input:
        # The line's number stands in for the offset: it says where to look.
        origin = Origin(names.publish_topic(published.broker), 0, published.line, published.at_ms)
        self._lines[origin] = published.line
        try:
            return Arrived(origin, published.broker, decode_message(published.value, self._limits), None, published.value)
        except BadMessage as error:
            return Refused(origin, published.broker, error.reason, error.detail)

    def _look_ahead(self, name: str, process: Process, happened: Input) -> None:
        """There is one clock, so the marks that one broker needs are there for all."""
        state, windows = process.events, process.windows
        closes_ms = windows.next_ms
        if isinstance(happened, Marked) and self.now_ms > self._said_ms and (state.ending or closes_ms <= state.clock_ms):
            # All that happened before now has been sent, and will have come when a hop has passed.
            self._said_ms = said_ms = self.now_ms + self._hop_ms
            self.push(said_ms, name, Progressed(said_ms, CLOCK, None, self.now_ms, state.version))
            self.push(said_ms + 1, name, Marked(CLOCK, said_ms + 1))
        if closes_ms <= state.clock_ms and isinstance(happened, Marked):
            closes_ms = NEVER  # these windows wait for somebody to say something: that time passes is not enough
        next_ms = min(state.wake_ms if state.slots else NEVER, closes_ms)
        if next_ms < NEVER:
            self._mark_at(name, self._grain(max(next_ms, self.now_ms, state.clock_ms + 1)))

    def _mark_at(self, name: str, at_ms: int) -> None:
        """A mark comes even if another comes before: how often brokers say how far their windows are depends on it."""
        if at_ms < self._woken.get(name, NEVER):
            self._woken[name] = at_ms
            self.push(at_ms, name, Marked(CLOCK, at_ms))

    def _grain(self, at_ms: int) -> int:
        """Each timer fires at its own time, whenever the mark that lets it is: exact marks only matter to what then crosses a
        link. Elsewhere they come together, the fewer the more there is to look through at each."""
        state = self._process.events
        if self.versions.plan_at(state.version).overlay.links:
            return at_ms
        grain_ms = _GRAIN_MS * (1 + len(state.slots) // 100)
        return -(-at_ms // grain_ms) * grain_ms

    def _step(self, name: str, happened: Input) -> Sequence[ProcessOutput]:
        if isinstance(happened, Ticked):
            if self.steps:
                self._take(name, Marked(CLOCK, self.now_ms))  # what was due by then is told by what held before
            self._adopt(self.versions[happened.version], happened.append_ms)
        elif isinstance(happened, Arrived | Refused):
            self._arrived[happened.origin] = happened
        elif isinstance(happened, Marked) and self._woken.get(name) == self.now_ms:
            del self._woken[name]
        return self._take(name, happened)

    def _take(self, name: str, happened: Input) -> Sequence[ProcessOutput]:
        outputs = super()._step(name, happened)
        self.done += [(output, self._broker_of(output, happened)) for output in outputs]
        self._counted |= {(each.topic, each.item.id) for each in self._process.offers if isinstance(each.item, Publication)}
        if isinstance(happened, Arrived | Heard):
            self._look(happened, outputs)
        return outputs

    def _adopt(self, snapshot: Snapshot, at_ms: int) -> None:
        """From here on this control data holds."""
        for name, subscription in snapshot.subscriptions.items():
            since_ms = self.came[name].since_ms if name in self.came else at_ms
            self.came[name] = Came(subscription, since_ms)
        for name, came in self.came.items():
            if name not in snapshot.subscriptions and came.until_ms is None:
                self.came[name] = replace(came, until_ms=at_ms)

    def _broker_of(self, output: ProcessOutput, happened: Input) -> str:
        if isinstance(output, Tell):
            return self.came[output.notification.subscription].subscription.broker
        return getattr(happened, "broker", "")

    def _look(self, happened: Arrived | Heard, outputs: Sequence[ProcessOutput]) -> None:
        """Note the events that this is about."""
        at = happened.at
        slot = self._process.events.slots.get(at)
        for event in slot.open if slot else ():
            self._seen[at, event.id] = SeenEvent.opened(event)
        if isinstance(happened, Arrived):
            # A measurement is an event of its own, and over at once.
            for output in outputs:
                if isinstance(output, Decided) and output.event is not None and (at, output.event) not in self._seen:
                    declared = self.versions[self._process.events.version].topic(at.topic)
                    report = events.report(happened.message, happened.published_ms, declared, self._rules.bounds)
                    self._seen[at, output.event] = SeenEvent.measured(output.event, at, happened, report)

    # ---- what came of it ----------------------------------------------------------------------------------------------

    def result(self) -> DryRun:
        told, snapshot = tuple(self._told()), self.versions.snapshot
        return DryRun(
            told=told,
            fates=tuple(self._fates(told)),
            untold=tuple(self._untold(told)),
            books={broker: total(self._process.books_of(broker)) for broker in sorted(self._process.events.books)},
            snapshot=snapshot,
            start_ms=self._start_ms,
            end_ms=self.now_ms,
            beats=frozenset(s.name for s in snapshot.subscriptions.values() if s.heartbeat_ms),
        )

    def _told(self) -> Iterator[Told]:
        tells = [
            (output.at_ms, order, broker, output)
            for order, (output, broker) in enumerate(self.done)
            if isinstance(output, Tell) and output.notification.reason is not Reason.HEARTBEAT
        ]
        # Timers of many events fire at one mark, each at its own time.
        for number, (at_ms, order, broker, tell) in enumerate(sorted(tells, key=lambda each: each[:2]), 1):
            yield Told(number, order, at_ms, broker, tell.kafka_topic, tell.notification)

    def _fates(self, told: Iterable[Told]) -> Iterator[Fate]:
        carried = _by_event(told)
        aside = {output.origin: output for output, _ in self.done if isinstance(output, PutAside)}
        by_line: dict[int, list[Fate]] = {}
        for order, (output, broker) in enumerate(self.done):
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
        if not self._counted.isdisjoint({(fate.message.topic, name) for name in (fate.message.message_id, fate.event or "")}):
            return replace(fate, reason=str(MessageReason.WINDOWED), detail=late)
        return replace(fate, outcome=Outcome.LATE, reason=str(MessageReason.WINDOW_CLOSED), detail=late) if late else fate

    def _untold(self, told: tuple[Told, ...]) -> Iterator[Untold]:
        aside = {
            came.message.topic
            for output, _ in self.done
            if isinstance(output, PutAside) and isinstance(came := self._arrived.get(output.origin), Arrived)
        }
        plan = self.versions.plan
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
