"""What goes into the pipeline of windows and what comes out of it, beside what brokers use too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from streaming.model.outputs import Offer, PutAside, Send, Tell


@dataclass(frozen=True, slots=True)
class Offered:
    """A bucket of the pipeline of events offered something."""

    bucket: str
    offer: Offer


@dataclass(frozen=True, slots=True)
class Clocked:
    """A bucket of the pipeline of events has offered all that was appended before ``clock_ms``.

    ``ticks`` are the versions of the control data that the last ticks named, and since when. There are ``of`` such buckets.
    """

    index: int
    of: int
    clock_ms: int
    ticks: tuple[tuple[int, int], ...]
    gathered: tuple[tuple[str, str, int], ...] = ()
    """Brokers that gather topics, and how far that goes: what entered before has come there."""


WindowInput: TypeAlias = Offered | Clocked


@dataclass(frozen=True, slots=True)
class WindowDecided:
    """What was decided for one link and window."""

    sender: str
    to: str
    topic: str
    subscription: str
    start_ms: int
    end_ms: int
    decider: str
    choice: str
    reason: str
    items: int
    sent: int
    would: Mapping[str, int] = field(default_factory=dict)


WindowOutput: TypeAlias = Send | Tell | WindowDecided | PutAside
