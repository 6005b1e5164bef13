"""One link, replayed: items come, ranges expire, a decider decides. For tests of deciders, and for whoever writes another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from streaming.windows.deciders import Choice, Decider, Decision
from streaming.windows.graph import Graph, Range


@dataclass(frozen=True, slots=True)
class OfferedItem:
    """An item that is offered to the link, and the ranges it counts in. It may cross anyway."""

    at: int
    ranges: frozenset[Range]
    crosses: bool = False


def ranges_at(at: int, subscription: str, size: int, shift: int, offset: int = 0) -> list[Range]:
    """The ranges of a subscription that something published then counts in."""
    last = at - (at - offset) % shift
    return [Range(start + size, subscription, start) for start in range(last, at - size, -shift)]


def offered(
    at: int, windows: Mapping[str, tuple[int, int]], subscriptions: Iterable[str], *, crosses: bool = False
) -> OfferedItem:
    """An item that matches these subscriptions. ``windows`` has the size and shift of each."""
    ranges = frozenset(range_ for name in subscriptions for range_ in ranges_at(at, name, *windows[name]))
    return OfferedItem(at, ranges, crosses)


@dataclass
class Replayed:
    """A link in progress. ``crossed`` are the items that were forwarded, ``aggregates`` the items that each aggregate is of."""

    decider: Decider
    graph: Graph = field(default_factory=Graph)
    crossed: list[int] = field(default_factory=list)
    anyway: list[int] = field(default_factory=list)
    aggregates: dict[Range, list[int]] = field(default_factory=dict)
    decisions: list[tuple[Range, Decision]] = field(default_factory=list)
    most_open: int = 0
    items: int = 0
    _due: list[Range] = field(default_factory=list)
    _known: set[Range] = field(default_factory=set)

    @property
    def messages(self) -> int:
        """What was sent for windows: items that cross anyway cost nothing more."""
        return len(self.crossed) + len(self.aggregates)

    def offer(self, item: OfferedItem) -> None:
        """The next item comes, after all that expires by then."""
        self.expire(item.at)
        number = self.items
        self.items += 1
        if item.crosses:
            self.anyway.append(number)
        else:
            self.graph.add(number, item.ranges)
            self.most_open = max(self.most_open, len(self.graph))
            for range_ in item.ranges - self._known:
                heappush(self._due, range_)
            self._known |= item.ranges
        self.decider.arrived(self.graph, number, sorted(item.ranges), item.at, crosses=item.crosses)

    def expire(self, through: int | None = None) -> None:
        """Decide on all ranges that have ended by then; on all there are if no time is given."""
        while self._due and (through is None or self._due[0].end <= through):
            range_ = heappop(self._due)
            self._known.discard(range_)
            if range_ in self.graph.ranges:
                self._decide(range_)

    def _decide(self, range_: Range) -> None:
        decision = self.decider.decide(self.graph, range_, range_.end)
        self.decisions.append((range_, decision))
        if decision.choice is Choice.AGGREGATE:
            self.aggregates[range_] = self.graph.aggregated(range_)
        else:
            self.crossed += self.graph.forwarded(range_)


def replay(stream: Iterable[OfferedItem], decider: Decider) -> Replayed:
    """A stream from its first item to the end of its last range."""
    link = Replayed(decider)
    for item in stream:
        link.offer(item)
    link.expire()
    return link
