"""A log written by hand, replayed: the same log always gives the same story."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from audit.comparison import CompareScope
from audit.places import BadPlace, since_of
from audit.proof import Proof, prove
from audit.replay import Replay, replay
from audit.story import Delivered, Reported, StoryTold, delivered, story
from clients import control
from clients.books import from_dict, read_books, suppressed_share, to_dict
from clients.connection import Connection
from clients.log import read_all
from clients.topics import delivery_specs, ensure_topics, publish_specs, service_topics
from producers.publisher import Publisher
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.broker.state import Rules
from streaming.model.books import Books
from streaming.model.outputs import Outcome, Send
from streaming.wire.clock import MARK_START, Tick, encode_tick
from streaming.wire.message import MessageLimits
from streaming.wire.notification import encode_notification
from streaming.wire.record import Record
from streaming.world.records import broker as broker_record
from streaming.world.records import link, subscription
from testing.logs import CONTROL, HandmadeLog, decided
from tidings import names
from tidings.message import Message
from tidings.notification import Encoding, Reason
from tidings.topic import Timing

PARTITIONS = ("clock-0", "publish.b1-0", "publish.b1-1")
KEY = "5th and Main"


class Scene:
    """A Kafka with the topics of a service, and nobody who serves it: the tests tick themselves."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._producer = connection.producer()
        topics = [*service_topics(1, 1), *publish_specs(["b1"], 2, 1), *delivery_specs(["notify.ops", "notify.late"], 1)]
        ensure_topics(connection, topics)

    def control(self, *records: dict[str, Any]) -> None:
        """Change the control data; the clock ticks with the new version."""
        version = control.apply(self.connection, [(f"{each['kind']}/{each['name']}", each) for each in records])
        self.tick(version)

    def tick(self, version: int, service: str = "s1") -> None:
        self.write(names.CLOCK, encode_tick(Tick(service, version, PARTITIONS)))
        for partition in (0, 1):
            self.write("publish.b1", MARK_START, partition=partition)

    def write(self, kafka_topic: str, value: bytes | None, **more: Any) -> None:
        self._producer.produce(kafka_topic, value, **more)
        assert self._producer.flush(10) == 0
        time.sleep(0.002)  # records in different partitions: another millisecond gives them an order

    def publish(self, fields: dict[str, Any], source: str, key: str = KEY, topic: str = "incident") -> None:
        with Publisher(self.connection) as publisher:
            publisher.publish(Message(topic, key, fields, source))

    def replay(self, **more: Any) -> Replay:
        settings: dict[str, Any] = {"service": None, "limits": MessageLimits(), "rules": Rules(), "timing": Timing()}
        return replay(self.connection, **settings | more)


