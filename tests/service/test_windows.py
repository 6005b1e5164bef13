"""Aggregate subscriptions through real Kafka and Spark, over three brokers in a row: equal to a look at the whole log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from random import Random

import pytest

from producers.publisher import Publisher
from service.testing import RunningService, wait_for
from streaming.side.reference import Told, expected
from streaming.testing import broker, link, subscription, topic
from streaming.windows.items import Publication
from tidings.message import Message
from topology import names

pytestmark = [pytest.mark.timeout(300), pytest.mark.live]

SMALL = {"n": "count()", "total": "sum(speed)", "mean": "avg(speed)", "least": "min(speed)", "spread": "variance(speed)"}
WHOLE = {"roads": "distinct(road)", "often": "top(1, road)", "smooth": "ema(speed, 0.5)"}
DEFAULTS = {"grace_ms": 1000, "empty": False}
SLIDING = {**DEFAULTS, "size_ms": 4000, "shift_ms": 2000}
TUMBLING = {**DEFAULTS, "size_ms": 3000, "shift_ms": 3000, "of": {"n": "count()", "most": "max(speed)"}}
UNEVEN = {**DEFAULTS, "size_ms": 5000, "shift_ms": 1500, "of": {"n": "count()", "first": "first(road)"}}
CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]


def aggregate(name: str, at: str, window: dict, **more: object) -> dict:
    return subscription(name, topic="reading", broker=at, window=window, **more)


SUBSCRIBED = [
    aggregate("slide", "b3", {**SLIDING, "of": SMALL}),
    aggregate("whole", "b3", {**SLIDING, "of": WHOLE}),
    aggregate("e45", "b3", {**TUMBLING, "empty": True}, where="road = 'E45'"),
    aggregate("back", "b1", TUMBLING),
    aggregate("uneven", "b1", UNEVEN),
]
COUNTED = aggregate("tens", "b2", {"size": 10, "shift": 5, "of": {"mean": "avg(speed)"}})
GONE = aggregate("gone", "b3", {**TUMBLING, "size_ms": 60_000, "shift_ms": 60_000})
"""One that is deleted in the middle of a window."""
PLAIN = subscription("plain", topic="reading", broker="b2", where="speed >= 90")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService.start(tmp_path_factory.mktemp("windows") / "dir") as running:
        running.apply(*CHAIN, topic("reading", gather=False, decider="wad"), *SUBSCRIBED, COUNTED, GONE, PLAIN)
        yield running


def publish(service: RunningService, count: int, seed: int) -> None:
    """Readings at all brokers; one in twenty was made a while ago, one in twenty says its speed in words."""
    chance = Random(seed)
    with (
        Publisher(service.connection) as b1,
        Publisher(service.connection, "b2") as b2,
        Publisher(service.connection, "b3") as b3,
    ):
        for number in range(count):
            fields = {"road": chance.choice(["E45", "E20"]), "speed": chance.choice([10, 55.5, 70, 99.25])}
            made_ms = time.time_ns() // 1_000_000 - chance.choice([0] * 19 + [20_000])
            if chance.random() < 0.05:
                fields["speed"] = "fast"
            message = Message("reading", f"car {number % 7}", fields, id=f"{seed}-{number}", published_ms=made_ms)
            chance.choice([b1, b1, b2, b3]).publish(message)
            time.sleep(0.03)


def log_of(service: RunningService) -> list[Publication]:
    topics = [names.publish_topic(each) for each in ("b1", "b2", "b3")]
    found = []
    for record in service.read(*topics):
        if record.value and record.value.startswith(b"{"):
            said = json.loads(record.value)
            at = (record.kafka_topic, record.partition, record.offset)
            times = said["published_ms"], record.append_ms
            found.append(Publication(said["key"], said["id"], *times, at, said["fields"]))
    return found


def told(service: RunningService, name: str) -> dict[int, Told]:
    found = service.told(f"notify.{name}")
    windows = {each["window"]["start_ms"]: each for each in found}
    return {
        start: (each["reports"], _values(each["news"]), each["window"].get("left_out", {})) for start, each in windows.items()
    }


def _values(news: dict) -> dict:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in news.items()}


def check(service: RunningService, record: dict, after_ms: int, before_ms: int) -> None:
    wanted = expected(record, log_of(service), after_ms, before_ms)
    assert wanted
    wait_for(f"the windows of {record['name']}", lambda: wanted.keys() <= told(service, record["name"]).keys(), 120)
    assert {start: found for start, found in told(service, record["name"]).items() if start in wanted} == wanted


def test_windows_hold_what_the_log_holds_through_three_brokers_and_a_crash(service: RunningService):
    after_ms = time.time_ns() // 1_000_000
    publish(service, 130, seed=1)
    service.kill()  # in the middle of windows
    again = service.restart()
    service.process, service.bootstrap, service.connection = again.process, again.bootstrap, again.connection
    service.apply(topic("reading", gather=False, decider="foresight"), delete=("subscription/gone",))
    publish(service, 130, seed=2)
    before_ms = time.time_ns() // 1_000_000
    for record in SUBSCRIBED:
        check(service, record, after_ms, before_ms)
    assert len(service.told("notify.tens")) > 20
    assert not service.told("notify.gone")
    decided = [json.loads(record.value) for record in service.read(names.DECISIONS) if record.value]
    assert {(each["from"], each["to"]) for each in decided} == {("b1", "b2"), ("b2", "b3"), ("b3", "b2"), ("b2", "b1")}
    assert {"wad", "foresight"} <= {each["decider"] for each in decided}
    assert all(each["would"].keys() == {"forward", "aggregate", "wad", "adock"} for each in decided)
    old = {each.id for each in log_of(service) if each.entered_ms - each.published_ms > 15_000}
    late = {json.loads(record.value)["id"] for record in service.read(names.LATE) if record.value}
    assert old
    assert old <= late
    wait_for("the books to balance", lambda: service.books().balanced)
    # Else there is always one window more that only one of the two has told by now.
    service.apply(delete=("subscription/e45",))
    wait_for("what the reference tells", lambda: not service.differences(), 60)
