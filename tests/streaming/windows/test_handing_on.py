"""One process that serves all brokers hands on from broker to broker in one step: nobody waits for a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from streaming.model.books import WindowItem
from streaming.model.items import Aggregated, Publication, Through
from streaming.model.links import WindowRecord
from streaming.model.outputs import Offer, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowInput, WindowOutput
from streaming.windows import state_codec
from streaming.windows.pipeline import step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.window_world import BROKERS, OVERLAYS, WindowWorld
from topology.plan import LOCAL

NAMED_MS, END_MS = 5000, 20_000
WINDOW = {"size_ms": 10_000, "grace_ms": 0, "of": {"n": "count()"}}
WHOLE = {**WINDOW, "of": {"kinds": "distinct(a)"}}


def chain(length: int, **window: Any) -> list[dict[str, Any]]:
    """Brokers in a row; somebody at the last one asks."""
    names = [f"b{number}" for number in range(length)]
    links = [link(a, b) for a, b in pairwise(names)]
    return [*map(broker, names), *links, topic("reading", gather=False), asks(names[-1], window or WINDOW)]


def asks(at: str, window: dict[str, Any]) -> dict[str, Any]:
    return subscription("w", topic="reading", broker=at, window=window)


def reading(number: int, *, crosses: bool = False) -> Offered:
    """What b0 offers to b1."""
    item = Publication("k", f"m{number}", 12_000, 12_000 + number, ("publish.b0", 0, number), {"a": number})
    return Offered("s/0", Offer("b0", "b1", "reading", item, number, crosses=crosses, version=1))


def clock(ms: int) -> Clocked:
    return Clocked(0, 1, ms, ((1, NAMED_MS),))


def run(
    records: Sequence[dict[str, Any]], inputs: Sequence[WindowInput], state: WindowState | None = None
) -> tuple[WindowState, list[WindowOutput]]:
    made = plan(*records)
    return step(state or WindowState(), inputs, lambda _: made, WindowRules("s"))


def told(outputs: Sequence[WindowOutput]) -> list[tuple[int, int]]:
    """The start of each window that was told, and how much it held."""
    found = [output.notification for output in outputs if isinstance(output, Tell)]
    return [(each.window.start, each.reports) for each in found if each.window]


def crossed(outputs: Sequence[WindowOutput]) -> list[tuple[str, str, type]]:
    sent = [output for output in outputs if isinstance(output, Send) and isinstance(output.record, WindowRecord)]
    return [(each.sender, each.to, type(each.record.item)) for each in sent]


@pytest.mark.parametrize("length", [2, 4, 600])
def test_a_window_is_told_by_the_clock_that_ends_it_however_many_links_lie_between(length: int) -> None:
    records = chain(length)
    state, before = run(records, [clock(NAMED_MS), reading(1), reading(2), clock(END_MS - 1)])
    assert before == []
    _, after = run(records, [clock(END_MS)], state)
    assert told(after) == [(10_000, 2)]
    assert Counter(crossed(after)) == {(f"b{n}", f"b{n + 1}", Aggregated): 1 for n in range(length - 1)}


@pytest.mark.parametrize("length", [2, 4, 600])
def test_what_must_cross_as_it_is_crosses_all_links_at_once(length: int) -> None:
    records = chain(length, **WHOLE)
    state, before = run(records, [clock(NAMED_MS), reading(1), reading(2)])
    assert Counter(crossed(before)) == {(f"b{n}", f"b{n + 1}", Publication): 2 for n in range(length - 1)}
    _, after = run(records, [clock(END_MS)], state)
    assert (told(after), crossed(after)) == ([(10_000, 2)], [])


def test_what_events_carry_anyway_is_counted_at_once_and_does_not_cross_for_windows() -> None:
    records = [*chain(4), subscription("plain", topic="reading", broker="b3")]
    state, before = run(records, [clock(NAMED_MS), reading(1, crosses=True), reading(2, crosses=True)])
    assert before == []
    state, after = run(records, [clock(END_MS)], state)
    assert (told(after), crossed(after)) == ([(10_000, 2)], [])
    places = [("b1", "b2"), ("b2", "b3"), ("b3", LOCAL)]
    assert [state.books_of(name).window_items[to, WindowItem.COUNTED] for name, to in places] == [2, 2, 2]
    assert [state.books_of(name).on_the_way(to) for name, to in places] == [0, 0, 0]


def test_events_carry_only_as_far_as_somebody_asks_for_them() -> None:
    records = [*chain(4), subscription("plain", topic="reading", broker="b1")]
    _, outputs = run(records, [clock(NAMED_MS), reading(1, crosses=True), clock(END_MS)])
    assert told(outputs) == [(10_000, 1)]
    assert crossed(outputs) == [("b1", "b2", Aggregated), ("b2", "b3", Aggregated)]


def test_places_that_were_dealt_out_by_link_begin_anew() -> None:
    """A directory from before: what its buckets had of a topic, now one of them has."""
    records = chain(3)
    state, _ = run(records, [clock(NAMED_MS), reading(1)])
    state.by_topic = False
    state.links.pop(("b1", "b2", "reading"))  # another bucket had it
    state, after = run(records, [clock(END_MS)], state_codec.decode(state_codec.encode(state)))
    assert told(after) == []
    assert state.books_of("b0").left_out["given-up"] == 1
    late = Offered("s/0", Offer("b0", "b1", "reading", Publication("k", "n", 21_000, 21_000, ("p", 0, 9), {}), 9, version=1))
    _, after = run(records, [late, clock(30_000)], state)
    assert told(after) == [(20_000, 1)]


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_no_link_carries_how_far_windows_are_where_one_process_serves_all(shape: str) -> None:
    world = WindowWorld([*OVERLAYS[shape], topic("reading", gather=False), asks("b4", WINDOW)])
    others = WindowWorld([*OVERLAYS[shape], topic("reading", gather=False), asks("b4", WINDOW)], services={"s": BROKERS})
    for each in (world, others):
        for number in range(5):
            each.publish("b1", {"a": number}, after_ms=100, id=f"m{number}", published_ms=each.now_ms + 100)
        each.settle(40)
    assert [n.reports for n in world.told_to("w")] == [n.reports for n in others.told_to("w")] == [5]
    said = [send for send in others.crossed if isinstance(send.record, WindowRecord) and isinstance(send.record.item, Through)]
    assert said
    assert not [send for send in world.crossed if isinstance(send.record, WindowRecord) and isinstance(send.record.item, Through)]


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_one_tick_and_one_batch_of_either_pipeline_tell_a_window(shape: str) -> None:
    world = WindowWorld([*OVERLAYS[shape], topic("reading", gather=False), asks("b4", WINDOW)])
    world.settle(1)
    for number, at in enumerate(BROKERS):
        world.publish(at, {"a": number}, after_ms=100, id=f"m{number}", published_ms=world.now_ms + 100)
    world.event_batch()
    world.tick(END_MS)
    world.event_batch()
    assert not world.told_to("w")
    world.window_batch()
    assert [each.reports for each in world.told_to("w")] == [len(BROKERS)]


def test_what_newer_ways_led_elsewhere_counts_where_those_lead_that_hold() -> None:
    """A partition that lags had it; its bucket knew of the change from another one. The window was over before the change."""
    names = [broker(f"b{number}") for number in range(3)]
    plans = {
        1: plan(*names, link("b0", "b1"), link("b1", "b2"), topic("reading", gather=False), asks("b2", WINDOW)),
        2: plan(*names, link("b0", "b2"), link("b1", "b2"), topic("reading", gather=False), asks("b2", WINDOW)),
    }
    item = Publication("k", "m", 12_000, 12_000, ("publish.b0", 0, 1), {})
    lagged = Offered("s/0", Offer("b0", "b2", "reading", item, 1, version=2))
    changed = Clocked(0, 1, END_MS + 500, ((1, NAMED_MS), (2, END_MS + 500)))
    state, outputs = step(WindowState(), [clock(NAMED_MS), lagged, changed], plans.__getitem__, WindowRules("s"))
    assert told(outputs) == [(10_000, 1)]
    assert crossed(outputs) == [("b0", "b1", Aggregated), ("b1", "b2", Aggregated)]
    assert not state.early


def test_an_event_that_another_broker_gathers_by_newer_ways_is_left_out_of_a_window_that_was_over_before() -> None:
    """By the ways that hold, that broker passes reports on, and has no windows toward the one that gathers."""
    names = [*(broker(f"b{number}") for number in range(3)), topic("reading", window_ms=2000), asks("b0", WINDOW)]
    plans = {
        1: plan(*names, link("b0", "b1"), link("b1", "b2")),
        2: plan(*names, link("b0", "b2"), link("b2", "b1")),
    }
    item = Publication("k", "m", 12_000, 12_000, ("publish.b0", 0, 1), {})
    lagged = Offered("s/0", Offer("b2", "b0", "reading", item, 1, version=2))
    changed = Clocked(0, 1, END_MS + 2500, ((1, NAMED_MS), (2, END_MS + 2500)))
    state, outputs = step(WindowState(), [clock(NAMED_MS), lagged, changed], plans.__getitem__, WindowRules("s"))
    assert (told(outputs), state.early) == ([], [])
    items = state.books_of("b2").window_items
    assert (items["b1", WindowItem.OFFERED], items["b1", WindowItem.LEFT_OUT]) == (1, 1)
