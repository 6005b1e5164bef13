"""What `tidings demo` does, without how it looks: publish a realistic morning, and listen to what is told."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from clients import control
from clients.books import from_publishers, read_books
from clients.connection import Connection
from clients.subscriber import Subscriber
from demo.scene import BROKERS, BURST_MS, RECORDS, ROADS, SHIFT_MS, SPREAD_MS, WINDOWED, broker_of, delivered_to
from demo.traffic import about_events
from demo.verdict import DemoVerdict, verdict
from producers.incidents import incidents
from producers.publisher import Publisher
from producers.readings import readings
from producers.workload import SentMessage, dated
from streaming.model.books import Books
from streaming.model.outputs import Outcome
from tidings.config import Config
from tidings.errors import TidingsError
from tidings.notification import Notification

_ADOPT_S, _SETTLE_S = 30.0, 60.0


@dataclass
class Show:
    """What has happened so far; the command line draws it while it changes."""

    published: int = 0
    told: Counter[str] = field(default_factory=Counter)
    latest: list[Notification] = field(default_factory=list)
    windows: dict[str, int] = field(default_factory=dict)
    """By subscription, where its last window that was told begins."""


class Demo:
    """One run against a service that is up."""

    def __init__(self, connection: Connection, config: Config, *, events: int, witnesses: int, seed: int) -> None:
        self._connection = connection
        self._config = config
        self._reports = incidents(events, witnesses, seed, SPREAD_MS, BURST_MS)
        self._readings = readings(ROADS, SPREAD_MS + BURST_MS, seed)
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
        with Subscriber(self._connection, delivered_to()) as subscriber:
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
        last = [self._last_ms[road.name] // SHIFT_MS * SHIFT_MS for road in ROADS]
        return all(self.show.windows.get(name, 0) >= start for name, start in zip(WINDOWED, last, strict=True))

    def verdict(self) -> DemoVerdict:
        """How it ended."""
        return verdict(self._connection, self._config, self._reports, self._readings, self.events)


def _paced(run: Iterable[SentMessage]) -> Iterator[SentMessage]:
    for one in run:
        if (early_s := one.at_ms / 1000 - time.time()) > 0:
            time.sleep(early_s)
        yield one


def _all_is_over(books: Mapping[str, Books], messages: int) -> bool:
    """Whether every message has come to its end: none held, none on a link."""
    on_links = sum(about_events(each.sent) - about_events(each.heard) for each in books.values())
    held = sum(each.total(Outcome.HELD) for each in books.values())
    return from_publishers(books) >= messages and on_links == 0 and held == 0
