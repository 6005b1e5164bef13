"""A sign of life, so that silence is not mistaken for health."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.inputs import Marked, Ticked
from streaming.model.outputs import Tell
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import broker, link, subscription

START = 1_000_000


def beats(script: Script, name: str = "ops") -> list[int]:
    return [tell.notification.last_ms for tell in script.tells() if tell.notification.subscription == name]


def test_a_heartbeat_says_that_all_before_its_time_was_read():
    script = Script()
    script.control(subscription("ops", heartbeat_ms=10_000))
    script.tick(9_999)
    before = len(beats(script))
    script.tick(1)
    told = script.told("ops")[before:]
    assert [(t.reason, t.topic, t.key, t.event, t.news, t.revision, t.reports, t.sources) for t in told] == [
        ("heartbeat", "incident", "", "", {}, 0, 0, 0)
    ]
    assert (told[0].first_ms, told[0].last_ms) == (START + 10_000, START + 10_000)
    books = script.books()
    assert books.notifications["heartbeat"] == before + 1
    assert (books.received, books.balanced, dict(books.outcomes)) == (0, True, {})


def test_beats_lie_on_multiples_and_a_long_gap_has_one():
    script = Script(now_ms=1_003_000)
    script.control(subscription("ops", heartbeat_ms=10_000))
    for ms in (6_000, 1_000, 9_000, 1_000, 500_000):
        script.tick(ms)
    assert beats(script) == [1_000_000, 1_010_000, 1_020_000, 1_520_000]
    assert len({t.id for t in script.told("ops")}) == 4


def test_no_heartbeat_while_one_partition_lags():
    script = Script()
    both = (PARTITION, "publish.b1-1")
    script.control(subscription("ops", heartbeat_ms=10_000))
    script.tick(1, both)
    seen = len(beats(script))
    script.wait(50_000)
    script.inputs.append(Marked(PARTITION, script.now_ms))
    script.inputs.append(Ticked(script.now_ms, max(script.snapshots), both))
    assert len(beats(script)) == seen
    script.inputs.append(Marked("publish.b1-1", script.now_ms))
    assert beats(script)[seen:] == [START + 50_000]


@pytest.mark.parametrize("name", ["ops", "press", "late", "a", "b"])
def test_one_bucket_beats_for_a_subscription(name):
    owners = []
    for index in range(4):
        script = Script(Rules(buckets=4, bucket_index=index))
        script.control(subscription(name, heartbeat_ms=10_000))
        script.tick(20_000)
        owners += [index] * bool(beats(script, name))
    assert owners == [zlib.crc32(name.encode()) % 4]


def test_only_the_process_that_serves_the_broker_beats():
    for hosted, expected in ((None, 1), (frozenset({"b2"}), 1), (frozenset({"b1"}), 0)):
        script = Script(Rules(hosted=hosted))
        script.control(broker("b1"), broker("b2"), subscription("ops", heartbeat_ms=10_000, broker="b2"))
        assert len(beats(script)) == expected


def test_nobody_beats_for_a_broker_that_is_not_there():
    script = Script()
    script.control(subscription("ops", heartbeat_ms=10_000, broker="nowhere"))
    script.tick(20_000)
    assert beats(script) == []


def test_a_beat_is_stored_so_that_it_does_not_leave_twice():
    script = Script()
    script.control(subscription("ops", heartbeat_ms=10_000))
    state, _ = step(BucketState(), script.inputs, script.plan_at, script.rules)
    state.changed = False
    version = max(script.snapshots)
    later = [Ticked(START + 10_000, version, (PARTITION,)), Marked(PARTITION, START + 10_000, version)]
    state, outputs = step(state, later, script.plan_at, script.rules)
    assert state.changed
    assert [type(output) for output in outputs] == [Tell]
    state.changed = False
    again = [replace(happened, append_ms=happened.append_ms + 1) for happened in later]
    state, outputs = step(state, again, script.plan_at, script.rules)
    assert outputs == []


def test_the_first_beat_follows_the_subscription_even_if_the_stored_clock_is_old():
    script = Script()
    script.control(subscription("other"))
    state, _ = step(BucketState(), script.inputs, script.plan_at, script.rules)
    script.wait(3_600_000)  # nothing happens, and nothing is stored
    script.control(subscription("ops", heartbeat_ms=60_000))
    script.tick(59_000)
    script.tick(60_000)
    outputs = step(state, script.inputs[2:], script.plan_at, script.rules)[1]
    first_ms = (START + 3_600_000) // 60_000 * 60_000 + 60_000
    assert [output.notification.last_ms for output in outputs] == [first_ms, first_ms + 60_000]


def test_another_heartbeat_goes_on_from_the_last():
    script = Script()
    script.control(subscription("ops", heartbeat_ms=10_000))
    script.tick(12_000)
    script.control(subscription("ops", heartbeat_ms=4_000))
    script.tick(1)
    script.tick(4_000)
    assert beats(script) == [START, START + 10_000, START + 12_000, START + 16_000]


def test_heartbeats_take_no_place_and_start_no_cadence():
    script = Script()
    script.control(subscription("ops", heartbeat_ms=1_000, at_most=1, every_ms=5_000))
    script.tick(10_000)
    script.publish({"a": 1})
    assert (script.told("ops")[-1].reason, script.tells()[-1].at_ms) == ("first", START + 10_000)


def test_no_heartbeat_while_messages_may_be_on_their_way_from_another_broker():
    script = Script()
    chain = [broker("b1"), broker("b2"), link("b1", "b2")]
    script.control(*chain, subscription("ops", broker="b1", heartbeat_ms=10_000))
    script.tick(1)
    assert beats(script) == []
    for _ in range(3):
        script.tick(10_000)
    assert beats(script) == [], "b2 has not said anything yet"
    script.progress(script.now_ms - 9_000, brokers=("b2",), service="east")
    script.progress(script.now_ms, brokers=("b1",), service="west")
    script.tick(1)
    assert beats(script) == [START, START + 10_000, START + 20_000]
    script.tick(60_000)
    assert beats(script) == [START, START + 10_000, START + 20_000], "b2 is silent, and so are heartbeats"


ticks = st.lists(
    st.tuples(st.sampled_from([1, 900, 1_000, 5_000, 40_000]), st.integers(0, 300), st.integers(0, 300)), max_size=12
)


@given(ticks, st.integers(0, 11), st.randoms(use_true_random=False))
def test_which_beats_there_are_does_not_depend_on_the_order_in_which_partitions_are_read(ticks, made, chance):
    """A batch may read on in one partition and not yet in another; within each, all stays in its order."""
    script = Script()
    script.control(subscription("other"))
    version, parts = max(script.snapshots), ("publish.b1-0", "publish.b1-1", "clock-0")
    rows: dict[str, list] = {part: [] for part in parts}
    now_ms = START
    for number, (pause_ms, *spread_ms) in enumerate(ticks):
        if number == made:
            script.control(subscription("ops", heartbeat_ms=4_000))
            version = max(script.snapshots)
        now_ms += pause_ms
        for part, ms in zip(parts, (*spread_ms, 0), strict=True):
            now_ms += ms
            rows[part].append([Marked(part, now_ms, version)])
        rows["clock-0"][-1].insert(0, Ticked(now_ms, version, parts))
    in_order = sorted((row for part in parts for row in rows[part]), key=lambda row: row[0].append_ms)
    turns = [part for part in parts for _ in rows[part]]
    chance.shuffle(turns)
    queues = {part: iter(rows[part]) for part in parts}
    mixed = [next(queues[part]) for part in turns]
    told = []
    for order in (in_order, mixed):
        begun = step(BucketState(), script.inputs[:2], script.plan_at, script.rules)[0]
        outputs = step(begun, [each for row in order for each in row], script.plan_at, script.rules)[1]
        told.append([output.notification.last_ms for output in outputs if isinstance(output, Tell)])
    assert told[0] == told[1]


def test_the_first_beat_does_not_depend_on_where_the_batch_was_cut_in_which_the_subscription_came():
    """A service that starts with no control data ticks with version 0; only before its first tick may it look ahead."""
    script = Script()
    script.tick()
    script.tick()
    script.control(subscription("ops", heartbeat_ms=1000))
    script.tick(2500)
    script.tick()
    whole = script.run()[1]
    for cut in range(1, len(script.inputs)):
        assert script.run((cut,))[1] == whole, cut
    assert script.run(tuple(range(1, len(script.inputs))))[1] == whole
