"""WAD: aggregate a range if its shares in its items make at least one message (section VII-B, Algorithm 2).

An item that counts in d ranges weighs 1/d in each. The degree d is that at its arrival: ranges that expired since still count,
as in the paper's Figures 3(c) and 5, whose numbers come out only so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import ClassVar

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decision, Unlearned
from streaming.windows.graph import Graph, Range

AT_LEAST_ONE = Decision(Choice.AGGREGATE, ChoiceReason.WEIGHT_AT_LEAST_ONE)
BELOW_ONE = Decision(Choice.FORWARD, ChoiceReason.WEIGHT_BELOW_ONE)
NEAR = 1e-9
"""Far more than what adding floats gets wrong here: outside of it they decide, within it fractions do."""


class Wad(Unlearned):
    """Needs nothing but the items of the range."""

    name: ClassVar[str] = "wad"

    def decide(self, graph: Graph, range_: Range, _now: int, /) -> Decision:
        weight = 0.0
        groups = graph.groups_of(range_)
        for group in groups:
            weight += len(group.items) / group.degree
            if weight > 1 + NEAR:  # mostly after a few of many
                return AT_LEAST_ONE
        return AT_LEAST_ONE if weighs_one([(len(group.items), group.degree) for group in groups]) else BELOW_ONE


def weighs_one(groups: Sequence[tuple[int, int]]) -> bool:
    """Whether the weights of all items add up to one, exactly. A group is a number of items and their degree."""
    weight = 0.0
    for count, degree in groups:
        weight += count / degree
        if weight > 1 + NEAR:
            return True
    return weight > 1 - NEAR and exact_weight(groups) >= 1


def exact_weight(groups: Sequence[tuple[int, int]]) -> Fraction:
    """The sum of the weights of all items, by way of the least common multiple of their degrees."""
    whole = lcm(*(degree for _, degree in groups))
    return Fraction(sum(count * (whole // degree) for count, degree in groups), whole)
