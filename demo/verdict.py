"""How the demo ended: the service held to the reference, what its gathering saved, and how long news took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from audit.inspection import Inspection, inspect
from audit.replay import Replay, replay
from clients.connection import Connection
from clients.decisions import Way, crossed_by_books
from clients.decisions import WindowTraffic as CrossedForWindows
from demo.scene import WATCHED
from demo.traffic import LinkTraffic, traffic
from producers.workload import SentMessage
from streaming.broker.settings import message_limits_of, rules_of, timing_of
from streaming.model.books import Books
from streaming.model.outputs import Decided, MessageReason, Outcome, Tell
from streaming.wire.notification import encode_notification
from tidings.config import Config
from tidings.notification import Notification
from topology.plan import Plan


@dataclass(frozen=True)
class DemoVerdict:
    """How it ended. ``differences`` names notifications that only one of the two, service or reference, has."""

    by_broker: Mapping[str, Books]
    gatherer: str
    published: int
    links: list[LinkTraffic]
    differences: list[str]
    delays_s: list[float]
    story: Replay
    story_of: tuple[str, str]
    events: int
    readings: int
    windows: list[Notification]
    windows_by_link: Mapping[Way, CrossedForWindows]
    windows_delays_s: list[float]

    @property
    def gathered(self) -> Books:
        """The books of the broker that gathers: all messages come by it."""
        return self.by_broker[self.gatherer]

    @property
    def for_windows(self) -> int:
        """What came by the broker that gathers and was about windows only."""
        return sum(self.gathered.outcomes[Outcome.MERGED, why] for why in (MessageReason.WINDOWED, MessageReason.UNWANTED))

    @property
    def notifications(self) -> int:
        """Those about events."""
        return sum(sum(books.notifications.values()) for books in self.by_broker.values()) - len(self.windows)

    @property
    def balanced(self) -> bool:
        return all(books.balanced for books in self.by_broker.values())

    @property
    def holds(self) -> bool:
        held = sum(books.total(Outcome.HELD) for books in self.by_broker.values())
        return self.balanced and not self.differences and held == 0

    @property
    def delay_s(self) -> float:
        return median(self.delays_s) if self.delays_s else 0.0

    @property
    def windows_delay_s(self) -> float:
        return median(self.windows_delays_s) if self.windows_delays_s else 0.0


def verdict(
    connection: Connection, config: Config, reports: Sequence[SentMessage], readings: Sequence[SentMessage], events: int
) -> DemoVerdict:
    """Run the log through the plain reference and compare, byte for byte."""
    limits, rules, timing = message_limits_of(config), rules_of(config), timing_of(config)
    found = inspect(connection, limits=limits, rules=rules, timing=timing)
    reference, books = found.reference, found.written.books
    loudest = Counter(one.message.key for one in reports).most_common(1)[0][0]
    told_ms = _told_ms(found)
    return DemoVerdict(
        by_broker=books,
        gatherer=next(part.gatherer for part in Plan(reference.control).route("incident").parts if part.gatherer),
        published=len(reports),
        links=list(traffic(connection, limits, reports)),
        differences=[*found.differences, *found.received(len(reports) + len(readings))],
        delays_s=list(_delays_s(reference, told_ms)),
        story=replay(connection, service=None, limits=limits, rules=rules, timing=timing, only=("incident", loudest)),
        story_of=("incident", loudest),
        events=events,
        readings=len(readings),
        windows=[tell.notification for tell in reference.told if tell.notification.window is not None],
        windows_by_link=crossed_by_books(books),
        windows_delays_s=list(_after_the_end_s(reference, told_ms)),
    )


def _told_ms(found: Inspection) -> dict[str, int]:
    """When each notification of the reference was appended, the last time if it was repeated."""
    delivered = {(record.kafka_topic, record.value): record.append_ms for record in found.written.delivered}
    expected = [(tell.kafka_topic, encode_notification(tell.notification, tell.encoding), tell) for tell in found.reference.told]
    return {tell.notification.id: delivered[at, value] for at, value, tell in expected if (at, value) in delivered}


def _after_the_end_s(reference: Replay, told_ms: Mapping[str, int]) -> Iterator[float]:
    """From the end of a window to the append of its notification."""
    for tell in reference.told:
        if (window := tell.notification.window) is not None and tell.notification.id in told_ms:
            yield (told_ms[tell.notification.id] - window.end) / 1000


def _delays_s(reference: Replay, told_ms: dict[str, int]) -> Iterator[float]:
    """From the publication of the oldest message whose news a notification carries to the append of the notification."""
    arrived = reference.arrived
    waiting: dict[str, int] = {}
    for output in reference.outputs:
        match output:
            case Tell(notification=told):
                if told.subscription == WATCHED and told.id in told_ms and (since_ms := waiting.pop(told.event, None)):
                    yield (told_ms[told.id] - since_ms) / 1000
            case Decided(origin=origin, outcome=Outcome.HELD, event=str(event)) if origin in arrived:
                waiting.setdefault(event, arrived[origin].entry.origin.append_ms)
