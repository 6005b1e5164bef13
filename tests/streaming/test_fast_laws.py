"""The fast engine gives what `step` gives: on random streams, controls, clocks and restarts."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from streaming.broker import inputs as logs
from streaming.broker.inputs import Ticker, kind_of, to_inputs
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.broker.values import Arrived, Decided, Marked, Output, PutAside, Refused, Send, Tell, Ticked
from streaming.fast.desk import FastDesk
from streaming.fast.engine import Setting, process
from streaming.fast.hashing import event_hash, fact_hashes
from streaming.fast.keeping import Store, read_note
from streaming.fast.reading import COLUMNS, numbers_of, rows_of
from streaming.fast.rows import KINDS
from streaming.fast.shelf import Shelf
from streaming.testing import Script, broker, link, subscription, topic
from tidings.codec import MessageLimits, decode_message, encode_message
from tidings.control import Snapshot
from tidings.errors import BadMessage
from tidings.notification import Encoding
from tidings.registers import Bounds
from topology import names
from topology.plan import Plan

SECRET = "a secret of the service"
TICKER = Ticker("svc", "another")
LIMITS = MessageLimits()


@dataclass(frozen=True)
class Record:
    """A record of the log as a replay reads it."""

    kafka_topic: str
    partition: int
    offset: int
    append_ms: int
    record_key: bytes | None
    value: bytes | None
    topic: str | None = None
    key: str | None = None

    @property
    def kind(self) -> str:
        return kind_of(self.kafka_topic, self.value)


def records_of(script: Script, encodings: list[Encoding]) -> list[Record]:
    """The script as a log: messages in either encoding, ticks and marks as the ticker writes them."""
    log: list[Record] = []
    offsets: dict[tuple[str, int], int] = defaultdict(int)

    def write(kafka_topic: str, partition: int, append_ms: int, value: bytes, about: tuple[str, str] | None = None) -> None:
        offset = offsets[kafka_topic, partition] = offsets[kafka_topic, partition] + 1
        log.append(Record(kafka_topic, partition, offset, append_ms, None, value, *(about or (None, None))))

    for number, happened in enumerate(script.inputs):
        match happened:
            case Arrived():
                value = encode_message(happened.message, encodings[number % len(encodings)])
                about = happened.message.topic, happened.message.key
                write(happened.origin.kafka_topic, 0, happened.origin.append_ms, value, about)
            case Refused():
                write("publish.b1", 0, happened.origin.append_ms, b"rubbish")
            case Ticked():
                tick = {"service": "svc", "version": happened.version, "partitions": happened.partitions}
                write(names.CLOCK, 0, happened.append_ms, json.dumps(tick).encode())
            case Marked():
                kafka_topic, partition = happened.partition.rsplit("-", 1)
                write(kafka_topic, int(partition), happened.append_ms, TICKER.mark(happened.version))
    return log


def columns_of(records: list[Record]) -> tuple[dict[str, Any], list[Any]]:
    """What Spark makes of them."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    facts: list[Any] = []
    for record in records:
        plain, event, source, published_ms, stated = False, 0, 0, -1, None
        if record.topic is not None and record.key is not None:
            event = event_hash(SECRET, (names.broker_of(record.kafka_topic), record.topic, record.key))
        try:
            if record.kind == logs.MESSAGE and not (record.value or b"").startswith(b"{"):
                message = decode_message(record.value, LIMITS)
                plain, stated = True, sorted(fact_hashes(event, message.fields))  # Java has its own order
                source, published_ms = numbers_of(message)
        except BadMessage:
            pass
        for name in COLUMNS[:7]:
            columns[name].append(KINDS.index(record.kind) if name == "kind" else getattr(record, name))
        for name, value in zip(COLUMNS[7:], (plain, event, source, published_ms), strict=True):
            columns[name].append(value)
        facts.append(stated)
    return columns, facts


def plainly(script: Script, batches: list[list[Record]]) -> tuple[BucketState, list[Output]]:
    state, outputs = BucketState(), []
    for batch in batches:
        happened = [each for row in logs.in_log_order(batch) for each in to_inputs(row, LIMITS, TICKER)]
        state, more = step(state, happened, script.plan_at, script.rules)
        outputs += more
    return state, outputs


