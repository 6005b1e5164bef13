"""Aggregates over windows, across brokers: equal to a look at the whole log, whatever was decided on the way."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.world.records import subscription, topic
from streaming.world.window_reference import expected
from streaming.world.window_world import BROKERS, OVERLAYS, SERVED, WindowWorld
from tidings.topic import Deciding

SETTLES_S = 32
law = settings(max_examples=settings.default.max_examples // 3)
"""A whole overlay runs for each example: a third of what others are tried on has to do."""
SPANS = [
    {"size_ms": 4000, "shift_ms": 2000},
    {"size_ms": 3000, "shift_ms": 3000},
    {"size_ms": 1000, "shift_ms": 4000},
    {"size_ms": 5000, "shift_ms": 1500},
]
COUNTS = [{"size": 4, "shift": 2}, {"size": 3, "shift": 3}, {"size": 2, "shift": 5}, {"size": 5, "shift": 2}]
COUNT = {"n": "count()"}
OF = {
    **COUNT,
    "total": "sum(speed)",
    "mean": "avg(speed)",
    "spread": "variance(speed)",
    "least": "min(speed)",
    "most": "max(speed)",
    "early": "first(road)",
    "late": "last(speed)",
    "stated": "count(speed)",
    "roads": "distinct(road, approx)",
}
WHOLE = {"kinds": "distinct(speed)", "smooth": "ema(speed, 0.5)", "often": "top(2, road)", "usual": "top(3, speed)"}


def aggregate(name: str, at: str, window: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    return subscription(name, topic="reading", broker=at, where=where, window=dict(window))


def timed(span: Mapping[str, int], of: Mapping[str, str] = COUNT, *, grace_ms: int = 0, empty: bool = False) -> dict[str, Any]:
    return {**span, "grace_ms": grace_ms, "empty": empty, "of": dict(of)}


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    of = draw(st.sampled_from([COUNT, OF, {**OF, **WHOLE}]))
    if draw(st.integers(0, 4)) == 0:
        return {**draw(st.sampled_from(COUNTS)), "empty": False, "of": of}
    return timed(draw(st.sampled_from(SPANS)), of, grace_ms=draw(st.sampled_from([0, 500])), empty=draw(st.booleans()))


@st.composite
def subscribed(draw: st.DrawFn, names: list[str]) -> list[dict[str, Any]]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        where = draw(st.sampled_from(["", "road = 'E45'", "speed >= 5", "key in ('a', 'b')"]))
        found.append(aggregate(f"w{number}", draw(st.sampled_from(names)), draw(windows()), where))
    for number in range(draw(st.integers(0, 2))):
        plain = {"where": draw(st.sampled_from(["road = 'E20'", "speed < 3"])), "broker": draw(st.sampled_from(names))}
        found.append(subscription(f"p{number}", topic="reading", **plain))
    return found


@st.composite
def worlds(draw: st.DrawFn) -> tuple[WindowWorld, list[str], Random]:
    shape = draw(st.sampled_from(sorted(OVERLAYS)))
    names = ["b1"] if shape == "one" else list(BROKERS)
    declared = topic("reading", gather=False, decider=draw(st.sampled_from(sorted(Deciding))))
    records = [*OVERLAYS[shape], declared, *draw(subscribed(names))]
    buckets, window_buckets = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    services = {"s": None} if shape == "one" else draw(st.sampled_from(SERVED))
    seed, hands_on = draw(st.integers(0, 10**6)), draw(st.booleans())
    world = WindowWorld(records, buckets, window_buckets, seed=seed, services=services, hands_on=hands_on)
    return world, names, Random(draw(st.integers(0, 10**6)))


def check(world: WindowWorld) -> None:
    entered = world.entered()
    until_ms = world.now_ms - 12_000  # what is due by then has been told: a hop takes some batches
    for record in world.aggregates:
        wanted = expected(record, entered, world.since_ms[record["name"]], until_ms)
        told = {
            start: (n[0].reports, dict(n[0].news), dict(n[0].window.left_out))
            for start, n in world.results(record["name"]).items()
        }
        assert {start: told.get(start) for start in wanted} == wanted
        assert not {start for start in told.keys() - wanted.keys() if start < max(wanted, default=0)}
    for record in world.aggregates:
        assert all(len(set(map(repr, each))) == 1 for each in world.results(record["name"]).values()), (
            "told twice, and differently"
        )


counts = st.integers(1, 50)


@law
@given(worlds(), counts)
def test_every_window_holds_what_the_log_holds(made, count):
    world, names, chance = made
    world.play(names, chance, count)
    world.settle(SETTLES_S)
    check(world)


@law
@given(worlds(), counts)
def test_a_crash_in_the_middle_changes_no_result(made, count):
    world, names, chance = made
    world.play(names, chance, count, crashes=True)
    world.settle(SETTLES_S)
    check(world)


@law
@given(worlds(), st.lists(st.sampled_from(sorted(Deciding)), min_size=1, max_size=4), st.booleans())
def test_another_decider_changes_no_result(made, deciders, crashes):
    world, names, chance = made
    for each in deciders:
        world.play(names, chance, chance.randint(1, 12), crashes=crashes)
        world.control(topic("reading", gather=False, decider=each))
    world.play(names, chance, 5, crashes=crashes)
    world.settle(SETTLES_S)
    check(world)


@pytest.mark.parametrize("decider", sorted(Deciding))
def test_what_is_decided_is_said(decider):
    records = [*OVERLAYS["chain"], topic("reading", gather=False, decider=decider)]
    world = WindowWorld([*records, aggregate("far", "b4", timed(SPANS[0]))])
    for number in range(40):
        world.publish("b1", {"road": "E45", "speed": number}, after_ms=250, id=f"m{number}", published_ms=world.now_ms + 250)
        world.tick(1)
        world.run()
    world.settle(SETTLES_S)
    assert {(each.sender, each.to) for each in world.decided} == {("b1", "b2"), ("b2", "b3"), ("b3", "b4")}
    assert {each.decider for each in world.decided} == {decider}
    for each in world.decided:
        assert each.sent <= each.items
        assert set(each.would) == {"forward", "aggregate", "wad", "adock"}
    check(world)
