"""What follows from a log laid beside what a service wrote: notifications, and what was put aside.

The one place where the two are compared, whoever asks: `tidings replay` within what the log still says (`audit.proof`), the
demo and the live tests without any allowance (`audit.inspection`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from audit.horizon import ALWAYS, About, Reach, about
from audit.replay import Log, Replay
from audit.written import Written
from streaming.broker.state import NEVER
from streaming.model.inputs import Arrived
from streaming.model.outputs import Outcome, PutAside
from streaming.wire.aside import read_aside, topic_of
from streaming.wire.notification import decode_notification, encode_notification
from streaming.wire.record import Record
from tidings import names
from tidings.notification import Notification, Reason


class Finding(StrEnum):
    """How the two can differ."""

    MISSING = "missing"
    """It follows from the log, and is not there."""
    BESIDE = "beside"
    """It is there, and does not follow from the log."""
    OTHER = "other"
    """It is there, with other bytes."""


@dataclass(slots=True)
class TellTally:
    """How many of what follows from the log are there. ``repeated`` are equal byte for byte, as after a crash."""

    expected: int = 0
    same: int = 0
    missing: int = 0
    beside: int = 0
    other: int = 0
    repeated: int = 0
    undecided: int = 0
    """Those about which the log does not say enough."""


@dataclass(frozen=True, slots=True)
class CompareScope:
    """What to compare: everything, what came from a certain time on, or what is about a topic or a key."""

    since_ms: int | None = None
    topic: str | None = None
    key: str | None = None

    @property
    def is_all(self) -> bool:
        return self == CompareScope()

    def takes(self, about: About | None) -> bool:
        if self.topic is None and self.key is None:
            return True
        return about is not None and self.topic in (None, about[0]) and self.key in (None, about[1])


NOTIFICATION = "notification"
"""What a difference is about, if not about a Kafka topic for what is put aside."""


# ---- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """Something that should be in Kafka, or is. What has the same ``key`` should have the same ``content``."""

    key: Hashable
    content: Hashable
    at_ms: int
    """When it was decided; for what is in Kafka, when it was appended."""
    about: About | None
    text: str
    whole: object = None
    """All of it, for whoever wants more than the text."""

    def __str__(self) -> str:
        return self.text if self.whole is None else repr(self.whole)


@dataclass(frozen=True, slots=True)
class Difference:
    """One of them, in words; and where there are any, what should be there and is not, and what is and should not."""

    what: str
    finding: Finding
    text: str
    lacking: Item | None = None
    extra: Item | None = None


@dataclass(frozen=True, slots=True)
class ComparedSpan:
    """What counts. Until ``until_ms`` the reference has followed; before ``before_ms`` somebody else may have written."""

    scope: CompareScope
    reach: Reach
    until_ms: int
    before_ms: int = ALWAYS
    gone_ms: Mapping[str, int] = field(default_factory=dict)
    """Kafka topics with results that have lost their beginning, with the time of the first record left."""
    heartbeats: bool = False
    """Whether these count too. They follow from the clock alone."""

    def asks(self, item: Item) -> bool:
        return self.scope.takes(item.about) and (self.scope.since_ms is None or item.at_ms >= self.scope.since_ms)


WITHOUT_ALLOWANCE = ComparedSpan(CompareScope(), Reach(None), NEVER, heartbeats=True)
"""All that was ever decided is there and nothing else: what a service at rest is held to, with its log whole."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the two compare."""

    notifications: TellTally
    late: TellTally
    dead_letters: TellTally
    differences: tuple[Difference, ...]
    foreign: tuple[Record, ...]
    """Records in the notification topics that are no notifications."""


def compare(log: Log, replay: Replay, written: Written, bounds: ComparedSpan) -> Comparison:
    """Lay what follows from a log beside what was written."""
    found, foreign = delivered_items(written.delivered, bounds)
    notifications, told = tally(NOTIFICATION, told_items(replay, bounds), found, bounds)
    late, aside = tally(
        names.LATE,
        put_aside_items(log, replay, Outcome.LATE),
        found_aside_items(replay, written.late, Outcome.LATE),
        bounds,
    )
    dead_letters, dead = tally(
        names.DEAD_LETTER,
        put_aside_items(log, replay, Outcome.DEAD_LETTERED),
        found_aside_items(replay, written.dead_letters, Outcome.DEAD_LETTERED),
        bounds,
    )
    return Comparison(notifications, late, dead_letters, (*told, *aside, *dead), tuple(foreign))


def tally(what: str, expected: Iterable[Item], found: Iterable[Item], bounds: ComparedSpan) -> tuple[TellTally, list[Difference]]:
    """Lay what should be there beside what is."""
    counts = TellTally()
    differences: list[Difference] = []
    there: dict[Hashable, list[Item]] = {}
    for item in found:
        there.setdefault(item.key, []).append(item)
    wanted: dict[Hashable, list[Item]] = {}
    for item in expected:
        wanted.setdefault(item.key, []).append(item)
    for key, items in wanted.items():
        if bounds.asks(items[0]):
            differences += _match(what, items, there.get(key, []), bounds, counts)
    for key, items in there.items():
        if key not in wanted and bounds.asks(items[0]):
            differences += _stranger(what, items[0], bounds, counts)
    return counts, differences


