"""Agele, figure 6: gatherers off the centre, and what it takes to find the centre. And beyond the paper: the median instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import mean
from typing import TypeAlias

from experiments.agele.comparison import FIXED, GATHERER_RUNS, rising
from experiments.agele.setup import AgeleSetup, Outcomes
from experiments.agele.ways import gathered, ways_of
from experiments.harness import Experiment, PaperClaim, Plot, Result, Row, Series, Settings, Spread, Table, spread
from topology.protocols.election import election_time, message_bound

PAPER_TIMES = {7: 18, 8: 53, 9: 340, 10: 1263, 11: 1572}
"""Eccentricity to what the paper calls normalized event time."""
PAPER_SECONDS = {100: 10, 200: 11, 400: 15, 800: 16, 1600: 19, 3200: 20}
"""Brokers to the time it takes to find the centre."""
SOME_SIZES = (100, 200, 400)
GATHERERS = 5
"""At most this many brokers of an eccentricity are tried, drawn at random."""
READINGS = (
    '"Received" is the time from the first publication about an event until the last of what is sent about it has come in, '
    '"known" '
    "the time until nothing that is said about it is unknown any more; both in time units, as a mean over subscribers and events."
)


@dataclass(frozen=True, slots=True)
class Placed:
    """What comes of gatherers at places of one kind."""

    received: Spread
    known: Spread
    link_messages: Spread
    places: Spread
    """How many brokers of the kind there are."""


@dataclass(frozen=True, slots=True)
class CentreFound:
    """What it takes to find the centre. Time is in hops."""

    time: Spread
    patient_time: Spread
    messages: Spread
    patient_messages: Spread
    bound: Spread
    most: float
    """Messages as a share of the bound, where it is the largest."""


@dataclass(frozen=True, slots=True)
class Medians:
    """Gathering at the weighted median beside gathering at the centre."""

    centre: Placed
    median: Placed
    ratio: Placed
    """The median's figures as a share of the centre's, overlay by overlay."""
    same: int
    """The number of overlays in which they are the same broker."""
    fewer: int
    """The number in which the median needs fewer link messages."""
    more: int


ByEccentricity: TypeAlias = Mapping[int, Placed]
BySize: TypeAlias = Mapping[int, CentreFound]


def run(settings: Settings) -> Result:
    by_eccentricity = off_centre(settings)
    by_size = election(settings)
    medians = placements(settings)
    return Result(
        rows=_rows(by_eccentricity, by_size, medians),
        claims=[*claims(by_eccentricity), *election_claims(by_size), *placement_claims(medians)],
        table=_table(by_eccentricity, by_size, medians),
        seeds=next(iter(by_size.values())).time.seeds,
        plots=_plots(by_eccentricity, by_size),
        notes=_notes(by_eccentricity, medians),
    )


# ---- measuring --------------------------------------------------------------------------------------------------------


def off_centre(settings: Settings) -> ByEccentricity:
    """Let brokers gather that are farther and farther from the centre, in overlays where that has an eccentricity near 7."""
    runs: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    places: dict[int, list[int]] = defaultdict(list)
    for setup in settings.track(_overlays(settings)):
        ways = ways_of(setup)
        for eccentricity in range(nearest := int(ways.eccentricities.min()), nearest + len(PAPER_TIMES)):
            there = [at for at, farthest in enumerate(ways.eccentricities) if farthest == eccentricity]
            tried = Random(f"{setup.seed}/{eccentricity}").sample(there, min(GATHERERS, len(there)))
            places[eccentricity].append(len(there))
            runs[eccentricity].append(_figures([gathered(setup, replace(ways, gatherer=at)) for at in tried]))
    return {eccentricity: _placed(each, places[eccentricity]) for eccentricity, each in runs.items()}


def _overlays(settings: Settings) -> list[AgeleSetup]:
    """Of many, those whose centre has the eccentricity of the paper's, or the nearest there is."""
    tried = [AgeleSetup(seed, brokers=300) for seed in settings.seeds(full=40, quick=5)]
    found = {setup: int(ways_of(setup).eccentricities.min()) for setup in tried}
    nearest = min(found.values(), key=lambda eccentricity: (abs(eccentricity - min(PAPER_TIMES)), eccentricity))
    return [setup for setup, eccentricity in found.items() if eccentricity == nearest][: 1 if settings.quick else 15]


def _figures(outcomes: Sequence[Outcomes]) -> tuple[float, float, float]:
    """Mean times and link messages."""
    return (
        mean(each.times.received for each in outcomes),
        mean(each.times.known for each in outcomes),
        mean(each.link_messages for each in outcomes),
    )


def _placed(figures: Sequence[tuple[float, float, float]], places: Sequence[int] = (1,)) -> Placed:
    received, known, links = (spread(column) for column in zip(*figures, strict=True))
    return Placed(received, known, links, spread(places))


