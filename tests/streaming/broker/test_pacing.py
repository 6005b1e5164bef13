"""The pace that a subscription asks for: cadence and settling, told as small stories on a clock moved by hand."""

from __future__ import annotations

import pytest

from streaming.model.outputs import Tell
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic

START = 1_000_000
LAST = {"state": "last"}


def told(script: Script, name: str = "ops") -> list[tuple[int, str, dict]]:
    """When, why and what, with times counted from the start."""
    found = [tell for tell in script.tells() if tell.notification.subscription == name]
    return [(tell.at_ms - START, str(tell.notification.reason), dict(tell.notification.news)) for tell in found]


def cancelled(script: Script) -> dict[str, int]:
    books = script.books()
    assert books.balanced
    return books.to_dict()["cancelled"]


def at(script: Script, ms: int) -> None:
    """Move the clock to so many milliseconds after the start, in silence and without a tick."""
    script.wait(START + ms - script.now_ms)


# ---- every_ms ---------------------------------------------------------------------------------------------------------


def test_what_left_its_hold_is_told_when_the_cadence_is_over_not_with_the_next_hold():
    script = Script()
    script.control(topic(hold_ms=4_000), subscription("ops", every_ms=5_000), subscription("all"))
    script.publish({"a": 1})
    at(script, 4_500)
    script.publish({"b": 2})  # leaves its hold at 8,500
    at(script, 8_600)
    script.publish({"c": 3})  # would leave its hold at 12,600
    script.tick(20_000)
    assert told(script) == [(4_000, "first", {"a": 1}), (9_000, "news", {"b": 2, "c": 3})]
    assert told(script, "all") == [(4_000, "first", {"a": 1}), (8_500, "news", {"b": 2}), (12_600, "news", {"c": 3})]


def test_a_cadence_that_is_over_makes_nothing_leave_its_hold():
    script = Script()
    script.control(topic(hold_ms=4_000), subscription("ops", every_ms=5_000))
    script.publish({"a": 1})
    at(script, 8_000)
    script.publish({"b": 2})
    script.tick(20_000)
    assert told(script) == [(4_000, "first", {"a": 1}), (12_000, "news", {"b": 2})]


def test_the_cadences_of_others_do_not_matter():
    script = Script()
    script.control(topic(remember_ms=3_000), subscription("ops", every_ms=5_000), subscription("slow", every_ms=7_000))
    script.publish({"a": 1})
    at(script, 1_000)
    script.publish({"b": 2})
    script.tick(30_000)
    assert told(script) == [(0, "first", {"a": 1}), (5_000, "news", {"b": 2})]
    assert told(script, "slow") == [(0, "first", {"a": 1}), (7_000, "news", {"b": 2})]


@pytest.mark.parametrize(("every_ms", "at_ms"), [(2_000, 5_000), (5_500, 5_500), (8_000, 8_000), (20_000, 20_000)])
def test_a_subscription_that_changes_while_something_waits_is_told_by_its_new_cadence(every_ms, at_ms):
    script = Script()
    script.control(subscription("ops", every_ms=10_000))
    script.publish({"a": 1})
    at(script, 1_000)
    script.publish({"b": 2})
    at(script, 5_000)
    script.control(subscription("ops", every_ms=every_ms))
    script.tick(30_000)
    assert told(script) == [(0, "first", {"a": 1}), (at_ms, "news", {"b": 2})]


def test_another_subscription_that_comes_does_not_move_what_waits():
    script = Script()
    script.control(subscription("ops", every_ms=10_000))
    script.publish({"a": 1})
    at(script, 1_000)
    script.publish({"b": 2})
    at(script, 5_000)
    script.control(subscription("other"))
    script.tick(30_000)
    assert told(script) == [(0, "first", {"a": 1}), (10_000, "news", {"b": 2})]


