"""Aggregate subscriptions through real Kafka and Spark, over three brokers in a row: equal to a look at the whole log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from fractions import Fraction
from random import Random

import pytest

from producers.publisher import Publisher
from service.testing import RunningService, wait_for
from streaming.testing import broker, link, subscription, topic
from tidings.message import Message
from topology import names

pytestmark = [pytest.mark.timeout(300), pytest.mark.live]

OF = {"n": "count()", "total": "sum(speed)", "mean": "avg(speed)", "least": "min(speed)", "roads": "distinct(road)"}
SLIDING = {"size_ms": 4000, "shift_ms": 2000, "of": OF}
TUMBLING = {"size_ms": 3000, "of": {"n": "count()", "most": "max(speed)"}}
CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]


def aggregate(name: str, at: str, window: dict, **more: object) -> dict:
    return subscription(name, topic="reading", broker=at, window=window, **more)


SUBSCRIBED = [
    aggregate("slide", "b3", SLIDING),
    aggregate("e45", "b3", {**TUMBLING, "empty": True}, where="road = 'E45'"),
    aggregate("back", "b1", TUMBLING),
    subscription("plain", topic="reading", broker="b2", where="speed >= 90"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService.start(tmp_path_factory.mktemp("windows") / "dir") as running:
        running.apply(*CHAIN, topic("reading", gather=False, decider="wad"), *SUBSCRIBED)
        yield running


def publish(service: RunningService, count: int, seed: int) -> None:
    chance = Random(seed)
    with (
        Publisher(service.connection) as b1,
        Publisher(service.connection, "b2") as b2,
        Publisher(service.connection, "b3") as b3,
    ):
        for number in range(count):
            fields = {"road": chance.choice(["E45", "E20"]), "speed": chance.choice([10, 55.5, 70, 99.25])}
            message = Message("reading", f"car {number % 7}", fields, id=f"{seed}-{number}")
            chance.choice([b1, b1, b2, b3]).publish(message)
            time.sleep(0.03)


def log_of(service: RunningService) -> list[tuple[int, dict]]:
    topics = [names.publish_topic(each) for each in ("b1", "b2", "b3")]
    return [(r.append_ms, json.loads(r.value)) for r in service.read(*topics) if r.value and r.value.startswith(b"{")]


def expected(log: list[tuple[int, dict]], record: dict, after_ms: int, before_ms: int) -> dict[int, tuple[int, dict]]:
    window = record["window"]
    size, shift = window["size_ms"], window.get("shift_ms", window["size_ms"])
    found = {}
    for start in range(-(-after_ms // shift) * shift, before_ms - size, shift):
        rows = [
            m["fields"]
            for at, m in log
            if start <= at < start + size and (not record.get("where") or m["fields"]["road"] == "E45")
        ]
        if rows or window.get("empty"):
            found[start] = (len(rows), {name: result(text, rows) for name, text in window["of"].items()})
    return found


def result(text: str, rows: list[dict]) -> object:
    speeds = [row["speed"] for row in rows]
    total = sum(map(Fraction, speeds))
    return {
        "count()": len(rows),
        "sum(speed)": int(total) if all(isinstance(each, int) for each in speeds) else float(total),
        "avg(speed)": float(total / len(speeds)) if speeds else None,
        "min(speed)": min(speeds, default=None),
        "max(speed)": max(speeds, default=None),
        "distinct(road)": len({row["road"] for row in rows}),
    }[text]


def told(service: RunningService, name: str) -> dict[int, tuple[int, dict]]:
    found = service.told(f"notify.{name}")
    return {each["window"]["start_ms"]: (each["reports"], each["news"]) for each in found}


def check(service: RunningService, record: dict, after_ms: int, before_ms: int) -> None:
    wanted = expected(log_of(service), record, after_ms, before_ms)
    assert wanted
    wait_for(f"the windows of {record['name']}", lambda: wanted.keys() <= told(service, record["name"]).keys(), 120)
    assert {start: found for start, found in told(service, record["name"]).items() if start in wanted} == wanted


def test_windows_hold_what_the_log_holds_through_three_brokers_and_a_crash(service: RunningService):
    after_ms = time.time_ns() // 1_000_000
    publish(service, 130, seed=1)
    service.kill()  # in the middle of windows
    again = service.restart()
    service.process, service.bootstrap, service.connection = again.process, again.bootstrap, again.connection
    service.apply(topic("reading", gather=False, decider="adock"))
    publish(service, 130, seed=2)
    before_ms = time.time_ns() // 1_000_000
    for record in SUBSCRIBED[:3]:
        check(service, record, after_ms, before_ms)
    decided = [json.loads(record.value) for record in service.read(names.DECISIONS) if record.value]
    assert {(each["from"], each["to"]) for each in decided} == {("b1", "b2"), ("b2", "b3"), ("b3", "b2"), ("b2", "b1")}
    assert {"wad", "adock"} <= {each["decider"] for each in decided}
    assert all(each["would"].keys() == {"forward", "aggregate", "wad", "adock"} for each in decided)
    wait_for("the books to balance", lambda: service.books().balanced)
    # Else there is always one window more that only one of the two has told by now.
    service.apply(delete=("subscription/e45",))
    wait_for("what the reference tells", lambda: not service.differences(), 60)
