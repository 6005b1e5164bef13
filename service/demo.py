"""What `tidings demo` does, without how it looks: publish a realistic morning, listen, and hold the service to the reference."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from producers import control
from producers.books import read_books
from producers.connection import Connection
from producers.incidents import incidents
from producers.log import read_all
from producers.publisher import Publisher
from producers.replayed import Replay, replay
from producers.subscriber import Subscriber
from producers.workload import Published, dated
from streaming.broker.books import Books, total
from streaming.broker.settings import message_limits_of, rules_of, timing_of
from streaming.broker.values import Decided, Outcome, Tell
from tidings.codec import encode_notification
from tidings.config import Config
from tidings.errors import TidingsError
from tidings.notification import Notification

WINDOW_MS = 12_000
HOLD_MS = 500
_SPREAD_MS, _BURST_MS = 10_000, 8_000
_ADOPT_S, _SETTLE_S = 30.0, 60.0

RECORDS: list[dict[str, object]] = [
    {
        "kind": "topic",
        "name": "incident",
        "fields": {"severity": "max", "injured": "max", "tags": "union"},
        "window_ms": WINDOW_MS,
        "hold_ms": HOLD_MS,
    },
    {"kind": "subscription", "name": "ops", "subscriber": "ops", "topic": "incident"},
    {
        "kind": "subscription",
        "name": "press",
        "subscriber": "press",
        "topic": "incident",
        "where": "severity >= 3",
        "missing": "patient",
        "every_ms": 3000,
        "fields": ["what", "where", "injured"],
    },
]
WATCHED = "ops"
"""The subscription that is told everything at once: its delay is the service's."""


@dataclass
class Show:
    """What has happened so far; the command line draws it while it changes."""

    published: int = 0
    told: Counter[str] = field(default_factory=Counter)
    latest: list[Notification] = field(default_factory=list)
    books: Books = field(default_factory=Books)


@dataclass(frozen=True)
class Verdict:
    """How it ended. ``differences`` names notifications that only one of the two, service or reference, has."""

    books: Books
    differences: list[str]
    delays_s: list[float]
    story: Replay
    story_of: tuple[str, str]
    events: int

    @property
    def holds(self) -> bool:
        return self.books.balanced and not self.differences and self.books.total(Outcome.HELD) == 0

    @property
    def delay_s(self) -> float:
        return median(self.delays_s) if self.delays_s else 0.0


class Demo:
    """One run against a service that is up."""

    def __init__(self, connection: Connection, config: Config, *, events: int, witnesses: int, seed: int) -> None:
        self._connection = connection
        self._config = config
        self._run = incidents(events, witnesses, seed, _SPREAD_MS, _BURST_MS)
        self.messages = len(self._run)
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
        with Publisher(self._connection) as publisher:
            for one in _paced(dated(self._run, time.time_ns() // 1_000_000)):
                publisher.publish(one.message)
                self.show.published += 1

    def _listen(self, subscriber: Subscriber) -> Show:
        deadline = time.monotonic() + 0.25
        while (left := deadline - time.monotonic()) > 0:
            if (notification := subscriber.poll(left)) is not None:
                self.show.told[notification.subscription] += 1
                self.show.latest = [*self.show.latest[-7:], notification]
        return self.show

    def _until_all_is_settled(self, subscriber: Subscriber) -> Iterator[Show]:
        """Silence falls: the last windows close and everything due is told."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            yield self._listen(subscriber)
            self.show.books = total(read_books(self._connection).values())
            told_all = sum(self.show.told.values()) == sum(self.show.books.notifications.values())
            if self.show.books.received >= self.messages and not self.show.books.total(Outcome.HELD) and told_all:
                return

    # ---- afterwards ---------------------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """Run the log through the plain reference and compare, byte for byte."""
        reference = self._reference()
        delivered = {(r.kafka_topic, r.value): r.append_ms for r in read_all(self._connection, _delivered_to())}
        expected = {(tell.kafka_topic, encode_notification(tell.notification, tell.encoding)): tell for tell in reference.told}
        differences = [f"not told: {tell.notification}" for at, tell in expected.items() if at not in delivered]
        differences += [f"told beside the reference: {value!r}" for topic, value in delivered if (topic, value) not in expected]
        books = total(read_books(self._connection).values())
        if books.received != self.messages:
            differences.append(f"{self.messages} messages were published, {books.received} received")
        loudest = Counter(message.message.key for message in self._run).most_common(1)[0][0]
        told_ms = {tell.notification.id: delivered[at] for at, tell in expected.items() if at in delivered}
        return Verdict(
            books,
            differences,
            list(_delays_s(reference, told_ms)),
            self._reference(only=("incident", loudest)),
            ("incident", loudest),
            self.events,
        )

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
    return [f"notify.{record['subscriber']}" for record in RECORDS if record["kind"] == "subscription"]


def _paced(run: Iterable[Published]) -> Iterator[Published]:
    for one in run:
        if (early_s := one.at_ms / 1000 - time.time()) > 0:
            time.sleep(early_s)
        yield one


def _delays_s(reference: Replay, told_ms: dict[str, int]) -> Iterator[float]:
    """From the append of the oldest message whose news a notification carries to the append of the notification."""
    waiting: dict[str, int] = {}
    for output in reference.outputs:
        match output:
            case Tell(notification=told):
                if told.subscription == WATCHED and told.id in told_ms and (since_ms := waiting.pop(told.event, None)):
                    yield (told_ms[told.id] - since_ms) / 1000
            case Decided(origin=origin, outcome=Outcome.HELD, event=str(event)):
                waiting.setdefault(event, origin.append_ms)