def election(settings: Settings) -> BySize:
    """Let a broker drawn at random begin, every message taking one time unit for a link."""
    sizes = SOME_SIZES if settings.quick else tuple(PAPER_SECONDS)
    seeds = settings.seeds(full=15, quick=2)
    found: dict[int, list[tuple[float, float, int, int, int]]] = defaultdict(list)
    for size, seed in settings.track([(size, seed) for size in sizes for seed in seeds]):
        tree = ways_of(AgeleSetup(seed, brokers=size)).tree
        starter = Random(f"{seed}/starter").choice(sorted(tree))
        time, eager = election_time(tree, lambda *_: 1, starter)
        patient_time, patient = election_time(tree, lambda *_: 1, starter, patient=True)
        found[size].append((time, patient_time, eager.messages, patient.messages, message_bound(tree)))
    return {size: _found(each) for size, each in found.items()}


def _found(taken: Sequence[tuple[float, float, int, int, int]]) -> CentreFound:
    time, patient_time, messages, patient_messages, bound = (spread(column) for column in zip(*taken, strict=True))
    return CentreFound(time, patient_time, messages, patient_messages, bound, most=max(one[2] / one[4] for one in taken))


def placements(settings: Settings) -> Medians:
    """Gathering at the centre, and at the weighted median of the same tree."""
    centres, medians, ratios, same = [], [], [], 0
    for seed in settings.track(settings.seeds(full=15, quick=2)):
        at_centre, at_median = (AgeleSetup(seed, gatherer=placement) for placement in ("centre", "median"))
        ways, others = ways_of(at_centre), ways_of(at_median)
        same += ways.gatherer == others.gatherer
        centres.append(_figures([gathered(at_centre, ways)]))
        medians.append(_figures([gathered(at_median, others)]))
        received, known, links = (ours / other for ours, other in zip(medians[-1], centres[-1], strict=True))
        ratios.append((received, known, links))
    fewer, more = sum(links < 1 for *_, links in ratios), sum(links > 1 for *_, links in ratios)
    return Medians(_placed(centres), _placed(medians), _placed(ratios), same, fewer, more)


# ---- what the paper says ----------------------------------------------------------------------------------------------


def claims(by_eccentricity: ByEccentricity) -> list[PaperClaim]:
    """Section 6.4, on the left side of the figure."""
    order = sorted(by_eccentricity)
    first, last = by_eccentricity[order[0]], by_eccentricity[order[-1]]
    found = []
    for what, figure in (("time (received)", "received"), ("time (known)", "known"), ("link messages", "link_messages")):
        values = [getattr(by_eccentricity[eccentricity], figure).median for eccentricity in order]
        ratio = getattr(last, figure).median / getattr(first, figure).median
        found.append(
            PaperClaim(
                f"The farther from the centre the gatherer is, the worse: {what}",
                "clearly inferior",
                f"{ratio:.2f} times that of the centre at eccentricity {order[-1]}",
                rising(values) and ratio > 1,
            )
        )
    return found


def election_claims(by_size: BySize) -> list[PaperClaim]:
    """Section 6.4, on the right side, and the bound of section 4.2.3."""
    sizes = sorted(by_size)
    first, last = sizes[0], sizes[-1]
    growth = by_size[last].time.median / by_size[first].time.median
    papers = PAPER_SECONDS[last] / PAPER_SECONDS[first]
    most = max(found.most for found in by_size.values())
    exact = all(found.patient_messages.low == found.patient_messages.high == 6 * (size - 1) for size, found in by_size.items())
    return [
        PaperClaim(
            f"Finding the centre takes no more than {papers:g} times as long with {last:,} brokers as with {first:,}",
            f"{papers:g} times",
            f"{growth:.2g} times",
            growth <= papers,
        ),
        PaperClaim("It takes no more than (L+4)(M-1) messages", "100 %", f"at most {most:.1%} of that", most <= 1),
        PaperClaim(
            "Ours: a patient broker, which says only what is final, sends 6 messages a link, and nobody learns later",
            "",
            f"{by_size[last].patient_messages.median / by_size[last].messages.median:.0%} of the messages with {last:,} brokers",
            exact and all(found.patient_time == found.time for found in by_size.values()),
        ),
    ]


def placement_claims(found: Medians) -> list[PaperClaim]:
    """Section 3.4: of all places, the centre loads the links least."""
    seeds = found.ratio.link_messages.seeds
    return [
        PaperClaim(
            "No place loads links less than the centre: not even the median of the tree, weighted by who publishes and "
            "subscribes",
            "the centre has the least load",
            f"the median needs fewer link messages in {found.fewer} of {seeds} overlays, more in {found.more}",
            found.fewer == 0,
        )
    ]


# ---- what is shown ----------------------------------------------------------------------------------------------------


def _rows(by_eccentricity: ByEccentricity, by_size: BySize, medians: Medians) -> list[Row]:
    found: list[Row] = []
    for eccentricity, each in by_eccentricity.items():
        found += [
            _row("gatherer of eccentricity", eccentricity, figure, getattr(each, figure), PAPER_TIMES.get(eccentricity))
            for figure in ("received", "known", "link_messages", "places")
        ]
    for size, taken in by_size.items():
        found += [
            _row("finding the centre", size, figure, getattr(taken, figure), PAPER_SECONDS[size] if figure == "time" else None)
            for figure in ("time", "patient_time", "messages", "patient_messages", "bound")
        ]
    for name, each in (("centre", medians.centre), ("median", medians.median), ("median by centre", medians.ratio)):
        found += [_row("placement", name, figure, getattr(each, figure)) for figure in ("received", "known", "link_messages")]
    return found


