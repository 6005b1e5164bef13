"""Where the demo plays: seven brokers of a city, who asks for what, and the roads whose cars are measured."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from producers.readings import Road
from producers.workload import SentMessage
from tidings import names

WINDOW_MS = 15_000
HOLD_MS = 500
SPREAD_MS, BURST_MS = 10_000, 8_000
_SPAN_MS, SHIFT_MS = 10_000, 5_000
ROADS = (Road("E45", sensors=12, every_ms=900, usual_speed=88.0), Road("Harbour Bridge", 1, every_ms=7_000, usual_speed=42.0))
"""On one of them windows have many readings, on the other one or two."""
WINDOWED = ("motorway", "bridge")
"""The subscriptions to averages, one for each road."""

BROKERS = tuple(f"b{number}" for number in range(1, 8))
LINKS = (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b3", "b6"), ("b4", "b7"), ("b2", "b6"))
"""Seven brokers; three of them in a ring, so that there is more than one way."""

_OVERLAY: list[dict[str, object]] = [
    *[dict[str, object](kind="broker", name=name) for name in BROKERS],
    *[dict[str, object](kind="link", name=f"{a}-{b}", a=a, b=b) for a, b in LINKS],
]


def _averages() -> Iterator[dict[str, object]]:
    """A subscription to the usual and the least speed on each road."""
    of = {"avg_speed": "avg(speed)", "slowest": "min(speed)"}
    for name, broker, road in zip(WINDOWED, ("b7", "b5"), ROADS, strict=True):
        asked = {"kind": "subscription", "name": name, "subscriber": "traffic", "broker": broker, "topic": "speed"}
        window = {"size_ms": _SPAN_MS, "shift_ms": SHIFT_MS, "of": of}
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


def delivered_to() -> list[str]:
    """The Kafka topics where somebody is told."""
    return sorted({names.notify_topic(str(record["subscriber"])) for record in RECORDS if record["kind"] == "subscription"})


def broker_of(one: SentMessage) -> str:
    """Where a witness is attached: the same broker every time."""
    return BROKERS[zlib.crc32(one.publisher.encode()) % len(BROKERS)]
