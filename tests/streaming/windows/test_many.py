"""A thousand different windows on one link: all are right, and none makes another slower than it must."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import pytest

from streaming.world.records import subscription, topic
from streaming.world.window_reference import expected
from streaming.world.window_world import OVERLAYS, WindowWorld

COUNT = {"n": "count()"}


def crowd(count: int, decider: str) -> WindowWorld:
    """So many subscriptions at the far end of a chain, each with a window of its own."""
    subscribed = []
    for number in range(count):
        size = 2000 + number * 7 % 6011
        window = {"size_ms": size, "shift_ms": size - number % 500, "grace_ms": number % 7, "empty": False, "of": COUNT}
        subscribed.append(subscription(f"w{number}", topic="reading", broker="b4", window=window))
    return WindowWorld([*OVERLAYS["chain"], topic("reading", gather=False, decider=decider), *subscribed])


def play(world: WindowWorld, count: int) -> None:
    for number in range(count):
        world.publish("b1", {"speed": number}, after_ms=120, id=f"m{number}")
        if number % 10 == 0:
            world.tick(0)
            world.event_batch()
            world.window_batch()
    world.settle(24)


def calls(work: Callable[..., Any], *given: Any) -> int:
    """How many functions are called: what grows with the square of something shows, however fast the machine is."""
    profile = cProfile.Profile()
    profile.runcall(work, *given)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_thousand_windows():
    world = crowd(1000, "adock")
    play(world, 40)
    entered, until_ms = world.entered(), world.now_ms - 12_000
    checked = world.aggregates[::20]
    assert checked
    for record in checked:
        told = {start: (n[0].reports, dict(n[0].news), {}) for start, n in world.results(record["name"]).items()}
        wanted = expected(record, entered, world.since_ms[record["name"]], until_ms)
        assert {start: told.get(start) for start in wanted} == wanted


@pytest.mark.parametrize("decider", ["always-aggregate", "adock"])
def test_four_times_the_windows_take_four_times_the_work(decider):
    few, many = (calls(play, crowd(count, decider), 20) for count in (60, 240))
    assert many < 4 * few
