"""ADOCK, figure 8: what crosses the links and what deciding takes with more and more subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from experiments.adock import setup as adock
from experiments.adock.setup import SLIDING, TUMBLING
from experiments.adock.static import STATIC
from experiments.adock.sweep import (
    ADOCK,
    ALIKE_NOTE,
    CHEAP,
    CLOSE,
    LOADS,
    OURS,
    PUBLISHED,
    SAME,
    TIME_NOTE,
    TO_HOLD,
    WAD,
    AdockPoint,
    AdockSweep,
    At,
    notes,
    place,
    sweep,
    times,
)
from experiments.harness import Experiment, PaperClaim, Result, Settings, Table

COUNTS, SOME_COUNTS = (9, 45, 90, 180, 270, 360, 450), (90, 360)
FEW, MANY = 90, 360
PAPER = {FEW: 0.2867, MANY: 0.127}
"""How much more WAD sends than ADOCK, by the number of subscriptions (figure 8 a)."""
MOST_MESSAGES, MOST_COMPUTING = 0.29, 2.1
NAMES = {"load": "publications", "ratio": "windows", "subscriptions": "subscriptions"}


def run(settings: Settings) -> Result:
    counts = SOME_COUNTS if settings.quick else COUNTS
    points = [AdockPoint(load, load.usual, count, ratio) for load in LOADS for ratio in (TUMBLING, SLIDING) for count in counts]
    found = sweep(settings, points, settings.seeds(full=3, quick=1))
    axis = ("subscriptions", "subscriptions")
    return Result(
        rows=found.rows,
        claims=claims(found),
        table=_table(found),
        seeds=found.seeds,
        plots=[
            *(
                found.plot(
                    f"{load.name.capitalize()}, sliding",
                    axis,
                    ("messages_a_second", "messages a second"),
                    (STATIC, *PUBLISHED, OURS),
                    load=load.name,
                    ratio=SLIDING,
                )
                for load in LOADS
            ),
            *(
                found.plot(
                    f"{load.name.capitalize()}, sliding",
                    axis,
                    ("computing_ms_a_second", "CPU ms a second"),
                    (*PUBLISHED, OURS),
                    load=load.name,
                    ratio=SLIDING,
                )
                for load in LOADS
            ),
        ],
        notes=notes(found, ALIKE_NOTE, TIME_NOTE),
    )


def _table(found: AdockSweep) -> Table:
    messages = found.messages_table(NAMES, _paper)
    computing = [[times(found.more(name, WAD, point, "computing_s")) for name in (ADOCK, OURS)] for point in found.points()]
    columns = [*messages.columns, "computing: adock by wad", f"{OURS} by wad", "paper's adock by wad"]
    rows = [[*row, *more, f"up to {MOST_COMPUTING}"] for row, more in zip(messages.rows, computing, strict=True)]
    return Table(columns, rows)


def _paper(point: At) -> str:
    more = PAPER.get(int(str(point["subscriptions"])))
    return f"+{more:.1%}" if more is not None else ""


def claims(found: AdockSweep) -> list[PaperClaim]:
    points = found.points()
    gaps = [found.more(WAD, ADOCK, point).median for point in points]
    computing = [1 + found.more(ADOCK, WAD, point, "computing_s").median for point in points]
    ours = [found.more(OURS, STATIC, point).median for point in points]
    worst, slowest = (max(range(len(points)), key=figures.__getitem__) for figures in (gaps, computing))
    return [
        _grows_claim(found),
        PaperClaim(
            "WAD sends at most 29 % more than ADOCK",
            "29%",
            f"{max(gaps):.2%} ({place(points[worst], *NAMES)})",
            max(gaps) <= MOST_MESSAGES,
        ),
        *(_shrinks(found, load.name) for load in LOADS),
        PaperClaim(
            "ADOCK's computing is at most 2.1 times WAD's",
            "up to 2.1 times",
            f"{max(computing):.2f} times ({place(points[slowest], *NAMES)})",
            max(computing) <= MOST_COMPUTING,
        ),
        PaperClaim(
            "and at most 1.5 times", TO_HOLD, f"{min(computing):.2f} to {max(computing):.2f} times", max(computing) <= CHEAP
        ),
        PaperClaim(
            f"{OURS} is at most 1 % above the static optimum",
            TO_HOLD,
            f"{min(ours):.2%} to {max(ours):.2%}",
            max(ours) <= CLOSE,
        ),
    ]


def _grows_claim(found: AdockSweep) -> PaperClaim:
    grows = {
        (load.name, ratio, name): _rising(
            [found.of("messages", name, point).median for point in found.points(load=load.name, ratio=ratio)]
        )
        for load in LOADS
        for ratio in (TUMBLING, SLIDING)
        for name in PUBLISHED
    }
    return PaperClaim(
        "the more subscriptions, the more messages, for ADOCK, WAD and BAT",
        "yes",
        f"in {sum(grows.values())} of {len(grows)} lines",
        all(grows.values()),
    )


def _shrinks(found: AdockSweep, load: str) -> PaperClaim:
    few, many = (found.more(WAD, ADOCK, found.points(load=load, ratio=SLIDING, subscriptions=n)[0]).median for n in (FEW, MANY))
    return PaperClaim(
        f"{load}: what WAD loses shrinks with more subscriptions (sliding; figure 8 a)",
        "28.67% to 12.7%",
        f"{few:.2%} at {FEW}, {many:.2%} at {MANY}",
        many < few - SAME,
    )


def _rising(figures: Sequence[float]) -> bool:
    return all(before < after for before, after in pairwise(figures))


EXPERIMENT = Experiment(
    "adock-fig8", "Aggregate or forward: messages and computing, by the number of subscriptions", f"{adock.PAPER}, figure 8", run
)
