"""State moves to another number of buckets, and nobody can tell by what is told, counted or remembered."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streaming.batch.desk import BatchDesk
from streaming.batch.first_note import Seed, read_seed, write_seed
from streaming.batch.memory import PackedMemory
from streaming.batch.resplit import resplit
from streaming.batch.store import Bucket
from streaming.broker.state import BucketState, Filter, FilterMode, Rules
from streaming.model.books import total
from streaming.model.outputs import Output, PutAside, Send, Tell, WrittenTell
from streaming.wire.notification import decode_notification
from streaming.wire.outgoing import written
from streaming.world.buckets import SECRET, Buckets, log_of, plainly
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import broker, link, subscription, topic
from tidings.control import Snapshot
from tidings.errors import BadState
from tidings.notification import Encoding
from tidings.registers import Bounds
from topology.plan import Plan

KEYS = tuple(f"k{number}" for number in range(9))
moves = st.one_of(
    st.tuples(
        st.just("publish"),
        st.sampled_from(KEYS),
        st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2) | st.sampled_from(["x", ("x", "y")]), min_size=1, max_size=3),
        st.sampled_from([0, 0, 0, -1, -3_000, -20_000, 700_000]),
        st.sampled_from([None, "s1", "s2", "s3"]),
        st.sampled_from(["incident", "incident", "plain"]),
        st.sampled_from(["b1", "b1", "b2"]),
    ),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("lag"), st.integers(0, 4_000)),
    st.tuples(st.just("subscribe"), st.sampled_from([0, 2_500])),
    st.tuples(st.just("refuse")),
)
timings = st.sampled_from(
    [
        {"window_ms": 10_000},
        {"window_ms": 10_000, "fields": {"a": "max", "b": "union", "c": "last"}},
        {"hold_ms": 2_000, "window_ms": 10_000},
        {"hold_ms": 3_000, "remember_ms": 3_000, "window_ms": 10_000},
        {"window_ms": 5_000, "gather": False},
    ]
)
rules = st.sampled_from([Rules(), Rules(bounds=Bounds(conflicts=1, union_items=2), sources=2), Rules(hands_on=True)])
TWO = (PARTITION, "publish.b1-1")


class TwoPartitions(Script):
    def tick(self, after_ms: int = 1000, partitions: tuple[str, ...] = TWO) -> None:
        super().tick(after_ms, partitions)


def scripted(rules: Rules, timing: dict, overlay: bool, story: list[tuple]) -> Script:
    script = TwoPartitions(rules=rules)
    script.control(
        topic(**timing),
        subscription("always"),
        subscription("slow", every_ms=2_500),
        subscription("rare", at_most=2),
        subscription("plain", topic="plain"),
        *(subscription(f"beats{number}", topic="quiet", heartbeat_ms=1_000 + 500 * number) for number in range(3)),
    )
    if overlay:
        script.control(broker("b1"), broker("b2"), link("b1", "b2"), subscription("far", broker="b2"))
    for move, *details in story:
        match move:
            case "publish":
                key, stated, drift, source, name, at = details
                at, published_ms = at if overlay and rules.hands_on else "b1", max(0, script.now_ms + drift)
                for _ in range(2):
                    script.publish(stated, key, name, published_ms=published_ms, source=source, broker=at)
                    script.wait(1)
            case "tick":
                script.tick(details[0])
            case "lag":  # one partition is ahead of the other
                script.tick(details[0])
                script.inputs.pop()
            case "subscribe":
                script.control(subscription("new", every_ms=details[0], where="a = 1", missing="patient"))
            case "refuse":
                script.refuse()
    script.tick(30_000)
    return script


def by_key(outputs: list[Output]) -> dict[Any, list[Any]]:
    """What is delivered, in its order for each event key and subscription; link records without their numbers."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for output in outputs:
        match output:
            case Tell() | WrittenTell():
                record = written(output) if isinstance(output, Tell) else output
                told = decode_notification(record.value)
                found[told.subscription, told.topic, told.key].append(record)
            case Send():
                found[output.record.about].append((output.sender, output.to, output.record, output.at_ms))
            case PutAside():
                found["aside"].append(output)
    found["aside"].sort(key=lambda aside: aside.origin.offset)
    return found


