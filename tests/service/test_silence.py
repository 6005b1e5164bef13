"""Silence: when nobody says anything, what is due is told all the same, and soon. A partition that lags closes nothing early."""

from __future__ import annotations

import json

import pytest

from producers.publisher import Publisher
from service.testing import RunningService, wait_for
from streaming.testing import PARTITION, Script, subscription, topic
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
        # What comes second waits for the cadence, counted from when the first was told.
        "cadence": told(service_up, "silent-cadence", {"b": 2}, since={"a": 1}) - 3000,
        "window": told(service_up, "silent-window", {"b": 2}) - 5000,
    }
    assert all(0 <= late <= SOON_MS for late in late_ms.values()), late_ms


def told(service: RunningService, name: str, news: dict, since: dict | None = None) -> int:
    """How long after the event's first message, or after other news of it, this news was appended."""

    def look() -> int | None:
        records = {record.value: record.append_ms for record in service.read(f"notify.{name}")}
        found = {json.dumps(json.loads(value)["news"], sort_keys=True): (json.loads(value), at) for value, at in records.items()}
        if (wanted := found.get(json.dumps(news, sort_keys=True))) is None:
            return None
        start_ms = wanted[0]["first_ms"] if since is None else found[json.dumps(since, sort_keys=True)][1]
        return wanted[1] - start_ms

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
