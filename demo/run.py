"""What `tidings demo` does, without how it looks: publish a realistic morning, listen, and hold the service to the reference."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from audit.replay import Replay, replay
from clients import control
from clients.books import from_publishers, read_books
from clients.connection import Connection
from clients.decisions import Way, crossed_by_books
from clients.decisions import WindowTraffic as CrossedForWindows
from clients.log import read_all
from clients.subscriber import Subscriber
from producers.incidents import incidents
from producers.publisher import Publisher
from producers.readings import Road, readings
from producers.workload import SentMessage, dated
from streaming.broker.settings import message_limits_of, rules_of, timing_of
from streaming.model.books import Books
from streaming.model.links import EventNews, HandOver, PassedOn
from streaming.model.outputs import Decided, MessageReason, Outcome, Tell
from streaming.wire import crossing
from streaming.wire.codec import encode_notification
from streaming.world.simulator import Crossed, Simulator
from tidings import names
from tidings.config import Config
from tidings.control import Snapshot
from tidings.errors import TidingsError
from tidings.notification import Notification
from topology.plan import Plan

WINDOW_MS = 15_000
HOLD_MS = 500
_SPREAD_MS, _BURST_MS = 10_000, 8_000
_ADOPT_S, _SETTLE_S = 30.0, 60.0
_SPAN_MS, _SHIFT_MS = 10_000, 5_000
ROADS = (Road("E45", sensors=12, every_ms=900, usual_speed=88.0), Road("Harbour Bridge", 1, every_ms=7_000, usual_speed=42.0))
"""On one of them windows have many readings, on the other one or two."""
_WINDOWED = ("motorway", "bridge")
"""The subscriptions to averages, one for each road."""

BROKERS = tuple(f"b{number}" for number in range(1, 8))
LINKS = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b3", "b6"), ("b4", "b7"), ("b2", "b6"))
"""Seven brokers; three of them in a ring, so that there is more than one way."""

_ABOUT_EVENTS = frozenset(kind.__name__ for kind in (PassedOn, EventNews, HandOver))

_OVERLAY: list[dict[str, object]] = [
    *[dict[str, object](kind="broker", name=name) for name in BROKERS],
    *[dict[str, object](kind="link", name=f"{a}-{b}", a=a, b=b) for a, b in LINKS],
]


def _averages() -> Iterator[dict[str, object]]:
    """A subscription to the usual and the least speed on each road."""
    of = {"avg_speed": "avg(speed)", "slowest": "min(speed)"}
    for name, broker, road in zip(_WINDOWED, ("b7", "b5"), ROADS, strict=True):
        asked = {"kind": "subscription", "name": name, "subscriber": "traffic", "broker": broker, "topic": "speed"}
        window = {"size_ms": _SPAN_MS, "shift_ms": _SHIFT_MS, "of": of}
        yield {**asked, "where": f"road = '{road.name}'", "window": window}


RECORDS: list[dict[str, object]] = [
    *_OVERLAY,
    {
        "kind": "topic",
        "name": "incident",
        "fields": {"severity": "max", "injured": "max", "tags": "union"},
        "window_ms": WINDOW_MS,
        "hold_ms": HOLD_MS,
        "early": True,
    },
    {"kind": "subscription", "name": "ops", "subscriber": "ops", "broker": "b5", "topic": "incident"},
    {
        "kind": "subscription",
        "name": "press",
        "subscriber": "press",
        "broker": "b6",
        "topic": "incident",
        "where": "severity >= 3",
        "missing": "patient",
        "every_ms": 3000,
        "fields": ["what", "where", "injured"],
    },
    {"kind": "topic", "name": "speed", "gather": False},
    *_averages(),
]
WATCHED = "ops"
"""The subscription that is told everything at once: its delay is the service's."""


@dataclass
class Show:
    """What has happened so far; the command line draws it while it changes."""

    published: int = 0
    told: Counter[str] = field(default_factory=Counter)
    latest: list[Notification] = field(default_factory=list)
    windows: dict[str, int] = field(default_factory=dict)
    """By subscription, where its last window that was told begins."""


