"""Promises of the design as laws over random streams."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import state_codec
from streaming.broker.state import BucketState
from streaming.broker.step import step
from streaming.model.inputs import Arrived, Marked, Ticked
from streaming.model.outputs import Tell
from streaming.wire.notification import encode_notification
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import subscription, topic
from tidings import event as events
from tidings.registers import Bounds
from tidings.topic import Topic
from tidings.values import same

values = st.integers(0, 2) | st.sampled_from([None, True, 1.5, "x", ("x", "y")])
fields = st.dictionaries(st.sampled_from("abcd"), values, max_size=3)
moves = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["k1", "k2"]), fields, st.integers(-6_000, 3_000)),
    st.tuples(st.just("wait"), st.integers(0, 4_000)),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("subscribe"), st.sampled_from(["s1", "s2"]), st.sampled_from([0, 2_500]), st.sampled_from(["", "a = 1"])),
    st.tuples(st.just("unsubscribe"), st.sampled_from(["s1", "s2"])),
)
timings = st.sampled_from(
    [
        {"hold_ms": 0, "window_ms": 10_000},
        {"hold_ms": 2_000, "window_ms": 10_000},
        {"hold_ms": 1_000, "remember_ms": 3_000, "window_ms": 10_000},
        {"hold_ms": 2_000, "window_ms": 10_000, "complete": ["a", "b"]},
        {"window_ms": 5_000, "gather": False},
    ]
)


def scripted(timing: dict, story: list[tuple]) -> Script:
    script = Script()
    script.control(topic(**timing), subscription("always"), subscription("slow", every_ms=2_500))
    for move, *details in story:
        match move:
            case "publish":
                key, stated, drift = details
                script.publish(stated, key, published_ms=script.now_ms + drift, source="s")
            case "wait":
                script.wait(details[0])
            case "tick":
                script.tick(details[0])
            case "subscribe":
                name, every, where = details
                script.control(subscription(name, every_ms=every, where=where, missing="patient"))
            case "unsubscribe":
                script.control(delete=(f"subscription/{details[0]}",))
    return script


stories = st.builds(scripted, timings, st.lists(moves, max_size=25))


def told(outputs: list) -> list[Tell]:
    return [output for output in outputs if isinstance(output, Tell)]


@given(stories)
def test_the_books_balance_at_every_moment(script):
    state = BucketState()
    for happened in script.inputs:
        state, _ = step(state, [happened], script.plan_at, script.rules)
        for books in state.books.values():
            assert books.balanced
            assert sum(e.held for e in state.events()) == books.to_dict()["held"]
        assert state.size == sum(slot.size for slot in state.slots.values())


@given(stories)
def test_nothing_is_told_twice(script):
    known: dict[tuple[str, str], dict] = defaultdict(dict)
    last_revision: dict[tuple[str, str], int] = {}
    ids = set()
    gone_and_back = {"s1", "s2"}  # who unsubscribes and comes back is told again, under other ids
    for tell in told(script.run()[1]):
        notification = tell.notification
        at = (notification.subscription, notification.event)
        assert notification.id not in ids
        ids.add(notification.id)
        if notification.subscription not in gone_and_back:
            assert notification.revision == last_revision.get(at, 0) + 1
            last_revision[at] = notification.revision
            # Python holds True == 1; they are two facts.
            assert not any(name in known[at] and same(known[at][name], value) for name, value in notification.news.items())
            known[at].update(notification.news)


@given(stories, st.data())
def test_batches_can_be_cut_anywhere(script, data):
    cuts = data.draw(st.lists(st.integers(1, max(1, len(script.inputs) - 1)), unique=True).map(sorted).map(tuple))
    # The first tick's control data counts for what comes before it, so the first cut is after it.
    whole_state, whole = script.run()
    cut_state, pieces = script.run(tuple(cut for cut in cuts if 0 < cut < len(script.inputs)))
    assert pieces == whole
    assert state_codec.encode(cut_state) == state_codec.encode(whole_state)


@given(stories, st.randoms(use_true_random=False))
def test_ticks_only_make_silence_pass(script, random):
    """Leaving marks out changes nothing that is told, only when it leaves; the last mark still makes up for all."""
    script.tick(60_000)
    ticks = {i for i, h in enumerate(script.inputs[:-2]) if type(h).__name__ == "Marked" and random.random() < 0.5}
    fewer = Script(inputs=[h for i, h in enumerate(script.inputs) if i not in ticks], snapshots=script.snapshots)

    def by_event(outputs):
        found = defaultdict(list)
        for tell in told(outputs):
            found[tell.notification.event, tell.notification.subscription].append((tell.at_ms, tell.notification))
        return found

    changes = {h.version for h in script.inputs if type(h).__name__ == "Ticked"}
    if len(changes) <= 1:  # a change of control data meets the event in the state that time has left it in
        assert by_event(fewer.run()[1]) == by_event(script.run()[1])


@given(stories)
def test_the_state_survives_as_a_blob(script):
    state = BucketState()
    direct, stored = [], []
    kept = BucketState()
    for happened in script.inputs:
        state, outputs = step(state, [happened], script.plan_at, script.rules)
        direct += outputs
        decoded = state_codec.decode(state_codec.encode(kept))
        assert decoded == kept
        kept, outputs = step(decoded, [happened], script.plan_at, script.rules)
        stored += outputs
    assert stored == direct
    assert state_codec.encode(kept) == state_codec.encode(state)


@given(stories)
def test_a_state_that_did_not_change_need_not_be_stored(script):
    """As the Spark query does it: a state that only its clock has changed is thrown away, and nothing is different."""
    direct, kept, outputs = [], [], []
    state, stored = BucketState(), state_codec.encode(BucketState())
    for happened in script.inputs:
        state, outputs = step(state, [happened], script.plan_at, script.rules)
        direct += outputs
        loaded, outputs = step(state_codec.decode(stored), [happened], script.plan_at, script.rules)
        kept += outputs
        assert loaded.changed or not outputs
        if loaded.changed:
            stored = state_codec.encode(loaded)
    later = [Ticked(script.now_ms + 60_000, max(script.snapshots), (PARTITION,)), Marked(PARTITION, script.now_ms + 60_000)]
    direct += step(state, later, script.plan_at, script.rules)[1]
    kept += step(state_codec.decode(stored), later, script.plan_at, script.rules)[1]
    assert kept == direct


@given(stories)
def test_the_same_input_gives_the_same_bytes(script):
    first = [encode_notification(t.notification, t.encoding) for t in told(script.run()[1])]
    second = [encode_notification(t.notification, t.encoding) for t in told(script.run()[1])]
    assert first == second


@given(st.lists(fields, min_size=1, max_size=6), st.integers(0, 3_000))
def test_who_is_subscribed_learns_all_there_is_to_know(reports, hold_ms):
    """Folding the news gives the event that a plain join of all reports gives."""
    script = Script()
    script.control(topic(hold_ms=hold_ms, window_ms=60_000), subscription("ops", every_ms=1_500))
    for stated in reports:
        script.publish(stated)
        script.wait(700)
    script.tick(60_000)
    learned: dict = {}
    for notification in script.told("ops"):
        learned.update(notification.news)
    known: dict = {}
    for happened in script.inputs:
        if isinstance(happened, Arrived):
            report = events.report(happened.message, happened.origin.append_ms, Topic("incident"), Bounds())
            known = events.join(known, report, Bounds())
    assert learned == events.facts(known)
