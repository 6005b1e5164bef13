"""BAT: the link forwards everything or aggregates everything, whichever was cheaper lately.

The per-broker adaptive technique that the paper compares with (its reference [16], known here only by what the paper says of
it): two modes, switched by a simple comparison of rates. What is assumed, where that leaves things open:

- It decides for a link rather than for a broker, like the others here.
- The rate of publications is that of the items that came for windows alone: what crosses anyway costs the same in both modes.
- The rate of notifications is that of the ranges that ended with at least one item, crossed or not.
- Both are counted over one period after the other, and the mode for the next period is to aggregate if there were no more
  ranges than items. A period is the longest window seen, so that every window ends at most a period after it began.
- It begins by aggregating.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decision
from streaming.windows.graph import Graph, Range

MORE_ITEMS = Decision(Choice.AGGREGATE, ChoiceReason.RATE_OF_ITEMS)
MORE_RANGES = Decision(Choice.FORWARD, ChoiceReason.RATE_OF_RANGES)


class Counted(msgspec.Struct, array_like=True):
    """What a period has had so far, as bytes too."""

    aggregates: bool = True
    ends: int | None = None
    """When the period is over."""
    longest: int = 0
    items: int = 0
    open: list[Range] = []
    """The ranges that have had an item and have not been counted, when it is kept."""


class Bat:
    """Counts what comes; looks at nothing else."""

    name: ClassVar[str] = "bat"

    def __init__(self) -> None:
        self._counted = Counted()
        self._open: set[Range] = set()
        self._last: object = None

    def arrived(self, _graph: Graph, _item: int, ranges: Sequence[Range], now: int, /, *, crosses: bool) -> None:
        if crosses:
            return
        self._turn(now)
        counted = self._counted
        counted.items += 1
        # Items of a class mostly share their ranges as an object; a set update is what costs.
        if ranges is not self._last:
            self._last = ranges
            self._open.update(ranges)
            counted.longest = max(counted.longest, *(range_.end - range_.start for range_ in ranges), 0)
            if counted.ends is None:
                counted.ends = now + counted.longest

    def decide(self, _graph: Graph, _range: Range, now: int, /) -> Decision:
        # What ends with a period still belongs to it.
        self._turn(now - 1)
        return MORE_ITEMS if self._counted.aggregates else MORE_RANGES

    def _turn(self, now: int) -> None:
        """Choose the mode of the next period, if this one is over."""
        counted = self._counted
        if counted.ends is None or now < counted.ends:
            return
        ended = {range_ for range_ in self._open if range_.end <= counted.ends}
        if ended or counted.items:
            counted.aggregates = len(ended) <= counted.items
        self._open -= ended
        counted.items = 0
        counted.ends = now + counted.longest

    def state(self) -> bytes:
        self._counted.open = sorted(self._open)
        return msgspec.msgpack.encode(self._counted)

    def restore(self, data: bytes) -> None:
        self._counted = msgspec.msgpack.decode(data, type=Counted)
        self._open = set(self._counted.open)
