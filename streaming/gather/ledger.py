"""The ledger of one subscription on one event: what it has been told, and when it may be told more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.subscription import Subscription
from tidings.values import Value, fact_digest


@dataclass(slots=True)
class Ledger:
    """``told`` maps a field to the digest of the value last told: the value itself is in the event."""

    told: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    told_ms: int = 0
    told_complete: bool = False
    due_ms: int | None = None
    """When news that waits for the subscription's cadence is due."""

    def untold(self, subscription: Subscription, facts: Mapping[str, Value]) -> dict[str, Value]:
        """What the subscription wants and does not know."""
        return {
            name: value for name, value in facts.items() if subscription.wants(name) and self.told.get(name) != fact_digest(value)
        }

    def may_be_told_ms(self, subscription: Subscription) -> int:
        """The earliest time of the next notification: the first comes at once, the others `every_ms` apart."""
        return self.told_ms + subscription.every_ms if self.revision else 0

    def note(self, news: Mapping[str, Value], now_ms: int, *, complete: bool) -> None:
        """Remember that ``news`` was told."""
        self.told.update((name, fact_digest(value)) for name, value in news.items())
        self.revision += 1
        self.told_ms = now_ms
        self.told_complete = self.told_complete or complete
        self.due_ms = None
