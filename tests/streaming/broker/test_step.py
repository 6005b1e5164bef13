"""What a broker decides, told as small stories on a clock moved by hand."""

from __future__ import annotations

import pytest

from streaming.broker.state import Rules
from streaming.broker.step import step
from streaming.model.inputs import Marked
from streaming.world.one_broker import PARTITION, Script
from streaming.world.records import subscription, topic
from tidings.errors import Unreadable
from tidings.registers import Bounds


def news(script: Script, name: str = "ops") -> list[tuple[str, dict]]:
    return [(str(told.reason), dict(told.news)) for told in script.told(name)]


def outcome(script: Script) -> dict[str, int]:
    books = script.books().to_dict()
    assert books["balanced"]
    return {name: books[name] for name in ("told", "merged", "redundant", "late", "dead_lettered", "held") if books[name]}


A = {"what": "fire", "where": "kitchen"}
B = {"what": "fire", "when": "08:14"}
C = {"where": "kitchen", "when": "08:14"}


def test_three_witnesses_one_incident_and_a_late_subscriber():
    script = Script()
    script.control(subscription("ops"))
    for report in (A, B, C):
        script.publish(report)
    script.control(subscription("late"))
    script.tick(60_000)
    assert news(script) == [("first", A), ("news", {"when": "08:14"})]
    assert news(script, "late") == [("first", {"what": "fire", "where": "kitchen", "when": "08:14"})]
    assert outcome(script) == {"told": 2, "redundant": 1}


def test_held_news_leaves_together():
    script = Script()
    script.control(topic(hold_ms=4000), subscription("ops"))
    script.publish(A)
    script.tick(3999)
    script.publish(B)
    assert news(script) == []
    assert outcome(script) == {"held": 2}
    script.tick(1)
    assert news(script) == [("first", {**A, **B})]
    assert outcome(script) == {"told": 1, "merged": 1}


def test_a_message_after_the_hold_finds_the_held_news_gone_even_if_no_tick_came():
    script = Script()
    script.control(topic(hold_ms=4000), subscription("ops"))
    script.publish(A)
    script.wait(5000)
    script.publish(B)
    assert news(script) == [("first", A)]
    script.tick(4000)
    assert news(script) == [("first", A), ("news", {"when": "08:14"})]


def test_a_complete_event_leaves_at_once():
    script = Script()
    script.control(topic(hold_ms=4000, complete=["what", "where", "when"]), subscription("ops"))
    script.publish(A)
    script.publish(B)
    assert news(script) == [("complete", {**A, **B})]


def test_a_cadence_spaces_the_notifications_and_the_first_comes_at_once():
    script = Script()
    script.control(subscription("ops", every_ms=5000))
    script.publish({"a": 1})
    script.wait(1000)
    script.publish({"b": 2})
    script.publish({"c": 3})
    assert news(script) == [("first", {"a": 1})]
    script.tick(3999)
    assert len(news(script)) == 1
    script.tick(1)
    assert news(script) == [("first", {"a": 1}), ("news", {"b": 2, "c": 3})]
    assert outcome(script) == {"told": 2, "merged": 1}


def test_what_waits_for_a_cadence_is_told_when_the_window_ends():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops", every_ms=60_000))
    script.publish({"a": 1})
    script.publish({"b": 2})
    script.tick(10_000)
    assert news(script) == [("first", {"a": 1}), ("final", {"b": 2})]


def test_silence_closes_the_window_and_the_key_names_a_new_event():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops"))
    script.publish({"a": 1})
    script.tick(10_000)
    script.publish({"a": 1})
    first, second = script.told()
    assert first.event != second.event
    assert first.id != second.id
    assert second.reason == "first"


