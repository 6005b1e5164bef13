"""A world for laws about windows: readings that come to its brokers at random, and what there is of them to count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, ClassVar

from streaming.model.entry import Origin
from streaming.model.items import Publication
from streaming.model.links import PassedOn
from streaming.model.outputs import Send
from streaming.world.records import broker, link
from streaming.world.world import World
from tidings import names
from tidings.message import Message
from tidings.topic import Timing

BROKERS = ("b1", "b2", "b3", "b4")
OVERLAYS: Mapping[str, list[dict[str, Any]]] = {
    "one": [],
    "chain": [*map(broker, BROKERS), *(link(a, b) for a, b in pairwise(BROKERS))],
    "star": [*map(broker, BROKERS), *(link("b1", b) for b in BROKERS[1:])],
}
SERVED: tuple[Mapping[str, Sequence[str] | None], ...] = (
    {"s": None},
    {"s": None},
    {"s": BROKERS},
    {"one": BROKERS[:2], "two": BROKERS[2:]},
    {"one": ("b1", "b3"), "two": ("b2", "b4")},
)
"""Who serves the brokers: one process that serves all there are, one that was told which, two with neighbours, two without."""
DELAYS_MS = (0, 0, 0, -400, 300, 2000, 6000)
"""How long before it enters something was published; the clocks of some publishers are fast."""
SPEEDS = (1, 2.5, 7, 0.1, 9, -3, 2**60, "fast", True, None)


class WindowWorld(World):
    """Messages are readings, unless they say otherwise."""

    topic: ClassVar[str] = "reading"

    def play(self, names: Sequence[str], chance: Random, count: int, *, crashes: bool = False) -> None:
        """``count`` readings at these brokers, some of them late, while both pipelines run."""
        for _ in range(count):
            fields = {"road": chance.choice(["E45", "E20", "E6"]), "speed": chance.choice(SPEEDS)}
            at, after_ms, number = chance.choice(names), chance.randint(0, 700), len(self.published)
            published_ms = self.now_ms + after_ms - chance.choice(DELAYS_MS)
            self.publish(
                at, fields, after_ms=after_ms, key=chance.choice("abc"), id=f"m{number % 7}{number}", published_ms=published_ms
            )
            if chance.random() < 0.3:
                self.tick(chance.randint(1, 1000))
            self.run(crashes=crashes)

    def entered(self) -> list[Publication]:
        """Everything that was published, as it entered."""
        rows = [row for name, rows in self.log.items() if name.startswith(names.PUBLISH) for row in rows]
        return [
            Publication(
                key=row.payload.key,
                id=row.payload.message_id,
                published_ms=row.append_ms if row.payload.published_ms is None else row.payload.published_ms,
                entered_ms=row.append_ms,
                entered_at=(row.kafka_topic, row.partition, row.offset),
                fields=dict(row.payload.fields),
            )
            for row in rows
            if isinstance(row.payload, Message)
        ]

    def ended(self, topic: str, gatherer: str) -> list[Publication]:
        """Every event, as it was in the end at the broker that gathers. Each report says something new, and those of a key
        entered within a window; but they may have come so far apart that the event was forgotten meanwhile."""
        by_key: dict[str, dict[str, _Report]] = {}
        for name, rows in self.log.items():
            for row in rows if name != names.CLOCK and names.broker_of(name) == gatherer else ():
                sent = row.payload.record if isinstance(row.payload, Send) else row.payload
                message = sent.message if isinstance(sent, PassedOn) else sent
                origin = sent.entry.origin if isinstance(sent, PassedOn) else Origin(name, 0, row.offset, row.append_ms)
                if isinstance(message, Message) and message.topic == topic:
                    by_key.setdefault(message.key, {}).setdefault(message.message_id, _Report(row.append_ms, origin, message))
        timing = self.plan.topic(topic).timing
        ordered = [sorted(reports.values(), key=lambda each: each.came_ms) for reports in by_key.values()]
        return [_event(joined) for reports in ordered for joined in _apart(reports, timing)]

    @property
    def aggregates(self) -> list[Mapping[str, Any]]:
        """The records of the aggregate subscriptions that there are now."""
        return [record for record in self.records_now.values() if record["kind"] == "subscription" and "window" in record]


@dataclass(frozen=True, slots=True)
class _Report:
    came_ms: int
    origin: Origin
    message: Message


def _apart(reports: list[_Report], timing: Timing) -> Iterator[list[_Report]]:
    """The reports of each event: between those of two, an event was forgotten before its window ended."""
    joined: list[_Report] = []
    for each in reports:
        if joined:
            ends_ms = max(min(one.origin.append_ms for one in joined) + timing.window_ms, joined[0].came_ms)
            forgotten_ms = joined[-1].came_ms + timing.remember_ms
            if timing.remember_ms < timing.window_ms and forgotten_ms < ends_ms and each.came_ms >= forgotten_ms:
                yield joined
                joined = []
        joined.append(each)
    yield joined


def _event(reports: list[_Report]) -> Publication:
    first = min((each.origin for each in reports), key=lambda each: (each.append_ms, each.kafka_topic, each.offset))
    published_ms = min(each.message.published_ms or 0 for each in reports)
    fields = {name: value for each in reports for name, value in each.message.fields.items()}
    at = (first.kafka_topic, first.partition, first.offset)
    return Publication(reports[0].message.key, reports[0].message.message_id, published_ms, first.append_ms, at, fields)