def _row(part: str, at: str | int, figure: str, value: Spread, paper: float | None = None) -> Row:
    return {
        "part": part,
        "at": at,
        "figure": figure,
        "median": value.median,
        "low": value.low,
        "high": value.high,
        "seeds": value.seeds,
        "paper": paper,
    }


def _table(by_eccentricity: ByEccentricity, by_size: BySize, medians: Medians) -> Table:
    rows = [
        [f"gatherer of eccentricity {at}", f"{PAPER_TIMES[at]:,} s" if at in PAPER_TIMES else "", *_cells(each)]
        for at, each in by_eccentricity.items()
    ]
    rows += [
        [
            f"finding the centre, {size:,} brokers",
            f"{PAPER_SECONDS[size]} s",
            found.time.format(".0f"),
            f"{found.messages.median:,.0f}; patient {found.patient_messages.median:,.0f}; bound {found.bound.median:,.0f}",
        ]
        for size, found in by_size.items()
    ]
    at_either = {"centre": medians.centre, "median": medians.median}
    rows += [[f"gatherer at the {name}, 500 brokers", "", *_cells(each)] for name, each in at_either.items()]
    return Table(["what", "paper", "time units", "messages"], rows)


def _cells(placed: Placed) -> list[str]:
    times = f"{placed.received.format('.1f')} received, {placed.known.format('.1f')} known"
    return [times, placed.link_messages.format(",.0f")]


def _plots(by_eccentricity: ByEccentricity, by_size: BySize) -> list[Plot]:
    order, sizes = sorted(by_eccentricity), sorted(by_size)
    first, smallest = by_eccentricity[order[0]], by_size[sizes[0]]

    def growth(label: str, figure: str) -> Series:
        base = getattr(first, figure).median
        return Series(label, order, [getattr(by_eccentricity[at], figure).median / base for at in order])

    labels = {"received": "time (received)", "known": "time (known)", "link_messages": "link messages"}
    counted = [(label, [getattr(by_size[s], name) for s in sizes]) for name, label in _COUNTED.items()]
    seconds = [PAPER_SECONDS[size] / PAPER_SECONDS[sizes[0]] for size in sizes]
    times = [by_size[size].time.median / smallest.time.median for size in sizes]
    return [
        Plot(
            title="Gatherers off the centre",
            x_label="eccentricity",
            y_label="by that of the centre",
            series=[growth(label, figure) for figure, label in labels.items()],
        ),
        Plot(
            title="Time to find the centre",
            x_label="brokers",
            y_label=f"by that of {sizes[0]} brokers",
            series=[Series("time", sizes, times), Series("time", sizes, seconds, style="paper")],
            x_log=True,
        ),
        Plot(
            title="Messages to find the centre",
            x_label="brokers",
            y_label="messages",
            series=[
                *(Series.of(label, sizes, each) for label, each in counted),
                Series("bound (L+4)(M-1)", sizes, [by_size[size].bound.median for size in sizes], style="baseline"),
            ],
            x_log=True,
            y_log=True,
        ),
    ]


_COUNTED = {"messages": "as published", "patient_messages": "patient"}


def _notes(by_eccentricity: ByEccentricity, medians: Medians) -> list[str]:
    times = [each.known.median * each.places.median for _, each in sorted(by_eccentricity.items())]
    grown = ", ".join(f"{value / times[0]:.0f}" for value in times)
    papers = ", ".join(f"{value / PAPER_TIMES[7]:.0f}" for value in PAPER_TIMES.values())
    ratio, overlays = medians.ratio, next(iter(by_eccentricity.values())).received.seeds
    return [
        f"Left: {overlays} random overlays of 300 brokers, T_m = 4, T_r = 10, T_b = 100, and up to {GATHERERS} brokers of each "
        "eccentricity, one at a time. The paper normalizes its times by the number of gatherers and does not say how. That is "
        "not reproduced; only the order is compared. If it multiplied by how many brokers have that eccentricity, most of its "
        f"growth is the growth of that number: such a product grows 1 to {grown.removeprefix('1, ')} here (known), and the "
        f"paper's figures grow 1 to {papers.removeprefix('1, ')}.",
        "Right: a broker drawn at random begins, and a message takes one time unit for a link. What a second of the paper is, is "
        "not known, so the growth is compared.",
        f"Centre and median are the same broker in {medians.same} of {ratio.received.seeds} overlays. The median takes "
        f"{ratio.link_messages.format('.1%')} of the centre's link messages, {ratio.received.format('.1%')} of its time "
        f"(received) and {ratio.known.format('.1%')} of its time (known).",
        READINGS,
        FIXED,
        GATHERER_RUNS,
    ]


EXPERIMENT = Experiment("agele-fig6", "Gatherers off the centre, and finding the centre", "Agele, figure 6", run)
