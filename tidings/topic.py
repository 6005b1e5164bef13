"""An event topic: how its fields join, and how long its events are held, remembered and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidings.registers import Join


@dataclass(frozen=True, slots=True)
class Timing:
    """The thresholds of Agele (section 5.2), in milliseconds: hold T_m <= remember T_r <= window W."""

    window_ms: int = 60_000
    hold_ms: int = 0
    remember_ms: int = 60_000


class Placement(StrEnum):
    """Which broker of a topic's routing tree gathers."""

    CENTRE = "centre"
    """The one with the shortest way to the farthest other (Agele, section 4)."""
    ROOT = "root"
    """As `centre`; then the tree is grown anew from it, so that every way to it is a shortest one."""
    MEDIAN = "median"
    """The one with the least way to all others together, weighted by who publishes and subscribes there."""
    NONE = "none"
    """Nobody: every message passes on by itself, as in Siena. Each broker gathers for its own subscribers only."""


class Filtering(StrEnum):
    """Where messages are filtered on their way (DAS, section 3.2)."""

    PROFILE = "profile"
    """Profiles are forwarded: a link carries only what somebody beyond it wants."""
    EVENT = "event"
    """Events are forwarded: every link of the tree carries everything, and each broker filters for its own."""
    RENDEZVOUS = "rendezvous"
    """All goes to one broker, which gathers, or filters for the others."""
    ADAPTIVE = "adaptive"
    """Profiles, but where nearly all matches anyway, events without asking."""


class Deciding(StrEnum):
    """Who decides, for each link and window, whether the publications cross or their aggregate (ADOCK, section VII).

    For each there is a class of that name in `streaming.windows.deciders`, which sees when it is imported that it has them all.
    """

    ADOCK = "adock"
    """What a minimum vertex cover of the matching graph says, as far as it is known (section VII-A)."""
    WAD = "wad"
    """The aggregate, if the shares that the range has in its items add up to a whole message (section VII-B)."""
    BAT = "bat"
    """All of one or all of the other, whichever was cheaper lately."""
    FORESIGHT = "foresight"
    """Ours: what a minimum vertex cover says of what is known and of what the windows before lead one to expect. It follows
    `wad` when it has sent more than that would have."""
    ALWAYS_FORWARD = "always-forward"
    """Always the items."""
    ALWAYS_AGGREGATE = "always-aggregate"
    """Always the aggregate."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The declaration of an event topic; an undeclared one has the defaults, every field `first`."""

    name: str
    joins: Mapping[str, Join] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()
    timing: Timing = field(default_factory=Timing)
    gather: bool = True
    gatherer: Placement = Placement.CENTRE
    filtering: Filtering = Filtering.PROFILE
    early: bool = False
    """Whether brokers on the way to the gatherer drop what they know already. Its reports are then not counted."""
    rendezvous: str | None = None
    """The broker of `Filtering.RENDEZVOUS`; None leaves the choice to a hash of the topic."""
    decider: Deciding = Deciding.ADOCK

    def join_of(self, name: str) -> Join:
        """How the field of that name joins."""
        return self.joins.get(name, Join.FIRST)

    def is_complete(self, stated: Mapping[str, object]) -> bool:
        """Whether nothing is left to wait for. A topic that names no fields is never complete."""
        return bool(self.complete) and all(name in stated for name in self.complete)
