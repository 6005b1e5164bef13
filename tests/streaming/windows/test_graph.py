"""The graph against a dictionary of sets, and its matching against one from scratch, whatever leaves in whatever way."""

from __future__ import annotations

from random import Random

import networkx
from hypothesis import given
from hypothesis import strategies as st

from streaming.windows.graph import Graph, Range

RANGES = [Range(end, name, end - 10) for end in range(10, 13) for name in "ab"]
subsets = st.sets(st.sampled_from(RANGES), max_size=4)
adds = st.tuples(st.just("add"), subsets, st.integers(1, 3))
leaves = st.tuples(st.sampled_from(["forwarded", "aggregated", "aggregated"]), st.sampled_from(RANGES), st.just(0))
moves = st.lists(st.one_of(adds, leaves), min_size=4, max_size=30)


class Plain:
    """What a graph is, said simply."""

    def __init__(self) -> None:
        self.items: dict[int, set[Range]] = {}
        self.degrees: dict[int, int] = {}

    def items_of(self, range_: Range) -> list[int]:
        return sorted(item for item, ranges in self.items.items() if range_ in ranges)

    def add(self, item: int, ranges: set[Range]) -> None:
        if ranges:
            self.items[item], self.degrees[item] = set(ranges), len(ranges)

    def forwarded(self, range_: Range) -> list[int]:
        left = self.items_of(range_)
        for item in left:
            del self.items[item]
        return left

    def aggregated(self, range_: Range) -> list[int]:
        had = self.items_of(range_)
        for item in had:
            self.items[item].discard(range_)
            if not self.items[item]:
                del self.items[item]
        return had

    def ranges(self) -> set[Range]:
        return {range_ for ranges in self.items.values() for range_ in ranges}


def largest_matching(items: dict[int, set[Range]], without: Range | None = None) -> int:
    edges = [(item, range_) for item, ranges in items.items() for range_ in ranges if range_ != without]
    graph = networkx.Graph(edges)
    return len(networkx.bipartite.hopcroft_karp_matching(graph, [item for item in items if item in graph])) // 2


def played(story: list[tuple], graph: Graph, plain: Plain, *, asked: bool = False) -> None:
    """With ``asked``, the matching is asked for all it knows after every move, so what it remembers has to stay true."""
    number = 0
    for move, about, count in story:
        if move == "add":
            for _ in range(count):
                graph.add(number, about)
                plain.add(number, about)
                number += 1
        else:
            assert getattr(graph, move)(about) == getattr(plain, move)(about)
        for range_ in RANGES if asked else ():
            graph.essential(range_)


@given(moves)
def test_a_graph_is_a_dictionary_of_sets(story: list[tuple]) -> None:
    graph, plain = Graph(), Plain()
    played(story, graph, plain)
    assert graph.items == plain.items
    assert len(graph) == len(plain.items)
    assert set(graph.ranges) == plain.ranges()
    for range_ in RANGES:
        assert graph.items_of(range_) == plain.items_of(range_)
    for item in plain.items:
        assert graph.has(item)
        assert graph.degree(item) == plain.degrees[item]
    assert not any(graph.has(item) for item in range(200) if item not in plain.items)


@given(moves, st.sampled_from([True, True, False]))
def test_the_matching_is_a_maximum_whatever_left(story: list[tuple], asked: bool) -> None:
    graph, plain = Graph(), Plain()
    played(story, graph, plain, asked=asked)
    size = largest_matching(plain.items)
    assert graph.matched() == size
    for range_ in RANGES:
        assert graph.essential(range_) == (largest_matching(plain.items, without=range_) < size)


@given(moves)
def test_items_alike_are_one_group(story: list[tuple]) -> None:
    graph, plain = Graph(), Plain()
    played(story, graph, plain)
    for group in graph.groups():
        assert group.items == sorted(group.items)
        assert {spot.range for spot in group.spots} == plain.items[group.items[0]]
    fresh = [group for group in graph.groups() if len(group.spots) == group.degree]
    keys = [frozenset(spot.range for spot in group.spots) for group in fresh]
    assert len(set(keys)) == len(keys)
    assert sum(len(group.items) for group in graph.groups()) == len(graph)


@given(moves, moves)
def test_a_graph_that_was_kept_item_by_item_goes_on_as_before(story: list[tuple], more: list[tuple]) -> None:
    graph, plain = Graph(), Plain()
    played(story, graph, plain)
    kept = Graph()
    for item, ranges in graph.items.items():
        kept.add(item, sorted(ranges), graph.degree(item))
    for number, (move, about, _) in enumerate(more, start=1000):
        if move == "add":
            graph.add(number, about)
            kept.add(number, about)
        else:
            assert kept.essential(about) == graph.essential(about)
            assert getattr(kept, move)(about) == getattr(graph, move)(about)
    assert kept.items == graph.items
    assert {item: kept.degree(item) for item in kept.items} == {item: graph.degree(item) for item in graph.items}
    assert kept.matched() == graph.matched()
    assert len(kept.groups()) <= len(graph.groups())


def test_items_alike_now_keep_the_degrees_they_came_with() -> None:
    graph = Graph()
    graph.add(1, RANGES[:2], 3)
    graph.add(2, RANGES[:2])
    graph.add(3, RANGES[:2], 3)
    assert [graph.degree(item) for item in (1, 2, 3)] == [3, 2, 3]
    assert len(graph.groups()) == 2


def test_a_long_chain_needs_no_recursion() -> None:
    """Every item joins two ranges that follow each other, so one alternating path goes through all of them."""
    length = 20_000
    ranges = [Range(end, "a", 0) for end in range(length)]
    graph = Graph()
    for item in range(length - 1):
        graph.add(item, ranges[item : item + 2])
    assert graph.matched() == length - 1
    assert not graph.essential(ranges[0])
    assert not graph.essential(ranges[-1])
    graph.add(length, ranges[:1])
    assert graph.matched() == length
    assert graph.essential(ranges[-1])


def test_what_is_left_behind_does_not_grow() -> None:
    """Sliding windows, decided at random for a long time: the graph is as large as what is open."""
    chance = Random(5)
    graph = Graph()
    for now in range(3000):
        names = [name for name in "abcdef" if chance.random() < 0.5]
        graph.add(now, [Range(start + 30, name, start) for name in names for start in range(now - now % 10 - 20, now + 1, 10)])
        for range_ in sorted(range_ for range_ in graph.ranges if range_.end <= now + 1):
            decided = graph.aggregated if graph.essential(range_) or chance.random() < 0.3 else graph.forwarded
            decided(range_)
    held = [len(each) for each in vars(graph).values() if hasattr(each, "__len__")]
    assert max(held) <= 60
    assert len(graph) == len(graph.items) <= 30
