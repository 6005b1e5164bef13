"""A pace matters at the subscription's own broker only; what it waits for may have to be taken back over the links."""

from __future__ import annotations

import pytest

from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message

CHAIN = [broker(f"b{n}") for n in range(1, 6)] + [link(f"b{n}", f"b{n + 1}") for n in range(1, 5)]
LAST = topic(fields={"state": "last"}, window_ms=60_000)
FIRE = {"where": "state = 'fire'", "missing": "patient"}


def played(*records: dict, published: list[tuple[int, dict]]) -> Simulator:
    simulator = Simulator(plan(*CHAIN, *records), lambda *_: 10)
    for at_ms, fields in published:
        simulator.publish(at_ms, "b1", Message("incident", "k", fields, published_ms=at_ms))
    simulator.run()
    assert all(books.balanced for books in simulator.books.values())
    return simulator


def told(simulator: Simulator, name: str) -> list[tuple[int, str, dict]]:
    found = [tell for _, tell in simulator.told if tell.notification.subscription == name]
    return [(tell.at_ms, str(tell.notification.reason), dict(tell.notification.news)) for tell in found]


STORY = [(0, {"state": "fire"}), (1_000, {"floor": 3}), (2_000, {"state": "out"}), (9_000, {"wind": 4})]


@pytest.mark.parametrize(
    ("pace", "expected", "cancelled"),
    [
        ({"every_ms": 5_000}, [(40, "first", {"state": "fire"})], {"every": 1}),
        ({"settle_ms": 5_000}, [], {"settle": 1}),
        ({"at_most": 1}, [(40, "first", {"state": "fire"})], {"at-most": 1}),
    ],
)
def test_what_is_not_true_any_more_is_not_told_at_another_broker_either(pace, expected, cancelled):
    simulator = played(LAST, subscription("far", broker="b5", **FIRE, **pace), published=STORY)
    assert told(simulator, "far") == expected
    assert simulator.books["b5"].cancelled == cancelled


def test_it_is_taken_back_once_and_only_where_somebody_may_wait():
    paced = played(LAST, subscription("far", broker="b5", **FIRE, every_ms=5_000), published=STORY)
    assert paced.crossed["b4", "b5"].kinds["EventNews"] == 3  # fire, floor, and that it is out; the wind is not wanted
    plain = played(LAST, subscription("far", broker="b5", **FIRE), published=STORY)
    assert plain.crossed["b4", "b5"].kinds["EventNews"] == 2


def test_what_becomes_true_again_is_told_again():
    story = [*STORY, (20_000, {"state": "fire"})]
    simulator = played(LAST, subscription("far", broker="b5", **FIRE, settle_ms=5_000), published=story)
    assert told(simulator, "far") == [(25_040, "first", {"state": "fire", "floor": 3, "wind": 4})]
