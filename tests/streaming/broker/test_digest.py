"""At most so many notifications an hour about a key: beyond that, what waits is told as one digest."""

from __future__ import annotations

import pytest

from streaming.broker import state_codec
from streaming.broker.state import Rules
from streaming.notify.pace import at_most as pace
from streaming.wire.notification import encode_notification
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from tidings.notification import Encoding

START = 1_000_000
HOUR = 3_600_000
LONG = 3 * HOUR
SHORT = 10_000


def told(script: Script, name: str = "ops") -> list[tuple]:
    """When, why and what, and what was told beside it of other events."""
    found = [tell for tell in script.tells() if tell.notification.subscription == name]
    return [
        (tell.at_ms - START, str(tell.notification.reason), dict(tell.notification.news))
        + ((tuple(dict(each.news) for each in tell.notification.digest),) if tell.notification.digest else ())
        for tell in found
    ]


def capped(at_most: int = 1, window_ms: int = LONG, where: str = "", **more: object) -> Script:
    script = Script()
    fields = {"state": "last"}
    script.control(
        topic(fields=fields, window_ms=window_ms), subscription("ops", at_most=at_most, where=where, **more), subscription("all")
    )
    return script


def at(script: Script, ms: int) -> None:
    script.wait(START + ms - script.now_ms)


def test_what_comes_beyond_the_bound_is_told_as_one_digest_when_a_place_is_free():
    script = capped(at_most=2)
    for ms, name in ((0, "a"), (1_000, "b"), (2_000, "c"), (3_000, "d")):
        at(script, ms)
        script.publish({name: 1})
    script.tick(HOUR - 3_001)
    assert told(script) == [(0, "first", {"a": 1}), (1_000, "news", {"b": 1})]
    script.tick(1)
    assert told(script)[2:] == [(HOUR, "digest", {"c": 1, "d": 1})]
    assert script.told("ops")[-1].revision == 3
    assert len(told(script, "all")) == 4
    assert script.books().balanced


def test_the_hour_slides():
    script = capped(at_most=1)
    for ms, name in ((0, "a"), (HOUR, "b"), (HOUR + 1, "c"), (2 * HOUR + 5, "d")):
        at(script, ms)
        script.publish({name: 1})
    assert told(script) == [(0, "first", {"a": 1}), (HOUR, "news", {"b": 1}), (2 * HOUR, "digest", {"c": 1})]
    script.tick(LONG)
    assert told(script)[3:] == [(3 * HOUR, "digest", {"d": 1})]


def test_another_key_has_places_of_its_own():
    script = capped(at_most=1)
    script.publish({"a": 1}, "one")
    script.publish({"a": 1}, "other")
    assert told(script) == [(0, "first", {"a": 1}), (0, "first", {"a": 1})]


def test_the_next_event_of_a_key_counts_on():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.tick(2 * SHORT)
    script.publish({"a": 2})
    script.tick(1_000)
    assert told(script) == [(0, "first", {"a": 1})]


def test_an_event_that_ends_while_its_news_waits_leaves_its_last_words_for_the_digest():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.publish({"state": "fire"})
    at(script, 1_000)
    script.publish({"state": "out"})
    script.tick(HOUR - 1_001)
    assert told(script) == [(0, "first", {"a": 1})]
    script.tick(1)
    assert told(script)[1:] == [(HOUR, "digest", {}, ({"state": "out"},))]
    first, last = script.told("ops")
    (beside,) = last.digest
    assert (last.event, last.key, last.revision, last.reports) == ("", first.key, 0, 0)
    assert (beside.event, beside.first_ms, beside.last_ms) == (first.event, START, START + 1_000)
    assert (last.first_ms, last.last_ms) == (START, START + 1_000)
    assert script.books().balanced


def test_a_message_whose_news_leaves_in_a_digest_after_its_event_is_merged():
    script = Script()
    script.control(topic(window_ms=SHORT), subscription("ops", at_most=1))
    script.publish({"a": 1})
    script.publish({"b": 2})
    script.tick(HOUR)
    assert script.books().to_dict()["reasons"] == {"told": {"first": 1}, "merged": {"digested": 1}}


def test_messages_that_waited_for_a_digest_are_told_by_it():
    script = Script()
    script.control(topic(window_ms=LONG), subscription("ops", at_most=1))
    for name in "abc":
        script.publish({name: 1})
    assert script.books().to_dict()["held"] == 2
    script.tick(HOUR)
    assert script.books().to_dict()["reasons"] == {"told": {"first": 1, "digest": 1}, "merged": {"joined": 1}}


def test_one_digest_is_about_all_events_of_the_key():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    for number in range(3):
        at(script, 2 * SHORT * (number + 1))
        script.publish({"n": number})
    at(script, HOUR - 1_000)
    script.publish({"n": 9})
    script.tick(1_000)
    assert told(script)[1:] == [(HOUR, "digest", {"n": 9}, ({"n": 0}, {"n": 1}, {"n": 2}))]
    script.tick(LONG)
    assert len(told(script)) == 2


