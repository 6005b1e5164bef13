"""Aggregate subscriptions through real Kafka and Spark, over three brokers in a row: equal to a look at the whole log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from random import Random

import pytest
from msgspec import structs

from clients.books import read_books
from producers.publisher import Publisher
from streaming.model.items import Publication
from streaming.world.records import broker, link, subscription, topic
from streaming.world.window_reference import Told, expected
from testing.service import RunningService, wait_for
from tidings import names
from tidings.message import Message

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


READING = topic("reading", gather=False, decider="wad", window_ms=60_000)
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
OF = {"n": "count()", "mean": "avg(v)"}
OF_EVENTS = [
    subscription("fours", topic="event", broker="b3", window={**DEFAULTS, "size_ms": 4000, "shift_ms": 4000, "of": OF}),
    subscription("sevens", topic="event", broker="b3", window={**DEFAULTS, "size_ms": 7000, "shift_ms": 3000, "of": OF}),
]
"""Of a topic that nobody declared, so it gathers: at b2, and reports come from b1 and b2."""
EVENT_MS = 5000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    # A restart in the middle may take longer than the patience there is by default.
    env = {"TIDINGS_DEFAULTS_WINDOW_MS": str(EVENT_MS), "TIDINGS_LIMITS_PATIENCE_MS": "120000"}
    with RunningService.start(tmp_path_factory.mktemp("windows") / "dir", env) as running:
        running.apply(*CHAIN, READING, *SUBSCRIBED, *OF_EVENTS, COUNTED, GONE, PLAIN)
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
            for at in chance.sample([b1, b2], chance.choice([1, 1, 2])):
                name = f"event-{seed}-{number}-{at.kafka_topic}"
                at.publish(Message("event", f"{seed}-{number}", {"v": number}, id=name, published_ms=time.time_ns() // 1_000_000))
            time.sleep(0.03)


def events_of(service: RunningService) -> list[Publication]:
    """The events that one broker would make of the reports: each has a key of its own."""
    found: dict[str, Publication] = {}
    for record in sorted(service.read("publish.b1", "publish.b2"), key=lambda each: each.append_ms):
        if record.value and record.value.startswith(b"{") and (said := json.loads(record.value))["topic"] == "event":
            at = (record.kafka_topic, record.partition, record.offset)
            first = found.setdefault(said["key"], Publication(said["key"], "", 2**62, record.append_ms, at, said["fields"]))
            found[said["key"]] = structs.replace(first, published_ms=min(first.published_ms, said["published_ms"]))
    return list(found.values())


def log_of(service: RunningService) -> list[Publication]:
    topics = [names.publish_topic(each) for each in ("b1", "b2", "b3")]
    found = []
    for record in service.read(*topics):
        if record.value and record.value.startswith(b"{"):
            said = json.loads(record.value)
            if said["topic"] != "reading":
                continue
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


def check(
    service: RunningService, record: dict, after_ms: int, before_ms: int, log: list[Publication], extra_ms: int = 0
) -> None:
    wanted = expected(record, log, after_ms, before_ms, extra_ms)
    assert wanted
    wait_for(f"the windows of {record['name']}", lambda: wanted.keys() <= told(service, record["name"]).keys(), 120)
    assert {start: found for start, found in told(service, record["name"]).items() if start in wanted} == wanted


def adds_up(service: RunningService) -> bool:
    """Whether all that windows asked for at a broker, or over a link, was counted, is late or was left out."""
    books = read_books(service.connection)
    assert any(each.window_items for each in books.values())
    return not any(each.on_the_way(to) for each in books.values() for to, _ in each.window_items)


def test_windows_hold_what_the_log_holds_through_three_brokers_and_a_crash(service: RunningService):
    after_ms = time.time_ns() // 1_000_000
    publish(service, 130, seed=1)
    service.kill()  # in the middle of windows
    again = service.restart()
    service.process, service.bootstrap, service.connection = again.process, again.bootstrap, again.connection
    service.apply({**READING, "decider": "foresight"}, delete=("subscription/gone",))
    publish(service, 130, seed=2)
    before_ms = time.time_ns() // 1_000_000
    for record in SUBSCRIBED:
        check(service, record, after_ms, before_ms, log_of(service))
    for record in OF_EVENTS:
        check(service, record, after_ms, before_ms, events_of(service), EVENT_MS)
    assert len(service.told("notify.tens")) > 20
    assert not service.told("notify.gone")
    decided = [json.loads(record.value) for record in service.read(names.DECISIONS) if record.value]
    assert {(each["from"], each["to"]) for each in decided} == {("b1", "b2"), ("b2", "b3"), ("b3", "b2"), ("b2", "b1")}
    assert {"wad", "foresight"} <= {each["decider"] for each in decided}
    assert all(each["would"].keys() == {"forward", "aggregate", "wad", "adock"} for each in decided)
    took_ms = {each.id: each.entered_ms - each.published_ms for each in log_of(service)}
    old = {name for name, ms in took_ms.items() if ms > 15_000}
    late = {json.loads(record.value)["id"] for record in service.read(names.LATE) if record.value}
    assert old
    assert old <= late, "what is late stands there"
    # On a busy machine a publisher takes longer than windows wait: that is late, too. Nothing of the events is.
    assert all(took_ms[name] >= DEFAULTS["grace_ms"] for name in late)
    wait_for("the books to balance", lambda: service.books().balanced)
    wait_for("what windows ask for to add up", lambda: adds_up(service))
    assert not service.books().left_out["patience_ms"], "brokers said how far they are, and nobody was waited for in vain"
    # Else there is always one window more that only one of the two has told by now.
    service.apply(delete=("subscription/e45",))
    service.wait_as_reference(60)


@pytest.mark.slow
def test_events_of_a_topic_with_defaults_count_beyond_links(tmp_path_factory: pytest.TempPathFactory):
    """As a new user has it: nothing declared, five reports a second, every window a minute later."""
    with RunningService.start(tmp_path_factory.mktemp("defaults") / "dir") as service:
        service.apply(*CHAIN, *OF_EVENTS, subscription("all", topic="event", broker="b3"))
        after_ms = time.time_ns() // 1_000_000
        with Publisher(service.connection) as b1, Publisher(service.connection, "b2") as b2:
            for number in range(150):
                at = (b1, b2)[number % 2]
                at.publish(Message("event", f"k{number}", {"v": number}, published_ms=time.time_ns() // 1_000_000))
                at.flush()
                time.sleep(0.2)
        before_ms = time.time_ns() // 1_000_000 + 60_000
        for record in OF_EVENTS:
            check(service, record, after_ms, before_ms, events_of(service), 60_000)
        assert len({each["key"] for each in service.told("notify.all")}) == 150
        assert not service.read(names.LATE, names.DEAD_LETTER)
        wait_for("what windows ask for to add up", lambda: adds_up(service))
