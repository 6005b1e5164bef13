"""What WAD would have sent over the same link, and how much every complete window had of its items.

The shadow is a second world in which WAD decides. A group of items is complete when its first range expires, since nothing that
comes later counts in that range; so the shadow looks at a group then, and costs nothing for an item that comes. As long as the
group is in the graph, the graph says which ranges it is in. When it crosses, the shadow remembers it for the ranges that are
left: WAD may not have sent it. These ranges may have no items in the graph, and then nobody asks for them; the shadow settles
them itself, in their order, when the next one is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from math import fsum

import msgspec

from streaming.windows.deciders.wad import weighs_one
from streaming.windows.graph import Group, Range, Spot

KEEP = 3 / 4
"""A window's part in the mean of a subscription shrinks by this with every later one: what counts are the last few."""
KEEP_ALL = 1023 / 1024
"""The same for the mean of all, where many windows count."""
PRIOR = 1.0
"""Beside its own windows, a subscription is taken to have had so many as they usually are."""
USUAL_MOST = 1.5
"""And these are not taken to have more than this: windows that have plenty say nothing of others."""
PACE = 0.1
"""How fast the claims of subscriptions follow what their windows have."""
TIDY = 4096
FORGET = 256
"""After so many windows without an item, a subscription is forgotten."""


class Share(msgspec.Struct, array_like=True, gc=False):
    """A group in the shadow's world. ``crossed`` there says nothing about here."""

    first: int
    count: int
    degree: int
    parts: dict[str, float]
    """By subscription, what each of its ranges has of an item."""
    crossed: bool = False


