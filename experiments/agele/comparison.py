"""Runs with a gatherer beside Siena's on the same input, and what many seeds of them say; shared by Agele's figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from experiments.agele.setup import Outcomes, Times
from experiments.agele.ways import Siena
from experiments.harness import Series, Spread, spread

FIXED = (
    "What the paper leaves open is the same in all its figures here: a link takes one time unit, random overlays have a mean "
    "degree of four, ten events start within six times T_b, and a publisher of an event sends about it by a Poisson process with "
    "a mean of one message, but at least one. Nothing was tuned."
)
READINGS = (
    'The paper times an event until it is "fully received by the subscriber". "Received" reads that as: until the last of what '
    'is sent about it has come in; "known" as: until nothing that is said about it is unknown any more. Both are given, as the '
    "increase over Siena on the same input."
)
GATHERER_RUNS = (
    "The gatherer runs the code of the service; what happens between brokers is added up from distances, which gives the same "
    "figures as simulating every broker (the tests compare both)."
)


@dataclass(frozen=True, slots=True)
class BesideSiena:
    """A run, and Siena on the same input."""

    ours: Outcomes
    siena: Siena

    @property
    def more(self) -> Times:
        """How much longer an event takes, as a share."""
        return self.ours.times.over(self.siena.times)

    @property
    def load(self) -> float:
        """What crosses links, as a share of what does in Siena."""
        return self.ours.link_messages / self.siena.link_messages


@dataclass(frozen=True, slots=True)
class SeedSample:
    """What the seeds of one point say."""

    suppressed: Spread
    duplicates: Spread
    merged: Spread
    received: Spread
    """More time in that reading, as a share; `known` too."""
    known: Spread
    load: Spread

    @staticmethod
    def of(runs: Sequence[BesideSiena]) -> SeedSample:
        return SeedSample(
            suppressed=spread(run.ours.suppressed for run in runs),
            duplicates=spread(run.ours.duplicates for run in runs),
            merged=spread(run.ours.merged for run in runs),
            received=spread(run.more.received for run in runs),
            known=spread(run.more.known for run in runs),
            load=spread(run.load for run in runs),
        )

    def cells(self) -> dict[str, float]:
        """For a row: every figure with its quartiles."""
        found: dict[str, float] = {}
        for field in fields(self):
            value: Spread = getattr(self, field.name)
            found |= {field.name: value.median, f"{field.name}_low": value.low, f"{field.name}_high": value.high}
        return found


def percent(label: str, x: Sequence[float], spreads: Iterable[Spread]) -> Series:
    """A line of a plot in percent."""
    scaled = [Spread(100 * each.median, 100 * each.low, 100 * each.high, each.seeds) for each in spreads]
    return Series.of(label, x, scaled)


def rising(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is below the one before, by more than the slack.

    >>> rising([1, 1, 2]), rising([1, 3, 2]), rising([1, 3, 2], slack=1)
    (True, False, True)
    """
    return all(later >= before - slack for before, later in pairwise(values))