def test_two_open_events_of_a_key_share_the_digest():
    script = capped(at_most=1, window_ms=LONG)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.publish({"c": 1}, published_ms=START - LONG + 1_000)
    script.publish({"d": 1}, published_ms=START + 200_000)  # too far from the others to be about the same event
    script.tick(HOUR)
    assert told(script) == [(0, "first", {"a": 1}), (HOUR, "digest", {"d": 1}, ({"b": 1, "c": 1},))]
    script.tick(HOUR)
    assert len(told(script)) == 2


def test_a_digest_is_told_as_things_are_then():
    script = capped(at_most=1)
    script.publish({"a": 1})
    for ms, state in ((1_000, "fire"), (2_000, "out"), (3_000, "fire again")):
        at(script, ms)
        script.publish({"state": state})
    script.tick(HOUR)
    assert told(script) == [(0, "first", {"a": 1}), (HOUR, "digest", {"state": "fire again"})]


def test_what_is_not_true_any_more_is_not_in_the_digest_and_is_counted():
    script = capped(at_most=1, where="state != 'out'")
    script.publish({"a": 1})
    script.publish({"b": 1})
    at(script, 1_000)
    script.publish({"state": "out"})
    script.tick(HOUR)
    assert told(script) == [(0, "first", {"a": 1})]
    assert script.books().cancelled == {"at-most": 1}


def test_what_is_not_true_when_its_event_ends_is_not_in_the_digest_either():
    script = capped(at_most=1, window_ms=SHORT, where="state != 'out'")
    script.publish({"a": 1})
    script.publish({"b": 1})
    at(script, 1_000)
    script.publish({"state": "out"})
    script.tick(HOUR)
    assert told(script) == [(0, "first", {"a": 1})]
    assert script.books().cancelled == {"at-most": 1}


def test_the_end_of_the_window_takes_a_place_too():
    script = capped(at_most=2, window_ms=SHORT, every_ms=HOUR)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.tick(2 * SHORT)
    assert told(script) == [(0, "first", {"a": 1}), (SHORT, "final", {"b": 1})]
    script.publish({"c": 1})
    script.tick(1_000)
    assert len(told(script)) == 2
    script.tick(HOUR)
    assert told(script)[2:] == [(HOUR, "digest", {}, ({"c": 1},))]


def test_a_digest_waits_for_the_cadence_of_its_event():
    script = capped(at_most=1, every_ms=HOUR + 5_000)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.tick(2 * HOUR)
    assert told(script) == [(0, "first", {"a": 1}), (HOUR + 5_000, "news", {"b": 1})]


def test_what_has_not_settled_does_not_take_a_place():
    script = capped(at_most=1, settle_ms=5_000, where="state != 'out'")
    script.publish({"a": 1})
    at(script, 1_000)
    script.publish({"state": "out"})
    at(script, 2_000)
    script.publish({"state": "fire"})
    script.tick(20_000)
    assert told(script) == [(7_000, "first", {"a": 1, "state": "fire"})]


def test_what_must_settle_again_does_not_go_with_the_digest():
    script = capped(at_most=1, settle_ms=5_000, where="state != 'out'")
    script.publish({"a": 1})
    at(script, 10_000)
    script.publish({"b": 1})  # waits for a place until an hour after 5,000
    for ms, state in ((1_000, "out"), (2_000, "fire")):
        at(script, HOUR + ms)
        script.publish({"state": state})
    script.tick(HOUR)
    assert told(script) == [(5_000, "first", {"a": 1}), (HOUR + 7_000, "news", {"b": 1, "state": "fire"})]


def test_the_first_that_is_due_takes_the_place_whichever_event_it_is_about():
    script = Script()
    script.control(topic(window_ms=60_000), subscription("ops", at_most=1, settle_ms=5_000, where="a = 1", missing="patient"))
    script.publish({"b": 1}, published_ms=START)
    at(script, 1_000)
    script.publish({"a": 1, "second": True}, published_ms=START + 100_000)
    at(script, 3_000)
    script.publish({"a": 1}, published_ms=START)
    script.tick(50_000)
    assert told(script) == [(6_000, "first", {"a": 1, "second": True})]


@pytest.mark.parametrize("change", [{"at_most": 2}, {}])
def test_a_higher_bound_or_none_lets_what_waits_go_at_once(change):
    script = capped(at_most=1)
    script.publish({"a": 1})
    script.publish({"b": 1})
    at(script, 7_000)
    script.control(subscription("ops", **change))
    script.tick(1_000)
    assert told(script) == [(0, "first", {"a": 1}), (7_000, "digest", {"b": 1})]


def test_a_higher_bound_lets_the_last_words_of_an_event_go_too():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.tick(2 * SHORT)
    script.control(subscription("ops", at_most=2))
    script.tick(1_000)
    assert told(script) == [(0, "first", {"a": 1}), (2 * SHORT, "digest", {}, ({"b": 1},))]


