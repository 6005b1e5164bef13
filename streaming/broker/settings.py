"""What the settings of a service mean to a broker's logic."""

from __future__ import annotations

from streaming.broker.state import Rules
from streaming.wire.message import MessageLimits
from tidings.config import Config
from tidings.registers import Bounds
from tidings.topic import Timing


def timing_of(config: Config) -> Timing:
    """The thresholds of topics that do not say."""
    defaults = config.defaults
    return Timing(defaults.window_ms, defaults.hold_ms, defaults.remember_ms or defaults.window_ms)


def rules_of(config: Config, buckets: int = 1) -> Rules:
    """The bounds of one bucket, where there are this many."""
    limits = config.limits
    return Rules(
        bounds=Bounds(limits.conflicts, limits.union_items),
        event_fields=limits.event_fields,
        sources=limits.sources,
        open_events=max(1, limits.open_events // buckets),
        buckets=buckets,
        ahead_ms=limits.ahead_ms,
        patience_ms=limits.patience_ms,
        hosted=hosted_by(config),
    )


def hosted_by(config: Config) -> frozenset[str] | None:
    """The brokers that the process serves; None for all."""
    return frozenset(config.service.brokers.split(",")) if config.service.brokers else None


def message_limits_of(config: Config) -> MessageLimits:
    """What one message may bring."""
    limits = config.limits
    return MessageLimits(limits.message_bytes, limits.fields, limits.key_bytes)
