"""The least a link can send, against brute force and against a solver that knows nothing of matchings."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.windows.graph import Range
from streaming.windows.static import minimum_cover

RANGES = [Range(end, name, end - 5) for end in range(5, 8) for name in "ab"]
graphs = st.lists(st.sets(st.sampled_from(RANGES), max_size=4), max_size=9).map(lambda found: dict(enumerate(found)))


def by_brute_force(items: dict[int, set[Range]]) -> int:
    """With each set of ranges aggregated, all items cross that are in another range as well."""
    ranges = {range_ for each in items.values() for range_ in each}
    return min(
        size + sum(not each <= set(aggregated) for each in items.values())
        for size in range(len(ranges) + 1)
        for aggregated in combinations(sorted(ranges), size)
    )


def by_highs(items: dict[int, set[Range]]) -> int:
    """The vertex cover as a linear program in whole numbers."""
    highspy = pytest.importorskip("highspy", reason="the independent solver is a development dependency")
    solver = highspy.Highs()
    solver.silent()
    chosen = {item: solver.addBinary(obj=1) for item in items}
    aggregated = {range_: solver.addBinary(obj=1) for each in items.values() for range_ in each}
    for item, ranges in items.items():
        for range_ in ranges:
            solver.addConstr(chosen[item] + aggregated[range_] >= 1)
    solver.minimize()
    return round(solver.getInfo().objective_function_value)


@given(graphs)
def test_a_cover_covers_every_edge_with_the_fewest(items: dict[int, set[Range]]) -> None:
    cover = minimum_cover(items)
    assert all(item in cover.items or ranges <= cover.ranges for item, ranges in items.items())
    assert cover.messages == len(cover.items) + len(cover.ranges) == by_brute_force(items)


@pytest.mark.parametrize(("seed", "items", "names"), [(1, 60, 3), (2, 200, 8), (3, 400, 15), (4, 400, 40)])
def test_a_solver_finds_no_smaller_cover(seed: int, items: int, names: int) -> None:
    """Windows of several sizes and shifts at once, and items of random classes."""
    chance = Random(seed)
    windows = {f"s{n}": chance.choice([(10, 10), (10, 5), (12, 4), (7, 3), (30, 10), (4, 9)]) for n in range(names)}
    graph: dict[int, set[Range]] = {}
    for item in range(items):
        at = item * 60 // items
        graph[item] = {
            Range(start + windows[name][0], name, start)
            for name in chance.sample(sorted(windows), chance.randint(1, 3))
            for start in range(-30, 61)
            if start % windows[name][1] == 0 and start <= at < start + windows[name][0]
        }
    assert minimum_cover(graph).messages == by_highs(graph)


def test_of_nothing_nothing_is_sent() -> None:
    assert minimum_cover({}).messages == 0
    assert minimum_cover({1: [], 2: []}).messages == 0
