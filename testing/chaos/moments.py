"""When a service is killed, and who of it: moments drawn by a seed, so that a run that failed can be run again.

>>> for moment in moments(3, seed=6):
...     print(moment)
after 1.3 s of stopping, the driver
after 13.5 s of starting, the whole service
after 3.6 s of running, the whole service and Kafka
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Phase(StrEnum):
    """What a service is doing when it is killed."""

    RUNNING = "running"
    STARTING = "starting"
    STOPPING = "stopping"


class Victims(StrEnum):
    """Who dies."""

    DRIVER = "the driver"
    """The others notice and end, or are left over and ended by the next start."""
    SERVICE = "the whole service"
    EVERYTHING = "the whole service and Kafka"


_LONGEST_MS = {Phase.RUNNING: 5000, Phase.STARTING: 15_000, Phase.STOPPING: 2500}
_PHASES = {Phase.RUNNING: 5, Phase.STARTING: 3, Phase.STOPPING: 2}
_VICTIMS = {Victims.DRIVER: 2, Victims.SERVICE: 3, Victims.EVERYTHING: 1}


@dataclass(frozen=True, slots=True)
class Moment:
    """``after_ms`` counts from the beginning of the phase."""

    phase: Phase
    after_ms: int
    victims: Victims

    def __str__(self) -> str:
        return f"after {self.after_ms / 1000:.1f} s of {self.phase}, {self.victims}"


def moments(count: int, seed: int) -> list[Moment]:
    """``count`` moments. The first three are one of each phase."""
    rng = Random(f"{seed}/moments")
    phases = rng.sample(list(Phase), 3)
    phases += rng.choices(list(_PHASES), list(_PHASES.values()), k=max(0, count - 3))
    victims = rng.choices(list(_VICTIMS), list(_VICTIMS.values()), k=len(phases))
    return [
        Moment(phase, rng.randrange(_LONGEST_MS[phase]), who) for phase, who in list(zip(phases, victims, strict=True))[:count]
    ]
