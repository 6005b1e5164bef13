"""What WAD would have sent over the same link, and how much every complete window had of its items.

The shadow is a second world in which WAD decides. A group of items is complete when its first range expires, since nothing that
comes later counts in that range; so the shadow looks at a group then, once, and costs nothing for an item that comes. As long
as the group is in the graph, the graph says which ranges it is in. When it crosses, the shadow remembers it for the ranges that
are left: WAD may not have sent it. These ranges may have no items in the graph, and then nobody asks for them; the shadow
settles them itself, in their order, when the next one is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from itertools import chain
from math import fsum

import msgspec

from streaming.windows.deciders.wad import NEAR, weighs_one
from streaming.windows.graph import Group, OpenRange, Range

KEEP = 3 / 4
"""A window's part in the mean of a subscription shrinks by this with every later one: what counts are the last few."""
KEEP_ALL = 1023 / 1024
"""The same for the mean of all, where many windows count."""
PRIOR = 1.0
"""Besides its own windows, a subscription is taken to have had this many usual ones."""
USUAL_MOST = 1.5
"""And these are not taken to have more than this: windows that have plenty say nothing of others."""
PACE = 0.1
"""How fast the claims of subscriptions follow what their windows have."""
TIDY = 4096
FORGET = 256
"""After this many windows without an item, a subscription is forgotten."""


class Share(msgspec.Struct, array_like=True, gc=False):
    """A group in the shadow's world. ``crossed`` there says nothing about here."""

    first: int
    count: int
    degree: int
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


class ShadowState(msgspec.Struct, array_like=True):
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
    parts: list[tuple[tuple[Range, ...], list[float]]]


