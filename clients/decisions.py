"""What was chosen for windows and by adaptive filters, as anybody can read it: the Kafka topic `decisions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

from clients.connection import Connection
from clients.following import REMEMBERED, Follower, Seen
from clients.log import read_all
from streaming.model.books import Books
from streaming.model.windows import WindowDecided
from streaming.wire.decisions import AnyDecided, read_decision
from tidings import names


class Choices:
    """Reads records, each choice once: after a crash the service may write one again, equal byte for byte."""

    def __init__(self, remember: int = REMEMBERED) -> None:
        self._seen = Seen(remember)

    def take(self, value: bytes | None) -> AnyDecided | None:
        """The choice in a record; None if it was there before, or if nobody can read it."""
        try:
            decided = read_decision(value)
        except ValueError:
            return None
        return decided if self._seen.is_new(blake2b(value or b"", digest_size=16).digest()) else None


# ---- what was saved ---------------------------------------------------------------------------------------------------

Way: TypeAlias = tuple[str, str]
"""A link in one direction: from a broker to a neighbour."""


@dataclass(slots=True)
class WindowTraffic:
    """What crossed a link in one direction for windows, and what would have. ``counts`` has the words of the books."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def forwarded(self) -> int:
        return self.counts["forward"]

    @property
    def aggregated(self) -> int:
        return self.counts["aggregate"]

    @property
    def windows(self) -> int:
        return self.forwarded + self.aggregated

    @property
    def sent(self) -> int:
        return self.counts["sent"]

    def would(self, decider: str) -> int:
        """What would have crossed by another decider: `forward` and `aggregate` always do just that."""
        return self.counts[f"would-{decider}"]

    def saved_against(self, decider: str) -> int:
        """Messages that did not cross and would have; below zero if the other had been better."""
        return self.would(decider) - self.sent

    def add(self, decided: WindowDecided) -> None:
        self.counts[str(decided.choice)] += 1
        self.counts["sent"] += decided.sent
        for decider, count in decided.would.items():
            self.counts[f"would-{decider}"] += count

    def to_dict(self) -> dict[str, Any]:
        prefix = "would-"
        would = {word.removeprefix(prefix): count for word, count in sorted(self.counts.items()) if word.startswith(prefix)}
        return {
            "windows": self.windows,
            "forwarded": self.forwarded,
            "aggregated": self.aggregated,
            "sent": self.sent,
            "would": would,
            "saved_against_forward": self.saved_against("forward"),
            "saved_against_aggregate": self.saved_against("aggregate"),
        }


def crossed_by_books(by_broker: Mapping[str, Books]) -> dict[Way, WindowTraffic]:
    """The links that windows were decided for, as the books of the brokers have them."""
    found: dict[Way, WindowTraffic] = {}
    for broker, books in sorted(by_broker.items()):
        for (neighbour, word), count in sorted(books.windows.items()):
            if count:
                found.setdefault((broker, neighbour), WindowTraffic()).counts[word] += count
    return found


def total(crossed: Iterable[WindowTraffic]) -> WindowTraffic:
    """Several links as one."""
    whole = WindowTraffic()
    for each in crossed:
        whole.counts.update(each.counts)
    return whole


# ---- reading ----------------------------------------------------------------------------------------------------------


def read_decisions(connection: Connection) -> list[AnyDecided]:
    """All choices there are now."""
    choices = Choices()
    found = (choices.take(record.value) for record in read_all(connection, [names.DECISIONS]))
    return [decided for decided in found if decided is not None]


class DecisionReader(Follower[AnyDecided]):
    """Reads choices as they are made; also from a Kafka topic that is not there yet. Commits nothing."""

    def __init__(self, connection: Connection, from_beginning: bool = False) -> None:
        self._choices = Choices()
        super().__init__(connection, [names.DECISIONS], from_beginning=from_beginning)

    def _take(self, message: Any) -> AnyDecided | None:
        return self._choices.take(message.value())
