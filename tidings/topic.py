"""An event topic: how its fields join, and how long its events are held, remembered and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.registers import Join


@dataclass(frozen=True, slots=True)
class Timing:
    """The thresholds of Agele (section 5.2), in milliseconds: hold T_m <= remember T_r <= window W."""

    window_ms: int = 60_000
    hold_ms: int = 0
    remember_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Topic:
    """The declaration of an event topic; an undeclared one has the defaults, every field `first`."""

    name: str
    joins: Mapping[str, Join] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()
    timing: Timing = field(default_factory=Timing)
    gather: bool = True

    def join_of(self, name: str) -> Join:
        """How the field of that name joins."""
        return self.joins.get(name, Join.FIRST)

    def is_complete(self, stated: Mapping[str, object]) -> bool:
        """Whether nothing is left to wait for. A topic that names no fields is never complete."""
        return bool(self.complete) and all(name in stated for name in self.complete)
