"""The windows that lie beyond one link: what was offered to it, and what crosses when a window expires.

A publication crosses at most once. Having crossed, it counts by itself in every window beyond; until then it counts in the
aggregates that are made of it, and remembers which. So nothing is counted twice, and nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from msgspec import Struct, structs

from streaming.broker.state import NEVER
from streaming.model.items import Aggregated, Item, Publication, counted_in, matches, starts_of
from streaming.windows.deciders import Choice, ChoiceReason, Decider, Decision, decider
from streaming.windows.graph import Graph, Range
from tidings.aggregate import Of
from tidings.partial import Partial, added, empty, merged
from tidings.subscription import Subscription
from tidings.window import Window

MOST_ITEMS = 100_000
"""What waits for windows at one link. Beyond, publications cross at once, which is always right, if not the cheapest."""


class RangeTally(Struct, array_like=True):
    """What was offered for a range. ``fresh`` is how many of its items no range that expires before it has: always
    forwarding would send them now. ``waited`` is how many did not cross anyway, ``hurried`` how many of the fresh ones crossed
    at once since only the publications themselves will do."""

    items: int = 0
    fresh: int = 0
    waited: int = 0
    hurried: int = 0


class UncrossedItem(Struct, array_like=True):
    """An item that has not crossed, as it is kept between batches."""

    number: int
    item: Item
    ranges: tuple[Range, ...]
    degree: int


class PackedLink(Struct, array_like=True):
    """All that a link remembers."""

    decider: str
    learned: bytes
    number: int
    waiting: list[UncrossedItem]
    tallies: list[tuple[Range, RangeTally]]


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate subscription beyond the link that takes an item, and the ranges it counts in."""

    subscription: Subscription
    window: Window
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Expired:
    """What was decided for a range. ``items`` were offered for it, ``sent`` crosses now, ``hurried`` of them crossed before."""

    range: Range
    subscription: Subscription
    decider: str
    decision: Decision
    items: int
    sent: tuple[Item, ...]
    hurried: int
    would: Mapping[str, int]


def asked_by(subscriptions: Iterable[Subscription], item: Item, since: Mapping[str, int], extra_ms: int) -> list[Asked]:
    """Those who take an item, each with the ranges that it counts in.

    ``since`` says from which time the windows of an interest are whole: what entered before never counts, since it depends on
    the batches whether it is offered. ``extra_ms`` is how much longer this topic's windows wait.
    """
    found = []
    done = counted_in(item)
    for subscription in subscriptions:
        window, interest = subscription.window, subscription.interest
        if window is None or interest not in since or not matches(subscription, item):
            continue
        if isinstance(item, Aggregated):
            starts = [item.start]
        elif item.entered_ms <= since[interest]:
            continue
        elif window.counted:
            found.append(Asked(subscription, window, ()))
            continue
        else:
            starts = starts_of(subscription, item)
        known = done.get(interest, ())
        ranges = [Range(window.closes_ms(s) + extra_ms, interest, s) for s in starts if s >= since[interest] and s not in known]
        if ranges:
            found.append(Asked(subscription, window, tuple(ranges)))
    return found


def still_open(asked: Iterable[Asked], through_ms: int) -> list[Asked]:
    """What is left of these when the ranges that end by ``through_ms`` have closed."""
    found = []
    for each in asked:
        ranges = tuple(range_ for range_ in each.ranges if range_.end > through_ms)
        if ranges or not each.ranges:
            found.append(each if len(ranges) == len(each.ranges) else replace(each, ranges=ranges))
    return found


