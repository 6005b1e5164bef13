"""Why somebody has not been told yet."""

from __future__ import annotations

from cli.explain import waiting_line
from streaming.broker.waits import waits
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic

START = 1_000_000
HOUR = 3_600_000


def waiting(script: Script) -> list[tuple[str, str, int, dict]]:
    state, _ = script.run()
    control = script.snapshots[max(script.snapshots)]
    found = waits(state, control, "incident", "5th and Main")
    assert waits(state, control, "incident", "elsewhere") == []
    return [(w.subscription.name, str(w.waits_for), w.until_ms - START, dict(w.news.news)) for w in found]


def test_each_wait_has_its_reason_and_its_end():
    script = Script()
    script.control(
        subscription("often", every_ms=5_000),
        subscription("sure", settle_ms=3_000),
        subscription("both", settle_ms=3_000, every_ms=5_000),
        subscription("seldom", at_most=1),
        subscription("plain"),
    )
    script.publish({"a": 1})
    script.wait(1_000)
    script.publish({"b": 2})
    assert waiting(script) == [
        ("both", "settle", 3_000, {"a": 1, "b": 2}),
        ("sure", "settle", 3_000, {"a": 1, "b": 2}),
        ("often", "every", 5_000, {"b": 2}),
        ("seldom", "at-most", HOUR, {"b": 2}),
    ]
    script.wait(3_000)
    script.publish({"c": 3})
    assert ("both", "every", 8_000, {"c": 3}) in waiting(script)


def test_what_an_ended_event_left_waits_too():
    script = Script()
    script.control(topic(window_ms=10_000), subscription("ops", at_most=1))
    script.publish({"a": 1})
    script.publish({"b": 2})
    script.tick(15_000)
    assert waiting(script) == [("ops", "at-most", HOUR, {"b": 2})]


def test_what_does_not_match_now_does_not_wait():
    script = Script()
    script.control(topic(fields={"state": "last"}), subscription("ops", where="state = 'fire'", every_ms=5_000))
    script.publish({"state": "fire"})
    script.publish({"b": 2})
    script.publish({"state": "out"}, published_ms=START + 1)
    assert waiting(script) == []


def test_people_read_it_in_words():
    script = Script()
    script.control(
        subscription("often", every_ms=90_000), subscription("sure", settle_ms=120_000), subscription("seldom", at_most=1)
    )
    script.publish({"a": 1})
    script.publish({"b": 2})
    state, _ = script.run()
    lines = [waiting_line(w).plain for w in waits(state, script.snapshots[max(script.snapshots)], "incident", "5th and Main")]
    assert [line.split("→ ")[1] for line in lines] == [
        "often waits until then for b=2: at least 90 s lie between two notifications (every_ms); told if it is still so",
        "sure waits until then for a=1, b=2: it must match for 2 min without a break (settle_ms); told if it is still so",
        "seldom waits until then for b=2: told 1 time of this key within the hour, and no more (at_most); told if it is still so",
    ]
