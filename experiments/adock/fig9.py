"""ADOCK, figure 9: windows that overlap more and more."""

from __future__ import annotations

from experiments.adock import setup as adock
from experiments.adock.setup import WINDOW_MS
from experiments.adock.static import STATIC
from experiments.adock.sweep import (
    ADOCK,
    ALIKE_NOTE,
    CHEAP,
    CLOSE,
    LOADS,
    OURS,
    SAME,
    TIME_NOTE,
    TO_HOLD,
    WAD,
    AdockPoint,
    AdockSweep,
    PublicationLoad,
    notes,
    shown,
    sweep,
    times,
)
from experiments.harness import Experiment, PaperClaim, Plot, Result, Series, Settings, Table

RATIOS, SOME_RATIOS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0), (1.5, 6.0)
LOW, HIGH = 1.5, 6.0
PAPER_MESSAGES, PAPER_COMPUTING = {LOW: 0.04, HIGH: 0.27}, {LOW: 0.41, HIGH: 3.0}
"""Window by shift to how much more WAD sends than ADOCK, and how much more ADOCK computes than WAD."""


def run(settings: Settings) -> Result:
    ratios = SOME_RATIOS if settings.quick else RATIOS
    points = [AdockPoint(load, load.usual, ratio=ratio) for load in LOADS for ratio in ratios]
    found = sweep(settings, points, settings.seeds(full=3, quick=1))
    return Result(
        rows=found.rows,
        claims=claims(found),
        table=_table(found),
        seeds=found.seeds,
        plots=[*(_messages_plot(found, load) for load in LOADS), *(_computing_plot(found, load) for load in LOADS)],
        notes=notes(
            found,
            f"The window stays {WINDOW_MS // 1000} s, the shift is that by the ratio. The paper does not say which data set "
            "its figure is of.",
            ALIKE_NOTE,
            TIME_NOTE,
        ),
    )


def _table(found: AdockSweep) -> Table:
    columns = ["publications", "window by shift", "messages, static", "adock", OURS, "wad", "wad over adock", "paper"]
    columns += ["computing: adock by wad", "paper", f"{OURS} by wad"]
    rows = []
    for point in found.points():
        ratio = float(str(point["ratio"]))
        more, longer = PAPER_MESSAGES.get(ratio), PAPER_COMPUTING.get(ratio)
        rows.append(
            [
                shown("load", point["load"]),
                f"{ratio:g}",
                found.of("messages", STATIC, point).format(",.0f"),
                *(found.more(name, STATIC, point).format("+.2%") for name in (ADOCK, OURS, WAD)),
                found.more(WAD, ADOCK, point).format("+.2%"),
                "" if more is None else f"+{more:.0%}",
                times(found.more(ADOCK, WAD, point, "computing_s")),
                "" if longer is None else f"{1 + longer:.2f}",
                times(found.more(OURS, WAD, point, "computing_s")),
            ]
        )
    return Table(columns, rows)


def claims(found: AdockSweep) -> list[PaperClaim]:
    points = found.points()
    computing = [1 + found.more(ADOCK, WAD, point, "computing_s").median for point in points]
    ours = [found.more(OURS, STATIC, point).median for point in points]
    return [
        *(_widens(found, load.name) for load in LOADS),
        *(_slower(found, load.name) for load in LOADS),
        PaperClaim(
            "ADOCK computes at most 1.5 times as long as WAD, at any ratio",
            TO_HOLD,
            f"{min(computing):.2f} to {max(computing):.2f} times",
            max(computing) <= CHEAP,
        ),
        PaperClaim(
            f"{OURS} is at most 1 % above the static optimum, at any ratio",
            TO_HOLD,
            f"{min(ours):.2%} to {max(ours):.2%}",
            max(ours) <= CLOSE,
        ),
    ]


def _widens(found: AdockSweep, load: str) -> PaperClaim:
    low, high = (found.more(WAD, ADOCK, found.points(load=load, ratio=ratio)[0]).median for ratio in (LOW, HIGH))
    return PaperClaim(
        f"{load}: WAD loses more messages, the more windows overlap",
        "4% to 27%",
        f"{low:.2%} to {high:.2%}",
        high > low + SAME,
    )


def _slower(found: AdockSweep, load: str) -> PaperClaim:
    low, high = (
        1 + found.more(ADOCK, WAD, found.points(load=load, ratio=ratio)[0], "deciding_s").median for ratio in (LOW, HIGH)
    )
    return PaperClaim(
        f"{load}: ADOCK's decisions take longer by WAD's, the more windows overlap",
        "1.41 to 4 times",
        f"{low:.2f} to {high:.2f} times",
        high > low,
    )


def _messages_plot(found: AdockSweep, load: PublicationLoad) -> Plot:
    points = found.points(load=load.name)
    ratios = [float(str(point["ratio"])) for point in points]
    series = [Series("wad", ratios, [100 * found.more(WAD, ADOCK, point).median for point in points])]
    series.append(Series(OURS, ratios, [100 * found.more(OURS, ADOCK, point).median for point in points]))
    series.append(Series("wad", list(PAPER_MESSAGES), [100 * each for each in PAPER_MESSAGES.values()], style="paper"))
    return Plot(title=load.name.capitalize(), x_label="window by shift", y_label="% more messages than ADOCK", series=series)


def _computing_plot(found: AdockSweep, load: PublicationLoad) -> Plot:
    points = found.points(load=load.name)
    ratios = [float(str(point["ratio"])) for point in points]
    series = [
        Series(name, ratios, [100 * found.more(name, WAD, point, "computing_s").median for point in points])
        for name in (ADOCK, OURS)
    ]
    series.append(Series(ADOCK, list(PAPER_COMPUTING), [100 * each for each in PAPER_COMPUTING.values()], style="paper"))
    return Plot(title=load.name.capitalize(), x_label="window by shift", y_label="% more computing than WAD", series=series)


EXPERIMENT = Experiment("adock-fig9", "Aggregate or forward: windows that overlap more and more", f"{adock.PAPER}, figure 9", run)
