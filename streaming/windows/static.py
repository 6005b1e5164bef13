"""The least that a link would have sent, had all been known from the start (section VI-C).

A minimum vertex cover of the complete graph, by way of a maximum matching (König): the ranges that an alternating path reaches
from a spare item, and the items that none reaches. It is what deciders are compared with; no decider can know as much.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streaming.windows.graph import Graph, Range


@dataclass(frozen=True, slots=True)
class Cover:
    """The items that cross as they came, and the ranges that cross as an aggregate."""

    items: frozenset[int]
    ranges: frozenset[Range]

    @property
    def messages(self) -> int:
        return len(self.items) + len(self.ranges)


def minimum_cover(items: Mapping[int, Collection[Range]]) -> Cover:
    """A smallest set of items and ranges that has an end of every edge."""
    graph = Graph()
    for item, ranges in items.items():
        graph.add(item, ranges)
    graph.matched()
    # Only searches that began at spare items have failed so far: closed is what these reach.
    kept = frozenset(item for group in graph.groups() if not group.closed for item in group.items)
    return Cover(kept, frozenset(range_ for range_, spot in graph.ranges.items() if spot.closed))