def test_what_waits_for_the_cadence_is_told_as_it_is_then():
    script = Script()
    script.control(topic(fields=LAST), subscription("ops", every_ms=5_000))
    script.publish({"state": "smoke"})
    at(script, 1_000)
    script.publish({"state": "fire"})
    at(script, 2_000)
    script.publish({"state": "out"})
    script.tick(10_000)
    assert told(script) == [(0, "first", {"state": "smoke"}), (5_000, "news", {"state": "out"})]


def test_what_is_not_true_any_more_when_the_cadence_is_over_is_not_told():
    script = Script()
    script.control(topic(fields=LAST), subscription("ops", every_ms=5_000, where="state = 'fire'"))
    script.publish({"state": "fire"})
    at(script, 1_000)
    script.publish({"floor": 3})
    at(script, 2_000)
    script.publish({"state": "out"})
    script.tick(10_000)
    assert told(script) == [(0, "first", {"state": "fire"})]
    assert cancelled(script) == {"every": 1}


def test_what_is_not_true_any_more_when_the_window_ends_is_not_told_either():
    script = Script()
    script.control(topic(fields=LAST, window_ms=10_000), subscription("ops", every_ms=20_000, where="state = 'fire'"))
    script.publish({"state": "fire"})
    script.publish({"floor": 3})
    script.publish({"state": "out"}, published_ms=START + 1)
    script.tick(10_000)
    assert told(script) == [(0, "first", {"state": "fire"})]
    assert cancelled(script) == {"every": 1}


def test_what_is_held_is_told_as_it_is_when_the_hold_ends_if_it_matches_then():
    script = Script()
    script.control(topic(fields=LAST, hold_ms=4_000), subscription("ops", where="state = 'fire'"), subscription("all"))
    script.publish({"state": "fire"})
    at(script, 1_000)
    script.publish({"state": "out"})
    script.tick(10_000)
    assert told(script) == []
    assert told(script, "all") == [(4_000, "first", {"state": "out"})]


def test_news_in_other_fields_starts_nothing():
    script = Script()
    pace = {"every_ms": 5_000, "settle_ms": 1_000, "at_most": 1}
    script.control(topic(fields=LAST), subscription("ops", fields=["what"], where="state != 'out'", **pace))
    script.publish({"state": "fire"})
    script.tick(3_000)
    script.publish({"state": "out"})
    state, outputs = script.run()
    (slot,) = state.slots.values()
    ledger = slot.open[0].ledgers["ops"]
    assert not [output for output in outputs if isinstance(output, Tell)]
    assert (ledger.due_ms, ledger.capped, ledger.revision, slot.caps) == (None, False, 0, {})
    assert cancelled(script) == {}


def test_news_in_other_fields_does_not_delay_what_is_wanted():
    script = Script()
    script.control(subscription("ops", fields=["what"], every_ms=5_000, at_most=1))
    script.publish({"floor": 3})
    at(script, 1_000)
    script.publish({"what": "fire"})
    assert told(script) == [(1_000, "first", {"what": "fire"})]


# ---- settle_ms --------------------------------------------------------------------------------------------------------


def settling(where: str = "state = 'fire'", **more: object) -> Script:
    script = Script()
    fields = {"state": "last", "low": "min", "high": "max"}
    script.control(topic(fields=fields, window_ms=60_000), subscription("ops", where=where, settle_ms=5_000, **more))
    return script


def test_what_stays_true_is_told_when_it_has_settled():
    script = settling()
    script.publish({"state": "fire"})
    at(script, 3_000)
    script.publish({"state": "fire", "floor": 3})
    script.tick(10_000)
    assert told(script) == [(5_000, "first", {"state": "fire", "floor": 3})]


def test_what_turns_false_before_is_cancelled_and_starts_anew():
    script = settling()
    script.publish({"state": "fire"})
    at(script, 4_000)
    script.publish({"state": "out"})
    at(script, 4_500)
    script.publish({"state": "fire"})
    script.tick(5_000)  # 9,500: settled
    assert told(script) == [(9_500, "first", {"state": "fire"})]
    assert cancelled(script) == {"settle": 1}