def fast(script: Script, batches: list[list[Record]], restarts: Restarts) -> tuple[BucketState, list[Output]]:
    """Every batch by one of two workers, which keep what they had; or by a new one."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "0", SECRET, script.rules.bounds, restarts.inline, restarts.inline)
        setting = Setting(script.plan_at, script.rules, LIMITS, TICKER)
        outputs: list[Output] = []
        note, workers = None, {}
        for number, batch in enumerate(batches):
            worker = restarts.workers[number % len(restarts.workers)]
            bucket = store.open(read_note(note) if note else None, workers.pop(worker, None))
            columns, facts = columns_of(batch)
            bucket.state.changed = False
            outputs += process(bucket.state, bucket.shelf, rows_of(columns, facts, LIMITS, SECRET), setting)
            bucket.shelf.pack()
            if bucket.state.changed or note is None:
                note = store.save(bucket)
            if worker is not None:
                workers[worker] = bucket
        last = store.open(read_note(note) if note else None)
        return (last.state if script.inputs else BucketState()), outputs


@dataclass(frozen=True)
class Restarts:
    """Which worker gets each batch, None for a new one; and how much is kept out of files."""

    workers: tuple[int | None, ...] = (1,)
    inline: int = 64 * 1024


def cut(log: list[Record], cuts: list[int]) -> list[list[Record]]:
    bounds = [0, *sorted(n % (len(log) + 1) for n in cuts), len(log)]
    return [log[a:b] for a, b in pairwise(bounds)]


def by_key(outputs: list[Output]) -> dict[Any, list[Any]]:
    """What is delivered, in its order for each event key; link records without their numbers, which count across keys."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for output in outputs:
        match output:
            case Tell():
                found[output.notification.topic, output.notification.key].append(output)
            case Send():
                found[output.record.about].append((output.sender, output.to, output.record, output.at_ms))
            case PutAside():
                found["aside"].append(output)
            case Decided():
                pass
            case _:
                found["other"].append(output)
    found["aside"].sort(key=lambda aside: aside.origin.offset)
    return found


def remembered(state: BucketState) -> list[Any]:
    """Every slot, in order; with the sources of the fast engine taken out of its table."""
    if isinstance(state.slots, Shelf):
        desk = FastDesk(state, lambda _: Plan(Snapshot()), Rules(), shelf=state.slots)
        return [
            (at, structs.replace(slot, open=[structs.replace(event, sources=desk.sources_of(event)) for event in slot.open]))
            for at, slot in state.slots.items()
        ]
    return list(state.slots.items())


values = st.integers(0, 2) | st.sampled_from([None, True, 1.5, 1.0, "x", ("x", "y"), ("x",), ()])
fields = st.dictionaries(st.sampled_from("abcde"), values, max_size=3)
paces = st.sampled_from(
    [
        {},
        {"every_ms": 2_500},
        {"settle_ms": 1_500},
        {"at_most": 1},
        {"at_most": 2, "every_ms": 700, "settle_ms": 300},
        {"heartbeat_ms": 60_000},
    ]
)
moves = st.one_of(
    st.tuples(
        st.just("publish"),
        st.sampled_from(["k1", "k2", "k3"]),
        fields,
        st.sampled_from([None, 0, 0, -1, 500, -3_000, -9_000, -10_000, -20_000, 700_000]),
        st.sampled_from([None, "s1", "s2", "s3", "s4"]),
        st.integers(1, 4),
        st.integers(0, 1),
    ),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 700, 3_000, 3_600_000])),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("subscribe"), st.sampled_from(["s1", "s2"]), paces, st.sampled_from(["", "a = 1", "not a = 1"])),
    st.tuples(st.just("unsubscribe"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("refuse")),
)
timings = st.sampled_from(
    [
        {"window_ms": 10_000},
        {"window_ms": 10_000, "fields": {"a": "max", "b": "union", "c": "last", "d": "min"}},
        {"hold_ms": 2_000, "window_ms": 10_000},
        {"hold_ms": 1_000, "remember_ms": 3_000, "window_ms": 10_000},
        {"hold_ms": 2_000, "window_ms": 10_000, "complete": ["a", "b"]},
        {"window_ms": 5_000, "gather": False},
    ]
)
rules = st.sampled_from(
    [
        Rules(),
        Rules(bounds=Bounds(conflicts=1, union_items=2), sources=2, event_fields=3),
        Rules(open_events=2),
        Rules(bounds=Bounds(conflicts=0, union_items=1)),
    ]
)