@pytest.fixture(scope="module")
def scene(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The three witnesses of the README, somebody who comes late, and all that strangers write."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("replay-kafka"), java) as broker:
        scene = Scene(Connection(broker.bootstrap))
        topic = {"kind": "topic", "name": "incident", "complete": ["what", "where", "when"], "window_ms": 60_000}
        scene.control(topic, {"kind": "subscription", "name": "ops", "subscriber": "ops", "topic": "incident"})
        scene.publish({"what": "fire", "where": "kitchen"}, "A")
        scene.publish({"what": "fire", "when": "08:14"}, "B")
        scene.publish({"where": "kitchen", "when": "08:14"}, "C")
        scene.publish({"what": "flood"}, "D", key="elsewhere")
        scene.publish({"what": "noise"}, "D", topic="gossip")
        for value in (b"rubbish", None, b"\xc3\x01", b'{"topic": "incident"}'):
            scene.write("publish.b1", value)
        scene.control(
            {"kind": "subscription", "name": "late", "subscriber": "late", "topic": "incident", "where": f"key = '{KEY}'"}
        )
        scene.write(names.CLOCK, b"no tick")
        yield scene


def told(replay: Replay, subscription: str, key: str = KEY) -> list[tuple[str, dict[str, Any]]]:
    found = [tell.notification for tell in replay.told if tell.notification.key == key]
    return [(str(each.reason), dict(each.news)) for each in found if each.subscription == subscription]


class TestReplay:
    def test_the_three_witnesses_and_the_one_who_comes_late(self, scene: Scene) -> None:
        replayed = scene.replay()
        assert told(replayed, "ops") == [("first", {"what": "fire", "where": "kitchen"}), ("complete", {"when": "08:14"})]
        assert told(replayed, "late") == [("complete", {"what": "fire", "where": "kitchen", "when": "08:14"})]
        assert told(replayed, "ops", "elsewhere") == [("first", {"what": "flood"})]
        assert told(replayed, "late", "elsewhere") == []
        assert set(replayed.services) == {"s1"}

    def test_its_books_balance_and_know_every_message(self, scene: Scene) -> None:
        books = scene.replay().books["b1"]
        assert books.balanced
        totals = {outcome: books.total(outcome) for outcome in Outcome if books.total(outcome)}
        assert (books.received, totals) == (9, {"told": 3, "redundant": 1, "dead_lettered": 4, "held": 1})

    def test_twice_gives_the_same(self, scene: Scene) -> None:
        assert scene.replay() == scene.replay()

    def test_only_one_key_gives_the_same_for_that_key(self, scene: Scene) -> None:
        whole, part = scene.replay(), scene.replay(only=("incident", KEY))
        assert [tell for tell in whole.told if tell.notification.key == KEY] == part.told
        assert {happened.message.key for happened in part.arrived.values()} == {KEY}
        assert len(part.decided) == 3

    def test_ticks_of_another_service_do_not_count(self, scene: Scene) -> None:
        other = scene.replay(service="somebody else")
        assert other.told == []
        assert other.control.version == 0
        assert other.books["b1"].received == 9

    def test_the_newest_service_is_the_one_meant(self, scene: Scene) -> None:
        scene.tick(2, service="s0")
        try:
            assert set(scene.replay().services) == {"s0"}
            assert set(scene.replay(service="s1").services) == {"s1"}
        finally:
            scene.tick(3)

    def test_limits_are_those_given(self, scene: Scene) -> None:
        assert scene.replay(limits=MessageLimits(message_bytes=10)).told == []


class TestStory:
    def test_every_message_with_what_became_of_it(self, scene: Scene) -> None:
        replayed = scene.replay(only=("incident", KEY))
        entries = story(replayed, {})
        said = [
            (each.message.source, str(each.decided.reason), sorted(each.decided.added), len(each.told_in))
            if isinstance(each, Reported)
            else (
                each.notification.subscription,
                str(each.notification.reason),
                sorted(each.notification.news),
                each.delivered_ms,
            )
            for each in entries
        ]
        assert said == [
            ("A", "holding", ["what", "where"], 2),
            ("ops", "first", ["what", "where"], None),
            ("B", "holding", ["when"], 2),
            ("ops", "complete", ["when"], None),
            ("C", "known", [], 0),
            ("late", "complete", ["what", "when", "where"], None),
        ]

    def test_what_was_delivered_is_found(self, scene: Scene) -> None:
        replayed = scene.replay(only=("incident", KEY))
        first = replayed.told[0].notification
        for value in (b"rubbish", encode_notification(first, Encoding.AVRO), encode_notification(first, Encoding.AVRO)):
            scene.write("notify.ops", value)
        found = delivered(scene.connection, replayed, "incident", KEY)
        assert set(found) == {first.id}
        marked = [each for each in story(replayed, found) if isinstance(each, StoryTold) and each.delivered_ms is not None]
        assert [each.notification for each in marked] == [first]

    def test_what_was_delivered_but_does_not_follow_from_the_log_is_shown_too(self, scene: Scene) -> None:
        replayed = scene.replay(only=("incident", KEY))
        told_before = replayed.told[0].notification
        other = type(told_before)("n", "ops", "ops", "incident", KEY, "forgotten", 1, Reason.FINAL, {"what": "x"}, 1, 0, 0, 0)
        last = story(replayed, {other.id: Delivered("notify.ops", other, 2**45)})[-1]
        assert last == StoryTold(2**45, "notify.ops", other, 2**45, replayed=False)

    def test_nothing_is_known_about_a_stranger(self, scene: Scene) -> None:
        replayed = scene.replay(only=("incident", "nowhere"))
        assert story(replayed, delivered(scene.connection, replayed, "incident", "nowhere")) == []


class TestBooks:
    def test_the_newest_record_of_each_bucket_counts(self, scene: Scene) -> None:
        assert read_books(scene.connection) == {}
        old, new, other = Books(received=1), Books(received=4), Books(received=2)
        new.enter(Outcome.TOLD, "first", 3)
        new.enter(Outcome.REDUNDANT, "known", 1)
        other.enter(Outcome.MERGED, "joined", 2)
        entries = [("gone", "b1", 7, old), ("s", "b1", 0, old), ("s", "b1", 0, new), ("s", "b1", 1, other), ("s", "b2", 0, other)]
        for service, broker, bucket, books in entries:
            entry = {"service": service, "broker": broker, "bucket": bucket, **books.to_dict()}
            scene.write(names.BOOKS, json.dumps(entry).encode(), key=f"{service}/{broker}/{bucket}".encode())
        scene.write(names.BOOKS, b"rubbish", key=b"s/b3/0")
        by_broker = read_books(scene.connection)
        assert {name: each.received for name, each in by_broker.items()} == {"b1": 6, "b2": 2}
        said = to_dict(by_broker)
        assert (said["received"], said["told"], said["merged"], said["balanced"]) == (8, 3, 4, True)
        assert suppressed_share(by_broker["b1"]) == 0.5
        assert said["brokers"]["b1"]["suppressed_share"] == 0.5
        assert from_dict(json.loads(json.dumps(said))) == by_broker


class TestProof:
    """The scene has nobody who serves it: what follows from its log is not there until the test writes it."""

    def prove(self, scene: Scene, **scope: Any) -> Proof:
        return prove(scene.connection, scope=CompareScope(**scope), limits=MessageLimits(), rules=Rules(), timing=Timing())

    def test_first_nothing_is_there_then_all_is_and_then_kafka_forgets(self, scene: Scene) -> None:
        """The last of the scene: it takes its log away."""
        scene.tick(3)
        about = {"topic": "incident", "key": "elsewhere"}
        without = self.prove(scene, **about)
        assert (without.messages, without.notifications.missing, without.dead_letters.missing) == (1, 1, 0)
        assert self.prove(scene).dead_letters.missing == 4

        (tell,) = scene.replay(only=("incident", "elsewhere")).told
        for _ in range(2):
            scene.write(tell.kafka_topic, encode_notification(tell.notification, tell.encoding))
        scene.tick(3)
        proved = self.prove(scene, **about)
        assert (proved.same, proved.notifications.same, proved.notifications.repeated) == (True, 1, 1)
        assert proved.reach.since_ms is None

        last = {record.partition: record for record in read_all(scene.connection, ["publish.b1"])}
        assert since_of(scene.connection, f"publish.b1-0:{last[0].offset}", 0) == last[0].append_ms
        for text, said in [
            (f"publish.b1-0:{last[0].offset + 1}", "is not there"),
            ("7", "say which, like publish"),
            ("publish.b9-0:7", "there is no partition"),
        ]:
            with pytest.raises(BadPlace, match=said):
                since_of(scene.connection, text, 0)

        below = [TopicPartition("publish.b1", partition, record.offset) for partition, record in last.items()]
        admin = scene.connection.admin()  # without it, nobody would hear the answer
        for deleted in admin.delete_records(below).values():
            deleted.result(10)
        forgetful = self.prove(scene, **about)
        assert (forgetful.differences, forgetful.compared, forgetful.undecided) == ((), 0, 1)
        assert forgetful.reach.notes == ("publish.b1-0 has lost its beginning", "publish.b1-1 has lost its beginning")


def test_links_of_a_service_that_hands_on_are_not_read() -> None:
    """What it sent stands there; what its brokers made of that follows from what was published."""
    log = HandmadeLog(records=[*CONTROL, *map(broker_record, ("b1", "b2")), link("b1", "b2"), subscription("far", broker="b2")])
    log.tick(hands_on=True)
    log.publish({"a": 1}, id="m1")
    log.tick(hands_on=True)
    both = replace(log.log(), brokers=frozenset({"b1", "b2"}))
    read = decided(both)
    (sent,) = (output for output in read.outputs if isinstance(output, Send))
    on_link = Record("link.b1.b2", 0, 0, log.now_ms, None, sent.value)
    again = decided(replace(both, rows=(*log.rows, on_link)))
    assert [told.notification.subscription for told in again.told].count("far") == 1
    assert (again.told, again.books["b2"].to_dict()) == (read.told, read.books["b2"].to_dict())
    assert again.books["b2"].heard.total() == 1


def test_control_data_of_a_version_is_that_of_all_records_before_it() -> None:
    def record(offset: int, key: str, value: dict[str, Any] | None) -> Record:
        return Record("control", 0, offset, 0, key.encode(), None if value is None else json.dumps(value).encode())

    broker = {"kind": "broker", "name": "b1"}
    history = list(control.fold([record(3, "broker/b1", broker), record(4, "topic/x", {}), record(9, "broker/b1", None)]))
    assert [(each.version, dict(each.records)) for each in history] == [
        (4, {"broker/b1": broker}),
        (5, {"broker/b1": broker}),
        (10, {}),
    ]
