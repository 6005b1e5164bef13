"""Runs all deciders over the points of a figure of the ADOCK paper, and puts what they send and compute beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import TypeAlias

from experiments.adock import data as adock_data
from experiments.adock import links as adock_links
from experiments.adock import setup as adock
from experiments.adock import static as adock_static
from experiments.adock.links import RunCost
from experiments.adock.setup import TUMBLING, AdockSetup
from experiments.adock.static import STATIC
from experiments.harness import Cell, Plot, Row, Series, Settings, Spread, Table, spread

ADOCK, WAD, BAT, FORWARD, AGGREGATE = "adock", "wad", "bat", "always-forward", "always-aggregate"
OURS = "foresight"
PUBLISHED = (ADOCK, WAD, BAT)
ALL = (STATIC, *PUBLISHED, OURS, FORWARD, AGGREGATE)

SUBSCRIPTIONS = 180
"""In the figures over the rate, which do not say how many."""
SOME, ENOUGH = 10_000, 100_000
"""A run is shorter than the paper's if more publications than these would come, in a quick one and in a full one."""
SHORTEST_S, LONGEST_S = 60, 1000
CLOSE = 0.01
"""How far above the static optimum ours may be."""
CHEAP = 1.5
"""How many times WAD's computing ADOCK's may be."""
SAME = 0.0001
"""Shares that differ by less are the same: no more is shown of them."""
NOISE = 0.15
"""CPU times that differ by less are the same: a shared machine does not measure better."""
TO_HOLD = "none; ours to hold"

At: TypeAlias = dict[str, Cell]


# ---- points -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublicationLoad:
    """What is published, and how the paper's figures for the rate are read. ``usual`` is the rate where none is given."""

    name: str
    data: str
    in_a_second: float
    rates: tuple[int, ...]
    usual: int


TRAFFIC = PublicationLoad("traffic", adock_data.TRAFFIC, 1, (14, 54, 162, 540, 1080), 162)
STOCK = PublicationLoad("stock", adock_data.STOCK, 1, (465, 930, 1860, 2790), 465)
STOCK_BY_MINUTE = PublicationLoad("stock by the minute", adock_data.STOCK, 1 / 60, (465, 930, 1860, 2790), 930)
LOADS = (TRAFFIC, STOCK, STOCK_BY_MINUTE)


@dataclass(frozen=True, slots=True)
class AdockPoint:
    """One point of a figure. ``rate`` is as the paper writes it."""

    load: PublicationLoad
    rate: int
    subscriptions: int = SUBSCRIPTIONS
    ratio: float = TUMBLING
    crosswise: bool = False
    scattered: bool = False
    plain: bool = True
    windows: tuple[tuple[int, int], ...] = ()

    @property
    def at(self) -> At:
        """What names it in the rows. Mixed windows have no one ratio."""
        return {
            "load": self.load.name,
            "ratio": None if self.windows else self.ratio,
            "rate": self.rate,
            "subscriptions": self.subscriptions,
            "crosswise": self.crosswise,
            "scattered": self.scattered,
            "plain": self.plain,
        }

    def setup(self, seed: int, quick: bool) -> AdockSetup:
        rate = self.rate * self.load.in_a_second
        enough_s = round((SOME if quick else ENOUGH) / rate)
        return AdockSetup(
            seed,
            self.load.data,
            rate,
            self.subscriptions,
            self.ratio,
            seconds=max(SHORTEST_S, min(LONGEST_S, enough_s)),
            crosswise=self.crosswise,
            scattered=self.scattered,
            plain=self.plain,
            windows=self.windows,
        )


_NAMES = tuple(AdockPoint(TRAFFIC, 1).at)


