"""The set-up of the experiments on ADOCK and WAD (Pandey et al., section VIII-A), and the way of every publication in it.

Four core brokers in a chain have three edge brokers each. Of those twelve, three have publishers, three have subscribers and
six have both. A third of the subscriptions are aggregate ones, over windows that begin when the subscription was issued.

A publication crosses a link at once if a plain subscription beyond it matches. Where its way goes on for aggregate
subscriptions only, it waits at the link for a decision; `experiments.adock.links` has what happens then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from time import process_time

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from experiments.adock import data as adock_data
from experiments.adock.data import Dataset, Where
from streaming.windows.graph import Range
from tidings.matching import Index
from tidings.predicate import And, Missing, Verdict
from tidings.subscription import Subscription

PAPER = "ADOCK and WAD (Pandey et al.)"
CORES, EDGES_OF_A_CORE = 4, 3
ONLY_PUBLISH, ONLY_SUBSCRIBE = 3, 3
WINDOW_MS = 10_000
TUMBLING, SLIDING = 1.0, 2.0
"""The window by its shift."""

_MATCHED_ROWS = 200


@dataclass(frozen=True, slots=True)
class AdockSetup:
    """One point of a figure. ``rate`` is in publications a second, all brokers together; ``ratio`` is the window by its shift."""

    seed: int
    data: str
    rate: float
    subscriptions: int
    ratio: float = TUMBLING
    seconds: int = 1000
    crosswise: bool = False
    """Subscriptions to quotes ask for prices and volumes, not for a symbol."""
    scattered: bool = False
    """What is published about a stock or by a sensor comes to any broker, not always to the same."""
    plain: bool = True
    """Two of three subscriptions are plain ones. Otherwise all are aggregate ones."""
    windows: tuple[tuple[int, int], ...] = ()
    """Sizes and shifts in milliseconds, dealt to the aggregate subscriptions in turn. With none, all have the same window, and
    ``ratio`` says which."""

    def window_of(self, number: int) -> tuple[int, int]:
        """Size and shift of one subscription."""
        if not self.windows:
            return WINDOW_MS, round(WINDOW_MS / self.ratio)
        return self.windows[(number // 3 if self.plain else number) % len(self.windows)]

    @property
    def publications(self) -> int:
        return round(self.rate * self.seconds)


# ---- the overlay ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a link. ``height`` is the longest way from a broker to its beginning, without the broker at its end: of
    all ranges that expire at a time, those at the lower links are decided first, so that what crosses one is there in time for
    the next."""

    number: int
    begin: int
    end: int
    height: int


@dataclass(frozen=True, slots=True)
class CoreAndEdges:
    """Brokers are numbered: the cores first, then the edges core by core."""

    publishing: tuple[int, ...]
    subscribing: tuple[int, ...]
    links: tuple[Direction, ...]
    next_links: Sequence[Sequence[int]]
    """By broker and target the number of the first link on the way, -1 at the target."""

    def way(self, begin: int, end: int) -> list[Direction]:
        """The links from one broker to another."""
        found = []
        while begin != end:
            found.append(self.links[self.next_links[begin][end]])
            begin = found[-1].end
        return found


