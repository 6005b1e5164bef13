"""Runs the three filter strategies of DAS over the points of a figure, and puts what they do beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median

from experiments.das.setup import EVENT, STRATEGIES, DasSetup, DasWorkload, Measured, Run
from experiments.harness import Cell, Plot, Row, Series, Settings, Spread, Table, spread
from tidings.collection import no_collection
from tidings.topic import Filtering

SAME = 0.02
"""Loads that differ by less are the same: values and hops take a byte more or less."""
NOISE = 0.1
"""Efficiencies that differ by less are the same: a shared machine does not measure better."""

_TURNS = 10

TREE_NOTE = (
    "Figure 5 is not in the text. Assumed: links 1-2, 2-3, 2-4, 2-5, 1-6, 1-7, 3-8, 3-9. That fits what is said of it: Broker 2 "
    "has the most links from five brokers on, 1 to 3 are inner brokers, the rest outer ones, and the tree is uneven."
)
TIME_NOTE = (
    "Efficiency is published events per CPU second that all brokers together spend in the step function; the simulator's own "
    "work, encoding and networks are left out. Read it relative to event forwarding: machines differ, and are shared."
)
SCAN_NOTE = (
    "Ours asks the subscriptions of a broker one after the other, DAS has a tree of them. So an event costs what the brokers "
    "cost that see it, in proportion to their clients' profiles; what is asked of a link is one look into a set, and cheap."
)
LOAD_NOTE = "Network load is what brokers receive from brokers, as encoded on a link; what publishers send is the same for all."
MEMORY_NOTE = (
    "Duplication counts an equality as one profile, as DAS does. Ours also merges: what a link is asked for is one list of "
    "values, so `entries` is far lower."
)


def scale_note(profiles: str, paper: str) -> str:
    """How much smaller this is than the paper's."""
    return f"{profiles} instead of {paper}: compare shapes, orders and ratios, not absolute figures."


@dataclass(frozen=True, slots=True)
class DasPoint:
    """One point of a figure; ``at`` names it in the rows."""

    at: Mapping[str, Cell]
    setup: DasSetup
    matching: float
    locality: float | None = None


@dataclass(frozen=True, slots=True)
class DasSweep:
    """The rows of all points, strategies and seeds."""

    rows: Sequence[Row]
    seeds: int

    def values(self, measure: str, strategy: Filtering, **at: Cell) -> list[float]:
        """One for each seed."""
        asked = {"strategy": str(strategy), **at}
        found = [row[measure] for row in self._at(asked)]
        if len(found) != self.seeds:
            raise ValueError(f"{len(found)} rows have {asked}, not one for each seed")
        return [float(cell) for cell in found if isinstance(cell, int | float)]

    def of(self, measure: str, strategy: Filtering, **at: Cell) -> Spread:
        return spread(self.values(measure, strategy, **at))

    def median(self, measure: str, strategy: Filtering, **at: Cell) -> float:
        return median(self.values(measure, strategy, **at))

    def ratio(self, measure: str, strategy: Filtering, over: Mapping[str, Cell], under: Mapping[str, Cell]) -> float:
        """How many times as much at one point as at the other, as a median of the seeds."""
        pairs = zip(self.values(measure, strategy, **over), self.values(measure, strategy, **under), strict=True)
        return median(one / other for one, other in pairs)

    def plot(self, title: str, axis: tuple[str, str], measure: tuple[str, str], **at: Cell) -> Plot:
        """One line for each strategy. ``axis`` and ``measure`` are a column and what is written beside it."""
        column, x_label = axis
        xs = [x for x in dict.fromkeys(row[column] for row in self._at(at)) if isinstance(x, int | float)]
        series = [
            Series.of(str(strategy), xs, [self.of(measure[0], strategy, **at, **{column: x}) for x in xs])
            for strategy in STRATEGIES
        ]
        return Plot(title=title, x_label=x_label, y_label=measure[1], series=series)

    def table(self, parameters: Mapping[str, str], measures: Mapping[str, tuple[str, str]]) -> Table:
        """One row for each point: by column what to call it, and how a measure is written."""
        points = list(dict.fromkeys(tuple((name, row[name]) for name in parameters) for row in self.rows))
        shown = [(m, s) for m in measures for s in STRATEGIES if (m, s) != ("relative", EVENT)]  # which is 1
        columns = [*parameters.values(), *[f"{measures[measure][0]}, {strategy}" for measure, strategy in shown]]
        cells = [
            [f"{cell:g}" if isinstance(cell, float) else str(cell) for _, cell in point]
            + [self.of(measure, strategy, **dict(point)).format(measures[measure][1]) for measure, strategy in shown]
            for point in points
        ]
        return Table(columns, cells)

    def _at(self, at: Mapping[str, Cell]) -> list[Row]:
        found = self.rows
        for name, cell in at.items():
            found = [row for row in found if row[name] == cell]
        return list(found)


def sweep(settings: Settings, points: Sequence[DasPoint], events: int, seeds: Sequence[int]) -> DasSweep:
    """Run all strategies at all points. ``relative`` is the efficiency, by that of event forwarding in the same run.

    All runs of a seed take turns: a slow spell of the machine then hits them alike.
    """
    rows: list[Row] = []
    runs: dict[tuple[int, Filtering], Run] = {}
    for seed, turn in settings.track(list(product(seeds, range(1, _TURNS + 1)))):
        if turn == 1:
            runs = {
                (number, strategy): Run(point.setup, strategy, DasWorkload(seed, events, point.matching, point.locality))
                for (number, point), strategy in product(enumerate(points), STRATEGIES)
            }
        with no_collection():  # which looks at the objects of all runs
            for run in runs.values():
                run.advance(turn / _TURNS)
        if turn == _TURNS:
            rows += _rows(points, seed, {at: run.measured() for at, run in runs.items()})
    return DasSweep(rows, len(seeds))


def _rows(points: Sequence[DasPoint], seed: int, measured: Mapping[tuple[int, Filtering], Measured]) -> list[Row]:
    return [
        {
            **points[number].at,
            "strategy": str(strategy),
            "seed": seed,
            **asdict(one),
            "relative": one.efficiency / measured[number, EVENT].efficiency,
        }
        for (number, strategy), one in measured.items()
    ]


# ---- words for claims -------------------------------------------------------------------------------------------------


def each(figures: Mapping[Filtering, float], spec: str) -> str:
    """The figures of the strategies, ready to print.

    >>> each({Filtering.EVENT: 3.0, Filtering.PROFILE: 1.25}, ".2f")
    'event 3.00, profile 1.25'
    """
    return ", ".join(f"{strategy} {figure:{spec}}" for strategy, figure in figures.items())


def against(relative: Mapping[Filtering, float]) -> str:
    """Efficiencies relative to event forwarding, ready to print.

    >>> against({Filtering.EVENT: 1.0, Filtering.PROFILE: 3.76, Filtering.RENDEZVOUS: 1.9})
    'profile 3.8, rendezvous 1.9 times event forwarding'
    """
    return (
        each({strategy: ratio for strategy, ratio in relative.items() if strategy is not EVENT}, ".1f")
        + " times event forwarding"
    )


def alike(a: float, b: float, within: float) -> bool:
    """Whether two figures are the same as far as can be told.

    >>> alike(100, 101, 0.02), alike(100, 103, 0.02)
    (True, False)
    """
    return abs(a - b) <= within * max(abs(a), abs(b))
