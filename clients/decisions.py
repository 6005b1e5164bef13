"""What was chosen for windows and by adaptive filters, as anybody can read it: the Kafka topic `decisions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from clients.connection import Connection
from clients.following import REMEMBERED, Follower, Seen
from clients.log import read_all
from streaming.model.books import Books
from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from tidings import names
from tidings.values import INT64_MAX

_ADAPTIVE = "adaptive"

Decided: TypeAlias = WindowDecided | FilterDecided


# ---- the records ------------------------------------------------------------------------------------------------------

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**14)]
"""Milliseconds that a clock can show: up to the year 5138."""


class _Span(msgspec.Struct):
    start_ms: _Time
    end_ms: _Time


class _Choice(msgspec.Struct, rename={"sender": "from"}):
    sender: str
    topic: str
    window: _Span
    reason: str
    sent: _Count
    would: dict[str, _Count]


class _OfWindow(_Choice):
    to: str
    subscription: str
    decider: str
    choice: Literal["forward", "aggregate"]
    items: _Count


class _OfFilter(_Choice):
    choice: str
    offered: _Count


def read_decision(value: bytes | None) -> Decided:
    """The choice that a record holds. Raises ValueError for bytes that are none."""
    try:
        datum = msgspec.json.decode(value or b"")
        if isinstance(datum, dict) and "to" in datum:
            return WindowDecided(**_said(msgspec.convert(datum, _OfWindow)))
        return FilterDecided(**_said(msgspec.convert(datum, _OfFilter)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a choice: {error}") from None


def _said(found: _Choice) -> dict[str, Any]:
    said = msgspec.structs.asdict(found)
    del said["window"]
    return {**said, "start_ms": found.window.start_ms, "end_ms": found.window.end_ms}


def decision_dict(decided: Decided) -> dict[str, Any]:
    """The choice in the words of the wire."""
    if isinstance(decided, WindowDecided):
        about = {"from": decided.sender, "to": decided.to, "topic": decided.topic, "subscription": decided.subscription}
        decider, offered = decided.decider, {"items": decided.items}
    else:
        about = {"from": decided.sender, "topic": decided.topic}
        decider, offered = _ADAPTIVE, {"offered": decided.offered}
    return {
        **about,
        "window": {"start_ms": decided.start_ms, "end_ms": decided.end_ms},
        "decider": decider,
        "choice": str(decided.choice),
        "reason": decided.reason,
        **offered,
        "sent": decided.sent,
        "would": dict(decided.would),
    }


class Choices:
    """Reads records, each choice once: after a crash the service may write one again, equal byte for byte."""

    def __init__(self, remember: int = REMEMBERED) -> None:
        self._seen = Seen(remember)

    def take(self, value: bytes | None) -> Decided | None:
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


def read_decisions(connection: Connection) -> list[Decided]:
    """All choices there are now."""
    choices = Choices()
    found = (choices.take(record.value) for record in read_all(connection, [names.DECISIONS]))
    return [decided for decided in found if decided is not None]


class DecisionReader(Follower[Decided]):
    """Reads choices as they are made; also from a Kafka topic that is not there yet. Commits nothing."""

    def __init__(self, connection: Connection, from_beginning: bool = False) -> None:
        self._choices = Choices()
        super().__init__(connection, [names.DECISIONS], from_beginning=from_beginning)

    def _take(self, message: Any) -> Decided | None:
        return self._choices.take(message.value())
