"""ADOCK, figure 7: what deciding takes at different rates of publications."""

from __future__ import annotations

from statistics import median

from experiments.adock import setup as adock
from experiments.adock.fig6 import NAMES, measured
from experiments.adock.setup import SLIDING, TUMBLING
from experiments.adock.sweep import (
    ADOCK,
    BAT,
    CHEAP,
    LOADS,
    NOISE,
    OURS,
    PUBLISHED,
    STOCK_BY_MINUTE,
    TIME_NOTE,
    TO_HOLD,
    WAD,
    AdockSweep,
    notes,
    place,
)
from experiments.harness import Experiment, PaperClaim, Result, Settings

MOST = 4
SLIDING_BY_TUMBLING = 1200 / 500


def run(settings: Settings) -> Result:
    found = measured(settings)
    return Result(
        rows=found.rows,
        claims=claims(found),
        table=found.computing_table(NAMES, lambda _: f"up to {MOST}"),
        seeds=found.seeds,
        plots=[
            found.plot(
                f"{load.name.capitalize()}, sliding",
                ("rate", "publications a minute" if load is STOCK_BY_MINUTE else "publications a second"),
                ("computing_ms_a_second", "CPU ms a second"),
                (*PUBLISHED, OURS),
                load=load.name,
                ratio=SLIDING,
            )
            for load in LOADS
        ],
        notes=notes(found, _ours_note(found), TIME_NOTE),
    )


def claims(found: AdockSweep) -> list[PaperClaim]:
    points = found.points()
    by_wad = {
        measure: [1 + found.more(ADOCK, WAD, point, measure).median for point in points]
        for measure in ("computing_s", "deciding_s")
    }
    computing, deciding = by_wad["computing_s"], by_wad["deciding_s"]
    worst = max(range(len(points)), key=computing.__getitem__)
    return [
        PaperClaim(
            "ADOCK decides more slowly than WAD at every point (but for noise)",
            "yes",
            f"{min(deciding):.2f} to {max(deciding):.2f} times as long",
            min(deciding) > 1 - NOISE and median(deciding) > 1,
        ),
        PaperClaim(
            "ADOCK's computing is at most 4 times WAD's",
            "up to 4 times",
            f"{max(computing):.2f} times ({place(points[worst], *NAMES)})",
            max(computing) <= MOST,
        ),
        PaperClaim(
            "and at most 1.5 times", TO_HOLD, f"{median(computing):.2f} to {max(computing):.2f} times", max(computing) <= CHEAP
        ),
        _windows_claim(found),
        _alike_claim(found),
    ]


def _windows_claim(found: AdockSweep) -> PaperClaim:
    ratios = _sliding_by_tumbling(found, ADOCK)
    return PaperClaim(
        "ADOCK computes more with sliding windows than with tumbling ones, in the median point (figure 7 a, b)",
        f"{SLIDING_BY_TUMBLING:.1f} times",
        f"{median(ratios):.2f} times",
        median(ratios) > 1,
    )


def _alike_claim(found: AdockSweep) -> PaperClaim:
    ratios = {name: median(_sliding_by_tumbling(found, name)) for name in (WAD, BAT, ADOCK)}
    return PaperClaim(
        "WAD and BAT hardly do: less than ADOCK, in the median point",
        "similar",
        ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()) + " times",
        max(ratios[WAD], ratios[BAT]) <= ratios[ADOCK],
    )


def _ours_note(found: AdockSweep) -> str:
    ratios = [1 + found.more(OURS, WAD, point, "computing_s").median for point in found.points()]
    return (
        f"{OURS.capitalize()} learns from windows and keeps account of what WAD would send. It computes {min(ratios):.2f} to "
        f"{max(ratios):.2f} times as long as WAD, {median(ratios):.2f} times in the median point."
    )


def _sliding_by_tumbling(found: AdockSweep, decider: str) -> list[float]:
    ratios = []
    for load in LOADS:
        both = [found.points(load=load.name, ratio=ratio) for ratio in (TUMBLING, SLIDING)]
        for tumbling, sliding in zip(*both, strict=True):
            ratios.append(found.of("computing_s", decider, sliding).median / found.of("computing_s", decider, tumbling).median)
    return ratios


EXPERIMENT = Experiment(
    "adock-fig7", "Aggregate or forward: what deciding takes, by the rate of publications", f"{adock.PAPER}, figure 7", run
)
