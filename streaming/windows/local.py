"""The windows of a broker's own subscribers: what they hold, and what is told when they close."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from msgspec import Struct

from streaming.broker.state import NEVER
from streaming.model.items import Item, Publication
from streaming.windows.graph import Range
from streaming.windows.link import Asked, with_item
from tidings.notification import Notification, Reason, ToldWindow, window_id
from tidings.partial import Partial, empty, left_out, results
from tidings.subscription import Subscription
from tidings.window import Window

MOST_EMPTY = 10_000
"""This many windows are told at once after a long silence, to one who asks for empty ones; the rest follows."""


class Counting(Struct, array_like=True):
    """The windows of a subscription that counts publications: how many came, and the windows that are not full."""

    came: int = 0
    open: list[tuple[int, Partial]] = []


class PackedLocal(Struct, array_like=True):
    """All that is remembered."""

    open: list[tuple[Range, Partial]]
    counting: dict[str, Counting]
    unordered: list[tuple[Publication, list[str]]]
    """Publications for windows that count publications, and whose windows those are: their order is not certain yet."""
    next_empty: dict[str, int]
    waits_ms: int = 0
    """How long after it entered something may still be offered."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """A window has closed: what it held. ``start`` and ``end`` are times, or numbers of publications."""

    subscription: Subscription
    start: int
    end: int
    partial: Partial
    at_ms: int

    @property
    def notification(self) -> Notification:
        """What the subscriber is told: the same bytes for the same window, however often it is worked out."""
        subscription, partial, window = self.subscription, self.partial, self.subscription.window
        assert window is not None
        return Notification(
            id=window_id(subscription.name, subscription.since, subscription.interest, self.start),
            subscriber=subscription.subscriber,
            subscription=subscription.name,
            topic=subscription.topic,
            key="",
            event="",
            revision=1,
            reason=Reason.AGGREGATE,
            news=results(partial, window.of),
            reports=partial.publications,
            sources=0,
            first_ms=self.start if partial.first_ms is None else partial.first_ms,
            last_ms=self.end if partial.last_ms is None else partial.last_ms,
            window=ToldWindow(self.start, self.end, window.counted, left_out(partial, window.of)),
        )


@dataclass
class LocalWindows:
    """The `OpenWindows` of one broker's own subscribers to one topic."""

    open: dict[Range, Partial] = field(default_factory=dict)
    counting: dict[str, Counting] = field(default_factory=dict)
    unordered: list[tuple[Publication, list[str]]] = field(default_factory=list)
    next_empty: dict[str, int] = field(default_factory=dict)
    waits_ms: int = 0

    def __post_init__(self) -> None:
        self._ends = sorted(self.open)
        """A heap of the ranges, some of which may be gone."""

    def offer(self, item: Item, asked: Sequence[Asked]) -> None:
        """Take in an item for all who ask for it."""
        for each in asked:
            for range_ in each.ranges:
                if range_ not in self.open:
                    self.open[range_] = empty(each.window.of)
                    heappush(self._ends, range_)
                self.open[range_] = with_item(self.open[range_], item, each.window.of)
        counted = [each.subscription.interest for each in asked if each.window.counted]
        if counted and isinstance(item, Publication):
            insort(self.unordered, (item, counted), key=lambda each: _place(each[0]))

    def close(
        self, through_ms: int, subscriptions: Mapping[str, Subscription], since: Mapping[str, int], extra_ms: int
    ) -> Iterator[WindowResult]:
        """What is told of all windows that close by then, in the order they close; then of those that count.

        ``since`` says since when each interest is known to all who send: of windows that began before, nothing is told.
        ``extra_ms`` is how much longer windows of events wait.
        """
        for range_, partial in self._closing(through_ms, subscriptions, since, extra_ms):
            subscription = subscriptions.get(range_.subscription)
            if subscription is None or subscription.window is None or range_.start < since.get(range_.subscription, NEVER):
                continue
            if partial.publications or subscription.window.empty:
                end = range_.start + subscription.window.size
                yield WindowResult(subscription, range_.start, end, partial, range_.end)
        self.waits_ms = extra_ms
        yield from self._count(through_ms - extra_ms, subscriptions, since)

    def _closing(
        self, through_ms: int, subscriptions: Mapping[str, Subscription], since: Mapping[str, int], extra_ms: int
    ) -> list[tuple[Range, Partial]]:
        """The windows that close by then, in their order, with the empty ones that somebody wants to hear of."""
        due = []
        while self._next_end_ms <= through_ms:
            due.append(heappop(self._ends))
        nothing, through = self._empty(through_ms, subscriptions, since, extra_ms, frozenset(due))
        later = [range_ for range_ in due if range_.start >= through.get(range_.subscription, NEVER)]
        for range_ in later:
            heappush(self._ends, range_)
        ends = [(range_, self.open.pop(range_)) for range_ in due if range_.start < through.get(range_.subscription, NEVER)]
        return sorted([*ends, *nothing], key=lambda each: each[0])

    def _empty(
        self,
        through_ms: int,
        subscriptions: Mapping[str, Subscription],
        since: Mapping[str, int],
        extra_ms: int,
        known: frozenset[Range],
    ) -> tuple[list[tuple[Range, Partial]], dict[str, int]]:
        """The windows that nothing came for, of those who want to hear so. Where these are too many to tell at once, also the
        last start that was told, by interest. ``known`` are the windows that close with something."""
        found, through = [], {}
        for interest, subscription in subscriptions.items():
            window = subscription.window
            if window is None or window.counted or not window.empty or interest not in since:
                continue
            start = self.next_empty.get(interest, -(-since[interest] // window.shift) * window.shift)
            last = start + MOST_EMPTY * window.shift
            while (end_ms := window.closes_ms(start) + extra_ms) <= through_ms and start < last:
                range_ = Range(end_ms, interest, start)
                if range_ not in known:
                    found.append((range_, empty(window.of)))
                start += window.shift
            self.next_empty[interest] = start
            if start == last:
                through[interest] = last
        return found, through

    def _count(
        self, before_ms: int, subscriptions: Mapping[str, Subscription], since: Mapping[str, int]
    ) -> Iterator[WindowResult]:
        """Put what entered before that time into the windows that count, in its order. What entered before somebody who sends
        knew of a subscription does not count for it; as long as that is not known of all, it waits."""
        ready = bisect_left(self.unordered, before_ms, key=lambda each: each[0].entered_ms)
        taken, waits = self.unordered[:ready], []
        for item, interests in taken:
            for interest in interests:
                subscription, since_ms = subscriptions.get(interest), since.get(interest)
                if subscription and subscription.window and since_ms is not None and item.entered_ms > since_ms:
                    yield from self._count_one(item, subscription, subscription.window)
            if unknown := [interest for interest in interests if interest in subscriptions and interest not in since]:
                waits.append((item, unknown))
        self.unordered = waits + self.unordered[ready:]

    def _count_one(self, item: Publication, subscription: Subscription, window: Window) -> Iterator[WindowResult]:
        counting = self.counting.setdefault(subscription.interest, Counting(0, []))
        if counting.came % window.shift == 0:
            counting.open.append((counting.came, empty(window.of)))
        counting.open = [(start, with_item(partial, item, window.of)) for start, partial in counting.open]
        counting.came += 1
        while counting.open and counting.open[0][0] + window.size == counting.came:
            start, partial = counting.open.pop(0)
            yield WindowResult(subscription, start, counting.came, partial, item.entered_ms)

    @property
    def next_ms(self) -> int:
        """When the next window closes that holds something; `NEVER` if there is none."""
        certain_ms = self.unordered[0][0].entered_ms + self.waits_ms + 1 if self.unordered else NEVER
        return min(self._next_end_ms, certain_ms)

    @property
    def _next_end_ms(self) -> int:
        while self._ends and self._ends[0] not in self.open:
            heappop(self._ends)
        return self._ends[0].end if self._ends else NEVER

    def drop(self, interests: frozenset[str]) -> int:
        """Whoever asked for these asks no more. Returns how many windows were given up."""
        before = len(self.open)
        self.open = {range_: partial for range_, partial in self.open.items() if range_.subscription not in interests}
        self.counting = {name: counting for name, counting in self.counting.items() if name not in interests}
        self.next_empty = {name: start for name, start in self.next_empty.items() if name not in interests}
        left = [(item, [name for name in names if name not in interests]) for item, names in self.unordered]
        self.unordered = [each for each in left if each[1]]
        self._ends = sorted(self.open)
        return before - len(self.open)

    def state(self) -> PackedLocal:
        ranges = sorted(self.open.items(), key=lambda each: each[0])
        return PackedLocal(ranges, self.counting, self.unordered, self.next_empty, self.waits_ms)

    @staticmethod
    def restored(state: PackedLocal) -> LocalWindows:
        return LocalWindows(dict(state.open), state.counting, state.unordered, state.next_empty, state.waits_ms)


def _place(item: Publication) -> tuple[int, tuple[str, int, int], str]:
    """One order for all publications: that in which they entered."""
    return item.entered_ms, item.entered_at, item.id
