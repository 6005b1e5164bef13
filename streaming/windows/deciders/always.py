"""The two that never think: what a link costs without aggregation, and with nothing but aggregation (section IV)."""

from __future__ import annotations

from typing import ClassVar

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decision, Unlearned
from streaming.windows.graph import Graph, Range


class _Always(Unlearned):
    choice: ClassVar[Choice]

    def decide(self, _graph: Graph, _range: Range, _now: int, /) -> Decision:
        return Decision(self.choice, ChoiceReason.ALWAYS)


class AlwaysForward(_Always):
    """Subscriber-edge aggregation: everything crosses as it came."""

    name: ClassVar[str] = "always-forward"
    choice: ClassVar[Choice] = Choice.FORWARD


class AlwaysAggregate(_Always):
    """Publisher-edge aggregation: every range crosses as one aggregate."""

    name: ClassVar[str] = "always-aggregate"
    choice: ClassVar[Choice] = Choice.AGGREGATE