def _match(what: str, wanted: list[Item], there: list[Item], bounds: ComparedSpan, counts: TellTally) -> Iterator[Difference]:
    first = wanted[0]
    if first.at_ms < bounds.reach.known_ms(first.about):
        counts.undecided += len(wanted)
        return
    should, have = Counter(item.content for item in wanted), Counter(item.content for item in there)
    same = (should & have).total()
    others = [item for item in there if item.content not in should]
    lacking = max(0, should.total() - same - len(others))
    if lacking and _may_be_elsewhere(first, bounds):
        counts.undecided += lacking
        lacking = 0
    counts.expected += same + len(others) + lacking
    counts.same += same
    counts.repeated += (have - should).total() - len(others)
    counts.other += len(others)
    counts.missing += lacking
    right = None if first.content in have else first
    for item in others:
        yield Difference(what, Finding.OTHER, f"{item.text}; it should be: {first.text}", right, item)
    if lacking:
        yield Difference(what, Finding.MISSING, first.text, first)


def _may_be_elsewhere(item: Item, bounds: ComparedSpan) -> bool:
    """Whether Kafka has deleted it since, or the service need not have come to it yet."""
    kafka_topic = item.key[0] if isinstance(item.key, tuple) else ""
    return item.at_ms < bounds.gone_ms.get(str(kafka_topic), ALWAYS) or item.at_ms > bounds.until_ms


def _stranger(what: str, item: Item, bounds: ComparedSpan, counts: TellTally) -> Iterator[Difference]:
    if item.at_ms > bounds.until_ms:
        return  # it follows from what came after the log was read
    reach = bounds.reach
    # A record stands in Kafka some time after it was decided; the same again is allowed for that.
    margin_ms = 0 if reach.since_ms is None else reach.quiet(item.about[0] if item.about else "")
    if item.at_ms < bounds.before_ms or item.at_ms < reach.known_ms(item.about) + margin_ms:
        counts.undecided += 1
        return
    counts.beside += 1
    yield Difference(what, Finding.BESIDE, item.text, extra=item)


# ---- notifications, and what was put aside ----------------------------------------------------------------------------


def told_items(replay: Replay, bounds: ComparedSpan) -> list[Item]:
    """The notifications that follow from the log."""
    exact_ids = bounds.reach.exact_ids
    return [
        _notification_item(tell.kafka_topic, note, encode_notification(note, tell.encoding), tell.at_ms, exact_ids, note)
        for tell in replay.told
        if (note := tell.notification).reason is not Reason.HEARTBEAT or bounds.heartbeats
    ]


def delivered_items(records: Iterable[Record], bounds: ComparedSpan) -> tuple[list[Item], list[Record]]:
    """The notifications in Kafka, and the records that are none."""
    items, foreign = [], []
    for record in records:
        try:
            notification = decode_notification(record.value or b"")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            foreign.append(record)  # somebody else writes there too
            continue
        if bounds.heartbeats or notification.reason is not Reason.HEARTBEAT:
            at, value, exact_ids = record.kafka_topic, record.value or b"", bounds.reach.exact_ids
            items.append(_notification_item(at, notification, value, record.append_ms, exact_ids, value))
    return items, foreign


def _notification_item(
    kafka_topic: str, note: Notification, value: bytes, at_ms: int, exact_ids: bool, whole: Notification | bytes
) -> Item:
    key: Hashable = (kafka_topic, note.id)
    content: Hashable = value
    if not exact_ids:
        key = (kafka_topic, note.subscription, note.event, note.revision, tuple(each.event for each in note.digest))
        content = value.replace(note.id.encode(), b"")
    said = [note.news, *(each.news for each in note.digest)]
    news = "; ".join(", ".join(f"{name}={value!r}" for name, value in sorted(each.items())) for each in said if each)
    text = f"{note.subscription}, {note.topic} · {note.key}, {note.reason}, revision {note.revision}: {news}"
    return Item(key, content, at_ms, (note.topic, note.key), text, whole)


def put_aside_items(log: Log, replay: Replay, outcome: Outcome) -> list[Item]:
    """What follows from the log for `late` or `dead-letter`: the untouched bytes, or what reports said together, and why."""
    rows = {(row.kafka_topic, row.partition, row.offset): row for row in log.rows}
    abouts = {happened.entry.origin: about(happened) for happened in replay.inputs if isinstance(happened, Arrived)}
    items = []
    for output in replay.outputs:
        if isinstance(output, PutAside) and output.outcome is outcome:
            origin = output.origin
            at = (origin.kafka_topic, origin.partition, origin.offset)
            entry = output.entry or rows[at].entry
            content = (str(output.reason), output.detail, entry.record_key, entry.value)
            items.append(_aside_item(outcome, (*at, output.merged), content, origin.append_ms, abouts.get(origin)))
    return items


def found_aside_items(replay: Replay, records: Iterable[Record], outcome: Outcome) -> list[Item]:
    """What is in `late` or `dead-letter`. A control record that was put aside there is not the brokers' doing."""
    abouts = {_at(h): about(h) for h in replay.inputs if isinstance(h, Arrived) and h.sender is None}
    items = []
    for record in records:
        aside = read_aside(record.headers)
        if aside.is_control:
            continue
        at = (aside.origin.kafka_topic, aside.origin.partition, aside.origin.offset)
        content = (aside.reason, aside.detail, record.key, record.value)
        items.append(_aside_item(outcome, (*at, aside.merged), content, record.append_ms, abouts.get(at)))
    return items


def _at(happened: Arrived) -> tuple[str, int, int]:
    return happened.origin.kafka_topic, happened.origin.partition, happened.origin.offset


def _aside_item(
    outcome: Outcome,
    at: tuple[str, int, int, bool],
    content: tuple[str, str, bytes | None, bytes | None],
    at_ms: int,
    about: About | None,
) -> Item:
    reason, detail, _, _ = content
    return Item(
        (topic_of(outcome), *at), content, at_ms, about, f"{at[0]}, partition {at[1]}, offset {at[2]}: {reason}, {detail}"
    )