# ---- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdockSweep:
    """The rows of all points, deciders and seeds."""

    rows: Sequence[Row]
    seeds: int
    _by_point: dict[tuple[Cell, ...], list[Row]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._by_point.setdefault((row["decider"], *(row[name] for name in _NAMES)), []).append(row)

    def values(self, measure: str, decider: str, at: At) -> list[float]:
        """One for each seed."""
        found = self._by_point.get((decider, *(at[name] for name in _NAMES)), [])
        if len(found) != self.seeds:
            raise ValueError(f"{len(found)} rows have {decider} and {at}, not one for each seed")
        return [float(cell) for row in found if isinstance(cell := row[measure], int | float)]

    def of(self, measure: str, decider: str, at: At) -> Spread:
        return spread(self.values(measure, decider, at))

    def more(self, decider: str, than: str, at: At, measure: str = "messages") -> Spread:
        """How much more one has than another, as a share of the other's."""
        pairs = zip(self.values(measure, decider, at), self.values(measure, than, at), strict=True)
        return spread(one / other - 1 for one, other in pairs)

    def over_optimum(self, decider: str, at: At) -> Spread:
        """How far a decider is above the least that its own links could have sent."""
        pairs = zip(self.values("messages", decider, at), self.values("optimum", decider, at), strict=True)
        return spread(messages / least - 1 for messages, least in pairs)

    def points(self, **at: Cell) -> list[At]:
        """All points that have this, by what names them."""
        found = (tuple(row[name] for name in _NAMES) for row in self.rows if all(row[key] == at[key] for key in at))
        return [dict(zip(_NAMES, each, strict=True)) for each in dict.fromkeys(found)]

    def plot(self, title: str, axis: tuple[str, str], measure: tuple[str, str], deciders: Sequence[str], **at: Cell) -> Plot:
        """One line for each decider. ``axis`` and ``measure`` are a column and what is written beside it."""
        column, x_label = axis
        points = self.points(**at)
        xs = [float(x) for x in (point[column] for point in points) if isinstance(x, int | float)]
        series = [
            Series.of(name, xs, [self.of(measure[0], name, point) for point in points], "baseline" if name == STATIC else "ours")
            for name in deciders
        ]
        return Plot(title=title, x_label=x_label, y_label=measure[1], series=series)

    def messages_table(self, names: Mapping[str, str], paper: Callable[[At], str]) -> Table:
        """A row for each point: what the static optimum sends, how much more the others do, and the paper's figure."""
        others = [name for name in ALL if name != STATIC]
        columns = [*names.values(), "messages, static", *[f"{name}, more" for name in others], "wad over adock", "paper"]
        rows = [
            [
                *(shown(name, point[name]) for name in names),
                self.of("messages", STATIC, point).format(",.0f"),
                *(self.more(name, STATIC, point).format("+.2%") for name in others),
                self.more(WAD, ADOCK, point).format("+.2%"),
                paper(point),
            ]
            for point in self.points()
        ]
        return Table(columns, rows)

    def computing_table(self, names: Mapping[str, str], paper: Callable[[At], str]) -> Table:
        """A row for each point: CPU milliseconds of a second of stream, and ADOCK's by WAD's."""
        others = [name for name in ALL if name != STATIC]
        columns = [
            *names.values(),
            *[f"{name}, ms/s" for name in others],
            "adock by wad",
            "deciding alone",
            "with matching",
            "paper",
        ]
        rows = [
            [
                *(shown(name, point[name]) for name in names),
                *(self.of("computing_ms_a_second", name, point).format(".2f") for name in others),
                *(times(self.more(ADOCK, WAD, point, measure)) for measure in ("computing_s", "deciding_s", "with_matching_s")),
                paper(point),
            ]
            for point in self.points()
        ]
        return Table(columns, rows)

    def share_at_once(self) -> float:
        """What plain subscriptions cause, as a share of the static optimum's messages, in the median point."""
        pairs = [(self.of("at_once", STATIC, point).median, self.of("messages", STATIC, point).median) for point in self.points()]
        return median(at_once / messages for at_once, messages in pairs)

    def seconds(self) -> str:
        """How long the runs were."""
        found = sorted({int(cell) for row in self.rows if isinstance(cell := row["seconds"], int)})
        return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def sweep(settings: Settings, points: Sequence[AdockPoint], seeds: Sequence[int], *, record: bool = False) -> AdockSweep:
    """Run all deciders at all points. With ``record``, rows also have the optimum of what each decider's own links were
    offered."""
    rows: list[Row] = []
    for point, seed in settings.track(list(product(points, seeds))):
        setup = point.setup(seed, settings.quick)
        world = adock.world(setup)
        for name in ALL:
            outcome = adock_static.static(world) if name == STATIC else adock_links.simulate(world, name, record=record)
            rows.append({**point.at, "seconds": setup.seconds, "seed": seed, "decider": name, **cells(outcome, setup.seconds)})
    return AdockSweep(rows, len(seeds))


def cells(outcome: RunCost, seconds: int) -> dict[str, Cell]:
    """For a row."""
    return {
        "messages": outcome.messages,
        "messages_a_second": outcome.messages / seconds,
        "at_once": outcome.at_once,
        "forwarded": outcome.forwarded,
        "aggregated": outcome.aggregated,
        "decisions": outcome.decisions,
        "optimum": outcome.at_once + adock_static.optimum(outcome.offered) if outcome.offered else outcome.messages,
        "computing_s": outcome.links_s,
        "computing_ms_a_second": 1000 * outcome.links_s / seconds,
        "deciding_s": outcome.deciding_s,
        "with_matching_s": outcome.computing_s,
    }


# ---- words ------------------------------------------------------------------------------------------------------------


def shown(name: str, cell: Cell) -> str:
    """A parameter of a point, ready to print.

    >>> shown("ratio", 2.0), shown("rate", 2790), shown("ratio", 1.0), shown("load", "stock")
    ('sliding', '2,790', 'tumbling', 'stock')
    """
    if name == "ratio":
        return windows(cell)
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def windows(ratio: Cell) -> str:
    return "tumbling" if ratio == TUMBLING else "sliding"


def times(more: Spread) -> str:
    """
    >>> times(Spread(0.5, 0.4, 0.6, seeds=3))
    '1.50 (1.40 to 1.60)'
    """
    return Spread(1 + more.median, 1 + more.low, 1 + more.high, more.seeds).format(".2f")


def place(at: At, *names: str) -> str:
    """Where something was found.

    >>> place({"load": "stock", "rate": 465}, "load", "rate")
    'stock, 465'
    """
    return ", ".join(shown(name, at[name]) for name in names)


def notes(found: AdockSweep, *said: str) -> list[str]:
    """What has to be said of every figure, after what is said of this one."""
    rates = ", ".join(f"{load.usual:,} for {load.name}" for load in LOADS)
    data = " ".join(f"{name}: {adock_data.dataset(name).origin}." for name in (adock_data.TRAFFIC, adock_data.STOCK))
    return [
        *said,
        "At 465 quotes a second and more, a window of a subscription has 93 of them and more, so aggregating is right nearly "
        "everywhere. The paper has most to decide at 465; its figures may be quotes a minute. Both are given.",
        f"In the median point, {found.share_at_once():.0%} of the static optimum's messages cross for plain subscriptions, "
        "whatever is decided. All shares here are of all messages between brokers, as in the paper.",
        "Static: every link sends a minimum vertex cover of all that ever comes to it, given what the links before it send. That "
        "is the least for each link, not for all of them together.",
        "Left open by the paper, and chosen before the first run: which edges publish and subscribe (drawn); every stock and "
        "every sensor is published at one broker, at random times (a Poisson process); a subscription is issued at any time in "
        f"a shift; {SUBSCRIPTIONS} subscriptions where the rate varies; where something else varies, a rate of {rates}.",
        f"{found.seconds()} seconds of stream instead of 1,000.",
        f"Data: {data}",
    ]


ALIKE_NOTE = (
    "Where all items of a range count in the same ranges, WAD's weight is at least 1 exactly if there are at least as many items "
    "as ranges, and ADOCK aggregates exactly then. The quotes of a stock do, nearly: a subscription asks for one symbol. So both "
    "decide alike, and the paper's gap between them does not show; `adock-readings` has what else was tried."
)
TIME_NOTE = (
    "Computing is the CPU time of finding the ranges of publications, keeping the graphs and deciding, over all links. Matching "
    "a publication with the subscriptions comes on top, for every publication that comes to a broker; what it takes is measured "
    "apart, with the service's own index. CPU time differs from machine to machine: read it by WAD's."
)
