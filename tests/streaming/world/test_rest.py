"""Services that tick only when a bucket wants the time tell what those tell that tick every second, and as soon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.state import NEVER
from streaming.world.records import broker, link, subscription, topic
from streaming.world.world import World

CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]
SERVICES = st.sampled_from([{"s": None}, {"s": ["b1"], "t": ["b2", "b3"]}])

paces = st.fixed_dictionaries(
    {},
    optional={
        "every_ms": st.sampled_from([700, 5_000]),
        "settle_ms": st.sampled_from([500, 3_000]),
    },
)
timings = st.one_of(
    st.just({"gather": False}),
    st.fixed_dictionaries(
        {"window_ms": st.sampled_from([8_000, 9_000, 20_000])},
        optional={
            "hold_ms": st.sampled_from([600, 4_000]),
            "remember_ms": st.sampled_from([6_000]),
        },
    ),
)
windows = st.sampled_from(
    [
        {"size_ms": 5_000, "of": {"n": "count()"}},
        {"size_ms": 6_000, "shift_ms": 3_000, "of": {"n": "count()"}, "grace_ms": 500},
        {"size_ms": 10_000, "of": {"n": "count()"}, "empty": True},
        {"size": 2, "of": {"n": "count()"}},
    ]
)
moves = st.lists(
    st.tuples(
        st.sampled_from([0, 300, 2_500, 40_000]),
        st.sampled_from(["b1", "b2", "b3"]),
        st.sampled_from(["k1", "k2"]),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=8,
)


def told(records: list[dict], story: list[tuple], services: dict, *, resting: bool, then_ms: int = 45_000) -> World:
    world = World([*CHAIN, *records], services=services, delay_ms=200)
    for number, (after_ms, at, key, fields) in enumerate(story):
        world.advance(after_ms, resting=resting)
        world.publish(at, fields, key=key, id=f"m{number}")
    world.advance(then_ms, resting=resting)
    return world


def second_by_second(records: list[dict], story: list[tuple], services: dict, *, resting: bool) -> list[int]:
    """How much had been told after each second, once all was published."""
    world = told(records, story, services, resting=resting, then_ms=0)
    found = []
    for _ in range(45):
        world.advance(1_000, resting=resting)
        found.append(len(facts(world)) + len(results(world)))
    assert not any(world.books(at).left_out["patience_ms"] for at in ("b1", "b2", "b3"))
    return found


def facts(world: World) -> set[tuple[Any, ...]]:
    """Who was told which facts of what. How they were grouped depends on when links carried them."""
    return {(each.subscription, each.key, *fact) for each in world.told for fact in each.news.items()}


def results(world: World) -> list[tuple[Any, ...]]:
    return sorted((each.window.start, each.window.end, each.news["n"]) for each in world.told if each.window)


@given(timings, paces, moves, SERVICES)
def test_events_are_told_the_same(timing, pace, story, services):
    records = [topic(**timing), subscription("near", broker="b1"), subscription("far", broker="b3", **pace)]
    assert facts(told(records, story, services, resting=True)) == facts(told(records, story, services, resting=False))


@given(timings, windows, moves, SERVICES)
def test_so_are_windows(timing, window, story, services):
    records = [topic(**timing), subscription("far", broker="b3", window=window)]
    assert results(told(records, story, services, resting=True)) == results(told(records, story, services, resting=False))


@given(timings, paces, st.none() | windows, moves, SERVICES)
def test_and_as_soon(timing, pace, window, story, services):
    records = [topic(**timing), subscription("far", broker="b3", **pace)]
    records += [subscription("sums", broker="b3", window=window)] if window else []
    steady, resting = (second_by_second(records, story, services, resting=each) for each in (False, True))
    assert all(later >= sooner for sooner, later in zip(steady, resting[2:], strict=False)), (steady, resting)


@given(timings, paces, moves, SERVICES)
def test_in_the_end_nobody_wants_anything(timing, pace, story, services):
    world = told([topic(**timing), subscription("far", broker="b3", at_most=1, **pace)], story, services, resting=True)
    world.advance(3_700_000, resting=True)
    assert world.wish_ms == NEVER


def test_heartbeats_come_in_silence():
    world = World([topic(), subscription("ops", heartbeat_ms=10_000)])
    world.advance(65_000, resting=True)
    beats = [each.first_ms for each in world.told_to("ops")]
    assert beats == list(range(1_000_000, 1_065_000, 10_000))


@pytest.mark.parametrize("hold_ms", [600, 4_000])
def test_what_is_held_is_told_within_a_tick(hold_ms: int):
    world = World([topic(hold_ms=hold_ms), subscription("ops")])
    world.advance(20_000, resting=True)
    world.publish("b1", {"what": "fire"})
    world.advance(hold_ms + 1_000, resting=True)
    assert len(world.told_to("ops")) == 1


def test_silence_costs_nothing():
    world = World([*CHAIN, topic(), subscription("far", broker="b3")])
    world.publish("b1", {"what": "fire"})
    world.advance(100_000, resting=True)  # its window ends
    before = len(world.log["clock"])
    world.advance(500_000, resting=True)
    assert len(world.log["clock"]) == before
