"""A maximum matching of items and ranges, kept while both come and go.

Items of a group are alike, so the matching says only which group each range has its item from, and how many of a group's
items are given away. An item without a range is *spare*, a range without an item is *free*.

An alternating path goes from a group to any of its ranges, from there to the group that the range has its item from, and so
on. One that begins at a group with a spare item and ends at a free range makes the matching larger by one; when there is none
the matching is a maximum (Berge).

What keeps this cheap: where a search finds no free range, all that it has seen is *closed*. Nothing that comes later opens it
again, since a path that makes the matching larger never enters a closed range; so no search looks at it twice, and an item
that comes to a closed group costs nothing. Only when items leave that closed ranges had is all opened again. ADOCK never
does that: it forwards only ranges that are not closed, and a group that a closed range has its item from has no others.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.windows.nodes import Group, OpenRange


class Matching:
    """The matching of one graph. It is told of every change, and does nothing until it is asked."""

    def __init__(self) -> None:
        self._pending: dict[Group, None] = {}
        self._opened = True
        """Whether nothing is known of what is closed: at first, and when items left that closed ranges had."""
        self._search = 0
        self._changes = 1
        """Counts what may cut a path to a free range: between two changes, ranges that have one are known by it."""

    def item_came(self, group: Group) -> None:
        if not group.closed:
            self._pending[group] = None

    def group_left(self, group: Group) -> None:
        """All its items crossed. The ranges that had one are free, so no path to a free range is cut."""
        self._pending.pop(group, None)
        if not group.matched:
            return
        for spot in group.all_spots:
            if spot.taken is group:
                spot.taken = None
                self._opened |= spot.closed

    def spot_left(self, spot: OpenRange) -> None:
        """A range was aggregated. The item it had is spare."""
        self._changes += 1
        group, spot.taken = spot.taken, None
        if group is not None:
            group.matched -= 1
            if not group.closed:
                self._pending[group] = None

    def essential(self, spot: OpenRange) -> bool:
        """Whether every maximum matching gives this range an item. To be asked when all is settled."""
        if spot.closed:
            return True
        if spot.taken is None or spot.open_at == self._changes:
            return False
        path = self._path(spot.taken, self._changes)
        if path is None:
            return True
        for each, _ in path:
            each.open_at = self._changes
        spot.open_at = self._changes
        return False

    def settle(self, groups: Iterable[Group]) -> None:
        """Make the matching a maximum again. ``groups`` are all there are."""
        if self._opened:
            self._open(groups)
        for group in self._pending:
            for spot in group.all_spots:
                if not spot.closed:
                    break
            else:  # the usual case where items are many: no search is needed
                group.closed = True
            while not group.closed and group.matched < len(group.items):
                for spot, giver in self._path(group) or ():
                    spot.taken = giver
                    # Every group on the way gives one and gets one back; only the first gives one more.
                    group.matched += giver is group
                self._changes += 1
        self._pending.clear()

    def _open(self, groups: Iterable[Group]) -> None:
        self._opened = False
        for group in groups:
            group.closed = False
            for spot in group.all_spots:
                spot.closed = spot.left
            if group.matched < len(group.items):
                self._pending[group] = None

    def _path(self, start: Group, open_at: int = -1) -> list[tuple[OpenRange, Group]] | None:
        """A shortest alternating path from a group to a free range, backwards: each range, with the group it is reached from.
        One from which a path was found at ``open_at`` is as good. If there is none, all that was seen is closed."""
        self._search += 1
        search = self._search
        start.seen = search
        groups = [start]
        spots: list[OpenRange] = []
        reached: dict[Group, tuple[OpenRange, Group]] = {}
        for group in groups:
            for spot in group.all_spots:
                if spot.closed or spot.seen == search:
                    continue
                taken = spot.taken
                if taken is None or spot.open_at == open_at:
                    path = [(spot, group)]
                    while group is not start:
                        path.append(reached[group])
                        group = path[-1][1]
                    return path
                spot.seen = search
                spots.append(spot)
                if taken.seen != search:
                    taken.seen = search
                    reached[taken] = (spot, group)
                    groups.append(taken)
        for spot in spots:
            spot.closed = True
        for group in groups:
            group.closed = True
        return None
