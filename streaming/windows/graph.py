"""The matching graph of one outgoing link: what has not crossed it, against the open ranges it counts in (section VI).

Items are numbered by the caller in the order they come. A publication that crosses anyway, for a plain subscription or for an
aggregate that cannot be divided, is never in the graph: it costs nothing more. A partial aggregate from upstream is an item
with one range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush

from streaming.windows.matching import Matching
from streaming.windows.nodes import Group, Key, OpenRange, Range

__all__ = ["Graph", "Group", "OpenRange", "Range"]


class Graph:
    """Items that have not crossed the link, against the open ranges they count in."""

    def __init__(self) -> None:
        self._spots: dict[Range, OpenRange] = {}
        self._group_of: dict[int, Group] = {}
        self._groups: dict[Group, None] = {}
        self._growing: dict[Key, Group] = {}
        """The groups none of whose ranges has left. Only these may get another item."""
        self._order: list[Range] = []
        """A heap of the open ranges. Some in it may have left."""
        self._ordered: set[Range] = set()
        self.left = 0
        """How many times a range was forwarded or aggregated: whoever decided on each knows all that left."""
        self._matching: Matching | None = None

    def add(self, item: int, ranges: Iterable[Range], degree: int | None = None) -> None:
        """An item came. ``degree`` is given where a graph is restored: the number of its ranges when it first came.

        The same frozenset again is the fastest, since it remembers its hash.
        """
        wanted = ranges if isinstance(ranges, frozenset) else frozenset(ranges)
        key = wanted if degree is None or degree == len(wanted) else (wanted, degree)
        group = self._growing.get(key)
        if group is None:
            if not wanted:
                return
            group = self._grow(key, wanted, degree or len(wanted))
        group.items.append(item)
        for spot in group.all_spots:
            spot.items.append(item)
        self._group_of[item] = group
        if self._matching is not None:
            self._matching.item_came(group)

    def _grow(self, key: Key, ranges: frozenset[Range], degree: int) -> Group:
        known = self._spots
        spots = [known.get(range_) or self._open(range_) for range_ in sorted(ranges)]
        group = self._growing[key] = Group(key, spots, degree)
        self._groups[group] = None
        for spot in spots:
            spot.groups[group] = None
        spots[0].begins.append(group)
        spots[-1].ends.append(group)
        return group

    def _open(self, range_: Range) -> OpenRange:
        spot = self._spots[range_] = OpenRange(range_)
        if range_ not in self._ordered:
            self._ordered.add(range_)
            heappush(self._order, range_)
        return spot

    def items_of(self, range_: Range) -> list[int]:
        """The items that a range would send if it were forwarded, in order of number."""
        spot = self._spots.get(range_)
        return [] if spot is None else self._items_of(spot)

    def count_of(self, range_: Range) -> int:
        """How many these are."""
        spot = self._spots.get(range_)
        return 0 if spot is None else len(self._waiting(spot))

    def degree(self, item: int) -> int:
        """In how many ranges an item counted when it came. WAD weighs by it: ranges that expired since still count."""
        return self._group_of[item].degree

    def has(self, item: int) -> bool:
        """Whether an item has neither crossed nor been counted in all its ranges."""
        return item in self._group_of

    def groups_of(self, range_: Range) -> Iterable[Group]:
        """The groups whose items count in a range. To read, not to change."""
        spot = self._spots.get(range_)
        return () if spot is None else spot.groups

    def groups(self) -> Collection[Group]:
        """Every group, in the order of their first items. To read, not to change."""
        return self._groups.keys()

    @property
    def items(self) -> dict[int, frozenset[Range]]:
        """Every item with its open ranges, as a copy: for tests and for whoever keeps the graph as bytes."""
        return {item: frozenset(spot.range for spot in group.spots) for item, group in self._group_of.items()}

    @property
    def ranges(self) -> Mapping[Range, OpenRange]:
        """The ranges that have items. To read, not to change."""
        return self._spots

    def __len__(self) -> int:
        return len(self._group_of)

    def forwarded(self, range_: Range) -> list[int]:
        """All items of a range cross: they leave the graph, and the range with them."""
        spot = self._spots.get(range_)
        if spot is None:
            return []
        self.left += 1
        items = self._items_of(spot)
        for group in list(spot.groups):
            if self._matching is not None:
                self._matching.group_left(group)
            self._leave(group)
        self.first()
        return items

    def aggregated(self, range_: Range) -> list[int]:
        """A range leaves, and its items that count in no other.

        In their order, ranges leave without a look at each of their groups: one that has no later range is in no other.
        """
        spot = self._spots.get(range_)
        if spot is None:
            return []
        self.left += 1
        items = self._items_of(spot)
        in_order = self.first() == range_
        del self._spots[range_]
        spot.left = True
        for group in spot.begins if in_order else spot.groups:
            self._stop(group)
        for group in spot.ends if in_order else self._ended(spot):
            if group in self._groups:
                self._forget(group)
        if self._matching is not None:
            self._matching.spot_left(spot)
        spot.empty()
        return items

    def first(self) -> Range | None:
        """The open range that ends first."""
        while self._order and self._order[0] not in self._spots:
            self._ordered.discard(heappop(self._order))
        return self._order[0] if self._order else None

    def _stop(self, group: Group) -> None:
        """No item joins it any more."""
        if group.key is not None:
            del self._growing[group.key]
            group.key = None

    def _ended(self, spot: OpenRange) -> Iterator[Group]:
        """The groups of a range that leaves before an earlier one, if they are in no other."""
        for group in spot.groups:
            if not (spots := group.spots):
                yield group
            elif spots[-1].range < spot.range:
                spots[-1].ends.append(group)

    def _leave(self, group: Group) -> None:
        self._stop(group)
        self._forget(group)
        for spot in group.spots:
            spot.thinned = True
            del spot.groups[group]
            if not spot.groups:
                del self._spots[spot.range]
                spot.empty()

    def _forget(self, group: Group) -> None:
        del self._groups[group]
        for item in group.items:
            del self._group_of[item]

    def _items_of(self, spot: OpenRange) -> list[int]:
        return sorted(self._waiting(spot))

    def _waiting(self, spot: OpenRange) -> list[int]:
        if spot.thinned:
            spot.items = [item for item in spot.items if item in self._group_of]
            spot.thinned = False
        return spot.items

    def essential(self, range_: Range) -> bool:
        """Whether every maximum matching gives this range an item, or, which is the same, some minimum vertex cover has it."""
        spot = self._spots.get(range_)
        return spot is not None and self.matching().essential(spot)

    def matched(self) -> int:
        """The size of a maximum matching: what a minimum vertex cover of the graph as it is now would send."""
        self.matching()
        return sum(group.matched for group in self._groups)

    def matching(self) -> Matching:
        """A maximum matching of what there is now. Whoever never asks for it does not pay for it."""
        if self._matching is None:
            self._matching = Matching()
        self._matching.settle(self._groups)
        return self._matching
