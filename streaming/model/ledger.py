"""The ledger of one subscription on one event: what it has been told, and when it may be told more.

A cap does the same for a key: how often a subscription has been told of it, about whichever event.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from tidings.notification import Digested
from tidings.subscription import Subscription
from tidings.values import Value, fact_digest

HOUR_MS = 3_600_000


class Waiting(StrEnum):
    """What news waits for, after it has left its event's hold."""

    EVERY = "every"
    """The cadence: the notification before it was less than `every_ms` ago."""
    SETTLE = "settle"
    """The event has not matched for `settle_ms` yet."""
    AT_MOST = "at-most"
    """The subscription has been told of the key as often as it wants in an hour."""


class Ledger(Struct, array_like=True):
    """What somebody has been told about one event: ``told`` maps a field to the digest of the value last told. The value itself
    is in the event."""

    told: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    told_ms: int = 0
    told_complete: bool = False
    due_ms: int | None = None
    """When news that waits for the subscription's cadence, or for its event to settle, is due."""
    true_ms: int | None = None
    """Since when the event has matched, for a subscription that wants it settled."""
    capped: bool = False
    """Whether news waits for a place among those that the subscription wants in an hour."""
    untrue: bool = False
    """Of a neighbour: whether it knows that nobody beyond it matches any more."""

    def untold(self, subscription: Subscription, facts: Mapping[str, Value]) -> dict[str, Value]:
        """What the subscription wants and does not know."""
        return {
            name: value for name, value in facts.items() if subscription.wants(name) and self.told.get(name) != fact_digest(value)
        }

    def may_be_told_ms(self, subscription: Subscription) -> int:
        """The earliest time of the next notification: the first comes at once, the others `every_ms` apart."""
        return self.told_ms + subscription.every_ms if self.revision else 0

    def settled_ms(self, subscription: Subscription, now_ms: int) -> int:
        """When the event, which matches now, will have matched for long enough."""
        if self.true_ms is None:
            self.true_ms = now_ms
        return self.true_ms + subscription.settle_ms

    def note(self, news: Mapping[str, Value], now_ms: int, *, complete: bool) -> None:
        """Remember that ``news`` was told."""
        self.told.update((name, fact_digest(value)) for name, value in news.items())
        self.revision += 1
        self.told_ms = now_ms
        self.told_complete = self.told_complete or complete
        self.due_ms = None
        self.capped = False

    def again(self) -> Ledger:
        """What was told, of an event that ended and is opened again."""
        return Ledger(dict(self.told), self.revision, self.told_ms, self.told_complete)

    def reconsider(self, before: Subscription | None, now: Subscription) -> None:
        """The subscription is another one: what waits is looked at anew, and for how long the new predicate held is not known."""
        self.due_ms = None
        if before is None or (before.where, before.missing) != (now.where, now.missing):
            self.true_ms = None


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

    def free_ms(self, at_most: int) -> int:
        """The earliest time of another notification. One that was told later than that time counts too."""
        return self.told[-at_most] + HOUR_MS if 0 < at_most <= len(self.told) else 0

    def note(self, now_ms: int) -> None:
        """Remember that it was told."""
        insort(self.told, now_ms)
        del self.told[: bisect_right(self.told, now_ms - HOUR_MS)]

    def wait(self, at_most: int, now_ms: int) -> None:
        """Something waits for a place."""
        self.due_ms = max(now_ms, self.free_ms(at_most))
