"""Nothing that a publisher writes chooses a Kafka topic, a file, a schema or an expression."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.topics import delivery_specs, link_specs, publish_specs, service_topics
from streaming.model.entry import Entry
from streaming.model.inputs import Arrived, Marked, Ticked
from streaming.wire import avro
from streaming.wire.clock import MARK_START, TickerIdentity
from streaming.wire.inputs import read
from streaming.wire.message import MessageLimits, decode_message, encode_message
from streaming.wire.outgoing import to_records
from streaming.wire.record import Outgoing, Record
from streaming.world.one_broker import Script
from streaming.world.records import broker, link, snapshot, subscription, topic
from tidings.control import Link, Snapshot, snapshot_path
from tidings.errors import BadControl, BadMessage, Unreadable
from tidings.message import Message
from tidings.notification import Encoding

HOSTILE = [
    "../../etc/passwd",
    "..",
    "/",
    "control",
    "publish.b2",
    "link.b1.b2",
    "notify.victim",
    "dead-letter",
    "$(reboot)",
    "`id`",
    "${jndi:ldap://example.org/x}",
    "'; DROP TABLE events; --",
    "1 or 1 = 1",
    "{{7*7}}",
    "__import__('os').system('id')",
    "%s%n%x",
    "\x00",
    "\x00tidings mark",
    "a\r\nreason: none",
    "\u202etxt.exe",
    "𝕳𝖔𝖘𝖙𝖎𝖑𝖊 ✓",
    "x" * 1024,
    '"\\',
    "null",
]
"""Each would do harm somewhere if it were taken for more than a text."""

ALLOWED = {"notify.all", "notify.far", "link.b1.b2", "link.b2.b1", "late", "dead-letter", "decisions"}
"""What the control data below names, and nothing else."""

TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
MESSAGES = st.builds(
    Message,
    topic=TEXTS,
    key=TEXTS,
    fields=st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2).map(tuple), max_size=3),
    source=st.none() | TEXTS,
    id=st.none() | TEXTS,
    published_ms=st.none() | st.sampled_from([0, 1_000_000, 2**53]),
)


def carried(message: Message, encoding: Encoding) -> Message:
    """The message as the service reads it."""
    return decode_message(encode_message(message, encoding), MessageLimits())


def records_after(messages: Iterable[Message]) -> list[Outgoing]:
    """The Kafka records that two brokers write after these messages at one of them; somebody wants all of it at both."""
    script = Script()
    messages = list(messages)
    topics = sorted({message.topic for message in messages})
    wanted = [
        record
        for number, name in enumerate(topics)
        for record in (
            topic(name, filter="adaptive", window_ms=2000),
            subscription(f"all-{number}", topic=name, deliver="notify.all"),
            subscription(f"far-{number}", topic=name, deliver="notify.far", broker="b2"),
        )
    ]
    script.control(broker("b1"), broker("b2"), link("b1", "b2"), *wanted)
    for message in messages:
        for _ in range(2):  # the second ends a window of the adaptive filter
            said = {"source": message.source, "id": message.id, "published_ms": message.published_ms}
            script.publish(message.fields, message.key, message.topic, **said)
            script.tick(2500)
    script.refuse()
    return list(to_records(script.run()[1], "s", 0, lambda origin: Entry(origin, b"key", b"value")))


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:20] for text in HOSTILE])
@pytest.mark.parametrize("encoding", Encoding)
def test_hostile_names_and_values_are_only_told(text: str, encoding: Encoding):
    message = carried(Message(text, text, {text: text, "list": (text,)}, source=text, id=text), encoding)
    records = records_after([message])
    assert {kafka_topic for kafka_topic, *_ in records} <= ALLOWED
    (told, *_) = [json.loads(value) for kafka_topic, _, value, _ in records if kafka_topic == "notify.all"]
    assert (told["topic"], told["key"], told["news"]) == (text, text, {text: text, "list": [text]})


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.sampled_from(Encoding))
def test_no_message_chooses_where_anything_is_written(messages: list[Message], encoding: Encoding):
    records = records_after(carried(message, encoding) for message in messages)
    assert {kafka_topic for kafka_topic, *_ in records} <= ALLOWED
    headers = [name for *_, more in records for name, _ in more]
    assert set(headers) <= {"reason", "detail", "origin", "partition", "offset", "time", "cut"}


def test_what_is_put_aside_goes_to_one_of_two_kafka_topics():
    records = records_after([Message("control", "publish.b1", {"a": 1}, published_ms=1)])
    assert {kafka_topic for kafka_topic, _, _, headers in records if headers} == {"late", "dead-letter"}


@pytest.mark.parametrize("fingerprint", [bytes(8), b"\xff" * 8, avro.schema("notification").header[2:], b"../../et"])
def test_a_message_cannot_choose_its_schema(fingerprint: bytes):
    body = encode_message(Message("t", "k", {}), Encoding.AVRO)[avro.HEADER_BYTES :]
    with pytest.raises(BadMessage) as caught:
        decode_message(avro.MAGIC + fingerprint + body, MessageLimits())
    assert caught.value.reason is Unreadable.UNKNOWN_SCHEMA


def record(kafka_topic: str, value: bytes) -> Record:
    return Record(kafka_topic, 0, 1, 5, None, value)


@pytest.mark.parametrize("version", ["../../x", "9" * 30, "-1", "1e3", "0x10", "١"])
def test_a_forged_mark_names_no_version(version: str):
    """A version names a file: only the service's own marks can."""
    forged = b" ".join([MARK_START, b"service", version.encode(), b"0" * 16])
    (happened,) = read(record("publish.b1", forged), MessageLimits(), TickerIdentity("service", "secret"))
    assert happened == Marked("publish.b1-0", 5, None)


