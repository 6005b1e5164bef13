"""What a pace promises, over random streams: no closer than asked, no more than asked, nothing lost, whatever the batches."""

from __future__ import annotations

import copy
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import state_codec
from streaming.broker.state import BucketState
from streaming.broker.step import step
from streaming.model.inputs import Arrived, Marked, Ticked
from streaming.model.ledger import HOUR_MS
from streaming.model.outputs import Tell
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import subscription, topic
from tidings import event as events
from tidings.predicate import Verdict
from tidings.registers import Bounds
from tidings.values import fact_digest, same

MINUTE = 60_000
waits = st.sampled_from([1, 400, 900, 5 * MINUTE, 20 * MINUTE, 45 * MINUTE])
fields = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), min_size=1, max_size=2)
paces = st.fixed_dictionaries(
    {},
    optional={
        "every_ms": st.sampled_from([700, 10 * MINUTE]),
        "settle_ms": st.sampled_from([500, 7 * MINUTE]),
        "at_most": st.integers(1, 3),
        "where": st.sampled_from(["a != 0", "not (a = 1 and b = 1)", "c >= 1"]),
        "missing": st.sampled_from(["optimistic", "patient"]),
        "fields": st.sampled_from([["a"], ["a", "b"]]),
        "heartbeat_ms": st.sampled_from([600, 15 * MINUTE]),
    },
)
timings = st.sampled_from(
    [
        {"window_ms": 10 * HOUR_MS},
        {"window_ms": 10 * HOUR_MS, "hold_ms": 600},
        {"window_ms": 30 * MINUTE, "hold_ms": 600},
        {"window_ms": 30 * MINUTE, "remember_ms": 2_000},
        {"window_ms": 1_500},
        {"window_ms": 30 * MINUTE, "gather": False},
    ]
)
joins = {"a": "last", "b": "max", "c": "first"}
moves = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["k1", "k1", "k2"]), fields, st.sampled_from([0, 0, -700, 900])),
    st.tuples(st.just("wait"), waits),
    st.tuples(st.just("tick"), waits),
)
changes = st.one_of(
    moves, moves, moves, st.tuples(st.just("pace"), paces), st.tuples(st.just("stop")), st.tuples(st.just("other"))
)


def scripted(timing: dict, pace: dict, story: list[tuple]) -> Script:
    script = Script()
    script.control(topic(fields=joins, **timing), subscription("ops", **pace), subscription("all"))
    for move, *details in story:
        match move:
            case "publish":
                key, stated, drift = details
                script.publish(stated, key, published_ms=script.now_ms + drift, source="s")
            case "wait":
                script.wait(details[0])
            case "tick":
                script.tick(details[0])
            case "pace":
                script.control(subscription("ops", **details[0]))
            case "stop":
                script.control(delete=("subscription/ops",))
            case "other":
                script.control(subscription("other", every_ms=800))
    return script


steady = st.builds(scripted, timings, paces, st.lists(moves, max_size=25))
changing = st.builds(scripted, timings, paces, st.lists(changes, max_size=25))


def tells(script: Script, name: str = "ops") -> list[Tell]:
    """What was told of events."""
    found = [output for output in script.run()[1] if isinstance(output, Tell) and output.notification.subscription == name]
    return [tell for tell in found if tell.notification.reason != "heartbeat"]


def pace_of(script: Script) -> object:
    return script.snapshots[max(script.snapshots)].subscriptions["ops"]


@given(changing, st.data())
def test_batches_can_be_cut_anywhere(script, data):
    cuts = data.draw(st.lists(st.integers(1, max(1, len(script.inputs) - 1)), unique=True).map(sorted).map(tuple))
    whole_state, whole = script.run()
    cut_state, pieces = script.run(tuple(cut for cut in cuts if cut < len(script.inputs)))
    assert pieces == whole
    assert cut_state == whole_state


@given(changing)
def test_the_state_survives_as_a_blob(script):
    state, outputs = BucketState(), []
    for happened in script.inputs:
        state, more = step(state_codec.decode(state_codec.encode(state)), [happened], script.plan_at, script.rules)
        outputs += more
    direct_state, direct = script.run()
    assert outputs == direct
    assert state_codec.encode(state) == state_codec.encode(direct_state)


@given(steady)
def test_a_state_that_did_not_change_need_not_be_stored(script):
    state, stored = BucketState(), BucketState()
    direct, kept = [], []
    later_ms = script.now_ms + 3 * HOUR_MS
    later = [Ticked(later_ms, max(script.snapshots), (PARTITION,)), Marked(PARTITION, later_ms)]
    for happened in [*script.inputs, *later]:
        state, outputs = step(state, [happened], script.plan_at, script.rules)
        direct += outputs
        loaded = copy.deepcopy(stored)
        loaded.changed, loaded.wake_ms = False, 0
        loaded, outputs = step(loaded, [happened], script.plan_at, script.rules)
        kept += outputs
        assert loaded.changed or not outputs
        if loaded.changed:
            stored = loaded
    assert kept == direct


lags = st.lists(
    st.tuples(st.sampled_from([PARTITION, "publish.b1-1", "tick", "subscribe", "delete"]), st.integers(1, 30)), max_size=40
)


