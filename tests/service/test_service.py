"""A real service on real Kafka and Spark: what users see, and what strangers can do to it."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterator

import psutil
import pytest

from clients.books import read_books
from clients.subscriber import Subscriber
from producers.publisher import Publisher
from service.directory.directory import ServiceDirectory
from service.profile.samplers import daemons_below
from streaming.batch.desk import Handling
from streaming.wire.message import encode_message
from streaming.world.records import subscription, topic
from testing.service import RunningService, wait_for
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Encoding

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def publisher(service_up: RunningService) -> Iterator[Publisher]:
    with Publisher(service_up.connection) as publisher:
        yield publisher


def told(service: RunningService, name: str, count: int, timeout_s: float = 30) -> list[dict]:
    """The first ``count`` notifications of a subscription."""

    def look() -> list[dict] | None:
        found = [n for n in service.told(f"notify.{name}") if n["subscription"] == name]
        return found if len(found) >= count else None

    return wait_for(f"{count} notifications for {name}", look, timeout_s)


def asides(service: RunningService, kafka_topic: str, value: bytes | None) -> list[dict[str, str]]:
    """The headers of records put aside with exactly these bytes."""
    return [
        {name: content.decode() for name, content in record.headers}
        for record in service.read(kafka_topic)
        if record.value == value
    ]


def test_the_same_event_from_json_and_avro(service_up, publisher):
    service_up.apply(subscription("mixed", topic="mixed"))
    publisher.publish(Message("mixed", "k", {"a": 1, "b": "x"}), Encoding.JSON)
    publisher.publish(Message("mixed", "k", {"b": "x", "c": ("y", "ž")}), Encoding.AVRO)
    publisher.publish(Message("mixed", "k", {"a": 1.0, "c": ("y", "ž")}), Encoding.AVRO)
    publisher.flush()
    news: dict = {}
    for notification in told(service_up, "mixed", 2):
        assert not news.keys() & notification["news"].keys()
        news |= notification["news"]
    assert news == {"a": 1, "b": "x", "c": ["y", "ž"]}


def test_a_subscription_may_ask_for_avro_and_for_another_kafka_topic(service_up, publisher):
    records = [subscription(name, topic="avro", deliver="shared.avro", encoding="avro") for name in ("one", "two")]
    service_up.apply(*records)
    publisher.publish(Message("avro", "k", {"a": ("x", "y"), "b": None}))
    publisher.flush()
    with Subscriber(service_up.connection, "shared.avro", subscription="two") as subscriber:
        notification = subscriber.poll(30)
    assert notification is not None
    assert (notification.subscription, notification.news) == ("two", {"a": ("x", "y"), "b": None})
    wait_for("both to be told", lambda: len(service_up.read("shared.avro")) == 2)


@pytest.mark.parametrize("key", ["plain", "ünïcödé ✓", "a/b", "x" * 1024, "\x00\x01", '"quoted" \\ \u2028', "null", "5"])
def test_keys_are_routed_as_they_are_read(service_up, publisher, key):
    """The JVM and Python read the same topic and key out of either encoding: else the event would fall apart."""
    name = f"keys-{abs(hash(key)) % 10**9}"
    service_up.apply(subscription(name, topic=name))
    publisher.publish(Message(name, key, {"a": 1}), Encoding.JSON)
    publisher.publish(Message(name, key, {"b": 2}), Encoding.AVRO)
    # The same message in other writings of JSON.
    publisher.publish_raw(json.dumps({"key": key, "fields": {"c": 3}, "topic": name}, ensure_ascii=True).encode(), None)
    publisher.flush()
    notifications = told(service_up, name, 3)
    assert {n["event"] for n in notifications} == {notifications[0]["event"]}
    assert {n["key"] for n in notifications} == {key}


AVRO = encode_message(Message("bad", "k", {"a": 1}), Encoding.AVRO)


def raw(marker: int, **changes: object) -> bytes:
    return json.dumps({"topic": "bad", "key": "k", "fields": {"a": 1}, "source": f"bad-{marker}", **changes}).encode()


BAD = [
    (b"not json at all", Unreadable.UNKNOWN_FORMAT),
    (b'{"topic": "bad"', Unreadable.BAD_JSON),
    (AVRO[:2] + b"\x00" * 8 + AVRO[10:], Unreadable.UNKNOWN_SCHEMA),
    (AVRO[:-3], Unreadable.BAD_AVRO),
    (raw(1, fields={"a": "x" * 2_000_000}), Unreadable.TOO_LARGE),
    (raw(2, fields={str(n): n for n in range(10_000)}), Unreadable.TOO_MANY_FIELDS),
    (raw(3, fields={"a": {"b": {"c": 1}}}), Unreadable.NESTED_VALUE),
    (b"{" + b'"a":{' * 2000, Unreadable.NESTED_VALUE),
    (b'{"topic": "bad", "key": "k", "fields": {"a": NaN}}', Unreadable.NOT_FINITE),
    (b'{"topic": "bad", "key": "k", "fields": {"a": 1e999}}', Unreadable.NOT_FINITE),
    (b'{"topic": "bad", "key": "k", "fields": {"a": "\\ud800"}}', Unreadable.BAD_TEXT),
    (b'{"topic": "bad", "key": "\\udfff", "fields": {"a": 1}}', Unreadable.BAD_TEXT),
    (b'{"topic": "bad", "key": "\xff\xfe", "fields": {"a": 1}}', Unreadable.BAD_TEXT),
    (raw(4, key=""), Unreadable.BAD_KEY),
    (raw(5, key="k" * 10_000), Unreadable.BAD_KEY),
    (raw(6, published_ms=-1), Unreadable.BAD_PUBLISHED_MS),
    (raw(7, published_ms=int((time.time() + 365 * 86400) * 1000)), Unreadable.PUBLISHED_AHEAD),
    (b'{"topic": "bad", "topic": "worse", "key": "k", "fields": {"a": 1}}', Unreadable.BAD_JSON),
    (b"", Unreadable.UNKNOWN_FORMAT),
    (None, Unreadable.NULL_VALUE),
]


def test_bad_input_is_put_aside_untouched_and_the_rest_goes_on(service_up, publisher):
    service_up.apply(subscription("bad", topic="bad"), subscription("nothing", topic="nobody publishes this"))
    before = service_up.books().to_dict()
    for number, (value, _) in enumerate(BAD):
        publisher.publish_raw(value, b"a key of its own")
        publisher.publish(Message("bad", f"good-{number}", {"n": number}))
    publisher.flush()
    assert [n["news"] for n in sorted(told(service_up, "bad", len(BAD)), key=lambda n: n["news"]["n"])] == [
        {"n": number} for number in range(len(BAD))
    ]
    books = service_up.wait_received(before["received"] + 2 * len(BAD)).to_dict()
    assert books["balanced"]
    assert books["dead_lettered"] - before["dead_lettered"] == len(BAD)
    for value, reason in BAD:
        (headers,) = asides(service_up, "dead-letter", value)
        assert headers["reason"] == reason
        assert (headers["origin"], headers["offset"].isdigit(), headers["time"].isdigit()) == ("publish.b1", True, True)
        counted = books["reasons"]["dead_lettered"][reason] - before["reasons"].get("dead_lettered", {}).get(reason, 0)
        assert counted == sum(other is reason for _, other in BAD)
    keys = {record.key for record in service_up.read("dead-letter") if record.value == BAD[0][0]}
    assert keys == {b"a key of its own"}


def test_what_comes_too_late_is_put_aside(service_up, publisher):
    value = encode_message(Message("late", "k", {"a": 1}, published_ms=1_000_000))
    publisher.publish_raw(value, None)
    publisher.flush()
    (headers,) = wait_for("the late record", lambda: asides(service_up, "late", value))
    assert headers["reason"] == "window-closed"


def test_a_publish_topic_of_no_broker_is_put_aside(service_up):
    value = encode_message(Message("t", "k", {"lost": True}))
    with Publisher(service_up.connection, broker="nowhere") as publisher:
        publisher.publish_raw(value, None)
    (headers,) = wait_for("the dead letter", lambda: asides(service_up, "dead-letter", value))
    assert headers["reason"] == "unknown-broker"


def test_silence_closes_the_last_window(service_up, publisher):
    service_up.apply(topic("silent", window_ms=3000), subscription("silent", topic="silent", every_ms=3_600_000))
    publisher.publish(Message("silent", "k", {"a": 1}))
    publisher.publish(Message("silent", "k", {"b": 2}))
    publisher.flush()
    assert [(n["reason"], n["news"]) for n in told(service_up, "silent", 2, 15)] == [
        ("first", {"a": 1}),
        ("final", {"b": 2}),
    ]


def test_held_news_leaves_in_silence(service_up, publisher):
    service_up.apply(topic("held", hold_ms=1500), subscription("held", topic="held"))
    publisher.publish(Message("held", "k", {"a": 1}))
    publisher.publish(Message("held", "k", {"b": 2}))
    publisher.flush()
    (notification,) = told(service_up, "held", 1, 15)
    assert (notification["reason"], notification["news"]) == ("first", {"a": 1, "b": 2})


def test_subscriptions_change_while_it_runs(service_up, publisher):
    service_up.apply(subscription("change", topic="change", where="n >= 10"))
    publisher.publish(Message("change", "small", {"n": 1}))
    publisher.publish(Message("change", "large", {"n": 10}))
    publisher.flush()
    assert [n["key"] for n in told(service_up, "change", 1)] == ["large"]
    service_up.apply(subscription("change", topic="change"))
    assert sorted(n["key"] for n in told(service_up, "change", 2)) == ["large", "small"]
    service_up.apply(subscription("witness", topic="change"), delete=("subscription/change",))
    publisher.publish(Message("change", "after", {"n": 1}))
    publisher.flush()
    assert {n["key"] for n in told(service_up, "witness", 3)} == {"large", "small", "after"}
    assert len(service_up.told("notify.change")) == 2


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "subscription/broken",
            b'{"kind": "subscription", "name": "broken", "subscriber": "x", "topic": "t", "where": "a >"}',
            "where",
        ),
        (
            "subscription/evil",
            b'{"kind": "subscription", "name": "evil", "subscriber": "x", "topic": "t", "deliver": "control"}',
            "deliver",
        ),
        ("nonsense", b"{}", "key"),
        ("topic/t", b"not json", "JSON"),
    ],
)
def test_a_bad_control_record_is_put_aside_and_changes_nothing(service_up, key, value, said):
    producer = service_up.connection.producer()
    producer.produce("control", key=key.encode(), value=value)
    producer.flush()
    (headers,) = wait_for("the dead letter", lambda: asides(service_up, "dead-letter", value))
    assert (headers["reason"], headers["origin"]) == ("bad-control", "control")
    assert said in headers["detail"]


def test_a_second_service_on_the_directory_is_refused(service_up):
    from testing.service import launch

    process = launch(service_up.directory, {"TIDINGS_SERVICE_METRICS_PORT": "0"})
    assert process.wait(60) == 1
    assert "is in use by the service with pid" in service_up.directory.with_suffix(".stderr").read_text()


def test_a_message_at_rest_is_told_within_three_seconds(service_up, publisher):
    service_up.apply(subscription("quick", topic="quick"))
    delays = []
    for number in range(5):
        publisher.publish(Message("quick", f"k{number}", {"a": number}))
        publisher.flush()
        told(service_up, "quick", number + 1)
        record = service_up.read("notify.quick")[number]
        delays.append((record.append_ms - json.loads(record.value)["first_ms"]) / 1000)
    assert sorted(delays)[2] < 3, delays


def test_metrics_and_health(service_up):
    ready = ServiceDirectory.ready(service_up.directory)
    assert ready is not None
    base = f"http://{ready.metrics}"
    for path in ("/livez", "/readyz"):
        with urllib.request.urlopen(base + path, timeout=5) as answer:
            assert answer.status == 200

    def scrape() -> str | None:
        with urllib.request.urlopen(base + "/metrics", timeout=5) as answer:
            text = answer.read().decode()
        return (
            text
            if f'tidings_received_total{{broker="b1"}} {float(read_books(service_up.connection)["b1"].received)}' in text
            else None
        )

    text = wait_for("the metrics to show the books", scrape)
    assert 'tidings_books_balanced{broker="b1"} 1.0' in text
    handled = dict(re.findall(r'tidings_handled_total{way="(\w+)"} (\S+)', text))
    assert set(handled) <= set(Handling)
    # What cannot be read goes no way.
    assert 0 < sum(map(float, handled.values())) <= read_books(service_up.connection)["b1"].received


def test_at_the_end_all_that_was_told_is_what_the_reference_tells(service_up):
    """Runs last: every notification of this session equals the plain reference over the same log, byte for byte."""
    service_up.apply(topic("end"))
    service_up.wait_as_reference(60)
    books = service_up.books()
    assert books.balanced
    reference = {broker: b.received for broker, b in service_up.inspect().reference.books.items()}
    assert sum(reference.values()) == books.received


def test_spark_has_one_python_daemon(service_up):
    """The one that was started ahead of the first batch is the one that the query uses."""
    children = psutil.Process(service_up.process.pid).children()
    assert len([daemon for child in children for daemon in daemons_below(child.pid)]) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="workers find each other by Linux's names of sockets")
def test_each_partition_has_a_worker_of_its_own(service_up):
    """After so many batches, each has found its home, and one worker has no two."""
    daemons = [pid for child in psutil.Process(service_up.process.pid).children() for pid in daemons_below(child.pid)]
    homes = [
        [each.laddr.rsplit("/", 1)[1] for each in worker.net_connections("unix") if "tidings-" in each.laddr]
        for pid in daemons
        for worker in psutil.Process(pid).children()
    ]
    assert sorted(home for home in homes if home) == [["0"], ["1"]]