def test_what_stays_false_is_never_told():
    script = settling()
    script.publish({"state": "fire"})
    at(script, 4_999)
    script.publish({"state": "out"})
    script.tick(100_000)
    assert told(script) == []
    assert cancelled(script) == {"settle": 1}


def test_a_report_at_the_very_moment_it_settles_comes_too_late_to_cancel():
    script = settling()
    script.publish({"state": "fire"})
    at(script, 5_000)
    script.publish({"state": "out"})
    assert told(script) == [(5_000, "first", {"state": "fire"})]


def test_once_told_more_news_is_told_at_once_while_it_stays_true():
    script = settling()
    script.publish({"state": "fire"})
    at(script, 6_000)
    script.publish({"floor": 3})
    assert told(script) == [(5_000, "first", {"state": "fire"}), (6_000, "news", {"floor": 3})]


def test_once_told_more_news_follows_the_cadence():
    script = settling(every_ms=4_000)
    script.publish({"state": "fire"})
    at(script, 6_000)
    script.publish({"floor": 3})
    script.tick(10_000)
    assert told(script) == [(5_000, "first", {"state": "fire"}), (9_000, "news", {"floor": 3})]


def test_if_it_was_false_in_between_it_must_settle_again():
    script = settling(every_ms=1_000)
    script.publish({"state": "fire"})
    at(script, 6_000)
    script.publish({"state": "out"})
    at(script, 7_000)
    script.publish({"state": "fire", "floor": 3})
    script.tick(10_000)
    assert told(script) == [(5_000, "first", {"state": "fire"}), (12_000, "news", {"floor": 3})]
    assert cancelled(script) == {}  # nothing waited when it turned false


def test_what_waits_for_the_cadence_is_cancelled_when_it_turns_false():
    script = settling(every_ms=4_000)
    script.publish({"state": "fire"})
    at(script, 6_000)
    script.publish({"floor": 3})
    at(script, 7_000)
    script.publish({"state": "out"})
    script.tick(10_000)
    assert told(script) == [(5_000, "first", {"state": "fire"})]
    assert cancelled(script) == {"every": 1}


@pytest.mark.parametrize(
    ("where", "missing", "becomes_true", "becomes_false"),
    [
        ("low > 3", "patient", {"low": 5}, {"low": 2}),
        ("high < 3", "patient", {"high": 1}, {"high": 4}),
        ("not high >= 3", "patient", {"high": 1}, {"high": 4}),
        ("not exists(floor)", "optimistic", {"state": "fire"}, {"floor": 1}),
        ("severity >= 2", "optimistic", {"state": "fire"}, {"severity": 1}),
        ("what != 'drill'", "optimistic", {"state": "fire"}, {"what": "drill"}),
    ],
)
def test_all_ways_to_turn_false_cancel(where, missing, becomes_true, becomes_false):
    script = settling(where, missing=missing)
    script.publish(becomes_true)
    at(script, 1_000)
    script.publish(becomes_false)
    script.tick(20_000)
    assert told(script) == []
    assert cancelled(script) == {"settle": 1}
    without = settling(where, missing=missing)
    without.publish(becomes_true)
    without.tick(20_000)
    assert told(without) == [(5_000, "first", becomes_true)]


def test_an_earlier_report_that_wins_a_dispute_cancels_too():
    script = settling("what = 'fire'", missing="patient")
    script.publish({"what": "fire"}, published_ms=START)
    at(script, 1_000)
    script.publish({"what": "drill"}, published_ms=START - 1)
    script.tick(20_000)
    assert told(script) == []
    assert cancelled(script) == {"settle": 1}


def test_a_patient_subscription_settles_from_when_the_field_is_known():
    script = settling("severity >= 2", missing="patient")
    script.publish({"what": "fire"})
    at(script, 3_000)
    script.publish({"severity": 2})
    script.tick(20_000)
    assert told(script) == [(8_000, "first", {"what": "fire", "severity": 2})]