@pytest.mark.parametrize("version", ['"../../x"', '"/etc/passwd"', "null", "[]", '{"a": 1}', "NaN", "1e400", "[" * 100_000])
def test_a_version_in_a_tick_is_a_number_or_nothing(version: str):
    tick = f'{{"service": "s", "version": {version}, "partitions": []}}'.encode()
    happened = read(record("clock", tick), MessageLimits(), TickerIdentity("s", "secret"))
    assert not [each for each in happened if isinstance(each, Ticked)]


@given(st.integers(0, 10**30))
def test_the_file_of_a_version_is_in_its_folder(version: int):
    folder = Path("control")
    assert snapshot_path(folder, version).resolve().parent == folder.resolve()


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:20] for text in HOSTILE])
def test_a_hostile_value_is_compared_and_not_evaluated(text: str):
    script = Script()
    quoted = text.replace("'", "''")
    script.control(subscription("same", where=f"a = '{quoted}'"), subscription("other", where="a = 'harmless'"))
    script.publish({"a": text})
    assert [told.subscription for told in script.told()] == ["same"]


def test_a_publication_is_never_a_tick_or_control_data():
    """Whatever it looks like: what a record is follows from the Kafka topic it stands on."""
    tick = json.dumps({"topic": "t", "key": "k", "fields": {}, "service": "s", "version": 9, "partitions": []}).encode()
    (happened,) = read(record("publish.b1", tick), MessageLimits(), TickerIdentity("s", "secret"))
    assert isinstance(happened, Arrived)


# ---- control data does choose a Kafka topic: not one of the service's own -------------------------------------------------

OWN = {spec.name for spec in (*service_topics(1, 1), *publish_specs(["b1", "x"], 1, 1), *link_specs([Link("l", "b1", "x")], 1))}
NO_NAMES = [
    "..",
    ".",
    "../x",
    "a/b",
    "a b",
    "",
    "ü",
    "control\n",
    "\x00",
    "x" * 250,
    "$(id)",
    "__consumer_offsets",
    "__transaction_state",
]


def applied(record: dict[str, Any]) -> Snapshot:
    return Snapshot().apply(1, f"{record['kind']}/{record['name']}", json.dumps(record).encode())


@pytest.mark.parametrize("deliver", [*sorted(OWN), *NO_NAMES], ids=lambda deliver: ascii(deliver)[:20])
def test_a_subscription_cannot_be_delivered_to_the_services_own_kafka_topics(deliver: str):
    with pytest.raises(BadControl):
        applied(subscription("s", deliver=deliver))


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(text)[:20] for text in HOSTILE])
def test_a_subscriber_with_a_hostile_name_is_refused_or_told_on_a_topic_of_its_own(name: str):
    try:
        found = applied({"kind": "subscription", "name": "s", "subscriber": name, "topic": "t"}).subscriptions["s"]
    except BadControl:
        return
    assert found.deliver == f"notify.{name}"
    assert set(found.deliver) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@given(st.text(max_size=30) | st.from_regex(r"[a-z.\-_]{1,20}", fullmatch=True))
def test_what_is_accepted_for_deliver_is_a_kafka_name_and_not_ours(deliver: str):
    try:
        found = applied(subscription("s", deliver=deliver))
    except BadControl:
        return
    assert deliver not in OWN
    assert not deliver.startswith(("publish.", "link.", "__"))
    assert [spec.name for spec in delivery_specs([s.deliver for s in found.subscriptions.values()], 1)] == [deliver]
    assert deliver.replace(".", "").replace("_", "").replace("-", "").isalnum() or set(deliver) <= set("._-")


@pytest.mark.parametrize("name", ["a.b", "../x", "b1.b2", "*", "", "x" * 81, "b\x00"])
def test_a_broker_whose_name_would_be_another_kafka_topic_is_refused(name: str):
    with pytest.raises(BadControl):
        applied({"kind": "broker", "name": name})


def test_the_control_data_of_these_tests_is_taken():
    """Else they would say nothing."""
    assert snapshot(broker("b1"), subscription("s", deliver="notify.all")).subscriptions["s"].deliver == "notify.all"