def overlay(seed: int) -> CoreAndEdges:
    """The overlay; which edges publish and which subscribe is drawn."""
    brokers = CORES * (1 + EDGES_OF_A_CORE)
    graph = nx.path_graph(CORES)
    graph.add_edges_from((edge, (edge - CORES) // EDGES_OF_A_CORE) for edge in range(CORES, brokers))
    edges = [int(edge) for edge in np.random.default_rng([seed, 2]).permutation(np.arange(CORES, brokers))]
    heights: dict[tuple[int, int], int] = {}
    for begin, end in (pair for edge in graph.edges for pair in (edge, edge[::-1])):
        _height(graph, begin, end, heights)
    links = {pair: Direction(number, *pair, heights[pair]) for number, pair in enumerate(sorted(heights))}
    ways = dict(nx.all_pairs_shortest_path(graph))
    return CoreAndEdges(
        publishing=tuple(edges[:-ONLY_SUBSCRIBE]),
        subscribing=tuple(edges[ONLY_PUBLISH:]),
        links=tuple(links.values()),
        next_links=[[-1 if a == b else links[a, ways[a][b][1]].number for b in range(brokers)] for a in range(brokers)],
    )


def _height(graph: nx.Graph[int], begin: int, end: int, known: dict[tuple[int, int], int]) -> int:
    if (begin, end) not in known:
        before = [_height(graph, other, begin, known) for other in graph[begin] if other != end]
        known[begin, end] = 1 + max(before, default=-1)
    return known[begin, end]


# ---- subscriptions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdockSubscription:
    """A subscription at a broker. A plain one has no windows."""

    name: str
    broker: int
    where: Where
    aggregate: bool
    issued_ms: int
    shift_ms: int
    size_ms: int = WINDOW_MS

    def open_ranges(self, now: int) -> list[Range]:
        """Its ranges that something published now counts in. There may be none where the shift is larger than the size."""
        last = now - (now - self.issued_ms) % self.shift_ms
        return [Range(start + self.size_ms, self.name, start) for start in range(last, now - self.size_ms, -self.shift_ms)]

    def changes_ms(self, now: int) -> int:
        """When these will change."""
        since = (now - self.issued_ms) % self.shift_ms
        opened = now - since
        first = opened - (self.size_ms - 1 - since) // self.shift_ms * self.shift_ms
        return min(opened + self.shift_ms, first + self.size_ms)


def asked(setup: AdockSetup, data: Dataset, over: CoreAndEdges) -> list[AdockSubscription]:
    """The subscriptions: every third an aggregate one, each kind dealt to the brokers in turn, issued within a shift."""
    rng = np.random.default_rng([setup.seed, 3])
    wheres = adock_data.subscriptions(data, setup.seed, setup.subscriptions, setup.crosswise)
    at = over.subscribing
    windows = [setup.window_of(number) for number in range(len(wheres))]
    return [
        AdockSubscription(
            name=f"s{number:03d}",
            broker=at[(number // 3 if number % 3 == 0 else number - number // 3 - 1) % len(at)],
            where=where,
            aggregate=number % 3 == 0 or not setup.plain,
            issued_ms=int(rng.random() * shift_ms),
            shift_ms=shift_ms,
            size_ms=size_ms,
        )
        for number, (where, (size_ms, shift_ms)) in enumerate(zip(wheres, windows, strict=True))
    ]


# ---- the ways of publications -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Front:
    """Aggregate subscriptions beyond a link that match the same publications. ``crosses``: these cross it anyway."""

    link: int
    subscriptions: tuple[int, ...]
    crosses: bool


@dataclass(frozen=True, slots=True)
class Way:
    """What becomes at once of publications that come to the same broker and match the same subscriptions."""

    crossings: int
    fronts: tuple[int, ...]
    """By number, those of links that it crosses before those it waits at."""
    local: tuple[int, ...]
    """The aggregate subscriptions at brokers that it reaches at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RowWays:
    """The ways of all rows of the data."""

    way_of_row: NDArray[np.int64]
    ways: Sequence[Way]
    fronts: Sequence[Front]
    matches: NDArray[np.bool_]
    """By row and subscription."""


@dataclass(frozen=True, slots=True, eq=False)
class AdockWorld:
    """All that is the same for all deciders."""

    setup: AdockSetup
    data: Dataset
    overlay: CoreAndEdges
    subscriptions: Sequence[AdockSubscription]
    routing: RowWays
    rows: NDArray[np.int64]
    """The row that each publication has, in order of time."""
    times_ms: NDArray[np.int64]
    at_once: int
    """How many messages plain subscriptions cause, whatever is decided."""


def world(setup: AdockSetup) -> AdockWorld:
    """Draw it all. Rows are published in their order, from a drawn one on, at random times (a Poisson process)."""
    data, over = adock_data.dataset(setup.data), overlay(setup.seed)
    subscriptions, found = asked(setup, data, over), routing(data, _of_no_rate(setup))
    rng = np.random.default_rng([setup.seed, 4])
    rows = (rng.integers(len(data)) + np.arange(setup.publications)) % len(data)
    times_ms = np.sort(rng.integers(0, setup.seconds * 1000, setup.publications))
    crossings = np.array([way.crossings for way in found.ways])
    return AdockWorld(setup, data, over, subscriptions, found, rows, times_ms, int(crossings[found.way_of_row[rows]].sum()))


def _of_no_rate(setup: AdockSetup) -> AdockSetup:
    """Ways depend on neither the rate nor the windows."""
    return replace(setup, rate=0, ratio=TUMBLING, seconds=0, windows=())


@lru_cache(maxsize=8)
def routing(data: Dataset, setup: AdockSetup) -> RowWays:
    """The way of each row: those that are published at the same broker and match the same subscriptions have the same."""
    over = overlay(setup.seed)
    subscriptions = asked(setup, data, over)
    matches = np.column_stack([adock_data.matching(data, each.where) for each in subscriptions])
    drawn = np.random.default_rng([setup.seed, 5]).integers(len(over.publishing), size=len(data))
    at = np.array(over.publishing)[drawn if setup.scattered else data.publisher % len(over.publishing)]
    kinds = np.column_stack([np.packbits(matches, axis=1), at.astype(np.uint8)])
    _, first, kind_of = np.unique(kinds.view(f"V{kinds.shape[1]}").ravel(), return_index=True, return_inverse=True)
    fronts: dict[Front, int] = {}
    ways = [_way(over, subscriptions, np.flatnonzero(matches[row]).tolist(), int(at[row]), fronts) for row in first]
    return RowWays(kind_of.astype(np.int64), ways, list(fronts), matches)


def _way(
    over: CoreAndEdges, subscriptions: Sequence[AdockSubscription], matching: Sequence[int], at: int, fronts: dict[Front, int]
) -> Way:
    at_once = {link for s in matching if not subscriptions[s].aggregate for link in over.way(at, subscriptions[s].broker)}
    crossed: dict[int, list[int]] = defaultdict(list)
    waited: dict[int, list[int]] = defaultdict(list)
    local = []
    for s in matching:
        if not subscriptions[s].aggregate:
            continue
        for link in over.way(at, subscriptions[s].broker):
            if link not in at_once:
                waited[link.number].append(s)
                break
            crossed[link.number].append(s)
        else:
            local.append(s)
    found = [Front(link, tuple(beyond), True) for link, beyond in crossed.items()]
    found += [Front(link, tuple(beyond), False) for link, beyond in waited.items()]
    return Way(len(at_once), tuple(fronts.setdefault(front, len(fronts)) for front in found), tuple(local))


@lru_cache(maxsize=32)
def matching_seconds(data: Dataset, wheres: tuple[Where, ...]) -> float:
    """CPU seconds that a broker needs to match one publication with all subscriptions, by the service's own index."""
    index = Index(
        [
            Subscription(f"s{number}", "s", "b", "t", "d", where=And(where), missing=Missing.PATIENT)
            for number, where in enumerate(wheres)
        ]
    )
    facts = [data.row(row * len(data) // _MATCHED_ROWS) for row in range(_MATCHED_ROWS)]
    began = process_time()
    for each in facts:
        [asked for asked in index.candidates("", each) if asked.judge("", each) is Verdict.MATCHES]
    return (process_time() - began) / len(facts)
