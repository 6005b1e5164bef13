"""What the figures of the ADOCK paper depend on, of all that it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from experiments.adock import setup as adock
from experiments.adock.setup import SLIDING
from experiments.adock.static import STATIC
from experiments.adock.sweep import (
    ADOCK,
    ALL,
    BAT,
    CLOSE,
    OURS,
    PUBLISHED,
    STOCK_BY_MINUTE,
    TO_HOLD,
    WAD,
    AdockPoint,
    AdockSweep,
    At,
    notes,
    sweep,
)
from experiments.harness import Experiment, PaperClaim, Plot, Result, Series, Settings, Table

MOST_ABOVE, MOST_MORE = 0.0429, 0.5


class Flags(TypedDict):
    """What makes a reading."""

    crosswise: bool
    scattered: bool
    plain: bool


READINGS: Mapping[str, Flags] = {
    "as elsewhere": {"crosswise": False, "scattered": False, "plain": True},
    "scattered": {"crosswise": False, "scattered": True, "plain": True},
    "crosswise": {"crosswise": True, "scattered": False, "plain": True},
    "aggregates only": {"crosswise": False, "scattered": False, "plain": False},
    "crosswise, aggregates only": {"crosswise": True, "scattered": False, "plain": False},
}
MIXED = tuple(name for name, flags in READINGS.items() if flags["plain"])
"""Those with two plain subscriptions for each aggregate one, as the paper has it."""


def run(settings: Settings) -> Result:
    load = STOCK_BY_MINUTE
    rates = load.rates[:: len(load.rates) - 1] if settings.quick else load.rates
    points = [AdockPoint(load, rate, ratio=SLIDING, **flags) for flags in READINGS.values() for rate in rates]
    found = sweep(settings, points, settings.seeds(full=3, quick=1))
    return Result(
        rows=found.rows,
        claims=claims(found),
        table=_table(found),
        seeds=found.seeds,
        plots=[_plot(found, name) for name in READINGS],
        notes=notes(
            found,
            "Stock by the minute, sliding windows. Scattered: a quote is published at any broker, not at its stock's. Crosswise: "
            "subscriptions ask for a range of prices and one of volumes, 2 % of all quotes each, not for a symbol: any two may "
            "have quotes in common. Aggregates only: none of the subscriptions are plain.",
        ),
    )


def of_reading(found: AdockSweep, name: str) -> list[At]:
    flags = READINGS[name]
    return found.points(crosswise=flags["crosswise"], scattered=flags["scattered"], plain=flags["plain"])


def claims(found: AdockSweep) -> list[PaperClaim]:
    above = {name: _worst(found, name, ADOCK, STATIC) for name in READINGS}
    more = {name: _worst(found, name, WAD, ADOCK) for name in READINGS}
    ours = {name: _worst(found, name, OURS, STATIC) for name in READINGS}
    points = found.points()
    most = sum(
        found.of("messages", BAT, point).median >= max(found.of("messages", name, point).median for name in PUBLISHED)
        for point in points
    )
    return [
        PaperClaim(
            "ADOCK is at most 4.29 % above the static optimum in every reading",
            "4.29%",
            _each(above),
            max(above.values()) <= MOST_ABOVE,
        ),
        PaperClaim(
            "WAD sends at most 50 % more than ADOCK in every reading", "50%", _each(more), max(more.values()) <= MOST_MORE
        ),
        PaperClaim("BAT sends the most of the three at every point", "yes", f"at {most} of {len(points)}", most == len(points)),
        PaperClaim(
            f"{OURS} is at most 1 % above the static optimum wherever there are plain subscriptions too",
            TO_HOLD,
            _each({name: ours[name] for name in MIXED}),
            all(ours[name] <= CLOSE for name in MIXED),
        ),
        PaperClaim(
            f"{OURS} is never above ADOCK by more than 1 %, and below it with aggregates only",
            TO_HOLD,
            _each({name: _worst(found, name, OURS, ADOCK) for name in READINGS}),
            all(_worst(found, name, OURS, ADOCK) <= CLOSE for name in READINGS)
            and all(ours[name] < above[name] for name in READINGS if name not in MIXED),
        ),
    ]


def _worst(found: AdockSweep, name: str, decider: str, than: str) -> float:
    return max(found.more(decider, than, point).median for point in of_reading(found, name))


def _each(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {figure:+.2%}" for name, figure in figures.items())


def _table(found: AdockSweep) -> Table:
    others = [name for name in ALL if name != STATIC]
    rows = [
        [
            name,
            f"{point['rate']:,}",
            found.of("messages", STATIC, point).format(",.0f"),
            *(found.more(other, STATIC, point).format("+.2%") for other in others),
            found.more(WAD, ADOCK, point).format("+.2%"),
        ]
        for name in READINGS
        for point in of_reading(found, name)
    ]
    return Table(["reading", "rate", "messages, static", *[f"{name}, more" for name in others], "wad over adock"], rows)


def _plot(found: AdockSweep, name: str) -> Plot:
    points = of_reading(found, name)
    rates = [float(str(point["rate"])) for point in points]
    series = [
        Series(decider, rates, [100 * found.more(decider, STATIC, point).median for point in points])
        for decider in (*PUBLISHED, OURS)
    ]
    return Plot(title=name.capitalize(), x_label="publications a minute", y_label="% above static", series=series)


EXPERIMENT = Experiment(
    "adock-readings", "Aggregate or forward: what hangs on what the paper leaves open", f"{adock.PAPER}, section VIII-A", run
)
