"""Where to gather: the centre of a routing tree, and its weighted median.

The centre is the broker whose farthest broker is nearest (the least *eccentricity*); a tree has one, or two that are
neighbours, and then the smaller name counts. The median is the broker with the least weighted sum of distances. They are
not the same: the tail of a path pulls the centre, a crowd of publishers pulls the median.

How brokers find their centre by themselves is written down in `topology.protocols.election`; here it is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite
from typing import TypeAlias

from tidings.errors import BadOverlay, NotConnected, UnknownBroker

Tree: TypeAlias = Mapping[str, Collection[str]]
"""Each broker with those next to it."""


def centre(tree: Tree) -> str:
    """The broker whose farthest broker is nearest; of two the smaller name. Raises ``BadOverlay`` for what is no tree.

    Leaves are taken away, all at once, again and again: that brings every broker that is left one hop nearer to its farthest
    one, so the last one or two that are left are the centre. O(M).

    >>> centre({"a": ["b"], "b": ["a", "c"], "c": ["b"]})
    'b'
    """
    links = {broker: len(neighbours) for broker, neighbours in checked(tree).items()}
    left, leaves = len(links), [broker for broker, count in links.items() if count <= 1]
    while left > 2:
        left -= len(leaves)
        inner = []
        for leaf in leaves:
            links[leaf] = 0
            for neighbour in tree[leaf]:
                if links[neighbour] > 0:
                    links[neighbour] -= 1
                    if links[neighbour] == 1:
                        inner.append(neighbour)
        leaves = inner
    return min(leaves)


def total_distance(tree: Tree, weights: Mapping[str, float]) -> dict[str, float]:
    """For each broker the sum over all brokers of weight times hops. A broker without a weight counts nothing.

    A step from a broker to its child brings all below the child one hop nearer and all others one hop farther, so two
    walks over the tree are enough: O(M).
    """
    totals, scale = _totals(checked(tree), weights)
    return {broker: totals[broker] / scale for broker in tree}


def median(tree: Tree, weights: Mapping[str, float]) -> str:
    """The broker with the least ``total_distance``; among equals the smallest name. O(M).

    The sums are exact, so brokers that describe the same tree in another order come to the same answer.

    >>> median({"a": ["b"], "b": ["a", "c"], "c": ["b"]}, {"a": 1.0, "c": 5.0})
    'c'
    """
    totals, _ = _totals(checked(tree), weights)
    return min(totals, key=lambda broker: (totals[broker], broker))


def checked(tree: Tree) -> Tree:
    """The tree, if it is one."""
    if not tree:
        raise BadOverlay("a tree without brokers has no centre")
    named = [(broker, neighbour) for broker, neighbours in tree.items() for neighbour in neighbours]
    links = set(named)
    for broker, neighbour in named:
        if neighbour not in tree:
            raise UnknownBroker(neighbour, f"the list of neighbours of {broker!r}")
        if (neighbour, broker) not in links:
            raise BadOverlay(f"{broker!r} names {neighbour!r} as its neighbour, but not the other way round")
    parts: list[Collection[str]] = []
    seen: set[str] = set()
    for broker in tree:
        if broker not in seen:
            parts.append(_parents(tree, broker))
            seen.update(parts[-1])
    if len(parts) > 1:
        raise NotConnected(parts)
    if len(named) != 2 * (len(tree) - 1):
        raise BadOverlay("the brokers and links make no tree: there is a way round, or a neighbour is named twice")
    return tree


def _totals(tree: Tree, weights: Mapping[str, float]) -> tuple[dict[str, int], int]:
    """Total distances as whole numbers, and by what they are too large."""
    below, scale = _whole(tree, weights)
    everything = sum(below.values())
    parents = _parents(tree, next(iter(tree)))
    from_root = 0
    for broker, parent in reversed(parents.items()):
        if parent is not None:
            below[parent] += below[broker]
            from_root += below[broker]
    totals: dict[str, int] = {}
    for broker, parent in parents.items():
        totals[broker] = from_root if parent is None else totals[parent] + everything - 2 * below[broker]
    return totals, scale


def _whole(tree: Tree, weights: Mapping[str, float]) -> tuple[dict[str, int], int]:
    """Weights as whole numbers. A float is a whole number over a power of two, so the largest of those fits all."""
    for broker, weight in weights.items():
        if broker not in tree:
            raise UnknownBroker(broker, "a weight")
        if not isfinite(weight) or weight < 0:
            raise ValueError(f"the weight of {broker!r} is {weight}; it must be a finite number, 0 or more")
    ratios = {broker: float(weights.get(broker, 0.0)).as_integer_ratio() for broker in tree}
    scale = max(divisor for _, divisor in ratios.values())
    return {broker: number * (scale // divisor) for broker, (number, divisor) in ratios.items()}, scale


def _parents(tree: Tree, root: str) -> dict[str, str | None]:
    """Each broker that the root reaches, with the one before it; parents come before their children."""
    parents: dict[str, str | None] = {root: None}
    reached = [root]
    for broker in reached:
        for neighbour in tree[broker]:
            if neighbour not in parents:
                parents[neighbour] = broker
                reached.append(neighbour)
    return parents