class Shadow:
    """WAD's world beside the real one. ``sent`` is what WAD would have sent for the ranges settled so far."""

    def __init__(self) -> None:
        self.sent = 0
        self.began = 0
        """When the first item came."""
        self.past: dict[str, Past] = {}
        self.usual = 1.0
        """What a window has, of whichever subscription."""
        self._had = self._seen = PRIOR
        self._settled = 0
        self._here: dict[int, Share] = {}
        """Groups of the graph, by the number of their first item: nothing else names a group that was kept as bytes."""
        self._gone: dict[Range, list[Share]] = {}
        """Groups that have left the graph, by the ranges they were still in."""
        self._parts: dict[str, dict[tuple[Range, ...], array[float]]] = {}
        """By subscription, what its open ranges have of the groups looked at, wherever these are by now. Each of the ranges of a
        group has the same, so it is written down once for all of them."""
        self._order: list[Range] = []

    def settle(self, range_: Range, groups: Collection[Group], fresh: Collection[Group] | None = None) -> bool:
        """A range expires, and these are its groups in the graph. Whether WAD would aggregate it.

        All that have not been looked at are ``fresh``, if that is known; not all of them need be in the graph.
        """
        while self._order and self._order[0] <= range_:
            earlier = heappop(self._order)
            if earlier != range_:
                self._expire(earlier, self._gone.pop(earlier), ())
        for group in groups if fresh is None else fresh:
            if group in groups:
                self._shares(group)
        return self._expire(range_, self._gone.pop(range_, ()), groups)

    def _shares(self, group: Group) -> list[Share]:
        """What is known of a group. In a graph that was kept as bytes it may be several that had become alike."""
        here = self._here
        noted: Share | None = group.note
        if noted is not None and noted is here.get(noted.first):
            return [noted]
        shares = [here[item] for item in group.items if item in here]
        unseen = len(group.items) - sum([share.count for share in shares])
        if unseen:
            shares.append(self._look_at(group, unseen))
        group.note = shares[0] if len(shares) == 1 else None
        return shares

    def _look_at(self, group: Group, count: int) -> Share:
        """``count`` items of a group are complete, and divided."""
        of: dict[str, list[Range]] = {}
        names = []
        for spot in group.all_spots if group.key is not None else group.spots:
            range_ = spot.range
            name = range_.subscription
            names.append(name)
            if name in of:
                of[name].append(range_)
            else:
                of[name] = [range_]
        claims = {name: self.claim(name) for name in of}
        # Ranges that left before, without expiring, have had nothing; the others do not get more for that.
        whole = sum([claims[name] for name in names]) * group.degree / len(names)
        for name, ranges in of.items():
            self._parts_of(name, tuple(ranges)).append(count * (claims[name] / whole))
        items, here = group.items, self._here
        first = items[0] if count == len(items) else next(item for item in items if item not in here)
        share = here[first] = Share(first, count, group.degree)
        return share

    def _parts_of(self, name: str, ranges: tuple[Range, ...]) -> array[float]:
        parts = self._parts.get(name)
        if parts is None:
            parts = self._parts[name] = {}
        found = parts.get(ranges)
        if found is None:
            found = parts[ranges] = array("d")
        return found

    def _had_by(self, range_: Range) -> float:
        """What a range that expires has. What is in no later one is forgotten."""
        parts = self._parts.get(range_.subscription)
        if parts is None:
            return 0.0
        had = fsum(chain.from_iterable([found for ranges, found in parts.items() if range_ in ranges]))
        for ranges in [ranges for ranges in parts if ranges[-1] <= range_]:
            del parts[ranges]
        if not parts:
            del self._parts[range_.subscription]
        return had

    def _forget(self, group: Group) -> list[Share]:
        shares = self._shares(group)
        for share in shares:
            del self._here[share.first]
        return shares

    def aggregated(self, spot: OpenRange) -> None:
        """A range is about to leave the graph. The groups that are in no other go with it."""
        for group in spot.ends:
            if group in spot.groups and len(group.spots) == 1:
                self._forget(group)

    def forwarded(self, spot: OpenRange) -> None:
        """The groups of a range are about to leave the graph, though perhaps not WAD's world."""
        for group in spot.groups:
            shares = self._forget(group)
            for each in group.spots:
                if each is spot:
                    continue
                if each.range not in self._gone:
                    self._gone[each.range] = []
                    heappush(self._order, each.range)
                self._gone[each.range] += shares

    def _expire(self, range_: Range, gone: Iterable[Share], groups: Iterable[Group]) -> bool:
        """All of the groups have been looked at, and have a note of it unless they are several."""
        self._learn(range_, self._had_by(range_))
        waiting = [share for share in gone if not share.crossed]
        weight = 0.0
        for group in groups:
            share = group.note
            if share is None:
                waiting += [each for each in self._shares(group) if not each.crossed]
            elif not share.crossed:
                waiting.append(share)
                weight += share.count / share.degree
                if weight > 1 + NEAR:  # mostly after a few of many
                    break
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
        """Now and then: forget those that have had nothing for long, and groups and ranges that left the graph by another way."""
        self._settled += 1
        if self._settled % TIDY:
            return
        self.past = {name: each for name, each in self.past.items() if now - each.start < FORGET * each.size}
        if len(self._here) > len(groups):
            items = {item for group in groups for item in group.items}
            self._here = {first: share for first, share in self._here.items() if first in items}
        for name, parts in list(self._parts.items()):
            if all(ranges[-1].end < now for ranges in parts):
                del self._parts[name]

    def remembered(self) -> ShadowState:
        gone = {share.first: share for shares in self._gone.values() for share in shares}
        ranges = [(range_, [share.first for share in shares]) for range_, shares in self._gone.items()]
        return ShadowState(
            sent=self.sent,
            began=self.began,
            had=self._had,
            seen=self._seen,
            settled=self._settled,
            past=self.past,
            here=list(self._here.values()),
            gone=list(gone.values()),
            ranges=ranges,
            parts=[(ranges, found.tolist()) for parts in self._parts.values() for ranges, found in parts.items()],
        )

    @staticmethod
    def of(remembered: ShadowState) -> Shadow:
        shadow = Shadow()
        shadow.sent, shadow.began, shadow.past = remembered.sent, remembered.began, remembered.past
        shadow._had, shadow._seen, shadow._settled = remembered.had, remembered.seen, remembered.settled
        shadow.usual = remembered.had / remembered.seen
        shadow._here = {share.first: share for share in remembered.here}
        gone = {share.first: share for share in remembered.gone}
        shadow._gone = {range_: [gone[first] for first in firsts] for range_, firsts in remembered.ranges}
        shadow._order = sorted(shadow._gone)
        for ranges, parts in remembered.parts:
            shadow._parts_of(ranges[0].subscription, ranges).extend(parts)
        return shadow
