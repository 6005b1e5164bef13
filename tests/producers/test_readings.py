"""The speeds that sensors measure in the demo."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from producers.readings import Road, readings

ROADS = (Road("E45", sensors=3, every_ms=500, usual_speed=90.0), Road("Bridge", sensors=1, every_ms=4000, usual_speed=40.0))


def test_every_sensor_keeps_its_beat():
    run = readings(ROADS, 8000, seed=1)
    assert Counter(each.publisher for each in run) == {"E45/1": 16, "E45/2": 16, "E45/3": 16, "Bridge/1": 2}
    at = [each.at_ms for each in run if each.publisher == "E45/2"]
    assert {after - before for before, after in pairwise(at)} == {500}
    assert [each.at_ms for each in run] == sorted(each.at_ms for each in run)


def test_cars_are_about_as_fast_as_usual_and_never_drive_backwards():
    run = readings(ROADS, 100_000, seed=2)
    for road in ROADS:
        speeds = [each.message.fields["speed"] for each in run if each.message.fields["road"] == road.name]
        assert min(speeds) >= 0
        assert abs(sum(speeds) / len(speeds) / road.usual_speed - 1) < 0.15


def test_the_same_seed_says_the_same():
    assert readings(ROADS, 5000, seed=3) == readings(ROADS, 5000, seed=3)
    assert readings(ROADS, 5000, seed=3) != readings(ROADS, 5000, seed=4)
