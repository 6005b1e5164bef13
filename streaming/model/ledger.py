"""The ledger of one subscription on one event: what it has been told, and when it may be told more.

A cap does the same for a key: how often a subscription has been told of it, about whichever event.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping

from msgspec import Struct, field

from tidings.notification import Digested
from tidings.values import Value, fact_digest

HOUR_MS = 3_600_000


class Ledger(Struct, array_like=True):
    """What somebody has been told about one event: ``told`` maps a field to the digest of the value last told. The value itself
    is in the event."""

    told: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    told_ms: int = 0
    told_complete: bool = False
    due_ms: int | None = None
    """When news that a pace of the subscription keeps back is due."""
    true_ms: int | None = None
    """Since when the event has matched, for a subscription that wants it settled."""
    capped: bool = False
    """Whether news waits for a place among those that the subscription wants in an hour."""
    untrue: bool = False
    """Of a neighbour: whether it knows that nobody beyond it matches any more."""

    def untold(self, fields: frozenset[str] | None, facts: Mapping[str, Value]) -> dict[str, Value]:
        """What somebody who wants these fields, or all, has not been told."""
        told = self.told
        wanted = facts if fields is None else {name: value for name, value in facts.items() if name in fields}
        return {name: value for name, value in wanted.items() if told.get(name) != fact_digest(value)}

    def note(self, news: Mapping[str, Value], now_ms: int, *, complete: bool) -> None:
        """Remember that ``news`` was told."""
        for name, value in news.items():
            self.told[name] = fact_digest(value)
        self.revision += 1
        self.told_ms = now_ms
        self.told_complete = self.told_complete or complete
        self.due_ms = None
        self.capped = False

    def again(self) -> Ledger:
        """What was told, of an event that ended and is opened again."""
        return Ledger(dict(self.told), self.revision, self.told_ms, self.told_complete)


class Cap(Struct, array_like=True):
    """How often a subscription was told of a key within an hour, and what waits for a place."""

    key: str
    told: list[int] = field(default_factory=list)
    """When it was told, in order."""
    ended: list[Digested] = field(default_factory=list)
    """What events that have ended still owe."""
    due_ms: int | None = None
    """When a place is free for what waits."""

    @property
    def forget_ms(self) -> int:
        """When all of this is more than an hour ago."""
        return self.told[-1] + HOUR_MS if self.told else 0

    def note(self, now_ms: int) -> None:
        """Remember that it was told."""
        insort(self.told, now_ms)
        del self.told[: bisect_right(self.told, now_ms - HOUR_MS)]