@given(lags)
def test_which_beats_are_told_does_not_depend_on_what_was_stored(moves):
    script = Script()
    both = (PARTITION, "publish.b1-1")
    script.control(subscription("other"))
    script.tick(1, both)
    for move, ms in moves:
        script.now_ms += ms
        if move == "subscribe":
            script.control(subscription("ops", heartbeat_ms=10), subscription("press", heartbeat_ms=7))
            script.inputs[-2:] = [Ticked(script.now_ms, max(script.snapshots), both)]
        elif move == "delete":
            script.control(delete=("subscription/ops",))
            script.inputs[-2:] = [Ticked(script.now_ms, max(script.snapshots), both)]
        elif move == "tick":
            script.inputs.append(Ticked(script.now_ms, max(script.snapshots), both))
        else:
            script.inputs.append(Marked(move, script.now_ms, max(script.snapshots)))
    _, direct = script.run()
    stored, kept = BucketState(), []
    for happened in script.inputs:
        loaded = state_codec.decode(state_codec.encode(stored))
        loaded, outputs = step(loaded, [happened], script.plan_at, script.rules)
        kept += outputs
        if loaded.changed:
            stored = loaded
    assert kept == direct


@given(steady, st.randoms(use_true_random=False))
def test_ticks_only_make_silence_pass(script, random):
    script.tick(12 * HOUR_MS)
    left_out = {i for i, h in enumerate(script.inputs[:-2]) if isinstance(h, Marked) and random.random() < 0.5}
    fewer = Script(inputs=[h for i, h in enumerate(script.inputs) if i not in left_out], snapshots=script.snapshots)

    def by_key(script: Script) -> dict:
        found = defaultdict(list)
        for tell in tells(script):
            found[tell.notification.key].append((tell.at_ms, tell.notification))
        return found

    assert by_key(fewer) == by_key(script)


@given(changing)
def test_the_books_balance_at_every_moment(script):
    state = BucketState()
    for happened in script.inputs:
        state, _ = step(state, [happened], script.plan_at, script.rules)
        for books in state.books.values():
            assert books.balanced
            assert sum(e.held for e in state.events()) == books.to_dict()["held"]
        assert state.size == sum(slot.size for slot in state.slots.values())


@given(steady)
def test_two_notifications_about_an_event_are_a_cadence_apart(script):
    script.tick(12 * HOUR_MS)
    every_ms = pace_of(script).every_ms
    last: dict[str, int] = {}
    for tell in tells(script):
        about = {tell.notification.event} if tell.notification.news else set()
        for event in about:
            if event in last and tell.notification.reason != "final":
                assert tell.at_ms - last[event] >= every_ms
            last[event] = tell.at_ms


@given(steady)
def test_never_more_than_asked_for_in_any_hour(script):
    script.tick(12 * HOUR_MS)
    at_most = pace_of(script).at_most
    times = defaultdict(list)
    for tell in tells(script):
        times[tell.notification.key].append(tell.at_ms)
    for told_ms in times.values() if at_most else ():
        assert all(sum(start <= ms < start + HOUR_MS for ms in told_ms) <= at_most for start in told_ms)


@given(changing)
def test_nothing_is_told_twice_and_no_id_repeats(script):
    script.tick(12 * HOUR_MS)
    ids: set[str] = set()
    known: dict[tuple[str, str], dict] = defaultdict(dict)
    steady = not any("subscription/ops" not in snapshot.records for v, snapshot in script.snapshots.items() if v)
    for tell in [output for output in script.run()[1] if isinstance(output, Tell)]:
        notification = tell.notification
        assert notification.id not in ids
        ids.add(notification.id)
        for event, news in [(notification.event, notification.news), *((d.event, d.news) for d in notification.digest)]:
            at = (notification.subscription, event)
            if steady or notification.subscription != "ops":
                assert not any(name in known[at] and same(known[at][name], value) for name, value in news.items())
            known[at].update(news)


@given(paces, st.lists(moves, min_size=1, max_size=25))
def test_nothing_owed_is_lost(pace, story):
    """With a window that is long enough, whoever matches in the end has been told all that it wants."""
    script = scripted({"window_ms": 10**9}, {**pace, "heartbeat_ms": 0}, story)
    script.tick(6 * HOUR_MS)
    learned: dict[str, dict] = defaultdict(dict)
    for tell in tells(script):
        learned[tell.notification.key].update(tell.notification.news)
        assert not tell.notification.digest
    knowledge: dict[str, dict] = defaultdict(dict)
    declared = script.snapshots[max(script.snapshots)].topic("incident")
    for happened in script.inputs:
        if isinstance(happened, Arrived):
            report = events.report(happened.message, happened.published_ms, declared, Bounds())
            at = happened.message.key
            knowledge[at] = events.join(knowledge[at], report, Bounds())
    ops = pace_of(script)
    for key, registers in knowledge.items():
        facts = events.facts(registers)
        if ops.judge(key, facts) is Verdict.MATCHES:
            wanted = {name: value for name, value in facts.items() if ops.wants(name)}
            assert learned[key] == wanted


@given(st.integers(1, 3), st.lists(st.tuples(fields, waits), min_size=1, max_size=20))
def test_what_ended_events_owe_is_in_a_digest(at_most, reports):
    """Short windows: the facts that each event had in the end are told, by itself or in a digest."""
    script = Script()
    script.control(topic(fields=joins, window_ms=1_500), subscription("ops", at_most=at_most), subscription("all"))
    for stated, wait_ms in reports:
        script.publish(stated)
        script.wait(wait_ms)
    script.tick(6 * HOUR_MS)

    def learned(name: str) -> dict:
        found: dict[str, dict] = defaultdict(dict)
        for tell in tells(script, name):
            told = tell.notification
            for event, news in [(told.event, told.news), *((each.event, each.news) for each in told.digest)]:
                found[event].update({field: fact_digest(value) for field, value in news.items()})
        return {event: news for event, news in found.items() if news}

    assert learned("ops") == learned("all")
    assert not script.books().left_out
