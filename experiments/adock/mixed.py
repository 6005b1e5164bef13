"""ADOCK with windows of several sizes and shifts on the same links: whether what holds of one window for all holds there too.

The paper's figures have one size and one shift for all subscriptions. Here every aggregate subscription has one of seven: some
tumble, some slide, some sample, and one has a shift that does not divide its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from experiments.adock import links as adock_links
from experiments.adock import setup as adock
from experiments.adock import static as adock_static
from experiments.adock.setup import AdockWorld
from experiments.adock.static import STATIC
from experiments.adock.sweep import (
    ADOCK,
    ALL,
    BAT,
    CHEAP,
    CLOSE,
    LOADS,
    OURS,
    PUBLISHED,
    TIME_NOTE,
    TO_HOLD,
    WAD,
    AdockPoint,
    AdockSweep,
    At,
    PublicationLoad,
    notes,
    shown,
    sweep,
    times,
)
from experiments.harness import Experiment, PaperClaim, Plot, Result, Series, Settings, Spread, Table
from streaming.windows.graph import Range

WINDOWS = ((10_000, 10_000), (10_000, 5_000), (10_000, 2_500), (30_000, 5_000), (4_000, 4_000), (7_000, 3_000), (2_000, 6_000))
"""Sizes and shifts. Seven kinds dealt to nine brokers in turn: each broker gets all of them."""
COUNTS, SOME_COUNTS = (90, 180, 360), (90, 360)
MOST_ABOVE, MOST_MORE = 0.0429, 0.5
CHECKED_COUNT, CHECKED_S = 90, 200
"""Results are compared with subscriptions and seconds that are not more than these."""

_VALUES = 2**40


def run(settings: Settings) -> Result:
    counts = SOME_COUNTS if settings.quick else COUNTS
    seeds = settings.seeds(full=3, quick=1)
    found = sweep(settings, [AdockPoint(load, load.usual, count, windows=WINDOWS) for load in LOADS for count in counts], seeds)
    return Result(
        rows=found.rows,
        claims=[*claims(found), counted_right({load.name: compared(load, seeds[0]) for load in LOADS})],
        table=_table(found),
        seeds=found.seeds,
        plots=[_plot(found, load) for load in LOADS],
        notes=notes(
            found,
            f"The paper has one window for all. Here the aggregate subscriptions have, in turn, {_words()}; the last of them "
            "leave out two thirds of what is published.",
            "What holds of one window for all is asked of this mixture with the same limits; the paper says nothing of it.",
            f"Results are compared in a shorter run with {CHECKED_COUNT} subscriptions for each of the publications, with "
            "publications that all count by different figures; the other way adds up, for each window, what was published in "
            "it, without links or brokers.",
            TIME_NOTE,
        ),
    )


def _words() -> str:
    """
    >>> _words().split(", ")[2], _words().split(", ")[-1]
    ('10 s every 2.5 s', '2 s every 6 s')
    """
    return ", ".join(f"{size / 1000:g} s every {shift / 1000:g} s" for size, shift in WINDOWS)


# ---- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangesCompared:
    """How many ranges had something in them, and by decider how many of all ranges came to anything else."""

    ranges: int
    wrong: Mapping[str, int]


def compared(load: PublicationLoad, seed: int) -> RangesCompared:
    """Whether every range comes to what was published in it, whoever decides."""
    setup = AdockPoint(load, load.usual, CHECKED_COUNT, windows=WINDOWS).setup(seed, quick=True)
    world = adock.world(replace(setup, seconds=min(setup.seconds, CHECKED_S)))
    figures = np.random.default_rng([seed, 6]).integers(1, _VALUES, len(world.rows))
    value, expected = figures.tolist().__getitem__, published_in(world, figures)
    wrong = {}
    for name in ALL:
        run = adock_static.static(world, values=value) if name == STATIC else adock_links.simulate(world, name, values=value)
        wrong[name] = sum(run.results.get(each) != expected.get(each) for each in run.results.keys() | expected.keys())
    return RangesCompared(len(expected), wrong)


def published_in(world: AdockWorld, figures: NDArray[np.int64]) -> dict[Range, int]:
    """What was published in each range that has something: window by window, from the times alone."""
    found = {}
    last_ms = int(world.times_ms[-1])
    for number, each in enumerate(world.subscriptions):
        if not each.aggregate:
            continue
        mine = world.routing.matches[world.rows, number]
        times_ms, sums = world.times_ms[mine], np.concatenate([[0], figures[mine].cumsum()])
        earliest = each.issued_ms - (each.issued_ms + each.size_ms) // each.shift_ms * each.shift_ms
        starts = np.arange(earliest, last_ms + 1, each.shift_ms)
        first, behind = np.searchsorted(times_ms, starts), np.searchsorted(times_ms, starts + each.size_ms)
        for start, total in zip(starts.tolist(), (sums[behind] - sums[first]).tolist(), strict=True):
            if total:
                found[Range(start + each.size_ms, each.name, start)] = total
    return found


def counted_right(found: Mapping[str, RangesCompared]) -> PaperClaim:
    wrong = {f"{load}, {name}": count for load, each in found.items() for name, count in each.wrong.items() if count}
    ranges = sum(each.ranges for each in found.values())
    deciders = {name for each in found.values() for name in each.wrong}
    how_many = ", ".join(f"{name} {count:,}" for name, count in wrong.items()) or "none"
    return PaperClaim(
        "every range comes to what was published in it, whoever decides",
        TO_HOLD,
        f"{ranges:,} ranges compared for each of {len(deciders)} ways to decide; wrong: {how_many}",
        ranges > 0 and not wrong,
    )


# ---- messages and computing -------------------------------------------------------------------------------------------


def claims(found: AdockSweep) -> list[PaperClaim]:
    points = found.points()
    most = sum(
        found.of("messages", BAT, point).median >= max(found.of("messages", name, point).median for name in PUBLISHED)
        for point in points
    )

    def limited(says: str, paper: str, limit: float, more: Callable[[At], Spread], shows: Callable[[float], str]) -> PaperClaim:
        by_load = {load.name: [more(point).median for point in found.points(load=load.name)] for load in LOADS}
        each = ", ".join(f"{name} {shows(min(of))} to {shows(max(of))}" for name, of in by_load.items())
        return PaperClaim(says, paper, each, max(max(of) for of in by_load.values()) <= limit)

    def percent(share: float) -> str:
        return f"{share:.2%}"

    return [
        limited(
            "ADOCK is at most 4.29 % above the static optimum",
            "4.29%",
            MOST_ABOVE,
            lambda point: found.more(ADOCK, STATIC, point),
            percent,
        ),
        limited(
            f"{OURS} is at most 1 % above the static optimum",
            TO_HOLD,
            CLOSE,
            lambda point: found.more(OURS, STATIC, point),
            percent,
        ),
        limited("WAD sends at most 50 % more than ADOCK", "50%", MOST_MORE, lambda point: found.more(WAD, ADOCK, point), percent),
        PaperClaim("BAT sends the most of the three at every point", "yes", f"at {most} of {len(points)}", most == len(points)),
        limited(
            "ADOCK computes at most 1.5 times as long as WAD",
            TO_HOLD,
            CHEAP - 1,
            lambda point: found.more(ADOCK, WAD, point, "computing_s"),
            lambda more: f"{1 + more:.2f}",
        ),
    ]


def _table(found: AdockSweep) -> Table:
    others = [name for name in ALL if name != STATIC]
    columns = ["publications", "subscriptions", "messages, static", *[f"{name}, more" for name in others], "wad over adock"]
    columns += ["computing: adock by wad", f"{OURS} by wad"]
    rows = [
        [
            *(shown(name, point[name]) for name in ("load", "subscriptions")),
            found.of("messages", STATIC, point).format(",.0f"),
            *(found.more(name, STATIC, point).format("+.2%") for name in others),
            found.more(WAD, ADOCK, point).format("+.2%"),
            *(times(found.more(name, WAD, point, "computing_s")) for name in (ADOCK, OURS)),
        ]
        for point in found.points()
    ]
    return Table(columns, rows)


def _plot(found: AdockSweep, load: PublicationLoad) -> Plot:
    points = found.points(load=load.name)
    counts = [float(str(point["subscriptions"])) for point in points]
    series = [
        Series.of(name, counts, [_percent(found.more(name, STATIC, point)) for point in points]) for name in (*PUBLISHED, OURS)
    ]
    return Plot(title=load.name.capitalize(), x_label="subscriptions", y_label="% above static", series=series)


def _percent(share: Spread) -> Spread:
    return Spread(100 * share.median, 100 * share.low, 100 * share.high, share.seeds)


EXPERIMENT = Experiment(
    "adock-mixed",
    "Aggregate or forward: windows of many sizes and shifts on the same links",
    f"{adock.PAPER}, section VIII-A",
    run,
)
