"""Agele, figure 5: more and more brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from experiments.agele.comparison import FIXED, GATHERER_RUNS, READINGS, BesideSiena, SeedSample, percent, rising
from experiments.agele.setup import AgeleSetup
from experiments.agele.ways import gathered, siena, ways_of
from experiments.harness import Experiment, PaperClaim, Plot, Result, Series, Settings, Table

PAPER = {100: 0.17, 200: 0.32, 400: 0.27, 800: 0.29, 1600: 0.20, 3200: 0.22}
"""Brokers to the time increase."""
SOME_SIZES = (100, 200, 400)
KINDS = ("random", "scale-free")

Samples: TypeAlias = Mapping[tuple[str, int], SeedSample]
"""By kind of overlay and brokers."""


def run(settings: Settings) -> Result:
    seeds = settings.seeds(full=15, quick=2)
    sizes = SOME_SIZES if settings.quick else tuple(PAPER)
    runs: dict[tuple[str, int], list[BesideSiena]] = defaultdict(list)
    for kind, size, seed in settings.track([(kind, size, seed) for kind in KINDS for size in sizes for seed in seeds]):
        setup = AgeleSetup(seed, brokers=size, overlay=kind, merge=5)
        ways = ways_of(setup)
        runs[kind, size].append(BesideSiena(gathered(setup, ways), siena(setup, ways)))
    samples = {point: SeedSample.of(each) for point, each in runs.items()}
    return Result(
        rows=[
            {"overlay": kind, "brokers": size, **sample.cells(), "paper_more_time": PAPER[size] if kind == "random" else None}
            for (kind, size), sample in samples.items()
        ],
        claims=claims(samples),
        table=_table(samples),
        seeds=len(seeds),
        plots=_plots(samples, sizes),
        notes=[*_notes(samples, sizes), FIXED, READINGS, GATHERER_RUNS],
    )


def claims(samples: Samples) -> list[PaperClaim]:
    """What section 6.3 says about the figure."""
    return [
        claim for kind in KINDS for claim in _claims(kind, {size: each for (of, size), each in samples.items() if of == kind})
    ]


def _claims(kind: str, samples: Mapping[int, SeedSample]) -> list[PaperClaim]:
    sizes = sorted(samples)
    first, last = sizes[0], sizes[-1]
    shares = {size: samples[size].suppressed.median for size in sizes}
    merged = {size: samples[size].merged.median for size in sizes}
    until = max(size for size in sizes if size <= 800)
    found = [
        PaperClaim(
            f"{kind}: the more brokers, the more is suppressed",
            "rises",
            f"{shares[first]:.1%} with {first:,} brokers, {shares[last]:.1%} with {last:,}",
            rising([shares[size] for size in sizes]) and shares[last] > shares[first],
        ),
        PaperClaim(
            f"{kind}: the share that is merged hardly changes up to {until} brokers (by no more than a quarter)",
            "relatively constant",
            f"{merged[first]:.1%} with {first:,} brokers, {merged[until]:.1%} with {until:,}",
            abs(merged[until] / merged[first] - 1) <= 0.25,
        ),
    ]
    for reading in ("received", "known"):
        more = [getattr(samples[size], reading).median for size in sizes]
        found.append(
            PaperClaim(
                f"{kind}: the time increase is at most 32 % with any number of brokers ({reading})",
                "17 % to 32 %",
                f"{min(more):.1%} to {max(more):.1%}",
                max(more) <= 0.32,
            )
        )
    return found


def _table(samples: Samples) -> Table:
    rows = [
        [
            kind,
            f"{size:,}",
            *(each.format(".1%") for each in (sample.suppressed, sample.merged)),
            f"{PAPER[size]:.0%}" if kind == "random" else "",
            *(each.format("+.1%") for each in (sample.received, sample.known)),
            sample.load.format(".1%"),
        ]
        for (kind, size), sample in samples.items()
    ]
    times = ["more time, paper", "more time (received)", "more time (known)"]
    return Table(["overlay", "brokers", "suppressed", "merged", *times, "link messages, Siena = 100 %"], rows)


def _plots(samples: Samples, sizes: Sequence[int]) -> list[Plot]:
    def line(label: str, kind: str, figure: str) -> Series:
        return percent(label, sizes, [getattr(samples[kind, size], figure) for size in sizes])

    shares = [line(f"{figure}, {kind}", kind, figure) for figure in ("suppressed", "merged") for kind in KINDS]
    times = [line(f"{kind} ({reading})", kind, reading) for kind in KINDS for reading in ("received", "known")]
    papers = Series("time increase", list(PAPER), [100 * more for more in PAPER.values()], style="paper")
    return [
        Plot(title="Suppressed, T_m = 5", x_label="brokers", y_label="% of the messages", series=shares, x_log=True),
        Plot(title="Time increase", x_label="brokers", y_label="% over Siena", series=[*times, papers], x_log=True),
    ]


def _notes(samples: Samples, sizes: Sequence[int]) -> list[str]:
    first, last = samples["random", sizes[0]], samples["random", sizes[-1]]
    return [
        "T_b is 100; the paper does not give it here. Nor does it say of which kind of overlay its table is; it stands beside "
        "the random ones. The figures of its left graph are not in its text.",
        "A fifth of all brokers publish, about the same ten events: more brokers are more messages about the same 19 fields. So "
        f"the share that brings something new, and can be merged, falls: {first.merged.median:.1%} with {sizes[0]:,} brokers, "
        f"{last.merged.median:.1%} with {sizes[-1]:,}. Where the paper's stays the same, events cannot have been complete so "
        "soon.",
        "All is known sooner the more messages there are, while the ways get longer: so the detour weighs more in the time until "
        "nothing is unknown, and differs more from overlay to overlay.",
    ]


EXPERIMENT = Experiment("agele-fig5", "More brokers: what is suppressed, and what it costs", "Agele, figure 5", run)
