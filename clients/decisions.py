"""What was chosen for windows and by adaptive filters, as anybody can read it: the Kafka topic `decisions`."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from clients.connection import Connection
from clients.log import read_all, watermarks
from streaming.model.books import Books
from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from tidings import names
from tidings.values import INT64_MAX

_ASK_S = 5.0
_LOOK_AGAIN_S = 1.0
_REMEMBERED = 100_000
_ADAPTIVE = "adaptive"

_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What librdkafka gets over by itself."""

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
            return _window_decided(msgspec.convert(datum, _OfWindow))
        return _filter_decided(msgspec.convert(datum, _OfFilter))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a choice: {error}") from None


def _window_decided(found: _OfWindow) -> WindowDecided:
    return WindowDecided(
        sender=found.sender,
        to=found.to,
        topic=found.topic,
        subscription=found.subscription,
        start_ms=found.window.start_ms,
        end_ms=found.window.end_ms,
        decider=found.decider,
        choice=found.choice,
        reason=found.reason,
        items=found.items,
        sent=found.sent,
        would=found.would,
    )


def _filter_decided(found: _OfFilter) -> FilterDecided:
    return FilterDecided(
        sender=found.sender,
        topic=found.topic,
        start_ms=found.window.start_ms,
        end_ms=found.window.end_ms,
        choice=found.choice,
        reason=found.reason,
        offered=found.offered,
        sent=found.sent,
        would=found.would,
    )


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

    def __init__(self, remember: int = _REMEMBERED) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._remember = remember

    def take(self, value: bytes | None) -> Decided | None:
        """The choice in a record; None if it was there before, or if nobody can read it."""
        try:
            decided = read_decision(value)
        except ValueError:
            return None
        seen = blake2b(value or b"", digest_size=16).digest()
        new = seen not in self._seen
        self._seen[seen] = None
        self._seen.move_to_end(seen)
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)
        return decided if new else None


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


class DecisionReader:
    """Reads choices as they are made; also from a Kafka topic that is not there yet. Commits nothing."""

    def __init__(self, connection: Connection, from_beginning: bool = False) -> None:
        self._connection = connection
        self._choices = Choices()
        self._look_s: float | None = 0.0
        self._consumer = connection.consumer()
        with connection.plain_errors():
            self._look(from_beginning)

    def receive(self, timeout_s: float) -> Decided | None:
        """The next choice, or None when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            if self._look_s is not None and time.monotonic() >= self._look_s:
                # What appears after the start is new as a whole. A Kafka that is away for a while is waited for.
                with contextlib.suppress(KafkaException):
                    self._look(from_beginning=True)
            message = self._consumer.poll(max(0.0, min(left_s, _LOOK_AGAIN_S)))
            decided = self._read(message) if message is not None else None
            if decided is not None or left_s <= 0:
                return decided

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _look(self, from_beginning: bool) -> None:
        """Start on the Kafka topic if it is there; otherwise look again in a while."""
        self._look_s = time.monotonic() + _LOOK_AGAIN_S
        found = self._consumer.list_topics(timeout=_ASK_S).topics.get(names.DECISIONS)
        if found is None or not found.partitions:
            return
        starts = []
        for partition in sorted(found.partitions):
            # The end is asked for now: what is appended before the first poll must not be missed.
            offset = OFFSET_BEGINNING if from_beginning else watermarks(self._consumer, names.DECISIONS, partition)[1]
            starts.append(TopicPartition(names.DECISIONS, partition, offset))
        self._consumer.assign(starts)
        self._look_s = None

    def _read(self, message: Any) -> Decided | None:
        if (error := message.error()) is None:
            return self._choices.take(message.value())
        if error.code() in _PASSING or error.retriable():
            return None
        raise self._connection.in_plain_words(error) from KafkaException(error)