def test_nothing_closes_while_one_partition_lags():
    script = Script()
    both = ("publish.b1-0", "publish.b1-1")
    script.control(topic(window_ms=10_000), subscription("ops", every_ms=60_000))
    script.publish({"a": 1})
    script.publish({"b": 2})
    script.tick(0, both)
    script.wait(20_000)
    from streaming.model.inputs import Marked

    script.inputs.append(Marked("publish.b1-0", script.now_ms))
    assert news(script) == [("first", {"a": 1})]
    script.inputs.append(Marked("publish.b1-1", script.now_ms))
    assert news(script) == [("first", {"a": 1}), ("final", {"b": 2})]


def test_what_follows_a_mark_is_held_to_its_version_even_if_the_clock_lags():
    from streaming.model.inputs import Marked

    script = Script()
    script.tick(0)
    script.control(topic("reading", gather=False), subscription("ops", topic="reading"))
    del script.inputs[-2:]  # the tick and its mark are not read yet
    script.inputs.append(Marked("publish.b1-1", script.now_ms, max(script.snapshots)))
    script.publish({"speed": 12}, topic="reading")
    assert news(script) == [("first", {"speed": 12})]


def test_a_straggler_of_a_closed_event_is_late():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops"))
    start = script.now_ms
    script.publish({"a": 1}, published_ms=start)
    script.tick(10_000)
    script.publish({"b": 2}, published_ms=start + 5_000)
    assert [(str(a.outcome), str(a.reason)) for a in script.put_aside()] == [("late", "window-closed")]
    assert outcome(script) == {"told": 1, "late": 1}


def test_graves_are_forgotten():
    script = Script()
    script.control(topic(window_ms=10_000))
    script.publish({"a": 1})
    script.tick(10_000)
    state, _ = script.run()
    assert state.size == 1
    script.tick(10_000)
    state, _ = script.run()
    assert (state.size, state.slots) == (0, {})


def test_an_event_is_forgotten_after_remember_ms_without_news():
    script = Script()
    script.control(topic(window_ms=60_000, remember_ms=10_000), subscription("ops"))
    script.publish({"a": 1})
    script.wait(9_000)
    script.publish({"a": 1})  # redundant: it does not prolong the memory
    script.wait(1_000)
    script.publish({"a": 1})
    assert script.decisions() == [("held", "holding"), ("redundant", "known"), ("held", "holding")]
    assert len({told.event for told in script.told()}) == 2


@pytest.mark.parametrize(
    ("ahead_ms", "reason"),
    [(365 * 86_400_000, Unreadable.PUBLISHED_AHEAD), (300_001, Unreadable.PUBLISHED_AHEAD), (300_000, None)],
)
def test_a_clock_that_runs_ahead_harms_only_its_own_message(ahead_ms, reason):
    script = Script()
    script.control(subscription("ops"))
    script.publish({"a": 1}, published_ms=script.now_ms + ahead_ms)
    script.publish({"a": 2})
    assert [a.reason for a in script.put_aside()] == ([] if reason is None else [reason])
    assert {"a": 2} in [dict(told.news) for told in script.told()]


def test_a_very_old_message_is_late():
    script = Script()
    script.control(subscription("ops"))
    script.publish({"a": 1}, published_ms=0)
    assert outcome(script) == {"late": 1}


def test_order_of_arrival_does_not_decide_which_event_a_report_belongs_to():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops"))
    now = script.now_ms
    for offset in (0, 6_000, -3_000):
        script.publish({f"f{offset}": 1}, published_ms=now + offset)
    assert len({told.event for told in script.told()}) == 1


def test_all_reports_of_an_event_lie_within_one_window():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops"))
    now = script.now_ms
    for offset in (0, 6_000, -5_000):
        script.publish({f"f{offset}": 1}, published_ms=now + offset)
    assert len({told.event for told in script.told()}) == 2


