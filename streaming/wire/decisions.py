"""What was chosen for windows and by adaptive filters, as JSON on the Kafka topic `decisions`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from streaming.wire.record import Outgoing
from tidings import names
from tidings.values import INT64_MAX

AnyDecided: TypeAlias = WindowDecided | FilterDecided

_ADAPTIVE = "adaptive"
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


def decision_record(decided: AnyDecided) -> Outgoing:
    """All that is chosen for a link, or by a filter of a broker and topic, stays in order."""
    beyond = decided.to if isinstance(decided, WindowDecided) else decided.topic
    value = json.dumps(decision_dict(decided), separators=(",", ":")).encode()
    return Outgoing(names.DECISIONS, names.record_key(decided.sender, beyond), value, [])


def decision_dict(decided: AnyDecided) -> dict[str, Any]:
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


def read_decision(value: bytes | None) -> AnyDecided:
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
