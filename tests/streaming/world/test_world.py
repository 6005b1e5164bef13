"""The world in memory: time is moved by hand, links are slow, services share the brokers, and it all comes to the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from streaming.world.records import broker, link, subscription, topic
from streaming.world.window_reference import expected
from streaming.world.window_world import BROKERS, OVERLAYS, WindowWorld
from streaming.world.world import World

CHAIN = [*map(broker, ("b1", "b2", "b3")), link("b1", "b2"), link("b2", "b3")]
SHARED = {"one": ["b1", "b3"], "two": ["b2", "b4"]}
WINDOW = {"size_ms": 4000, "shift_ms": 2000, "grace_ms": 500, "empty": False, "of": {"n": "count()"}}


def news(world: World, name: str) -> list[dict[str, Any]]:
    return [dict(each.news) for each in world.told_to(name)]


def test_time_passes_only_when_it_is_told_to() -> None:
    world = World([*CHAIN, topic(hold_ms=3000, remember_ms=10_000), subscription("ops", broker="b3")])
    world.publish("b1", {"what": "fire"})
    world.advance(2000)
    assert (news(world, "ops"), world.now_ms) == ([], 1_002_000)
    world.advance(2000)
    assert news(world, "ops") == [{"what": "fire"}]
    assert world.crossings == {("b1", "b2", "PassedOn"): 1, ("b2", "b3", "EventNews"): 1}
    assert world.books("b2").balanced


def test_nothing_is_read_until_a_batch_reads_it() -> None:
    world = World([subscription("ops")])
    world.publish("b1", {"what": "fire"})
    world.tick()
    assert world.told == []
    world.event_batch()
    assert news(world, "ops") == [{"what": "fire"}]


def test_other_control_data_holds_from_when_it_comes() -> None:
    world = World([broker("b1")])
    world.publish("b1", {"what": "fire"}, key="a")
    world.control(subscription("ops"))
    world.advance(1000)
    world.control(delete=["subscription/ops"])
    world.publish("b1", {"what": "flood"}, key="b")
    world.advance(1000)
    assert news(world, "ops") == [{"what": "fire"}]
    assert set(world.records_now) == {"broker/b1"}


@pytest.mark.parametrize(("delay_ms", "told_ms"), [(0, 1_000_000), (300, 1_000_600), ({("b1", "b2"): 700}, 1_000_700)])
def test_a_link_takes_its_time(delay_ms: int | Mapping[tuple[str, str], int], told_ms: int) -> None:
    world = World([*CHAIN, subscription("ops", broker="b3")], delay_ms=delay_ms)
    world.publish("b1", {"what": "fire"})
    world.advance(0)
    while not world.told:
        world.advance(50)
    assert world.now_ms == told_ms


@pytest.mark.parametrize("services", [{"s": None}, {"one": ["b1"], "two": ["b2", "b3"]}])
def test_several_services_share_the_brokers(services: Mapping[str, Sequence[str] | None]) -> None:
    world = World([*CHAIN, subscription("far", broker="b3"), subscription("near", broker="b1")], services=services)
    for at, fields in (("b1", {"what": "fire"}), ("b3", {"injured": 2})):
        world.publish(at, fields)
        world.advance(1000)
    assert news(world, "far") == news(world, "near") == [{"what": "fire"}, {"injured": 2}]
    assert all(world.books(name).balanced for name in ("b1", "b2", "b3"))


@pytest.mark.parametrize("shape", ["chain", "star"])
@pytest.mark.parametrize("gather", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_windows_hold_the_same_whoever_serves_brokers_and_however_long_links_take(seed: int, gather: bool, shape: str) -> None:
    chance = Random(f"{seed}/{gather}/{shape}")
    delays = {(a, b): chance.choice([0, 40, 900]) for a in BROKERS for b in BROKERS}
    asked = [subscription(f"w{number}", "reading", broker=at, window=WINDOW) for number, at in enumerate(("b1", "b4"))]
    records = [*OVERLAYS[shape], topic("reading", gather=gather), *asked, subscription("plain", "reading", broker="b3")]
    world = WindowWorld(records, seed=seed, services=SHARED, delay_ms=delays)
    world.play(BROKERS, chance, 40, crashes=chance.random() < 0.5)
    world.settle(60)
    if not gather:
        for each in asked:
            wanted = expected(each, world.entered(), world.since_ms[each["name"]], world.now_ms - 20_000)
            told = {start: (n[0].reports, dict(n[0].news), {}) for start, n in world.results(each["name"]).items()}
            assert told == wanted != {}
    again = {each.id: each for each in world.replayed()}
    assert {each.id: each for each in world.told} == again != {}
    assert all(world.books(name).balanced for name in BROKERS)