def test_a_lower_bound_keeps_what_waits():
    script = capped(at_most=2)
    for ms, name in ((0, "a"), (1_000, "b"), (2_000, "c")):
        at(script, ms)
        script.publish({name: 1})
    script.control(subscription("ops", at_most=1))
    script.tick(2 * HOUR)
    assert told(script)[2:] == [(HOUR + 1_000, "digest", {"c": 1})]


def test_who_is_deleted_is_forgotten_with_all_that_waits():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.tick(2 * SHORT)
    script.control(delete=("subscription/ops",))
    script.tick(2 * HOUR)
    assert told(script) == [(0, "first", {"a": 1})]
    state, _ = script.run()
    assert (state.size, state.slots) == (0, {})


def test_fields_that_are_not_wanted_any_more_are_left_out_of_last_words():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.publish({"b": 1, "c": 1})
    script.tick(2 * SHORT)
    script.control(subscription("ops", at_most=1, fields=["a", "c"]))
    script.tick(HOUR)
    assert told(script)[1:] == [(HOUR, "digest", {}, ({"c": 1},))]


def test_a_key_is_forgotten_an_hour_after_it_was_told():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.tick(HOUR - 1)
    assert script.run()[0].size == 1
    script.tick(1)
    state, _ = script.run()
    assert (state.size, state.slots) == (0, {})


def test_measurements_have_places_too():
    script = Script()
    script.control(topic("reading", gather=False, window_ms=SHORT), subscription("ops", topic="reading", at_most=2))
    for number in range(4):
        script.publish({"speed": number}, topic="reading", id=f"m{number}")
        script.wait(1_000)
    script.tick(HOUR)
    assert told(script) == [
        (0, "first", {"speed": 0}),
        (1_000, "first", {"speed": 1}),
        (HOUR, "digest", {}, ({"speed": 2}, {"speed": 3})),
    ]
    assert script.books().to_dict()["reasons"] == {"told": {"first": 2}, "merged": {"digested": 2}}


def test_a_measurement_finds_the_places_as_they_are_when_it_comes_even_if_no_tick_came():
    script = Script()
    script.control(topic("reading", gather=False, window_ms=SHORT), subscription("ops", topic="reading", at_most=1))
    for ms, number in ((0, 0), (1_000, 1), (HOUR + 5, 2)):
        at(script, ms)
        script.publish({"speed": number}, topic="reading", id=f"m{number}")
    assert told(script) == [(0, "first", {"speed": 0}), (HOUR, "digest", {}, ({"speed": 1},))]


def test_only_the_last_hour_is_remembered():
    script = capped(at_most=2, window_ms=100 * HOUR)
    for number in range(10):
        at(script, number * HOUR)
        script.publish({f"f{number}": 1})
    state, _ = script.run()
    (slot,) = state.slots.values()
    assert slot.caps["ops"].told == [START + 9 * HOUR]


def test_only_so_many_ended_events_wait_and_the_others_are_counted(monkeypatch):
    monkeypatch.setattr(pace, "MOST_ENDED", 2)
    script = capped(at_most=1, window_ms=SHORT)
    for number in range(5):
        script.publish({"n": number})
        script.tick(2 * SHORT)
    script.tick(HOUR)
    assert told(script)[1:] == [(HOUR, "digest", {}, ({"n": 3}, {"n": 4}))]
    assert script.books().left_out == {"digest": 2}


def test_a_bucket_that_is_full_forgets_places_and_counts_what_waited():
    script = Script(Rules(open_events=1))
    script.control(topic(window_ms=SHORT), subscription("ops", at_most=1))
    script.publish({"a": 1}, "one")
    script.publish({"b": 1}, "one")
    script.tick(3 * SHORT)
    script.publish({"a": 1}, "other")
    state, _ = script.run()
    assert list(state.slots) == [("b1", "incident", "other")]
    assert (state.size, script.books().left_out) == (1, {"digest": 1})


def test_the_places_and_what_waits_survive_as_a_blob():
    script = capped(at_most=1, window_ms=SHORT, settle_ms=1_000)
    script.publish({"a": 1.5, "tags": ("x", "y"), "who": None})
    script.tick(2_000)
    script.publish({"b": True})
    script.tick(SHORT)
    state, _ = script.run()
    (slot,) = state.slots.values()
    assert slot.caps["ops"].ended
    assert state_codec.decode(state_codec.encode(state)) == state


def test_a_notification_without_a_digest_has_the_bytes_it_always_had():
    script = capped(at_most=1, window_ms=SHORT)
    script.publish({"a": 1})
    script.publish({"b": 1})
    script.tick(HOUR)
    first, last = (encode_notification(each, Encoding.JSON).decode() for each in script.told("ops"))
    assert first.endswith('"conflicts":{}}')
    assert '"conflicts":{},"digest":[{"event":"' in last
    assert last.endswith(f'"news":{{"b":1}},"first_ms":{START},"last_ms":{START}}}]}}')