class Past(msgspec.Struct, array_like=True, gc=False):
    """How much the windows of one subscription had of their items, the later the more. One without items had nothing.

    An item is divided among its ranges, by their claims: at first equally, as WAD does it. Subscriptions whose windows have
    more than one message's worth claim less and less, and leave it to the others. So what each has tends to what it would have
    in the best division, the one that a maximum matching is about.

    The windows of a new subscription may have begun before it came. Of those that began before ``trusted`` only the fullest
    counts.
    """

    start: int
    size: int
    trusted: int
    shift: int = 0
    """The least distance between two windows so far; 0 as long as there was one only."""
    weight: float = 0.0
    windows: float = 0.0
    claim: float = 1.0

    def add(self, range_: Range, had: float, seen: float, usual: float) -> None:
        """A window is complete, of which the link has seen this part. They come in order. ``usual`` is what others have."""
        passed = range_.start - self.start
        self.start = range_.start
        if passed > 0 and not 0 < self.shift <= passed:
            self.shift = passed
        if range_.start < self.trusted:
            self.weight, self.windows = max(self.weight, had), 1.0
        elif passed <= self.shift:
            self.weight = self.weight * KEEP + had
            self.windows = self.windows * KEEP + seen
        else:
            kept = KEEP ** (passed // self.shift)
            self.weight = self.weight * kept + had
            self.windows = self.windows * kept + (1 - kept) / (1 - KEEP)
        self.claim = min(max(self.claim / min(max(self.mean(usual), 0.5), 2.0) ** PACE, 1e-3), 1e3)

    def mean(self, usual: float) -> float:
        """What a window of this subscription has. As long as there were few, what is usual counts as well."""
        return (self.weight + PRIOR * usual) / (self.windows + PRIOR)


class Remembered(msgspec.Struct, array_like=True):
    """A shadow as bytes. Ranges name their shares by their first items, since a share may be in many."""

    sent: int
    began: int
    had: float
    seen: float
    settled: int
    past: dict[str, Past]
    here: list[Share]
    gone: list[Share]
    ranges: list[tuple[Range, list[int]]]


class Shadow:
    """WAD's world beside the real one. ``sent`` is what WAD would have sent for the ranges settled so far."""

    def __init__(self) -> None:
        self.sent = 0
        self.began = 0
        """When the first item came."""
        self.past: dict[str, Past] = {}
        self.usual = 1.0
        """What a window has, whosever it is."""
        self._had = self._seen = PRIOR
        self._settled = 0
        self._here: dict[int, Share] = {}
        """Groups of the graph, by the number of their first item: nothing else names a group that was kept as bytes."""
        self._gone: dict[Range, list[Share]] = {}
        """Groups that have left the graph, by the ranges they were still in."""
        self._order: list[Range] = []

    def settle(self, range_: Range, groups: Iterable[Group]) -> bool:
        """A range expires, and these are its groups in the graph. Whether WAD would aggregate it."""
        while self._order and self._order[0] <= range_:
            earlier = heappop(self._order)
            if earlier != range_:
                self._expire(earlier, self._gone.pop(earlier))
        shares = self._gone.pop(range_, [])
        for group in groups:
            shares += self._shares(group)
        return self._expire(range_, shares)

    def _shares(self, group: Group) -> list[Share]:
        """What is known of a group. In a graph that was kept as bytes it may be several that had become alike."""
        share = self._here.get(group.items[0]) or self._look_at(group)
        if share.count == len(group.items):
            return [share]
        return [self._here[item] for item in group.items if item in self._here]

    def _look_at(self, group: Group) -> Share:
        """A group is complete."""
        claims = {spot.range.subscription: 1.0 for spot in group.spots}
        for name in claims:
            if (past := self.past.get(name)) is not None:
                claims[name] = past.claim
        # Ranges that left before, without expiring, have had nothing; the others do not get more for that.
        whole = sum([claims[spot.range.subscription] for spot in group.spots]) * group.degree / len(group.spots)
        for name in claims:
            claims[name] /= whole
        share = self._here[group.items[0]] = Share(group.items[0], len(group.items), group.degree, claims)
        return share

    def aggregated(self, spot: Spot) -> None:
        """A range is about to leave the graph. Those groups go with it that are in no other."""
        for group in spot.groups:
            if len(group.spots) == 1:
                for share in self._shares(group):
                    del self._here[share.first]

    def forwarded(self, spot: Spot) -> None:
        """The groups of a range are about to leave the graph, though perhaps not WAD's world."""
        for group in spot.groups:
            shares = self._shares(group)
            for share in shares:
                del self._here[share.first]
            for each in group.spots:
                if each is spot:
                    continue
                if each.range not in self._gone:
                    self._gone[each.range] = []
                    heappush(self._order, each.range)
                self._gone[each.range] += shares

    def _expire(self, range_: Range, shares: list[Share]) -> bool:
        name = range_.subscription
        self._learn(range_, fsum([share.count * share.parts[name] for share in shares]))
        waiting = [share for share in shares if not share.crossed]
        if weighs_one([(share.count, share.degree) for share in waiting]):
            self.sent += 1
            return True
        for share in waiting:
            share.crossed = True
            self.sent += share.count
        return False

    def _learn(self, range_: Range, had: float) -> None:
        size = range_.end - range_.start
        past = self.past.get(range_.subscription)
        if past is None or past.size != size:
            trusted = range_.start if range_.start < self.began else range_.end
            past = self.past[range_.subscription] = Past(range_.start, size, trusted)
        seen = 1.0 if range_.start >= self.began else max(range_.end - self.began, 0) / size
        self._had = self._had * KEEP_ALL + min(had, USUAL_MOST * seen)
        self._seen = self._seen * KEEP_ALL + seen
        self.usual = self._had / self._seen
        past.add(range_, had, seen, self.usual)

    def claim(self, subscription: str) -> float:
        """How large a part of its items a range of this subscription claims, beside the claims of their other ranges."""
        past = self.past.get(subscription)
        return 1.0 if past is None else past.claim

    def mean(self, subscription: str) -> float:
        """What a window of a subscription has."""
        past = self.past.get(subscription)
        return self.usual if past is None else past.mean(self.usual)

    def tidy(self, groups: Collection[Group], now: int) -> None:
        """Now and then: forget who has had nothing for long, and groups that left the graph by another way."""
        self._settled += 1
        if self._settled % TIDY:
            return
        self.past = {name: each for name, each in self.past.items() if now - each.start < FORGET * each.size}
        firsts = {group.items[0] for group in groups}
        self._here = {first: share for first, share in self._here.items() if first in firsts}

    def remembered(self) -> Remembered:
        gone = {share.first: share for shares in self._gone.values() for share in shares}
        ranges = [(range_, [share.first for share in shares]) for range_, shares in self._gone.items()]
        return Remembered(
            sent=self.sent,
            began=self.began,
            had=self._had,
            seen=self._seen,
            settled=self._settled,
            past=self.past,
            here=list(self._here.values()),
            gone=list(gone.values()),
            ranges=ranges,
        )

    @staticmethod
    def of(remembered: Remembered) -> Shadow:
        shadow = Shadow()
        shadow.sent, shadow.began, shadow.past = remembered.sent, remembered.began, remembered.past
        shadow._had, shadow._seen, shadow._settled = remembered.had, remembered.seen, remembered.settled
        shadow.usual = remembered.had / remembered.seen
        shadow._here = {share.first: share for share in remembered.here}
        gone = {share.first: share for share in remembered.gone}
        shadow._gone = {range_: [gone[first] for first in firsts] for range_, firsts in remembered.ranges}
        shadow._order = sorted(shadow._gone)
        return shadow