def test_an_event_is_not_forgotten_while_something_waits_for_a_cadence():
    script = Script()
    script.control(topic(remember_ms=3_000), subscription("ops", every_ms=5_000))
    script.publish({"a": 1})
    script.wait(100)
    script.publish({"b": 2})
    script.tick(4_899)
    assert news(script) == [("first", {"a": 1})]
    script.tick(1)
    assert news(script) == [("first", {"a": 1}), ("news", {"b": 2})]
    assert script.run()[0].size == 0


def test_disagreement_is_merged_counted_and_shown():
    script = Script()
    script.control(subscription("ops"))
    now = script.now_ms
    script.publish({"what": "fire"}, published_ms=now)
    script.publish({"what": "smoke"}, published_ms=now + 1)
    script.publish({"when": "08:14"}, published_ms=now + 2)
    assert script.told()[-1].conflicts == {"what": ("smoke",)}
    assert script.decisions()[1] == ("merged", "conflict")
    assert script.books().conflicts == 1


def test_what_a_bound_leaves_out_is_counted():
    script = Script(Rules(sources=1, bounds=Bounds(conflicts=1, union_items=2)))
    script.control(topic(fields={"tags": "union"}), subscription("ops"))
    for number in range(4):
        fields = {"what": f"guess {number}", "tags": (f"tag {number}",)}
        script.publish(fields, source=f"s{number}", published_ms=script.now_ms + number)
    books = script.books()
    assert books.left_out == {"conflicts": 2, "union_items": 2, "sources": 3}
    assert books.conflicts == 1


def test_a_conflict_counts_also_when_its_message_brings_news():
    script = Script()
    script.control(subscription("ops"))
    script.publish({"what": "fire"}, published_ms=script.now_ms)
    script.publish({"what": "smoke", "when": "08:14"}, published_ms=script.now_ms + 1)
    assert script.books().conflicts == 1


def test_who_comes_back_under_an_old_name_is_told_again_under_new_ids():
    script = Script()
    script.control(subscription("ops"))
    script.publish(A)
    script.control(delete=("subscription/ops",))
    script.control(subscription("ops"))
    first, again = script.told("ops")
    assert (first.revision, again.revision) == (1, 1)
    assert first.id != again.id


def test_an_earlier_claim_wins_even_when_it_comes_later():
    script = Script()
    script.control(subscription("ops"))
    now = script.now_ms
    script.publish({"what": "smoke"}, published_ms=now)
    script.publish({"what": "fire"}, published_ms=now - 1)
    assert news(script) == [("first", {"what": "smoke"}), ("news", {"what": "fire"})]


def test_a_value_that_comes_back_is_not_told_twice():
    script = Script()
    script.control(subscription("ops", every_ms=10_000))
    now = script.now_ms
    script.publish({"what": "fire"}, published_ms=now)
    script.publish({"what": "smoke"}, published_ms=now - 1)
    script.publish({"what": "fire"}, published_ms=now - 2)
    script.tick(10_000)
    assert news(script) == [("first", {"what": "fire"})]


def test_patient_waits_and_optimistic_does_not():
    script = Script()
    where = "severity >= 2"
    script.control(subscription("bold", where=where), subscription("calm", where=where, missing="patient"))
    script.publish({"what": "fire"})
    script.publish({"severity": 3})
    assert news(script, "bold") == [("first", {"what": "fire"}), ("news", {"severity": 3})]
    assert news(script, "calm") == [("first", {"what": "fire", "severity": 3})]


def test_patient_is_not_told_when_the_field_never_comes():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("calm", where="severity >= 2", missing="patient"))
    script.publish({"what": "fire"})
    script.tick(10_000)
    assert script.told() == []
    assert outcome(script) == {"merged": 1}


def test_fields_limit_what_is_told_and_what_is_news():
    script = Script()
    script.control(subscription("ops", fields=["when"]))
    script.publish(A)
    script.publish(B)
    assert news(script) == [("first", {"when": "08:14"})]