@pytest.mark.parametrize(
    ("settle_ms", "expected", "count"),
    [(9_999, [(9_999, "first")], {}), (10_000, [(10_000, "first")], {}), (10_001, [], {"settle": 1})],
)
def test_when_the_window_ends_only_what_has_settled_is_told(settle_ms, expected, count):
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops", settle_ms=settle_ms))
    script.publish({"a": 1})
    script.tick(30_000)
    assert [(ms, reason) for ms, reason, _ in told(script)] == expected
    assert cancelled(script) == count


def test_what_has_settled_does_not_wait_for_its_cadence_when_the_window_ends():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops", settle_ms=2_000, every_ms=60_000))
    script.publish({"a": 1})
    at(script, 5_000)
    script.publish({"b": 2})
    script.tick(30_000)
    assert told(script) == [(2_000, "first", {"a": 1}), (10_000, "final", {"b": 2})]


def test_an_event_is_not_forgotten_while_it_settles():
    script = Script()
    script.control(topic(remember_ms=1_000, window_ms=60_000), subscription("ops", settle_ms=5_000))
    script.publish({"a": 1})
    script.tick(30_000)
    assert told(script) == [(5_000, "first", {"a": 1})]


@pytest.mark.parametrize(("hold_ms", "at_ms"), [(2_000, 5_000), (8_000, 8_000)])
def test_settling_counts_from_the_report_also_while_it_is_held(hold_ms, at_ms):
    script = Script()
    script.control(topic(hold_ms=hold_ms), subscription("ops", settle_ms=5_000))
    script.publish({"a": 1})
    script.tick(30_000)
    assert told(script) == [(at_ms, "first", {"a": 1})]


def test_what_turned_false_while_it_was_held_starts_anew():
    script = Script()
    script.control(topic(fields=LAST, hold_ms=3_000), subscription("ops", where="state = 'fire'", settle_ms=5_000))
    for ms, state in ((0, "fire"), (1_000, "out"), (2_000, "fire")):
        at(script, ms)
        script.publish({"state": state})
    script.tick(30_000)
    assert told(script) == [(7_000, "first", {"state": "fire"})]


def test_a_late_subscriber_waits_until_it_has_settled_for_it():
    script = Script()
    script.control(topic(window_ms=60_000))
    script.publish({"a": 1})
    at(script, 20_000)
    script.control(subscription("ops", settle_ms=5_000))
    script.tick(10_000)
    assert told(script) == [(25_000, "first", {"a": 1})]


def test_it_settles_for_a_late_subscriber_while_the_event_is_still_held():
    script = Script()
    script.control(topic(hold_ms=8_000))
    script.publish({"a": 1})
    at(script, 2_000)
    script.control(subscription("ops", settle_ms=5_000))
    script.tick(20_000)
    assert told(script) == [(8_000, "first", {"a": 1})]


@pytest.mark.parametrize(
    ("change", "at_ms"), [({"where": "a = 1 or b = 1"}, 8_000), ({"every_ms": 1}, 5_000), ({"settle_ms": 7_000}, 7_000)]
)
def test_another_predicate_settles_anew_and_another_pace_does_not(change, at_ms):
    script = Script()
    settings = {"where": "a = 1", "settle_ms": 5_000, "missing": "patient"}
    script.control(subscription("ops", **settings))
    script.publish({"a": 1})
    at(script, 3_000)
    script.control(subscription("ops", **{**settings, **change}))
    script.tick(30_000)
    assert told(script) == [(at_ms, "first", {"a": 1})]


def test_a_measurement_is_told_at_once_since_it_cannot_settle():
    script = Script()
    script.control(topic("reading", gather=False), subscription("ops", topic="reading", settle_ms=5_000))
    script.publish({"speed": 12}, topic="reading")
    assert told(script) == [(0, "first", {"speed": 12})]
