"""Aggregates over windows, across brokers: equal to a look at the whole log, whatever was decided on the way."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.side.testing import World
from streaming.testing import broker, link, subscription, topic
from tidings.predicate import Missing, Verdict, judge, parse
from tidings.topic import Deciding

CHAIN = ["b1", "b2", "b3", "b4"]
OVERLAYS = {
    "one": [],
    "chain": [*(broker(name) for name in CHAIN), *(link(a, b) for a, b in pairwise(CHAIN))],
    "star": [*(broker(name) for name in CHAIN), *(link("b1", b) for b in CHAIN[1:])],
}
SPANS = [
    {"size_ms": 4000, "shift_ms": 2000},
    {"size_ms": 3000, "shift_ms": 3000},
    {"size_ms": 1000, "shift_ms": 4000},
    {"size_ms": 5000, "shift_ms": 1500},
]
OF = {
    "n": "count()",
    "total": "sum(speed)",
    "mean": "avg(speed)",
    "least": "min(speed)",
    "most": "max(speed)",
    "early": "first(road)",
    "late": "last(road)",
}
WHOLE = {"kinds": "distinct(road)", "smooth": "ema(speed, 0.5)"}


def aggregate(name: str, at: str, where: str, window: dict) -> dict:
    return subscription(name, topic="reading", broker=at, where=where, window=window)


@st.composite
def subscribed(draw: st.DrawFn, names: list[str]) -> list[dict]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        of = draw(st.sampled_from([{"n": "count()"}, OF, {**OF, **WHOLE}]))
        span = {**draw(st.sampled_from(SPANS)), "grace_ms": draw(st.sampled_from([0, 500])), "empty": draw(st.booleans())}
        where = draw(st.sampled_from(["", "road = 'E45'", "speed >= 5"]))
        found.append(aggregate(f"w{number}", draw(st.sampled_from(names)), where, {**span, "of": of}))
    for number in range(draw(st.integers(0, 2))):
        plain = {"where": draw(st.sampled_from(["road = 'E20'", "speed < 3"])), "broker": draw(st.sampled_from(names))}
        found.append(subscription(f"p{number}", topic="reading", **plain))
    return found


@st.composite
def worlds(draw: st.DrawFn, crashes: bool = False) -> World:
    shape = draw(st.sampled_from(sorted(OVERLAYS)))
    names = ["b1"] if shape == "one" else CHAIN
    decider = draw(st.sampled_from(sorted(Deciding)))
    declared = topic("reading", gather=False, decider=decider)
    records = [*OVERLAYS[shape], declared, *draw(subscribed(names))]
    buckets, side_buckets = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    world = World(records, buckets, side_buckets, seed=draw(st.integers(0, 10**6)))
    play(world, names, Random(draw(st.integers(0, 10**6))), draw(st.integers(1, 60)), crashes)
    return world


def play(world: World, names: list[str], chance: Random, count: int, crashes: bool) -> None:
    for number in range(count):
        fields = {"road": chance.choice(["E45", "E20"]), "speed": chance.choice([1, 2.5, 7, 0.1, 9])}
        if chance.random() < 0.1:
            fields["speed"] = "fast"
        key, at, after_ms = chance.choice("abc"), chance.choice(names), chance.randint(0, 700)
        published_ms = world.now_ms + after_ms - chance.choice([0, 0, 0, 300, 2000, 6000])
        world.publish(at, fields, after_ms=after_ms, key=key, id=f"m{number}", published_ms=published_ms)
        if chance.random() < 0.3:
            world.tick(chance.randint(1, 1000))
        world.run(crashes=crashes)
    world.settle(32)


def expected(world: World, record: dict) -> dict[int, tuple[int, dict]]:
    """By start of the window, how many publications count in it and what follows."""
    window, where = record["window"], parse(record["where"])
    since_ms = world.since_ms[record["name"]]
    end_ms = world.now_ms - 12_000  # what is due by then has been told: a hop takes some batches
    found: dict[int, list] = {}
    start = -(-since_ms // window["shift_ms"]) * window["shift_ms"]
    while start + window["size_ms"] + window["grace_ms"] <= end_ms:
        found[start] = []
        start += window["shift_ms"]
    for entered_ms, _, message in world.published:
        if judge(where, {**message.fields, "key": message.key}, Missing.OPTIMISTIC) is Verdict.MATCHES:
            for start, members in found.items():
                closes_ms = start + window["size_ms"] + window["grace_ms"]
                if start <= message.published_ms < start + window["size_ms"] and entered_ms < closes_ms:
                    members.append(message)
    return {s: (len(members), results(members, window["of"])) for s, members in found.items() if members or window["empty"]}


def results(members: list, of: dict[str, str]) -> dict:
    members = sorted(members, key=lambda each: (each.published_ms, each.id))
    speeds = [each.fields["speed"] for each in members]
    numbers = [Fraction(each) for each in speeds if not isinstance(each, str)]
    whole = all(isinstance(each, int) for each in speeds if not isinstance(each, str))
    roads = [each.fields["road"] for each in members]
    smooth = None
    for each in (float(speed) for speed in speeds if not isinstance(speed, str)):
        smooth = each if smooth is None else 0.5 * each + 0.5 * smooth
    order = sorted(speeds, key=lambda each: (isinstance(each, str), each))
    every = {
        "n": len(members),
        "total": int(sum(numbers)) if whole else float(sum(numbers)),
        "mean": float(sum(numbers) / len(numbers)) if numbers else None,
        "least": order[0] if order else None,
        "most": order[-1] if order else None,
        "early": roads[0] if roads else None,
        "late": roads[-1] if roads else None,
        "kinds": len(set(roads)),
        "smooth": smooth,
    }
    return {name: every[name] for name in of}


def check(world: World) -> None:
    records = [record for record in world.records if record["kind"] == "subscription" and "window" in record]
    for record in records:
        told: dict[int, tuple[int, dict]] = {}
        for notification in world.told:
            if notification.subscription == record["name"]:
                assert notification.window is not None
                found = (notification.reports, dict(notification.news))
                assert told.setdefault(notification.window.start, found) == found, "a window was told twice, and differently"
        wanted = expected(world, record)
        assert {start: told.get(start) for start in wanted} == wanted
        assert not {start for start in told.keys() - wanted.keys() if start < max(wanted, default=0)}


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_every_window_holds_what_the_log_holds(world):
    check(world)


@settings(max_examples=40, deadline=None)
@given(worlds(crashes=True))
def test_a_crash_in_the_middle_changes_no_result(world):
    check(world)


@pytest.mark.parametrize("decider", sorted(Deciding))
def test_what_is_decided_is_said(decider):
    records = [*OVERLAYS["chain"], topic("reading", gather=False, decider=decider)]
    records += [aggregate("far", "b4", "", {**SPANS[0], "grace_ms": 0, "empty": False, "of": {"n": "count()"}})]
    world = World(records)
    for number in range(40):
        world.publish("b1", {"road": "E45", "speed": number}, after_ms=250, id=f"m{number}", published_ms=world.now_ms + 250)
        world.tick(1)
        world.run()
    world.settle(32)
    assert {(each.sender, each.to) for each in world.decided} == {("b1", "b2"), ("b2", "b3"), ("b3", "b4")}
    assert {each.decider for each in world.decided} == {decider}
    for each in world.decided:
        assert each.sent <= each.items
        assert set(each.would) == {"forward", "aggregate", "wad", "adock"}
    check(world)