def test_a_message_nobody_wants_is_held_until_its_event_ends():
    script = Script()
    script.control(topic(window_ms=10_000))
    script.publish(A)
    assert outcome(script) == {"held": 1}
    script.tick(10_000)
    assert outcome(script) == {"merged": 1}
    assert script.books().to_dict()["reasons"] == {"merged": {"unwanted": 1}}


def test_measurements_are_not_merged_and_only_repeats_are_dropped():
    script = Script()
    script.control(topic("reading", gather=False), subscription("ops", topic="reading", where="speed > 10"))
    for id, speed in (("m1", 12), ("m2", 12), ("m1", 12), ("m3", 5)):
        script.publish({"speed": speed}, key="E45", topic="reading", id=id)
    assert [told.news for told in script.told()] == [{"speed": 12}, {"speed": 12}]
    assert outcome(script) == {"told": 2, "merged": 1, "redundant": 1}


def test_changed_and_deleted_subscriptions():
    script = Script()
    script.control(subscription("ops", fields=["what"]), subscription("gone"))
    script.publish(A)
    script.control(subscription("ops"), delete=("subscription/gone",))
    script.publish(B)
    assert news(script) == [("first", {"what": "fire"}), ("news", {"where": "kitchen"}), ("news", {"when": "08:14"})]
    assert news(script, "gone") == [("first", A)]


def test_held_news_stays_held_while_others_are_told_older_things():
    script = Script()
    script.control(topic(hold_ms=4000), subscription("ops"))
    script.publish({"a": 1})
    script.tick(4000)
    script.publish({"b": 2})
    script.control(subscription("late", fields=["a"]))
    assert news(script, "late") == [("first", {"a": 1})]
    assert outcome(script) == {"told": 1, "held": 1}


def test_a_late_subscriber_waits_for_the_hold_like_everybody():
    script = Script()
    script.control(topic(hold_ms=4000))
    script.publish(A)
    script.control(subscription("late"))
    assert script.told() == []
    script.tick(4000)
    assert news(script, "late") == [("first", A)]


def test_an_unknown_broker_is_dead_lettered():
    script = Script()
    script.publish(A, broker="nowhere")
    assert [a.reason for a in script.put_aside()] == [Unreadable.UNKNOWN_BROKER]


def test_what_cannot_be_read_is_counted():
    script = Script()
    script.refuse()
    assert outcome(script) == {"dead_lettered": 1}


def test_an_event_has_a_bound_on_its_fields():
    script = Script(Rules(event_fields=2))
    script.control(subscription("ops"))
    script.publish(A)
    script.publish(B)
    assert [a.reason for a in script.put_aside()] == [Unreadable.EVENT_FULL]
    assert outcome(script) == {"told": 1, "dead_lettered": 1}


def test_the_oldest_event_makes_room_and_is_counted():
    script = Script(Rules(open_events=2, bounds=Bounds()))
    script.control(topic(hold_ms=4000), subscription("ops"))
    for key in ("one", "two", "three"):
        script.publish(A, key=key)
    state, _ = script.run()
    assert [(told.key, str(told.reason)) for told in script.told()] == [("one", "final")]
    assert (script.books().evicted, state.size, len(state.slots)) == (1, 2, 2)


def test_what_came_before_the_first_tick_is_held_to_its_control_data():
    script = Script()
    script.publish(A)
    script.control(topic(hold_ms=4000), subscription("ops"))
    assert script.told() == []
    script.tick(4000)
    assert news(script) == [("first", A)]


def test_time_alone_is_worth_keeping():
    """A batch that a crash makes run again must begin with the same clock: else it sends other records under the same numbers."""
    script = Script()
    script.control(subscription("all"))
    state, _ = script.run()
    state.changed = False
    step(state, [Marked(PARTITION, script.now_ms + 1)], script.plan_at, script.rules)
    assert state.changed
    state.changed = False
    step(state, [Marked(PARTITION, script.now_ms + 1)], script.plan_at, script.rules)
    assert not state.changed
