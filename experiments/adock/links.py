"""Publications and aggregates on their way through the links of an `AdockWorld`, and what it costs with one decider or another.

Every link keeps the graph of the service and asks the deciders of the service. A link takes no time; at the end of a range the
links decide in the order of their height, so what one sends is there before the next decides.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time_ns
from typing import NamedTuple, TypeAlias

from experiments.adock.setup import AdockWorld, matching_seconds
from streaming.windows.deciders import Choice, Decider, decider
from streaming.windows.graph import Graph, Range
from tidings.collection import no_collection

Values: TypeAlias = Callable[[int], int]
"""What a publication counts, by its number. A check of results counts each by a figure of its own."""
Offered: TypeAlias = Mapping[int, Counter[frozenset[Range]]]
"""By link, how many items with the same ranges were offered to it."""


@dataclass(slots=True)
class RunCost:
    """What a run cost. ``at_once`` are the messages that plain subscriptions cause."""

    at_once: int
    forwarded: int = 0
    aggregated: int = 0
    decisions: int = 0
    publications: int = 0
    """How many times a broker got a publication, and had to match it."""
    links_s: float = 0.0
    """CPU seconds of all that is done for ranges: finding them, the graphs, the decisions."""
    deciding_s: float = 0.0
    """Those of the decisions alone."""
    matching_s: float = 0.0
    """CPU seconds of matching all these publications with all subscriptions."""
    results: dict[Range, int] = field(default_factory=dict)
    """What each range came to at its subscriber's broker. Only where somebody asked."""
    offered: Offered = field(default_factory=dict)
    """Only where somebody asked."""

    @property
    def messages(self) -> int:
        return self.at_once + self.forwarded + self.aggregated

    @property
    def computing_s(self) -> float:
        return self.matching_s + self.links_s


def simulate(world: AdockWorld, name: str, *, values: Values | None = None, record: bool = False) -> RunCost:
    """Run one decider on all links. With ``values``, results are added up; with ``record``, what was offered is kept."""
    return simulate_with(world, lambda: decider(name), values=values, record=record)


def simulate_with(
    world: AdockWorld, make: Callable[[], Decider], *, values: Values | None = None, record: bool = False
) -> RunCost:
    """Run the deciders that ``make`` makes, one for each link."""
    run = _Run(world, make, values, record)
    with no_collection():
        began = process_time_ns()
        run.go()
        run.outcome.links_s = (process_time_ns() - began) / 1e9
    return matched(world, run.outcome)


def matched(world: AdockWorld, outcome: RunCost) -> RunCost:
    """Add what matching costs: of what came late, and of what came to brokers at once, the first of them included."""
    outcome.publications += world.setup.publications + world.at_once
    outcome.matching_s = outcome.publications * matching_seconds(world.data, tuple(each.where for each in world.subscriptions))
    return outcome


# ---- one decider ------------------------------------------------------------------------------------------------------


class _Item(NamedTuple):
    """A publication or an aggregate at a link: the ranges in order, and what it counts in each."""

    ranges: tuple[Range, ...]
    key: frozenset[Range]
    value: int
    publication: bool


class _Line:
    """A link in a run. ``held`` are the items in its graph, ``known`` the ranges that will expire at it."""

    __slots__ = ("decider", "end", "graph", "height", "held", "known", "number", "offered")

    def __init__(self, number: int, end: int, height: int, decider: Decider) -> None:
        self.number, self.end, self.height = number, end, height
        self.graph = Graph()
        self.decider = decider
        self.held: dict[int, _Item] = {}
        self.known: set[Range] = set()
        self.offered = 0


