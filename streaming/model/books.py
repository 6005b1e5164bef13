"""The books of a broker: received = told + forwarded + merged + redundant + late + dead-lettered + held, at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from streaming.model.outputs import Outcome


class WindowItem(StrEnum):
    """What becomes of a publication, an event or an aggregate that windows ask for: offered = counted + late + left out."""

    OFFERED = "offered"
    """Some window asks for it."""
    COUNTED = "counted"
    """It counts in one of them."""
    LATE = "late"
    """All the windows that it belongs to had closed. It stands in `late`."""
    LEFT_OUT = "left-out"
    """Whoever asked for it does so no more, or not yet for what entered then."""


@dataclass(slots=True)
class Books:
    """What became of every message of a broker. Counts only grow, but for what is held. ``outcomes`` is counted by
    outcome and reason."""

    received: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    notifications: Counter[str] = field(default_factory=Counter)
    evicted: int = 0
    conflicts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """What a bound kept out, by the name of its setting."""
    cancelled: Counter[str] = field(default_factory=Counter)
    """What waited and was not told, since it was not true any more or did not last, by what it waited for."""
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records sent over links, by neighbour and kind."""
    heard: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records that came over links, by neighbour and kind."""
    heard_bytes: Counter[str] = field(default_factory=Counter)
    unsent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages that did not cross a link of the routing tree, by neighbour and why."""
    windows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By neighbour: windows that were forwarded and aggregated, what crossed for them, and what would have by other deciders."""
    waited: Counter[str] = field(default_factory=Counter)
    """By broker: events that waited in vain for what may have entered there."""
    window_items: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By neighbour, and by nobody for the broker's own subscribers: what was asked for by some window, and what became of it."""

    def enter(self, outcome: Outcome, reason: str, count: int = 1) -> None:
        self.outcomes[outcome, reason] += count

    def total(self, outcome: Outcome) -> int:
        return sum(count for (kind, _), count in self.outcomes.items() if kind == outcome)

    @property
    def balanced(self) -> bool:
        return self.received == sum(self.outcomes.values())

    def on_the_way(self, to: str = "") -> int:
        """What was offered for windows there, and has neither been counted nor put aside: in the end, nothing."""
        found = {item: self.window_items[to, item] for item in WindowItem}
        return found.pop(WindowItem.OFFERED) - sum(found.values())

    def add(self, other: Books) -> None:
        self.received += other.received
        self.outcomes.update(other.outcomes)
        self.notifications.update(other.notifications)
        self.evicted += other.evicted
        self.conflicts += other.conflicts
        self.left_out.update(other.left_out)
        self.cancelled.update(other.cancelled)
        self.waited.update(other.waited)
        self.sent.update(other.sent)
        self.heard.update(other.heard)
        self.heard_bytes.update(other.heard_bytes)
        self.unsent.update(other.unsent)
        self.windows.update(other.windows)
        self.window_items.update(other.window_items)

    def to_dict(self) -> dict[str, Any]:
        """The books in the words of the wire."""
        return {
            "received": self.received,
            **{str(outcome): self.total(outcome) for outcome in Outcome},
            "balanced": self.balanced,
            "reasons": _nested(self.outcomes),
            "notifications": sum(self.notifications.values()),
            "notification_reasons": {reason: n for reason, n in sorted(self.notifications.items()) if n},
            "conflicts": self.conflicts,
            "evicted": self.evicted,
            "left_out": {bound: n for bound, n in sorted(self.left_out.items()) if n},
            "cancelled": {waited_for: n for waited_for, n in sorted(self.cancelled.items()) if n},
            **({"waited": dict(sorted(self.waited.items()))} if self.waited else {}),
            "links": {
                "sent": _nested(self.sent),
                "heard": _nested(self.heard),
                "heard_bytes": {neighbour: n for neighbour, n in sorted(self.heard_bytes.items()) if n},
                "unsent": _nested(self.unsent),
                **({"windows": _nested(self.windows)} if self.windows else {}),
                **({"window_items": _nested(self.window_items)} if self.window_items else {}),
            },
        }

    @staticmethod
    def from_dict(datum: Mapping[str, Any]) -> Books:
        links = datum.get("links", {})
        return Books(
            received=datum["received"],
            outcomes=_flat(datum["reasons"]),
            notifications=Counter(datum["notification_reasons"]),
            evicted=datum["evicted"],
            conflicts=datum["conflicts"],
            left_out=Counter(datum["left_out"]),
            cancelled=Counter(datum.get("cancelled", {})),
            waited=Counter(datum.get("waited", {})),
            sent=_flat(links.get("sent", {})),
            heard=_flat(links.get("heard", {})),
            heard_bytes=Counter(links.get("heard_bytes", {})),
            unsent=_flat(links.get("unsent", {})),
            windows=_flat(links.get("windows", {})),
            window_items=_flat(links.get("window_items", {})),
        )


def _nested(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (first, second), count in sorted(counts.items()):
        if count:
            found.setdefault(str(first), {})[str(second)] = count
    return found


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Counter[tuple[str, str]]:
    return Counter({(first, second): count for first, counts in nested.items() for second, count in counts.items()})


def total(books: Iterable[Books]) -> Books:
    """Several books as one."""
    result = Books()
    for part in books:
        result.add(part)
    return result