@dataclass
class LinkWindows:
    """The `OpenWindows` beyond one link in one direction, for one topic."""

    decider: Decider
    graph: Graph = field(default_factory=Graph)
    items: dict[int, Item] = field(default_factory=dict)
    tallies: dict[Range, RangeTally] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self._ends = sorted(self.tallies)
        """A heap of the ranges, some of which may be gone."""
        self._counted: dict[int, list[tuple[str, int]]] = {}
        """By item, the windows whose aggregates it has crossed in."""

    def choose(self, name: str) -> None:
        """Another decider decides from here on."""
        if self.decider.name != name:
            self.decider = decider(name)

    def offer(self, item: Item, asked: Sequence[Asked], now_ms: int, *, crosses: bool) -> bool:
        """Take in an item for those who ask for it; it may cross the link anyway. Returns whether it has to cross at once."""
        ranges = tuple(sorted(range_ for each in asked for range_ in each.ranges))
        whole = not all(each.window.decomposable for each in asked) or len(self.items) >= MOST_ITEMS
        waits = not crosses and not whole
        self._tally(ranges, waits=waits, crosses=crosses)
        self.number += 1
        if waits:
            self.items[self.number] = item
            self.graph.add(self.number, ranges)
        self.decider.arrived(self.graph, self.number, ranges, now_ms, crosses=not waits)
        return whole and not crosses

    def _tally(self, ranges: Sequence[Range], *, waits: bool, crosses: bool) -> None:
        """Note for each range what was offered for it. One that was not open yet is from here on."""
        for place, range_ in enumerate(ranges):
            tally = self.tallies.get(range_)
            if tally is None:
                tally = self.tallies[range_] = RangeTally()
                heappush(self._ends, range_)
            tally.items += 1
            tally.waited += waits
            tally.fresh += place == 0 and not crosses
            tally.hurried += place == 0 and not crosses and not waits

    @property
    def next_ms(self) -> int:
        """When the next range expires; `NEVER` if there is none."""
        while self._ends and self._ends[0] not in self.tallies:
            heappop(self._ends)
        return self._ends[0].end if self._ends else NEVER

    def close(self, through_ms: int, subscriptions: Mapping[str, Subscription]) -> Iterator[Expired]:
        """What is decided for the ranges that expire by then, in their order. One whose subscription is gone is dropped."""
        while self.next_ms <= through_ms:
            range_ = heappop(self._ends)
            subscription = subscriptions.get(range_.subscription)
            if subscription is None or subscription.window is None:
                self.drop(frozenset({range_.subscription}))
            else:
                yield self._expire(range_, subscription, subscription.window, through_ms)

    def _expire(self, range_: Range, subscription: Subscription, window: Window, now_ms: int) -> Expired:
        """A range expires: decide what crosses."""
        tally, numbers = self.tallies.pop(range_), self.graph.items_of(range_)
        decision = self._decide(range_, window, numbers, now_ms)
        would = self._would(range_, tally, numbers, now_ms)
        sent: tuple[Item, ...]
        if numbers and decision.choice is Choice.FORWARD:
            sent = tuple(self._leaving(number) for number in self.graph.forwarded(range_))
        else:
            self.graph.aggregated(range_)
            items = [self.items[number] for number in numbers]
            sent = (Aggregated(range_.subscription, range_.start, partial_of(items, window.of)),) if numbers else ()
            for number in self._forget(numbers):
                self._counted.setdefault(number, []).append((range_.subscription, range_.start))
        return Expired(range_, subscription, self.decider.name, decision, tally.items, sent, tally.hurried, would)

    def _decide(self, range_: Range, window: Window, numbers: list[int], now_ms: int) -> Decision:
        if not window.decomposable:
            return Decision(Choice.FORWARD, ChoiceReason.NOT_DECOMPOSABLE)
        if not numbers:
            return Decision(Choice.AGGREGATE, ChoiceReason.EMPTY)
        return self.decider.decide(self.graph, range_, now_ms)

    def _would(self, range_: Range, tally: RangeTally, numbers: list[int], now_ms: int) -> dict[str, int]:
        """What this range would cost by other deciders, as things are; forwarding and aggregating as if that was always done."""
        would = {"forward": tally.fresh, "aggregate": min(1, tally.waited) + tally.hurried}
        for name in ("wad", "adock"):
            other = self.decider if self.decider.name == name else decider(name)
            forwards = bool(numbers) and other.decide(self.graph, range_, now_ms).choice is Choice.FORWARD
            would[name] = (len(numbers) if forwards else min(1, len(numbers))) + tally.hurried
        return would

    def _forget(self, numbers: list[int]) -> list[int]:
        """Drop the items that count in no range any more. Returns the others."""
        left = [number for number in numbers if self.graph.has(number)]
        for number in set(numbers).difference(left):
            del self.items[number]
            self._counted.pop(number, None)
        return left

    def _leaving(self, number: int) -> Item:
        """An item crosses, and says what it has been counted in."""
        item = self._as_counted(number)
        del self.items[number]
        self._counted.pop(number, None)
        return item

    def _as_counted(self, number: int) -> Item:
        item = self.items[number]
        if not (counted := self._counted.get(number)):
            return item
        assert isinstance(item, Publication)  # an aggregate counts in one range
        return structs.replace(item, counted=(*item.counted, *counted))

    def drop(self, interests: frozenset[str]) -> int:
        """Whoever asked for these asks no more. Returns how many windows were given up."""
        dropped = [each for each in self.tallies if each.subscription in interests]
        for range_ in dropped:
            del self.tallies[range_]
            self._forget(self.graph.aggregated(range_))
        self._ends = sorted(self.tallies)
        return len(dropped)

    # ---- as bytes -----------------------------------------------------------------------------------------------------

    def state(self) -> PackedLink:
        ranges = self.graph.items
        waiting = [UncrossedItem(n, self._as_counted(n), tuple(sorted(ranges[n])), self.graph.degree(n)) for n in self.items]
        tallies = sorted((range_, tally) for range_, tally in self.tallies.items())
        return PackedLink(self.decider.name, self.decider.state(), self.number, waiting, tallies)

    @staticmethod
    def restored(state: PackedLink) -> LinkWindows:
        link = LinkWindows(decider(state.decider), tallies=dict(state.tallies), number=state.number)
        for each in state.waiting:
            link.items[each.number] = each.item
            link.graph.add(each.number, each.ranges, each.degree)
        link.decider.restore(state.learned)
        return link


def partial_of(items: Sequence[Item], of: Of) -> Partial:
    """Items as one aggregate."""
    total = empty(of)
    for item in items:
        total = with_item(total, item, of)
    return total


def with_item(partial: Partial, item: Item, of: Of) -> Partial:
    """A partial and one item more; the one that was given is used up."""
    if isinstance(item, Aggregated):
        return merged(partial, item.partial, of)
    added(partial, of, item.published_ms, item.id, item.fields)
    return partial