class _Run:
    def __init__(self, world: AdockWorld, make: Callable[[], Decider], values: Values | None, record: bool) -> None:
        self.outcome = RunCost(world.at_once)
        self._world = world
        self._values = values
        self._record: dict[int, Counter[frozenset[Range]]] | None = defaultdict(Counter) if record else None
        self._lines = [_Line(link.number, link.end, link.height, make()) for link in world.overlay.links]
        self._next = next_links(world)
        self._due: list[tuple[int, int, int, Range]] = []
        count = len(world.routing.fronts)
        self._ranges: list[tuple[Range, ...]] = [()] * count
        self._keys: list[frozenset[Range]] = [frozenset()] * count
        self._until_ms = [0] * count

    def go(self) -> None:
        world, due = self._world, self._due
        fronts, ways, until_ms = world.routing.fronts, world.routing.ways, self._until_ms
        way_of = world.routing.way_of_row[world.rows]
        for number, (now, way_number) in enumerate(zip(world.times_ms.tolist(), way_of.tolist(), strict=True)):
            while due and due[0][0] <= now:
                self._expire()
            way = ways[way_number]
            value = 1 if self._values is None else self._values(number)
            for each in way.fronts:
                if until_ms[each] <= now:
                    self._renew(each, now)
                front = fronts[each]
                item = _Item(self._ranges[each], self._keys[each], value, True)
                self._offer(self._lines[front.link], item, now, crosses=front.crosses)
            if self._values is not None:
                self._count([range_ for s in way.local for range_ in world.subscriptions[s].open_ranges(now)], value)
        while due:
            self._expire()
        if self._record is not None:
            self.outcome.offered = self._record

    def _renew(self, number: int, now: int) -> None:
        """A range of this front has opened or expired since."""
        front, subscriptions = self._world.routing.fronts[number], self._world.subscriptions
        found = sorted(range_ for s in front.subscriptions for range_ in subscriptions[s].open_ranges(now))
        self._ranges[number], self._keys[number] = tuple(found), frozenset(found)
        self._until_ms[number] = min(subscriptions[s].changes_ms(now) for s in front.subscriptions)
        if not front.crosses:
            self._await(self._lines[front.link], found)

    def _await(self, line: _Line, ranges: Iterable[Range]) -> None:
        for range_ in ranges:
            if range_ not in line.known:
                line.known.add(range_)
                heapq.heappush(self._due, (range_.end, line.height, line.number, range_))

    def _offer(self, line: _Line, item: _Item, now: int, *, crosses: bool = False) -> None:
        if not item.ranges:  # it came between the windows of those who sample
            return
        number = line.offered
        line.offered += 1
        if not crosses:
            line.graph.add(number, item.key)
            line.held[number] = item
            if self._record is not None:
                self._record[line.number][item.key] += 1
        line.decider.arrived(line.graph, number, item.ranges, now, crosses=crosses)

    def _expire(self) -> None:
        now, _, number, range_ = heapq.heappop(self._due)
        line, outcome = self._lines[number], self.outcome
        line.known.discard(range_)
        if range_ not in line.graph.ranges:
            return
        began = process_time_ns()
        choice = line.decider.decide(line.graph, range_, now).choice
        outcome.deciding_s += (process_time_ns() - began) / 1e9
        outcome.decisions += 1
        if choice is Choice.AGGREGATE:
            outcome.aggregated += 1
            self._arrive(line.end, (range_,), now, self._aggregate(line, range_), False)
            return
        items = line.graph.forwarded(range_)
        outcome.forwarded += len(items)
        for item in items:
            ranges, _, value, publication = line.held.pop(item)
            outcome.publications += publication
            # Those before have expired here, and it is in their aggregates.
            self._arrive(line.end, ranges[ranges.index(range_) :], now, value, publication)

    def _aggregate(self, line: _Line, range_: Range) -> int:
        total = 0
        for item in line.graph.aggregated(range_):
            held = line.held[item]
            total += held.value
            if held.ranges[-1] == range_:
                del line.held[item]
        return total

    def _arrive(self, broker: int, ranges: tuple[Range, ...], now: int, value: int, publication: bool) -> None:
        """Something that was decided on comes to the next broker, to count in these ranges."""
        for link, found in split(ranges, broker, self._next).items():
            if link < 0:
                if self._values is not None:
                    self._count(found, value)
                continue
            line = self._lines[link]
            self._await(line, found)
            self._offer(line, _Item(tuple(found), frozenset(found), value, publication), now)

    def _count(self, ranges: Iterable[Range], value: int) -> None:
        results = self.outcome.results
        for range_ in ranges:
            results[range_] = results.get(range_, 0) + value


def next_links(world: AdockWorld) -> dict[str, list[int]]:
    """By subscription and broker, the link that leads there."""
    return {each.name: [row[each.broker] for row in world.overlay.next_links] for each in world.subscriptions}


def split(ranges: Iterable[Range], broker: int, links: Mapping[str, Sequence[int]]) -> dict[int, list[Range]]:
    """Ranges by the link that leads to their subscriber; -1 has those that are at the broker itself."""
    found: dict[int, list[Range]] = {}
    for range_ in ranges:
        found.setdefault(links[range_.subscription][broker], []).append(range_)
    return found
