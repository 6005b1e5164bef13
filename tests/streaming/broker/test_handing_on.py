"""Events where one process serves all brokers: what one sends, the other takes in at the same moment (decision 0028)."""

from __future__ import annotations

from collections import Counter

import pytest

from streaming.broker.state import Rules
from streaming.model.outputs import Send, Tell
from streaming.world.one_broker import Script
from streaming.world.records import broker, link, subscription, topic
from streaming.world.world import World

CHAIN = [*(broker(f"b{n}") for n in range(1, 5)), *(link(f"b{n}", f"b{n + 1}") for n in range(1, 4))]
FAR = subscription("far", broker="b4")


def chain(*records: dict) -> Script:
    script = Script(rules=Rules(hands_on=True))
    script.control(*CHAIN, *records)
    return script


def test_a_report_is_told_at_the_other_end_in_the_same_step() -> None:
    script = chain(topic(), FAR)
    script.publish({"what": "fire"})
    *_, told = script.run()[1]
    assert isinstance(told, Tell)
    assert (dict(told.notification.news), told.at_ms) == ({"what": "fire"}, script.now_ms)


def test_each_record_stands_on_its_link_and_in_the_books_of_both_ends() -> None:
    script = chain(topic(), FAR)
    script.publish({"what": "fire"})
    state, outputs = script.run()
    sent = [output for output in outputs if isinstance(output, Send)]
    assert {(each.sender, each.to) for each in sent} == {("b1", "b2"), ("b2", "b3"), ("b3", "b4")}
    books = script.books()
    assert sum(books.sent.values()) == sum(books.heard.values()) == len(sent)
    assert sum(books.heard_bytes.values()) == sum(len(each.value or b"") for each in sent)
    assert all(each.balanced for each in state.books.values())


def test_what_a_timer_sends_comes_with_the_tick_that_fires_it() -> None:
    script = chain(topic(hold_ms=500), FAR)
    script.publish({"what": "fire"})
    script.tick(600)
    assert [dict(each.news) for each in script.told("far")] == [{"what": "fire"}]


def test_an_event_ends_with_the_tick_that_ends_its_window() -> None:
    """Nobody waits for a word: what entered anywhere before the clock has come wherever it goes."""
    script = chain(topic(window_ms=10_000), FAR)
    script.publish({"what": "fire"}, published_ms=script.now_ms)
    script.tick(10_001)
    state, _ = script.run()
    assert not state.ending
    assert not [event for _, slot in state.slots.items() for event in slot.open]
    assert not script.books().left_out["patience_ms"]


def test_what_is_read_late_of_another_broker_is_told_before_its_event_ends() -> None:
    """A partition lags: its report stands before the clock, but after one of another broker that ended the window there."""
    script = chain(topic(window_ms=10_000, gatherer="none"), subscription("near", broker="b1"))
    script.publish({"what": "fire"}, published_ms=script.now_ms)
    script.wait(10_100)
    script.publish({"when": "now"}, published_ms=script.now_ms)
    script.wait(-200)
    script.publish({"where": "bridge"}, published_ms=script.now_ms, broker="b4")
    script.tick(1_000)
    told: dict[str, object] = {}
    for each in script.told("near"):
        told |= each.news
    assert told == {"what": "fire", "when": "now", "where": "bridge"}
    assert not script.put_aside()


@pytest.mark.parametrize("buckets", [1, 3])
def test_no_service_reads_a_link_or_marks_it(buckets: int) -> None:
    world = World([*CHAIN, topic(), FAR], buckets, hands_on=True)
    world.publish("b1", {"what": "fire"})
    world.event_batch()
    assert [dict(each.news) for each in world.told_to("far")] == [{"what": "fire"}], "one batch, over three links"
    world.settle(3)
    on_links = Counter(type(row.payload) for name, rows in world.log.items() if name.startswith("link.") for row in rows)
    assert on_links == {Send: len(world.crossed)}
    assert world.replayed() == world.told


def test_the_same_is_told_as_where_links_are_read() -> None:
    def told(*, hands_on: bool) -> list[dict]:
        world = World([*CHAIN, topic(hold_ms=300), FAR], hands_on=hands_on)
        for number, at in enumerate(("b1", "b3", "b2", "b4", "b1")):
            world.publish(at, {f"f{number % 4}": number % 3}, after_ms=400, id=f"m{number}")
            world.advance(1_000)
        world.advance(400_000)
        return [dict(each.news) for each in world.told_to("far")]

    assert told(hands_on=True) == told(hands_on=False)


def test_what_a_timer_sends_comes_before_events_are_over_where_it_goes() -> None:
    """One tick ends a hold at b2, which gathers, and the event's window at all: what was held is told of the same event."""
    script = chain(topic(window_ms=10_000, hold_ms=2_000), FAR)
    script.publish({"what": "fire"}, published_ms=script.now_ms)
    script.tick(2_100)
    script.publish({"where": "bridge"}, published_ms=script.now_ms)
    script.tick(10_000)
    first, last = script.told("far")
    assert (first.event, dict(last.news), last.revision) == (last.event, {"where": "bridge"}, 2)
    state, _ = script.run()
    assert not [event for _, slot in state.slots.items() for event in slot.open]
    assert not script.put_aside()


def test_what_a_timer_sends_is_told_at_the_time_of_the_clock() -> None:
    """The timer fired at its own time, which is over where the clock is later: nobody there goes back."""
    script = chain(topic(hold_ms=500), FAR, subscription("near", broker="b2"))
    script.publish({"what": "fire"}, broker="b2")
    held_ms = script.now_ms
    script.tick(3_000)
    assert {tell.notification.subscription: tell.at_ms for tell in script.tells()} == {
        "near": held_ms + 500,
        "far": script.now_ms,
    }
