"""The fast engine gives what `step` gives: on random streams, controls, clocks and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.batch.desk import Handling
from streaming.broker.state import Rules
from streaming.world.buckets import log_of, plainly
from streaming.world.one_broker import Script
from streaming.world.records import broker, link, subscription, topic
from testing.engines import Restarts, check, cut, fast, remembered
from tidings.notification import Encoding
from tidings.registers import Bounds, Join
from tidings.subscription import PACE_PROPERTIES

EXAMPLES = 5 * settings.default.max_examples
"""Of the two engines more depends on it than of any other law."""

values = st.integers(0, 2) | st.sampled_from([None, True, 1.5, 1.0, "x", ("x", "y"), ("x",), ()])
FIELDS = ascii_lowercase[: len(Join)]
"""One for each way to join: a new one is drawn, too."""
fields = st.dictionaries(st.sampled_from(FIELDS), values, max_size=3)
paces = st.sampled_from(
    [
        {},
        *({name: 1 if asked.counted else 1_500 if asked.of_events else 60_000} for name, asked in PACE_PROPERTIES.items()),
        {"at_most": 2, "every_ms": 700, "settle_ms": 300},
        {"every_ms": 2_500},
    ]
)
ways = st.sampled_from([0, 900, 4_000, 12_000])
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
    st.tuples(
        st.just("pass on"),
        st.sampled_from(["k1", "k2"]),
        fields,
        st.sampled_from([None, -3_000]),
        ways,
        st.sampled_from([0, 0, 1, 3]),
    ),
    st.tuples(st.just("progress"), st.sampled_from([0, 1_000, 5_000])),
    # Less than nothing: what comes stood in a partition that lags.
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 700, 3_000, 3_600_000, -400])),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("subscribe"), st.sampled_from(["s1", "s2"]), paces, st.sampled_from(["", "a = 1", "not a = 1"])),
    st.tuples(st.just("unsubscribe"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("refuse")),
)
timings = st.sampled_from(
    [
        {"window_ms": 10_000},
        {"window_ms": 10_000, "fields": {name: str(kind) for name, kind in zip(FIELDS, Join, strict=True)}},
        {"hold_ms": 2_000, "window_ms": 10_000},
        {"hold_ms": 1_000, "remember_ms": 3_000, "window_ms": 10_000},
        {"hold_ms": 2_000, "window_ms": 10_000, "complete": ["a", "b"]},
        {"window_ms": 5_000, "gather": False},
        {"window_ms": 10_000, "gatherer": "none"},
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


def act(script: Script, move: str, *details: Any) -> None:
    match move:
        case "publish":
            key, stated, drift, source, times, pause = details
            for _ in range(times):
                at = None if drift is None else max(0, script.now_ms + drift)
                script.publish(stated, key, published_ms=at, source=source)
                script.wait(pause)
        case "pass on":
            key, stated, drift, way_ms, ahead = details
            at = None if drift is None else script.now_ms + drift
            version = max(script.snapshots) + ahead if ahead else 0
            script.pass_on(stated, key, way_ms=way_ms, published_ms=at, version=version)
        case "progress":
            script.progress(script.now_ms - details[0])
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


def scripted(rules: Rules, timing: dict, overlay: bool, ends: bool, story: list[tuple]) -> Script:
    script = Script(rules=rules)
    script.control(topic(**timing), subscription("always"), subscription("slow", every_ms=2_500))
    if overlay:
        script.control(broker("b1"), broker("b2"), link("b1", "b2"), subscription("far", broker="b2"))
    for move, *details in story:
        act(script, move, *details)
    if ends:
        script.progress(script.now_ms)
        script.tick(60_000)
    return script


stories = st.builds(scripted, rules, timings, st.booleans(), st.booleans(), st.lists(moves, max_size=30))


@settings(max_examples=EXAMPLES)
@given(
    stories,
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([[Encoding.AVRO], [Encoding.JSON], list(Encoding)]),
    st.builds(Restarts, st.lists(st.sampled_from([1, 1, 2, None]), min_size=1).map(tuple), st.sampled_from([1, 2_000, 65_536])),
)
def test_the_fast_engine_does_what_the_plain_one_does(script, cuts, encodings, restarts):
    check(script, cut(log_of(script, encodings), cuts), restarts)


usual_timings = st.sampled_from(
    [
        {"window_ms": 10_000},
        {"window_ms": 10_000, "remember_ms": 3_000},
        {"window_ms": 10_000, "hold_ms": 1_000, "remember_ms": 3_000},
        {"window_ms": 10_000, "hold_ms": 2_000, "complete": ["a", "b"]},
        {"window_ms": 10_000, "complete": ["a", "b"], "fields": {"a": "min", "b": "max"}},
    ]
)
usual_reports = st.tuples(
    st.sampled_from(["k1", "k1", "k2"]),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1, 1, 1, 1, 2, 3, 1.0]), max_size=3),
    st.sampled_from([None, 0, 0, 1, -1]),
    st.sampled_from([None, "s1", "s2"]),
    st.sampled_from([0, 0, 1, 700, 3_000]),
    st.booleans(),
)


def usual(timing: dict, reports: list[tuple]) -> Script:
    """What most streams are: reports that open events, add to them or repeat what is known, one broker, and cadences at most."""
    script = Script()
    asked = [subscription("slow", every_ms=2_500), subscription("some", where="a = 1"), subscription("few", fields=["a", "c"])]
    script.control(topic(**timing), subscription("always"), subscription("avro", encoding="avro"), *asked)
    for key, stated, drift, source, pause_ms, ticks in reports:
        script.publish(stated, key, published_ms=None if drift is None else script.now_ms + drift, source=source)
        (script.tick if ticks and pause_ms else script.wait)(pause_ms)
    return script


usual_streams = st.builds(usual, usual_timings, st.lists(usual_reports, min_size=3, max_size=16))


@settings(max_examples=EXAMPLES)
@given(usual_streams, st.lists(st.integers(0, 30), max_size=3))
def test_news_of_the_usual_kind_comes_to_the_same(script, cuts):
    """Where nothing is unusual, the short ways are gone most."""
    check(script, cut(log_of(script), cuts), Restarts())


hosts = st.sampled_from(["b1", "b2", "b3"])
reports = st.tuples(
    st.just("publish"),
    hosts,
    st.sampled_from(["k1", "k1", "k1", "k2"]),
    fields | st.dictionaries(st.sampled_from("abc"), st.integers(0, 1), min_size=1, max_size=2),
    st.sampled_from([None, None, None, 0, -1, -3_000, -9_000, -20_000]),
    st.sampled_from([None, "s1", "s2", "s3"]),
    st.integers(1, 4),
    st.sampled_from([0, 1, 1, 1, 700]),
)
others = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 700, 3_000, -400])),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("subscribe"), st.sampled_from(["s1", "s2"]), hosts, paces, st.sampled_from(["", "a = 1", "not a = 1"])),
    st.tuples(st.just("unsubscribe"), st.sampled_from(["s1", "s2"])),
    st.tuples(st.just("cut"), st.booleans()),
)
BEYOND = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]


def handing_on(rules: Rules, timing: dict, wants: list[str], story: list[tuple]) -> Script:
    """Three brokers in one process: what one sends, another takes in at once."""
    script = Script(rules=replace(rules, hands_on=True))
    script.control(*BEYOND, topic(**timing), *(subscription(f"w{n}", broker=at) for n, at in enumerate(wants)))
    for move, *details in story:
        match move:
            case "publish":
                at, key, stated, drift, source, times, pause_ms = details
                published_ms = None if drift is None else script.now_ms + drift
                for _ in range(times):
                    script.publish(stated, key, published_ms=published_ms, source=source, broker=at)
                    script.wait(pause_ms)
            case "wait":
                script.wait(details[0])
            case "tick":
                script.tick(details[0])
            case "subscribe":
                name, at, pace, where = details
                script.control(subscription(name, broker=at, **pace, where=where, missing="patient"))
            case "unsubscribe":
                script.control(delete=(f"subscription/{details[0]}",))
            case "cut":
                script.control(*([] if details[0] else BEYOND[4:]), delete=("link/b2-b3",) if details[0] else ())
    script.tick(60_000)
    return script


handing = st.builds(
    handing_on,
    rules,
    timings | st.sampled_from([{"hold_ms": 2_000, "window_ms": 10_000, "early": True}]),
    st.lists(hosts, min_size=1, max_size=2),
    st.lists(st.one_of(reports, reports, reports, reports, others), min_size=6, max_size=20),
)


steady_reports = st.tuples(
    st.just("publish"),
    st.sampled_from(["b1", "b2", "b2", "b2", "b3"]),
    st.just("k1"),
    st.dictionaries(st.sampled_from("abcd"), st.just(1), min_size=1, max_size=1),
    st.none(),
    st.sampled_from([None, "s1", "s2"]),
    st.integers(1, 3),
    st.sampled_from([1, 1, 400]),
)
steady = st.builds(
    handing_on,
    st.just(Rules()),
    st.sampled_from([{"window_ms": 600_000}, {"window_ms": 600_000, "hold_ms": 900}, {"window_ms": 600_000, "early": True}]),
    st.lists(hosts, min_size=1, max_size=2),
    st.lists(st.one_of(steady_reports, steady_reports, steady_reports, others), min_size=4, max_size=14),
)
"""Long windows and few things to say: most is counted, and news comes in between."""


@settings(max_examples=EXAMPLES)
@given(
    handing | steady, st.lists(st.integers(0, 200), max_size=4), st.builds(Restarts, st.sampled_from([(1,), (1, None), (1, 2)]))
)
def test_what_is_handed_on_is_taken_in_at_the_same_moment(script, cuts, restarts):
    log = log_of(script)
    # The last tick is read by itself: as long as no timer may fire, most is counted.
    check(script, cut(log, [*cuts, len(log) - 2]), restarts)


def test_who_reported_is_counted_once_where_memory_was_handed_over_at_that_moment():
    """A link is cut, and b1 gathers what b2 did. A report of the same source follows in the batch, at the time of the cut."""
    reports = [("publish", "b1", "k1", {}, None, "s1", 1, 1), ("publish", "b1", "k1", {}, None, "s1", 1, 0)]
    script = handing_on(Rules(), {"window_ms": 10_000, "early": True}, ["b1"], [*reports, ("cut", True)])
    log = log_of(script)
    check(script, [log[:-2], log[-2:]], Restarts())


def test_what_makes_room_at_another_broker_is_seen_in_time():
    """Two slots are all there is room for. A report at b1 opens one at b2 as well, and an event at b3 gives way that more is said
    of in the batch."""
    reports = [("publish", "b3", "k1", {}, None, None, 4, 1), ("publish", "b1", "k1", {"a": 0}, None, None, 2, 0)]
    script = handing_on(Rules(open_events=2), {"window_ms": 10_000}, ["b2"], [("cut", True), *reports])
    log = log_of(script)
    for first in range(3, 8):
        check(script, cut(log, [first, 9, len(log) - 2]), Restarts())


def test_news_of_the_usual_kind_goes_the_short_way():
    """Else the law before this would say little about it."""
    ways: Counter[Handling] = Counter()

    @settings(max_examples=50, derandomize=True, database=None)
    @given(usual_streams)
    def drawn(script):
        fast(script, cut(log_of(script), [len(script.inputs) // 2]), Restarts(), ways)

    drawn()
    assert ways[Handling.AT_ONCE] > 0.2 * ways.total(), ways
    assert min(ways[way] for way in Handling) > 0, ways
    assert ways[Handling.COUNTED] > 0.1 * ways.total(), ways


def test_messages_of_the_law_go_every_way():
    """Else it would say nothing about some."""
    ways: Counter[Handling] = Counter()

    @settings(max_examples=300, derandomize=True, database=None)
    @given(stories)
    def drawn(script):
        fast(script, cut(log_of(script), [len(script.inputs) // 2]), Restarts(), ways)

    drawn()
    assert min(ways[way] for way in Handling) > 5, ways


@pytest.mark.parametrize("cuts", [[], [4], [3, 6]], ids=str)
@pytest.mark.parametrize("kind", Join)
def test_a_fact_that_is_stated_again_counts_as_much(kind, cuts):
    script = Script()
    script.control(topic(window_ms=10_000, fields={"a": str(kind)}), subscription("always"))
    for value in (1, 1, 2, 1, 1, 2):
        script.publish({"a": value}, published_ms=script.now_ms)
        script.wait(100)
    check(script, cut(log_of(script), cuts), Restarts())


def test_an_event_that_made_room_and_is_opened_again_by_a_neighbour_is_found():
    """In the same batch: what was judged of it before speaks of a row that is empty."""
    publish = [("publish", key, {}, None, None, 1, 0) for key in ("k2", "k1", "k3")]
    again = [
        ("pass on", "k2", {}, None, 0, 0),
        ("publish", "k2", {}, None, None, 1, 0),
        ("publish", "k2", {"a": 1}, None, None, 1, 0),
    ]
    script = scripted(Rules(open_events=2), {"window_ms": 10_000}, False, False, [*publish, *again])
    check(script, cut(log_of(script), [2]), Restarts((1,), 1))
    check(script, cut(log_of(script), []), Restarts((1,), 1))


@pytest.mark.parametrize("sooner_ms", [0, 300], ids="{} ms sooner".format)
@pytest.mark.parametrize("said", [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"a": 2}, {}], ids=str)
def test_what_is_read_late_and_entered_first_says_when_its_event_ends(said, sooner_ms):
    """A partition lags: a report is read when an event is known that reports of later opened."""
    script = Script()
    script.control(broker("b1"), broker("b2"), link("b1", "b2"), topic(window_ms=10_000), subscription("always"))
    script.wait(500)
    script.pass_on({"a": 1}, way_ms=0, published_ms=script.now_ms - 400)
    script.wait(-sooner_ms)
    script.publish(said, published_ms=script.now_ms)
    log = log_of(script, [Encoding.AVRO])
    for batches in ([log], [log[:-1], log[-1:]]):
        check(script, batches, Restarts())
        quick, _ = fast(script, batches, Restarts())
        ((_, slot),) = remembered(quick)
        first = slot.open[0].first
        assert (first.kafka_topic, first.append_ms) == ("publish.b1", script.now_ms), "of the same time, the first by name"


def test_what_is_noted_of_a_late_measurement_that_went_on_is_forgotten_alike():
    """It came by ways that hold from the next change on, and is too old to be remembered."""
    moves = [
        ("publish", "k1", {}, None, None, 1, 0),
        ("pass on", "k1", {}, None, 0, 0),
        ("pass on", "k1", {"a": 0}, None, 12_000, 1),
    ]
    script = scripted(Rules(), {"window_ms": 5_000, "gather": False}, False, False, [*moves, ("subscribe", "s1", {}, "")])
    check(script, [log_of(script)], Restarts((1,), 1))


few_facts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 1), min_size=1)
crowds = st.lists(st.tuples(few_facts, st.sampled_from([0, 0, 1, 2, -3_000, -20_000]), st.integers(0, 1)), min_size=2, max_size=9)


@settings(max_examples=EXAMPLES)
@given(crowds, timings, st.integers(0, 9))
def test_many_messages_about_one_event_in_a_batch(crowd, timing, cut_at):
    """Most of what goes wrong between messages goes wrong here."""
    script = Script()
    script.control(topic(**timing), subscription("always"))
    for stated, drift, pause in crowd:
        script.publish(stated, published_ms=script.now_ms + drift)
        script.wait(pause)
    check(script, cut(log_of(script, [Encoding.AVRO]), [cut_at]), Restarts())


def test_a_fact_stated_at_the_same_time_under_an_earlier_id_is_looked_at():
    script = Script()
    script.control(topic(), subscription("always"))
    for message_id in ("m-2", "m-1"):
        script.publish({"a": 1}, id=message_id, published_ms=script.now_ms)
    log = log_of(script, [Encoding.AVRO])
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
    check(script, [log_of(script, [Encoding.AVRO])], Restarts())


@settings(max_examples=EXAMPLES)
@given(
    st.lists(
        st.tuples(few_facts, st.sampled_from([0, -3_000]), st.sampled_from([None, None, 900, 4_000])), min_size=1, max_size=6
    ),
    st.booleans(),
    st.integers(0, 40),
)
def test_many_messages_about_an_event_that_waits_for_others(crowd, arrives, cut_at):
    """Its window is over here, and not yet elsewhere."""
    script = Script()
    chain = [broker("b1"), broker("b2"), link("b1", "b2")]
    script.control(*chain, topic(window_ms=10_000), subscription("always"), subscription("far", broker="b2"))
    script.publish({"a": 0, "b": 0}, published_ms=script.now_ms)
    script.tick(10_000)
    for stated, drift, way_ms in crowd:
        if way_ms is None:
            script.publish(stated, published_ms=script.now_ms + drift)
        else:
            script.pass_on(stated, way_ms=way_ms)
        script.wait(1)
    if arrives:
        script.progress(script.now_ms - 1)
        script.tick(1_000)
        script.publish({"a": 0}, published_ms=script.now_ms - 3_000)
    check(script, cut(log_of(script, [Encoding.AVRO]), [cut_at]), Restarts())
