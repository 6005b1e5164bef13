"""Speeds that sensors on roads measure, for the demo. Pure: the same arguments give the same messages."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from producers.workload import SentMessage
from tidings.message import Message


@dataclass(frozen=True, slots=True)
class Road:
    """A road and its sensors: how many there are, how often each says something, and how fast cars usually are."""

    name: str
    sensors: int
    every_ms: int
    usual_speed: float


def readings(roads: tuple[Road, ...], span_ms: int, seed: int, *, topic: str = "speed") -> list[SentMessage]:
    """What the sensors of some roads say for a while, each at its own beat. ``at_ms`` counts from 0."""
    rng = Random(f"{seed}/readings")
    run: list[SentMessage] = []
    for road in roads:
        for number in range(road.sensors):
            name = f"{road.name}/{number + 1}"
            for at_ms in range(rng.randrange(road.every_ms), span_ms, road.every_ms):
                speed = round(max(0.0, rng.gauss(road.usual_speed, road.usual_speed / 8)), 1)
                run.append(SentMessage(at_ms, name, Message(topic, name, {"road": road.name, "speed": speed}, source=name)))
    return sorted(run, key=lambda each: each.at_ms)
