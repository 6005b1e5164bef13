"""Spark finds the event of a record as Python does, and of what it finds only that is plain which Python would take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from service.kafka.jars import spark_jars
from service.kafka.java import Java
from streaming.batch.arrays import NO_SOURCE, NOT_SAID
from streaming.batch.hashing import bucket_of, event_hash
from streaming.batch.rows import COLUMNS, KINDS, Rows, rows_of
from streaming.batch.shuffle import labels_of
from streaming.broker.state import Rules
from streaming.model.address import Address
from streaming.model.event import Span
from streaming.model.links import EventNews, Stamp
from streaming.spark.events import BucketSpec
from streaming.spark.pipelines import EVENTS
from streaming.spark.routing import Routing, routed
from streaming.spark.session import start_session, stop_session
from streaming.wire import avro
from streaming.wire.clock import MARK_START, TickerIdentity
from streaming.wire.link import encode_link
from streaming.wire.message import MessageLimits, decode_message, encode_message
from testing.json_texts import json_messages
from tidings import names
from tidings.errors import BadMessage
from tidings.message import Message
from tidings.notification import Encoding
from tidings.values import source_digest

# PySpark leaves the sockets that rows come back by to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIMITS = MessageLimits(message_bytes=2_000, fields=4, key_bytes=20)
ROUTING = Routing("svc", "secret", 5, LIMITS)


@pytest.fixture(scope="module")
def spark(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert java
    session = start_session("local[1]", spark_jars(), shuffle_partitions=1, local_dir=tmp_path_factory.mktemp("spark"))
    yield session
    stop_session(session)


def avro_of(message: Message) -> bytes:
    return encode_message(message, Encoding.AVRO)


def raw(**datum: Any) -> bytes:
    nothing = {"topic": "t", "key": "k", "fields": {}, "source": None, "id": None, "published_ms": None}
    return avro.schema("message").encode(nothing | datum)


STATED = {"a": 1, "b": 1.5, "c": True, "d": "x"}
GOOD = Message("t", "k", STATED, "cam", "m-1", 12)
VALUES = {
    "good": avro_of(GOOD),
    "bare": avro_of(Message("t", "k", {})),
    "unicode": avro_of(Message("t", "ключ", {"поле": "значение"}, "источник")),
    "left over": avro_of(GOOD) + b"x",
    "cut": avro_of(GOOD)[:-1],
    "rubbish": b"rubbish",
    "empty": b"",
    "other schema": avro.MAGIC + bytes(8) + avro_of(GOOD)[10:],
    "too many fields": avro_of(Message("t", "k", dict.fromkeys("abcde", 1))),
    "too large": avro_of(Message("t", "k", {"a": "x" * 2_000})),
    "empty source": raw(source=""),
    "long source": raw(source="x" * 21),
    "long id": raw(id="x" * 21),
    "empty id": raw(id=""),
    "before the epoch": raw(published_ms=-1),
    "json": encode_message(GOOD),
    "bad text": avro_of(GOOD).replace(b"cam", b"\xff\xff\xff"),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, Any]:
    """What becomes of each value, sent to b1."""
    records = [("publish.b1", 0, n, value) for n, value in enumerate(VALUES.values())]
    return dict(zip(VALUES, run(spark, records), strict=True))


def run(spark: SparkSession, records: list[tuple[str, int, int, bytes | None]], routing: Routing = ROUTING) -> list[Any]:
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(1_000, UTC).replace(tzinfo=None)
    columns = "topic string, partition int, offset long, value binary, key binary, timestamp timestamp"
    frame = spark.createDataFrame([(*record, b"key", at) for record in records], columns)
    return sorted(routed(frame, routing).collect(), key=lambda row: (row.offset, row.bucket))


def read(rows: list[Any]) -> Rows:
    return rows_of({name: [row[name] for row in rows] for name in COLUMNS}, LIMITS, "secret")


def test_it_is_plain_exactly_if_python_takes_it(rows):
    plain = dict(zip(VALUES, read(list(rows.values())).plain.tolist(), strict=True))
    for name, value in VALUES.items():
        try:
            decode_message(value, LIMITS)
            taken = True
        except BadMessage:
            taken = False
        assert plain[name] == taken, name


def test_numbers_are_those_that_python_finds(rows):
    found = read(list(rows.values()))
    for index, name in enumerate(VALUES):
        if name in ("good", "bare", "unicode", "json"):
            message = decode_message(VALUES[name], LIMITS)
            at = ("b1", message.topic, message.key)
            assert rows[name].event == event_hash("secret", at), name
            assert rows[name].bucket == event_hash("secret", at) % 5
            assert found.starts[index + 1] - found.starts[index] == len(message.fields)
            assert found.source[index] == (NO_SOURCE if message.source is None else source_digest(message.source))
            assert found.published_ms[index] == (NOT_SAID if message.published_ms is None else message.published_ms)


def test_all_that_is_about_a_topic_and_key_is_in_one_bucket_where_it_is_handed_on(spark):
    routing = replace(ROUTING, buckets=64, hands_on=True)
    values = [avro_of(GOOD), encode_message(GOOD), avro_of(Message("t", "ключ", {}))]
    found = run(spark, [(f"publish.b{n}", 0, n, value) for n, value in enumerate(values * 2)], routing)
    for row, value in zip(found, values * 2, strict=True):
        message = decode_message(value, LIMITS)
        at = Address(f"b{row.offset}", message.topic, message.key)
        assert row.bucket == bucket_of("secret", at, 64, hands_on=True)
        assert row.event == event_hash("secret", at)
    assert len({row.bucket for row in found}) == 2


@pytest.mark.parametrize("topic", ["t", "t" * 63, "t" * 64])
def test_topics_and_keys_of_any_length_lead_to_their_bucket(spark, topic):
    sizes = [1, 2, 63, 64, 65, 127, 128, 200, 8191, 8192, 8193, 65536]
    messages = [Message(topic, "k" * size, {"a": 1}) for size in sizes] + [Message(topic, "ключ" * 9, {})]
    roomy = replace(ROUTING, limits=MessageLimits(message_bytes=200_000, key_bytes=65536))
    records = [("publish.b1", 0, n, avro_of(message)) for n, message in enumerate(messages)]
    assert [row.event for row in run(spark, records, roomy)] == [event_hash("secret", ("b1", topic, m.key)) for m in messages]


def test_a_length_that_is_longer_than_it_needs_to_be(spark):
    value = avro_of(Message("t", "k", {}))
    padded = value.replace(b"\x02t\x02k", b"\x82\x00t\x82\x80\x00k")
    assert decode_message(padded, LIMITS) == Message("t", "k", {})
    [row] = run(spark, [("publish.b1", 0, 0, padded)])
    assert row.event == event_hash("secret", ("b1", "t", "k"))
    [row] = run(spark, [("publish.b1", 0, 0, value.replace(b"\x02t", b"\x82\x80\x80\x00t"))])
    assert row.event == 0, "nobody writes four bytes for it: it is dead-lettered"


def event_in(value: bytes) -> int | None:
    """The number of the event that the strict reader finds in a publication at b1; None if it refuses it."""
    try:
        message = decode_message(value, MessageLimits())
    except BadMessage:
        return None
    return event_hash("secret", Address("b1", message.topic, message.key))


def found_in_json(spark: SparkSession, values: list[bytes]) -> list[int]:
    records = [("publish.b1", 0, n, value) for n, value in enumerate(values)]
    return [row.event for row in run(spark, records, replace(ROUTING, limits=MessageLimits()))]


@given(batch=st.lists(json_messages(), max_size=16))
def test_whatever_json_is_taken_goes_where_its_event_is(spark, batch):
    """What is refused may go anywhere, but nothing of it may stop the query."""
    for value, event in zip(batch, found_in_json(spark, batch), strict=True):
        assert event_in(value) in (None, event), value


T, K = b'"topic":"t"', b'"key":"k"'
ODD_JSON = {
    "the other way round": b"{%b,%b,%b}" % (K, T, b'"fields":{}'),
    "fields first": b'{"fields":{"a":"}","b":["{"]},"source":"s",%b,%b}' % (K, T),
    "spaces": b'{ "topic" : "t" , "key":\n"k", "fields"\t: {} }',
    "spaces in the texts": b'{"topic":" t ","key":"\xc2\xa0k:","fields":{}}',
    "a field of that name before": b'{"fields":{"topic":"x","key":"y"},%b,%b}' % (T, K),
    "a field of that name behind": b'{%b,%b,"fields":{"topic":"x","key":"y"}}' % (T, K),
    "fields of those names, and an escaped name": b'{"fields":{"topic":"x","key":"y"},"\\u0074opic":"t","k\\u0065y":"k"}',
    "an object before": b'{"new":{"topic":"x","deep":[{"key":"y"}]},%b,%b,"fields":{}}' % (T, K),
    "an object before, and an escaped name": b'{"new":{"topic":"x"},"t\\u006fpic":"t",%b,"fields":{}}' % K,
    "the words as values": b'{"source":"topic","id":"key",%b,%b,"fields":{"a":["topic","key"]}}' % (T, K),
    "the words as the values": b'{"topic":"key","key":"topic","fields":{}}',
    "quoted in a text before": b'{"source":"\\"topic\\":\\"x\\"","id":"\\\\\\"key\\":\\"y\\"",%b,%b,"fields":{}}' % (T, K),
    "a name that ends like it": b'{"a\\"topic":"x","b\\\\\\"key":"y",%b,%b,"fields":{}}' % (T, K),
    "escaped quotes": b'{"topic":"\\"t","key":"k\\"","fields":{}}',
    "a backslash at the end": b'{"topic":"t\\\\","key":"\\\\","fields":{}}',
    "escaped letters": b'{"topic":"\\u0074\\/","key":"\\ud83d\\ude00\\n","fields":{}}',
    "escaped names": b'{"\\u0074opic":"t","\\u006bey":"k","fields":{}}',
    "braces in a text before": b'{"source":"{{",%b,%b,"fields":{}}' % (T, K),
    "an escape only behind": b'{%b,%b,"fields":{"a":"\\n"}}' % (T, K),
    "half a surrogate where nobody looks": b'{%b,"new":"\\ud800",%b,"fields":{}}' % (T, K),
    "a zero character": b'{"topic":"\\u0000","key":"k\\u0000k","fields":{}}',
    "as long as may be": b'{"topic":"%b","key":"%b","fields":{}}' % ("é".encode() * 512, b"k" * 1024),
    "a long number": b'{%b,"new":1.%b,%b,"fields":{}}' % (T, b"0" * 2000, K),
    "a long name": b'{"%b":1,%b,%b,"fields":{}}' % (b"n" * 60_000, T, K),
    "deep": b'{"new":%b%b,%b,%b,"fields":{}}' % (b'{"a":[' * 100, b"]}" * 100, T, K),
}


@pytest.fixture(scope="module")
def odd_json(spark: SparkSession) -> dict[str, int]:
    return dict(zip(ODD_JSON, found_in_json(spark, list(ODD_JSON.values())), strict=True))


@pytest.mark.parametrize("name", ODD_JSON)
def test_odd_json_goes_where_its_event_is(odd_json, name):
    assert odd_json[name] == event_in(ODD_JSON[name])


REFUSED_JSON = [
    b'{"topic":"t","topic":"u","key":"k","fields":{}}',
    b'{"topic":"t","\\u0074opic":"u","key":"k","fields":{}}',
    b'{"topic":"t","key":"\xff","fields":{}}',
    b'{"topic":"t","key":"\\ud800","fields":{}}',
    b'{"topic":"\\udc00' + b"x\\ud800" * 9000 + b'","key":"k","fields":{}}',
    b'{"topic":"t","key":7,"fields":{}}',
    b'{"topic":null,"key":["k"],"fields":{}}',
    b'{"topic":{"topic":"t"},"key":"k","fields":{}}',
    b'{\xef\xbb\xbf"topic":"t","key":"k","fields":{}}',
    b'{"topic":"t","key":"k',
    b'{"topic":"t","key"',
    b'{"topic"',
    b"{" + b'"topic":' * 100_000,
    b"{" * 1_000_000,
    b'{"a":' + b"[" * 1_000_000,
    b'{"topic":"' + b'\\"' * 500_000,
    b"{" + b" " * 1_000_000,
]


def test_json_that_is_refused_harms_nobody(spark):
    values = [*REFUSED_JSON, encode_message(GOOD)]
    found = found_in_json(spark, values)
    assert [event_in(value) for value in values] == [None] * len(REFUSED_JSON) + found[-1:]


def test_what_cannot_be_read_has_no_event_and_goes_somewhere(rows):
    for name in ("rubbish", "empty", "other schema", "too large"):
        assert rows[name].event == 0
        assert 0 <= rows[name].bucket < 5


@pytest.mark.parametrize("link", [False, True])
def test_nothing_that_is_cut_off_does_any_harm(spark, link):
    news = EventNews("topic", "key", "e", Span(0, 0), {}, 1, 1, False, False)
    whole = encode_link(news, Stamp("x", 1)) if link else avro_of(GOOD)
    name = "link.b2.b1" if link else "publish.b1"
    found = run(spark, [(name, 0, n, whole[:n]) for n in range(len(whole))])
    assert len(found) == len(whole)
    assert not read(found).plain.any()


def test_different_facts_have_different_numbers(spark):
    stated = [1, 1.0, 0x3FF0000000000000, True, "1", ("1",), (), None, "", ("a", "b"), ("ab",), "ab", 0, False, 0.0, ("b", "a")]
    messages = [Message("t", "k", {"f": value}) for value in stated] + [Message("t", "k", {"g": 1}), Message("t", "l", {"f": 1})]
    found = read(run(spark, [("publish.b1", 0, n, avro_of(message)) for n, message in enumerate(messages)]))
    numbers = found.facts.tolist()
    assert len(set(numbers)) == len(messages)
    again = read(run(spark, [("publish.b1", 1, 7, avro_of(Message("t", "k", {"z": 2, "f": 1}, "other", "id", 5)))]))
    assert numbers[0] in again.facts.tolist()


def test_buckets_are_dealt_out_evenly_to_the_partitions_of_spark(spark):
    from pyspark.sql import functions as F

    labels = labels_of(12, 4)
    frame = spark.createDataFrame([(label,) for label in labels], "label int").select("label", F.expr("pmod(hash(label), 4)"))
    assert [(label % 12, partition) for label, partition in frame.collect()] == [(n, n % 4) for n in range(12)]


def test_ticks_and_marks_go_to_every_bucket(spark):
    records = [
        (names.CLOCK, 0, 0, b'{"service":"svc","version":1,"partitions":[]}'),
        (names.CLOCK, 0, 1, b'{"service":"other","version":1,"partitions":[]}'),
        ("publish.b1", 0, 2, MARK_START + b" svc 1 x"),
    ]
    found = [(row.offset, KINDS[row.kind], row.bucket) for row in run(spark, records)]
    assert found == [(offset, kind, n) for offset, kind in enumerate(["tick", "tick", "mark"]) for n in range(5)]


def test_a_record_of_a_link_goes_by_its_topic_and_key_and_is_never_plain(spark):
    news = EventNews("t", "k", "e", Span(0, 0), {}, 1, 1, False, False)
    found = run(spark, [("link.b2.b1", 0, 0, encode_link(news, Stamp("x", 1))), ("link.b2.b1", 0, 1, VALUES["good"])])
    assert [row.event for row in found] == [event_hash("secret", ("b1", "t", "k")), 0]
    assert not read(found).plain.any()


@pytest.mark.parametrize("wanted", [False, True])
def test_headers_cross_with_the_records_if_they_are_wanted(spark, kafka, wanted):
    broker = f"headers-{wanted}".lower()
    publisher = Producer({"bootstrap.servers": kafka.bootstrap})
    headers = [("trace", b"7"), ("trace", b"8"), ("none", None)]
    publisher.produce(names.publish_topic(broker), VALUES["good"], b"t/k", headers=headers)
    publisher.flush(30)
    spec = BucketSpec(TickerIdentity("svc", "x"), "", "", "secret", Rules(hosted=frozenset({broker})), headers=wanted)
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = EVENTS.deal(source.options(**EVENTS.source(spec)).load(), spec, 1).where("kind = 0")

    def tell(bucket):
        came = [[(each["key"], each["value"]) for each in found] for found in bucket.get("headers", [])]
        return bucket[["value"]].assign(headers=repr(came))

    found = rows.groupBy("bucket").applyInPandas(tell, "value binary, headers string").collect()
    assert {bytes(row.value) for row in found} == {VALUES["good"]}
    assert {row.headers for row in found} == {repr([headers] if wanted else [])}


def test_java_compiles_the_code_that_spark_writes_for_it(spark):
    """It leaves methods of 8,000 bytes and more to its interpreter, which is many times slower."""
    columns = "topic string, partition int, offset long, value binary, key binary, timestamp timestamp"
    dealt = routed(spark.createDataFrame([], columns), ROUTING).repartition(2, "bucket")
    mode = spark.sparkContext._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("codegen")
    sizes = re.findall(r"maxMethodCodeSize:(\d+)", dealt._jdf.queryExecution().explainString(mode))
    assert sizes
    assert max(map(int, sizes)) < 8_000
