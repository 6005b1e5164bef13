"""The static optimum of an `AdockWorld`: every link knows all that will ever come to it, and sends the least (section VI-C).

That is the least for each link, given what the links before it sent. With covers of the same size, items go on as they came:
whoever gets a publication can still aggregate it, so that is never worse for the links that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from experiments.adock.links import Offered, RunCost, Values, matched, next_links, split
from experiments.adock.setup import AdockWorld
from streaming.windows.graph import Range
from streaming.windows.static import Cover, minimum_cover

STATIC = "static"
"""Not a decider, but beside them in all tables."""


class _Groups(dict[frozenset[Range], tuple[int, int]]):
    """Items with the same ranges: how many, and what they count together."""

    def put(self, ranges: frozenset[Range], count: int, value: int) -> None:
        before = self.get(ranges, (0, 0))
        self[ranges] = (before[0] + count, before[1] + value)


def optimum(offered: Offered) -> int:
    """The least that could have crossed all links for windows, of what was offered to them."""
    return sum(_cover(groups).messages for groups in offered.values())


def static(world: AdockWorld, *, values: Values | None = None) -> RunCost:
    """Run it. With ``values``, results are added up."""
    outcome = RunCost(world.at_once)
    ways = next_links(world)
    offered = _published(world, values, outcome.results)
    for link in sorted(world.overlay.links, key=lambda each: each.height):
        sent = _sent(offered.pop(link.number, _Groups()), outcome, values is not None)
        for ranges, (count, value) in sent.items():
            for onward, found in split(ranges, link.end, ways).items():
                if onward >= 0:
                    offered.setdefault(onward, _Groups()).put(frozenset(found), count, value)
                else:
                    _count(outcome.results, found, value)
    return matched(world, outcome)


def _sent(groups: _Groups, outcome: RunCost, valued: bool) -> _Groups:
    """What crosses a link: aggregates, and what none of them holds, to count in its other ranges."""
    aggregated = _cover({ranges: count for ranges, (count, _) in groups.items()}).ranges
    outcome.aggregated += len(aggregated)
    sent = _Groups()
    for ranges, (count, value) in groups.items():
        if rest := ranges - aggregated:
            outcome.forwarded += count
            sent.put(rest, count, value)
    for range_ in aggregated:
        total = sum(value for ranges, (_, value) in groups.items() if range_ in ranges) if valued else 0
        sent.put(frozenset((range_,)), 1, total)
    return sent


def _published(world: AdockWorld, values: Values | None, results: dict[Range, int]) -> dict[int, _Groups]:
    """By link what waits at it when it is published. What reaches its subscriber at once is counted."""
    subscriptions, fronts, ways = world.subscriptions, world.routing.fronts, world.routing.ways
    offered: dict[int, _Groups] = {}
    open_now: dict[int, tuple[int, frozenset[Range]]] = {}
    way_of = world.routing.way_of_row[world.rows]
    for number, (now, way_number) in enumerate(zip(world.times_ms.tolist(), way_of.tolist(), strict=True)):
        way = ways[way_number]
        value = 1 if values is None else values(number)
        for each in way.fronts:
            front = fronts[each]
            if front.crosses:
                continue
            until_ms, ranges = open_now.get(each, (0, frozenset()))
            if until_ms <= now:
                ranges = frozenset(range_ for s in front.subscriptions for range_ in subscriptions[s].open_ranges(now))
                open_now[each] = (min(subscriptions[s].changes_ms(now) for s in front.subscriptions), ranges)
            if ranges:
                offered.setdefault(front.link, _Groups()).put(ranges, 1, value)
        if values is not None:
            for s in way.local:
                _count(results, subscriptions[s].open_ranges(now), value)
    return offered


def _count(results: dict[Range, int], ranges: list[Range], value: int) -> None:
    for range_ in ranges:
        results[range_] = results.get(range_, 0) + value


def _cover(groups: Mapping[frozenset[Range], int]) -> Cover:
    return minimum_cover(dict(enumerate(_copies(groups))))


def _copies(groups: Mapping[frozenset[Range], int]) -> Iterator[frozenset[Range]]:
    """As many items of each group as can matter: a minimum cover has at most as many items of a group as the group has ranges."""
    for ranges, count in groups.items():
        for _ in range(min(count, len(ranges) + 1)):
            yield ranges
