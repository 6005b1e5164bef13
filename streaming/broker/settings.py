"""What the settings of a service mean to a broker's logic."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from streaming.broker.state import Rules
from streaming.wire.message import MessageLimits
from tidings.config import Config, Limits
from tidings.registers import Bounds
from tidings.topic import Timing

Bounded = TypeVar("Bounded", Rules, Bounds, MessageLimits)


def timing_of(config: Config) -> Timing:
    """The thresholds of topics that do not say."""
    defaults = config.defaults
    return Timing(defaults.window_ms, defaults.hold_ms, defaults.remember_ms or defaults.window_ms)


def rules_of(config: Config, buckets: int = 1) -> Rules:
    """The bounds of one bucket, where there are this many."""
    bounded = _by_name(Rules, config.limits)
    return replace(
        bounded,
        bounds=_by_name(Bounds, config.limits),
        open_events=max(1, bounded.open_events // buckets),
        buckets=buckets,
        hosted=hosted_by(config),
    )


def hosted_by(config: Config) -> frozenset[str] | None:
    """The brokers that the process serves; None for all."""
    return frozenset(config.service.brokers.split(",")) if config.service.brokers else None


def message_limits_of(config: Config) -> MessageLimits:
    """What one message may bring."""
    return _by_name(MessageLimits, config.limits)


def _by_name(kind: type[Bounded], limits: Limits) -> Bounded:
    """What bounds the logic has the name of its setting: none can be set and not count."""
    known = {each.name for each in fields(kind)}
    said: dict[str, Any] = {each.name: getattr(limits, each.name) for each in fields(limits) if each.name in known}
    return kind(**said)
