"""The books of a broker: received = told + merged + redundant + late + dead-lettered + held, at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.broker.values import Outcome


@dataclass(slots=True)
class Books:
    """Counts only grow, but for what is held. ``outcomes`` is counted by outcome and reason."""

    received: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    notifications: Counter[str] = field(default_factory=Counter)
    evicted: int = 0
    conflicts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """What a bound kept out, by the name of its setting."""

    def enter(self, outcome: Outcome, reason: str, count: int = 1) -> None:
        self.outcomes[outcome, reason] += count

    def total(self, outcome: Outcome) -> int:
        return sum(count for (kind, _), count in self.outcomes.items() if kind == outcome)

    @property
    def balanced(self) -> bool:
        return self.received == sum(self.outcomes.values())

    def add(self, other: Books) -> None:
        self.received += other.received
        self.outcomes.update(other.outcomes)
        self.notifications.update(other.notifications)
        self.evicted += other.evicted
        self.conflicts += other.conflicts
        self.left_out.update(other.left_out)

    def to_dict(self) -> dict[str, Any]:
        """The books in the words of the wire."""
        reasons: dict[str, dict[str, int]] = {}
        for (outcome, reason), count in sorted(self.outcomes.items()):
            if count:
                reasons.setdefault(outcome, {})[reason] = count
        return {
            "received": self.received,
            **{str(outcome): self.total(outcome) for outcome in Outcome},
            "balanced": self.balanced,
            "reasons": reasons,
            "notifications": sum(self.notifications.values()),
            "notification_reasons": {reason: n for reason, n in sorted(self.notifications.items()) if n},
            "conflicts": self.conflicts,
            "evicted": self.evicted,
            "left_out": {bound: n for bound, n in sorted(self.left_out.items()) if n},
        }

    @staticmethod
    def from_dict(datum: Mapping[str, Any]) -> Books:
        outcomes = Counter(
            {(outcome, reason): n for outcome, reasons in datum["reasons"].items() for reason, n in reasons.items()}
        )
        return Books(
            received=datum["received"],
            outcomes=outcomes,
            notifications=Counter(datum["notification_reasons"]),
            evicted=datum["evicted"],
            conflicts=datum["conflicts"],
            left_out=Counter(datum["left_out"]),
        )


def total(books: Iterable[Books]) -> Books:
    """Several books as one."""
    result = Books()
    for part in books:
        result.add(part)
    return result