@dataclass(frozen=True)
class LinkTraffic:
    """What crossed one direction of a link, and what would have without a gatherer, on the same input."""

    sender: str
    to: str
    messages: int
    bytes: int
    baseline_messages: int
    baseline_bytes: int


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


class Demo:
    """One run against a service that is up."""

    def __init__(self, connection: Connection, config: Config, *, events: int, witnesses: int, seed: int) -> None:
        self._connection = connection
        self._config = config
        self._reports = incidents(events, witnesses, seed, _SPREAD_MS, _BURST_MS)
        self._readings = readings(ROADS, _SPREAD_MS + _BURST_MS, seed)
        self._run = sorted([*self._reports, *self._readings], key=lambda each: each.at_ms)
        self._last_ms: dict[str, int] = {}
        self.messages = len(self._run)
        self.readings = len(self._readings)
        self.events = events
        self.show = Show()

    def play(self) -> Iterator[Show]:
        """Publish and listen; yields whenever there is something to look at."""
        version = control.apply(self._connection, [(f"{r['kind']}/{r['name']}", dict(r)) for r in RECORDS])
        if not control.wait_adopted(self._connection, version, _ADOPT_S):
            raise TidingsError("the service did not take up the demo's subscriptions")
        publishing = threading.Thread(target=self._publish, name="demo-publisher", daemon=True)
        with Subscriber(self._connection, _delivered_to()) as subscriber:
            publishing.start()
            while publishing.is_alive():
                yield self._listen(subscriber)
            yield from self._until_all_is_settled(subscriber)

    def _publish(self) -> None:
        with contextlib.ExitStack() as open_ones:
            publishers = {name: open_ones.enter_context(Publisher(self._connection, name)) for name in BROKERS}
            for one in _paced(dated(self._run, time.time_ns() // 1_000_000)):
                publishers[broker_of(one)].publish(one.message)
                if (road := one.message.fields.get("road")) is not None:
                    self._last_ms[str(road)] = one.at_ms
                self.show.published += 1

    def _listen(self, subscriber: Subscriber) -> Show:
        deadline = time.monotonic() + 0.25
        while (left := deadline - time.monotonic()) > 0:
            if (notification := subscriber.poll(left)) is not None:
                self.show.told[notification.subscription] += 1
                if notification.window is not None:
                    self.show.windows[notification.subscription] = notification.window.start
                self.show.latest = [*self.show.latest[-7:], notification]
        return self.show

    def _until_all_is_settled(self, subscriber: Subscriber) -> Iterator[Show]:
        """Silence falls: the last windows close and everything due is told."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            yield self._listen(subscriber)
            books = read_books(self._connection)
            told_all = sum(self.show.told.values()) == sum(sum(each.notifications.values()) for each in books.values())
            if told_all and self._windows_are_over() and _all_is_over(books, self.messages):
                return

    def _windows_are_over(self) -> bool:
        """Whether the last window that a reading counts in has been told, on every road."""
        last = [self._last_ms[road.name] // _SHIFT_MS * _SHIFT_MS for road in ROADS]
        return all(self.show.windows.get(name, 0) >= start for name, start in zip(_WINDOWED, last, strict=True))

    # ---- afterwards ---------------------------------------------------------------------------------------------------

    def verdict(self) -> DemoVerdict:
        """Run the log through the plain reference and compare, byte for byte."""
        reference = self._reference()
        delivered = {(r.kafka_topic, r.value): r.append_ms for r in read_all(self._connection, _delivered_to())}
        expected = {(tell.kafka_topic, encode_notification(tell.notification, tell.encoding)): tell for tell in reference.told}
        differences = [f"not told: {tell.notification}" for at, tell in expected.items() if at not in delivered]
        differences += [f"told beside the reference: {value!r}" for topic, value in delivered if (topic, value) not in expected]
        books = read_books(self._connection)
        if (received := from_publishers(books)) != self.messages:
            differences.append(f"{self.messages} messages were published, {received} received")
        loudest = Counter(message.message.key for message in self._reports).most_common(1)[0][0]
        told_ms = {tell.notification.id: delivered[at] for at, tell in expected.items() if at in delivered}
        return DemoVerdict(
            by_broker=books,
            gatherer=next(part.gatherer for part in Plan(reference.control).route("incident").parts if part.gatherer),
            published=len(self._reports),
            links=list(_traffic(self._crossed(), _baseline(self._reports))),
            differences=differences,
            delays_s=list(_delays_s(reference, told_ms)),
            story=self._reference(only=("incident", loudest)),
            story_of=("incident", loudest),
            events=self.events,
            readings=self.readings,
            windows=[tell.notification for tell in reference.told if tell.notification.window is not None],
            windows_by_link=crossed_by_books(books),
            windows_delays_s=list(_after_the_end_s(reference, told_ms)),
        )

    def _crossed(self) -> dict[Way, Crossed]:
        """What crossed each link about events."""
        ways = {names.link_topic(*way): way for a, b in LINKS for way in ((a, b), (b, a))}
        limits = message_limits_of(self._config)
        found: dict[Way, Crossed] = {}
        for record in read_all(self._connection, sorted(ways)):
            if record.value is None or record.value.startswith(names.MARK_START):
                continue
            crossed, _ = crossing.decode(record.value, limits)
            if type(crossed).__name__ in _ABOUT_EVENTS:
                so_far = found.setdefault(ways[record.kafka_topic], Crossed())
                so_far.records += 1
                so_far.bytes += len(record.value)
        return found

    def _reference(self, only: tuple[str, str] | None = None) -> Replay:
        return replay(
            self._connection,
            service=None,
            limits=message_limits_of(self._config),
            rules=rules_of(self._config),
            timing=timing_of(self._config),
            only=only,
        )


def _delivered_to() -> list[str]:
    return sorted({f"notify.{record['subscriber']}" for record in RECORDS if record["kind"] == "subscription"})


def _paced(run: Iterable[SentMessage]) -> Iterator[SentMessage]:
    for one in run:
        if (early_s := one.at_ms / 1000 - time.time()) > 0:
            time.sleep(early_s)
        yield one


def broker_of(one: SentMessage) -> str:
    """Where a witness is attached: the same broker every time."""
    return BROKERS[zlib.crc32(one.publisher.encode()) % len(BROKERS)]


def _all_is_over(books: Mapping[str, Books], messages: int) -> bool:
    """Whether every message has come to its end: none held, none on a link."""
    on_links = sum(_reports(each.sent) - _reports(each.heard) for each in books.values())
    held = sum(each.total(Outcome.HELD) for each in books.values())
    return from_publishers(books) >= messages and on_links == 0 and held == 0


def _reports(crossed: Counter[tuple[str, str]]) -> int:
    """Records about events, of all that crossed; those for windows are counted apart."""
    return sum(count for (_, kind), count in crossed.items() if kind in _ABOUT_EVENTS)


def _baseline(run: Iterable[SentMessage]) -> dict[Way, Crossed]:
    """What would cross each link about events if nobody gathered: every message on its own way to whoever wants it."""
    about_events = [record for record in RECORDS if "window" not in record]
    alone = [{**record, "gatherer": "none"} if record["kind"] == "topic" else record for record in about_events]
    snapshot = Snapshot()
    for version, record in enumerate(alone, 1):
        snapshot = snapshot.apply(version, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    simulator = Simulator(Plan(snapshot), lambda *_: 1, sizes=True)
    for one in dated(run, 0):
        simulator.publish(one.at_ms, broker_of(one), one.message)
    simulator.run()
    return simulator.crossed


def _traffic(crossed: Mapping[Way, Crossed], baseline: Mapping[Way, Crossed]) -> Iterator[LinkTraffic]:
    for sender, to in sorted({pair for a, b in LINKS for pair in ((a, b), (b, a))}):
        ours, alone = crossed.get((sender, to), Crossed()), baseline.get((sender, to), Crossed())
        yield LinkTraffic(sender, to, ours.records, ours.bytes, alone.records, alone.bytes)


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