def scripted(rules: Rules, timing: dict, overlay: bool, ends: bool, story: list[tuple]) -> Script:
    script = Script(rules=rules)
    script.control(topic(**timing), subscription("always"), subscription("slow", every_ms=2_500))
    if overlay:
        script.control(broker("b1"), broker("b2"), link("b1", "b2"), subscription("far", broker="b2"))
    for move, *details in story:
        match move:
            case "publish":
                key, stated, drift, source, times, pause = details
                for _ in range(times):
                    at = None if drift is None else max(0, script.now_ms + drift)
                    script.publish(stated, key, published_ms=at, source=source)
                    script.wait(pause)
            case "wait":
                script.wait(details[0])
            case "tick":
                script.tick(details[0])
            case "subscribe":
                name, pace, where = details
                script.control(subscription(name, **pace, where=where, missing="patient"))
            case "unsubscribe":
                script.control(delete=(f"subscription/{details[0]}",))
            case "refuse":
                script.refuse()
    if ends:
        script.tick(60_000)
    return script


stories = st.builds(scripted, rules, timings, st.booleans(), st.booleans(), st.lists(moves, max_size=30))


@settings(max_examples=600, deadline=None)
@given(
    stories,
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([[Encoding.AVRO], [Encoding.JSON], list(Encoding)]),
    st.builds(Restarts, st.lists(st.sampled_from([1, 1, 2, None]), min_size=1).map(tuple), st.sampled_from([1, 2_000, 65_536])),
)
def test_the_fast_engine_does_what_the_plain_one_does(script, cuts, encodings, restarts):
    check(script, cut(records_of(script, encodings), cuts), restarts)


def check(script: Script, batches: list[list[Record]], restarts: Restarts) -> None:
    state, outputs = plainly(script, batches)
    quick, found = fast(script, batches, restarts)
    assert by_key(found) == by_key(outputs)
    assert {b: books.to_dict() for b, books in quick.books.items()} == {b: books.to_dict() for b, books in state.books.items()}
    assert quick.size == state.size
    assert remembered(quick) == remembered(state)
    assert quick.version == state.version


few_facts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 1), min_size=1)
crowds = st.lists(st.tuples(few_facts, st.sampled_from([0, 0, 1, 2, -3_000, -20_000]), st.integers(0, 1)), min_size=2, max_size=9)


@settings(max_examples=400, deadline=None)
@given(crowds, timings, st.integers(0, 9))
def test_many_messages_about_one_event_in_a_batch(crowd, timing, cut_at):
    """Most of what goes wrong between messages goes wrong here."""
    script = Script()
    script.control(topic(**timing), subscription("always"))
    for stated, drift, pause in crowd:
        script.publish(stated, published_ms=script.now_ms + drift)
        script.wait(pause)
    check(script, cut(records_of(script, [Encoding.AVRO]), [cut_at]), Restarts())


def test_a_fact_stated_at_the_same_time_under_an_earlier_id_is_looked_at():
    script = Script()
    script.control(topic(), subscription("always"))
    for message_id in ("m-2", "m-1"):
        script.publish({"a": 1}, id=message_id, published_ms=script.now_ms)
    log = records_of(script, [Encoding.AVRO])
    batches = [log[:-1], log[-1:]]
    quick, _ = fast(script, batches, Restarts())
    assert remembered(quick) == remembered(plainly(script, batches)[0])
    ((_, slot),) = remembered(quick)
    assert slot.open[0].knowledge["a"].claims[0].message_id == "m-1"


def test_what_only_a_late_message_said_is_not_known():
    """The last message says two things that no joined one said; one of them a late one did."""
    script = Script()
    script.control(topic(window_ms=10_000), subscription("always"))
    early_ms = script.now_ms - 20_000
    script.publish({"where": "bridge", "tags": ("x",)}, published_ms=early_ms)
    script.publish({"what": "fire"})
    script.publish({"tags": ("x",)}, published_ms=script.now_ms + 1)
    script.publish({"where": "bridge", "tags": ("x", "y")}, published_ms=script.now_ms + 2)
    check(script, [records_of(script, [Encoding.AVRO])], Restarts())
