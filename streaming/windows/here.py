"""The windows of a broker's own subscribers: what they hold, and their results when they close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from streaming.windows.graph import Range
from streaming.windows.items import Item, Publication
from streaming.windows.link import Asked, with_item
from tidings.aggregate import Partial, empty
from tidings.subscription import Subscription
from tidings.window import Window

NEVER = 2**62
MOST_EMPTY = 10_000
"""So many empty windows are told at once after a long silence; the rest follows."""


class Counting(Struct, array_like=True):
    """The windows of a subscription that counts publications: how many came, and the windows that are not full."""

    came: int = 0
    open: list[tuple[int, Partial]] = []


class HereState(Struct, array_like=True):
    """All that is remembered."""

    open: list[tuple[Range, Partial]]
    counting: dict[str, Counting]
    unordered: list[tuple[Publication, list[str]]]
    """Publications that count in windows of so many, and for whose: their order is not certain yet."""
    next_empty: dict[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """A window has closed: what it held. ``start`` and ``end`` are times, or numbers of publications."""

    subscription: Subscription
    start: int
    end: int
    partial: Partial
    at_ms: int


@dataclass
class HereWindows:
    """The windows of one broker's own subscribers to one topic."""

    open: dict[Range, Partial] = field(default_factory=dict)
    counting: dict[str, Counting] = field(default_factory=dict)
    unordered: list[tuple[Publication, list[str]]] = field(default_factory=list)
    next_empty: dict[str, int] = field(default_factory=dict)

    def offer(self, item: Item, asked: Sequence[Asked]) -> None:
        """Take in an item for all who ask for it."""
        for each in asked:
            assert each.subscription.window is not None
            for range_ in each.ranges:
                partial = self.open.get(range_)
                of = each.subscription.window.of
                self.open[range_] = with_item(empty(of) if partial is None else partial, item, of)
        counted = [each.subscription.interest for each in asked if each.subscription.window and each.subscription.window.counted]
        if counted and isinstance(item, Publication):
            self.unordered.append((item, counted))

    def close(
        self, through_ms: int, subscriptions: Mapping[str, Subscription], since: Mapping[str, int], extra_ms: int
    ) -> Iterator[Result]:
        """The results of all windows that close by then, in the order they close; then of those that count."""
        ends = [(range_, partial) for range_, partial in self.open.items() if range_.end <= through_ms]
        for range_, _ in ends:
            del self.open[range_]
        nothing = list(self._empty(through_ms, subscriptions, since, extra_ms, {range_ for range_, _ in ends}))
        for range_, partial in sorted([*ends, *nothing], key=lambda each: each[0]):
            subscription = subscriptions.get(range_.subscription)
            if subscription is not None and subscription.window is not None:
                end = range_.start + subscription.window.size
                yield Result(subscription, range_.start, end, partial, range_.end)
        yield from self._count(through_ms, subscriptions)

    def _empty(
        self,
        through_ms: int,
        subscriptions: Mapping[str, Subscription],
        since: Mapping[str, int],
        extra_ms: int,
        known: set[Range],
    ) -> Iterator[tuple[Range, Partial]]:
        """The windows that nothing came for, of those who want to hear so."""
        for interest, subscription in subscriptions.items():
            window = subscription.window
            if window is None or window.counted or not window.empty or interest not in since:
                continue
            start = self.next_empty.get(interest, -(-since[interest] // window.shift) * window.shift)
            left = MOST_EMPTY
            while (end_ms := window.closes_ms(start) + extra_ms) <= through_ms and left:
                range_ = Range(end_ms, interest, start)
                if range_ not in known:
                    yield range_, empty(window.of)
                start, left = start + window.shift, left - 1
            self.next_empty[interest] = start

    def _count(self, through_ms: int, subscriptions: Mapping[str, Subscription]) -> Iterator[Result]:
        """Put what came before that time into its order, and into the windows that count."""
        ready = [each for each in self.unordered if each[0].entered_ms < through_ms]
        self.unordered = [each for each in self.unordered if each[0].entered_ms >= through_ms]
        for item, interests in sorted(ready, key=lambda each: (each[0].entered_ms, each[0].entered_at, each[0].id)):
            for interest in interests:
                if (subscription := subscriptions.get(interest)) and subscription.window:
                    yield from self._count_one(item, subscription, subscription.window)

    def _count_one(self, item: Publication, subscription: Subscription, window: Window) -> Iterator[Result]:
        counting = self.counting.setdefault(subscription.interest, Counting(0, []))
        if counting.came % window.shift == 0:
            counting.open.append((counting.came, empty(window.of)))
        counting.open = [(start, with_item(partial, item, window.of)) for start, partial in counting.open]
        counting.came += 1
        while counting.open and counting.open[0][0] + window.size == counting.came:
            start, partial = counting.open.pop(0)
            yield Result(subscription, start, counting.came, partial, item.entered_ms)

    @property
    def next_ms(self) -> int:
        """When the next window closes that holds something; far away if there is none."""
        counting = [item.entered_ms + 1 for item, _ in self.unordered]
        return min([*(range_.end for range_ in self.open), *counting], default=NEVER)

    def drop(self, interests: frozenset[str]) -> None:
        """Whoever asked for these asks no more."""
        self.open = {range_: partial for range_, partial in self.open.items() if range_.subscription not in interests}
        self.counting = {name: counting for name, counting in self.counting.items() if name not in interests}
        self.next_empty = {name: start for name, start in self.next_empty.items() if name not in interests}
        left = [(item, [name for name in names if name not in interests]) for item, names in self.unordered]
        self.unordered = [each for each in left if each[1]]

    def state(self) -> HereState:
        return HereState(sorted(self.open.items(), key=lambda each: each[0]), self.counting, self.unordered, self.next_empty)

    @staticmethod
    def restored(state: HereState) -> HereWindows:
        return HereWindows(dict(state.open), state.counting, state.unordered, state.next_empty)
