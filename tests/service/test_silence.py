"""Silence: when nobody says anything, what is due is told all the same, and soon. A partition that lags closes nothing early."""

from __future__ import annotations

import json

import pytest

from producers.publisher import Publisher
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import subscription, topic
from testing.service import RunningService, wait_for
from tidings.message import Message

pytestmark = pytest.mark.timeout(300)

SOON_MS = 2000
"""A tick, and the batch that reads it."""

TIMES = (
    # Three ways to be due: the topic's own times, and what the subscription asks for.
    ("silent-hold", {"hold_ms": 3000}, {}),
    ("silent-cadence", {}, {"every_ms": 3000}),
    ("silent-window", {"window_ms": 5000}, {"every_ms": 3_600_000}),
)


def test_everything_due_is_told_soon_in_silence(service_up: RunningService):
    service_up.apply(*(topic(name, **more) for name, more, _ in TIMES), *(subscription(n, topic=n, **m) for n, _, m in TIMES))
    with Publisher(service_up.connection) as publisher:
        for name, _, _ in TIMES:
            publisher.publish(Message(name, "k", {"a": 1}))
            publisher.publish(Message(name, "k", {"b": 2}))
    late_ms = {
        "hold": told(service_up, "silent-hold", {"a": 1, "b": 2}) - 3000,
        # What comes second waits for the cadence, counted from when the first was due: with its message.
        "cadence": told(service_up, "silent-cadence", {"b": 2}) - 3000,
        "window": told(service_up, "silent-window", {"b": 2}) - 5000,
    }
    assert all(0 <= late <= SOON_MS for late in late_ms.values()), late_ms


def told(service: RunningService, name: str, news: dict) -> int:
    """How long after the event's first message this news was appended."""

    def look() -> int | None:
        for record in service.read(f"notify.{name}"):
            notification = json.loads(record.value or b"null")
            if notification["news"] == news:
                return record.append_ms - notification["first_ms"]
        return None

    return wait_for(f"{news} for {name}", look, 30)


# ---- what lags --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", ["publish.b1-1", "link.b2.b1-0"])
def test_a_partition_that_lags_closes_nothing_early(behind: str):
    """The clock is the lowest mark: ticks alone do not move it past what has not been read."""
    script = Script()
    script.control(topic(window_ms=5000, hold_ms=1000), subscription("all"))
    script.tick(0, (PARTITION, behind))
    script.publish({"a": 1})
    before = len(script.told())
    for _ in range(20):
        lagging_tick(script, (PARTITION, behind), behind)
    assert (before, len(script.told())) == (0, 0)
    script.tick(1000, (PARTITION, behind))
    assert [dict(notification.news) for notification in script.told()] == [{"a": 1}]


def lagging_tick(script: Script, partitions: tuple[str, ...], behind: str) -> None:
    """A second passes, and the mark in one partition is not read yet."""
    script.tick(1000, partitions)
    script.inputs = [happened for happened in script.inputs if getattr(happened, "partition", None) != behind]