def remembered(state: BucketState, now_ms: int) -> dict[Any, Any]:
    """Every slot, with the sources of the fast engine taken out of its table; graves that nobody needs may be there or not."""
    sources = None
    if isinstance(state.slots, PackedMemory):
        sources = BatchDesk(state, lambda _: Plan(Snapshot()), Rules(), shelf=state.slots).sources_of
    return {
        at: structs.replace(
            slot,
            open=[structs.replace(event, sources=sources(event) if sources else event.sources) for event in slot.open],
            closed=[grave for grave in slot.closed if grave.forget_ms > now_ms],
        )
        for at, slot in state.slots.items()
    }


def sums(states: list[BucketState]) -> dict[str, Any]:
    """The books of all, without what records on links took: each has the name of its bucket in it."""
    brokers = sorted({name for state in states for name in state.books})
    found = {name: total(state.books[name] for state in states if name in state.books) for name in brokers}
    for books in found.values():
        books.heard_bytes.clear()
    return {name: books.to_dict() for name, books in found.items()}


@given(
    st.builds(scripted, rules, timings, st.booleans(), st.lists(moves, min_size=10, max_size=30)),
    st.sampled_from([1, 2, 4, 5]),
    st.sampled_from([0.3, 0.5, 0.7, 0.9]),
    st.sampled_from([[Encoding.AVRO], list(Encoding)]),
    st.sampled_from([1, 65_536]),
)
def test_a_stream_whose_buckets_change_in_the_middle_gives_what_one_bucket_gives(script, count, part, encodings, inline):
    log = log_of(script, encodings)
    middle = int(part * len(log))
    cuts = [0, middle // 2, middle, (middle + len(log)) // 2, len(log)]
    batches = [log[start:end] for start, end in pairwise(cuts)]
    state, expected = plainly(script, batches)
    with TemporaryDirectory() as folder:
        service = Buckets(Path(folder), script, 3, inline)
        outputs = [output for batch in batches[:2] for output in service.run(batch)]
        before = service.all()
        service.migrate(count)
        after = service.all()
        assert sums([bucket.state for bucket in after]) == sums([bucket.state for bucket in before])
        assert all(books.balanced for bucket in after for books in bucket.state.books.values())
        outputs += [output for batch in batches[2:] for output in service.run(batch)]
        last = service.all()
    assert by_key(outputs) == by_key(expected)
    assert sums([bucket.state for bucket in last]) == sums([state])
    assert all(books.balanced for bucket in last for books in bucket.state.books.values())
    assert sum(bucket.state.size for bucket in last) == state.size
    found = [remembered(bucket.state, state.clock_ms) for bucket in last]
    assert sum(map(len, found)) == len(state.slots)
    assert {at: slot for slots in found for at, slot in slots.items()} == remembered(state, state.clock_ms)


def held_story(keys: int = 12) -> Script:
    """As many events as keys, a second apart, each with two messages held and one that was redundant."""
    script = Script()
    held = {"hold_ms": 60_000, "window_ms": 600_000}
    script.control(topic(**held), topic("fire", **held), subscription("all"), subscription("fires", topic="fire"))
    for number in range(keys):
        for fields, source in (({"a": 1}, "s1"), ({"b": 2}, "s2"), ({"a": 1}, "s3")):
            script.publish(fields, f"key {number}", ("incident", "fire")[number % 3 == 0], source=source)
        script.wait(1_000)
    return script


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_each_slot_is_in_the_bucket_its_hash_chooses_and_in_its_order_of_age(tmp_path: Path, count: int):
    script = held_story()
    service = Buckets(tmp_path, script, 3)
    service.run(log_of(script))
    service.migrate(count)
    for number, bucket in enumerate(service.all()):
        shelf = bucket.shelf
        assert [int(shelf.columns.hash[row]) % count for row in shelf.rows().tolist()] == [number] * len(shelf)
        assert [shelf.places[place] for place in shelf.columns.place[shelf.rows()]] == [at[:2] for at in shelf]
        opened = [slot.open[0].opened_ms for slot in shelf.values()]
        assert opened == sorted(opened)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_held_messages_are_counted_where_their_events_are(tmp_path: Path, count: int):
    script = held_story()
    service = Buckets(tmp_path, script, 3)
    service.run(log_of(script))
    service.migrate(count)
    buckets = service.all()
    for bucket in buckets:
        here = sum(event.held for event in bucket.state.events())
        books = bucket.state.books.get("b1")
        assert (books.to_dict()["held"] if books else 0) == here
    states = [bucket.state for bucket in buckets]
    assert sums(states)["b1"] == script.books().to_dict()
    assert sums(states)["b1"]["held"] == 24


def test_facts_and_sources_go_with_their_events(tmp_path: Path):
    """What was known stays known without opening a message; and who reported is not counted twice."""
    script = held_story()
    service = Buckets(tmp_path, script, 3)
    service.run(log_of(script))
    before = service.all()
    service.migrate(7)
    after = service.all()
    for table in ("facts", "sources"):
        assert len(getattr(before[0].shelf, table)) > 0

        def entries(buckets: list[Bucket], name: str = table) -> set[tuple[int, int, int]]:
            """Each with the hash of the event it belongs to."""
            return {
                (int(key), int(bucket.shelf.columns.hash[owner]), int(beside))
                for bucket in buckets
                for found in [getattr(bucket.shelf, name)]
                for key, owner, beside in zip(found.keys, found.owner, found.beside, strict=True)
            }

        assert entries(after) == entries(before)


def test_numbers_that_must_grow_are_the_highest_of_all():
    old = [bucket_with(BucketState(version=7)) for _ in range(3)]
    old[0].state.sent, old[1].state.sent = {("b1", "b2"): 5}, {("b1", "b2"): 9, ("b1", "b3"): 1}
    old[1].state.heard, old[2].state.heard = {("b1", "b2", "x/0"): 4}, {("b1", "b2", "x/0"): 3}
    old[0].state.beats, old[2].state.beats = {"s": 2_000}, {"s": 1_000, "t": 500}
    old[0].state.marks, old[0].state.partitions, old[0].state.clock_ms = {"p-0": 10, "p-1": 30}, ("p-0", "p-1"), 10
    old[1].state.marks, old[1].state.partitions, old[1].state.clock_ms = {"p-0": 20, "p-1": 25}, ("p-0", "p-1"), 20
    for bucket in resplit(old, 2, SECRET, Bounds()):
        state = bucket.state
        assert (state.version, state.clock_ms, state.partitions) == (7, 20, ("p-0", "p-1"))
        assert state.marks == {"p-0": 20, "p-1": 30}
        assert state.sent == {("b1", "b2"): 9, ("b1", "b3"): 1}
        assert state.heard == {("b1", "b2", "x/0"): 4}
        assert state.beats == {"s": 2_000, "t": 500}


def test_counts_of_adaptive_filters_are_added_up():
    at = ("b1", "incident")
    old = [bucket_with(BucketState()) for _ in range(4)]
    old[1].state.filters = {at: Filter(60_000, FilterMode.EVENT, offered=4, asked=2, matched=1, sent=4, before_sent=10)}
    old[3].state.filters = {at: Filter(60_000, FilterMode.PROFILE, offered=3, asked=3, matched=3, sent=3, before_matched=6)}
    old[2].state.filters = {("b2", "incident"): Filter(0, offered=1)}
    other, both = resplit(old, 2, SECRET, Bounds())
    assert other.state.filters == {("b2", "incident"): Filter(0, offered=1)}
    expected = Filter(60_000, FilterMode.EVENT, 7, 5, 4, 0, 7, before_sent=10, before_matched=6)
    assert both.state.filters == {at: expected}
    old[3].state.filters[at].start_ms = 0
    closed = resplit(old, 2, SECRET, Bounds())[1].state.filters[at]
    assert (closed.start_ms, closed.offered, closed.before_sent, closed.before_matched) == (60_000, 4, 13, 9)


def bucket_with(state: BucketState) -> Bucket:
    shelf = PackedMemory(SECRET, Bounds())
    state.slots = shelf
    return Bucket(state, shelf)


def test_a_seed_is_read_as_it_was_written(tmp_path: Path):
    assert read_seed(tmp_path / "0") is None
    seed = Seed(b"a note", [("b1", 7)])
    assert write_seed(tmp_path / "0", seed) == (tmp_path / "0" / "seed").stat().st_size
    assert read_seed(tmp_path / "0") == seed


def test_a_damaged_seed_is_refused(tmp_path: Path):
    write_seed(tmp_path / "0", Seed(b"a note"))
    data = (tmp_path / "0" / "seed").read_bytes()
    (tmp_path / "0" / "seed").write_bytes(data[:-1] + b"\x00")
    with pytest.raises(BadState, match="the state file 0/seed fails its checksum"):
        read_seed(tmp_path / "0")
