"""What a matching graph is made of: ranges, and groups of items that count in the same ones.

Publications that match the same subscriptions in the same windows cannot be told apart by any decision, so they are one
group with a number of items. A link with many publications and few subscriptions has few groups, and all that is searched
are groups.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias


class Range(NamedTuple):
    """One window of one subscription (the paper's notification window range). Sorted, they are in the order they expire in."""

    end: int
    subscription: str
    start: int


Key: TypeAlias = frozenset[Range] | tuple[frozenset[Range], int]
"""What a group's items have in common: their ranges, and their degree where that is not the number of these."""


class OpenRange:
    """An open range, with the groups that count in it. ``taken`` is the group whose item the matching gives it."""

    __slots__ = ("begins", "closed", "ends", "groups", "items", "left", "open_at", "range", "seen", "taken", "thinned")

    def __init__(self, range_: Range) -> None:
        self.range = range_
        self.groups: dict[Group, None] = {}
        self.begins: list[Group] = []
        """The groups that have no earlier range, as far as items may still join them. Some may have crossed."""
        self.ends: list[Group] = []
        """The groups that have no later range. Some may have crossed."""
        self.items: list[int] = []
        self.thinned = False
        """Some of these items have crossed."""
        self.left = False
        self.taken: Group | None = None
        self.closed = False
        """No alternating path leads from here to a range without an item. See `matching`."""
        self.open_at = 0
        """The last change of the matching after which one did."""
        self.seen = 0

    def empty(self) -> None:
        """It leaves. Groups that count in others know it still, but not the other way round."""
        self.left = self.closed = True
        self.groups, self.begins, self.ends, self.items = {}, [], [], []


class Group:
    """Items that count in the same ranges. ``degree`` is how many these were when the items came; ``spots`` are still open."""

    __slots__ = ("all_spots", "closed", "degree", "items", "key", "matched", "note", "seen")

    def __init__(self, key: Key, spots: list[OpenRange], degree: int) -> None:
        self.key: Key | None = key
        """None when one of its ranges has left: no item joins it any more."""
        self.all_spots = spots
        """With those that have left: to take each out of every list would be most of the work."""
        self.degree = degree
        self.items: list[int] = []
        self.matched = 0
        """How many ranges the matching gives an item of this group."""
        self.closed = False
        self.seen = 0
        self.note: Any = None
        """What a decider writes on it, to know it again. Another may decide later, and must not be misled by it."""

    @property
    def spots(self) -> list[OpenRange]:
        return [spot for spot in self.all_spots if not spot.left]
