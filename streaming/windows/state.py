"""What a bucket of links remembers between steps."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from msgspec import Struct

from streaming.broker.state import NEVER
from streaming.model.books import Books
from streaming.model.outputs import Offer
from streaming.model.windows import Clocked
from streaming.windows.link import PackedLink
from streaming.windows.local import PackedLocal

At: TypeAlias = tuple[str, str, str]
"""A broker, the neighbour beyond which the windows are (`topology.plan.LOCAL`: at the broker itself), and a topic."""


class OpenWindows(Protocol):
    """The open windows of one place: those beyond a link (`LinkWindows`), or a broker's own (`LocalWindows`).

    What they take in and how they close is each one's own affair: a link decides what crosses (`LinkWindows.close`), a broker
    tells (`LocalWindows.close`).
    """

    @property
    def next_ms(self) -> int:
        """When the next window closes that holds something; `NEVER` if there is none."""

    def drop(self, interests: frozenset[str]) -> int:
        """Whoever asked for these asks no more. Returns how many windows were given up."""

    def state(self) -> PackedLink | PackedLocal:
        """All that is remembered; `restored` makes the same of it again."""


class NeighbourWindows(Struct, array_like=True):
    """What a neighbour said of the windows it has closed. ``coming`` counts once this broker's own clock has passed its time."""

    through_ms: int = 0
    since: dict[str, int] = {}
    """By interest, the time from which the neighbour sends all that concerns it."""
    coming: list[tuple[int, int, tuple[tuple[str, int], ...]]] = []


@dataclass(slots=True)
class LinkState:
    """One direction of a link, or a broker's own subscribers, for one topic."""

    windows: OpenWindows
    since: dict[str, int] = field(default_factory=dict)
    """By interest, the time from which windows are whole as far as this process goes."""
    upstream: dict[str, NeighbourWindows] = field(default_factory=dict)
    through_ms: int = 0
    """All windows that close by then have closed."""
    said_ms: int = 0
    """What the far end has been told of that."""
    said: dict[str, int] = field(default_factory=dict)
    """What the far end has been told of ``since``."""
    whole: dict[str, int] | None = field(default=None, compare=False)
    """By interest, the time from which every broker that sends here has known of it. Worked out anew when None; not kept."""


@dataclass(slots=True)
class WindowState:
    """What a bucket of links remembers. ``clock_ms`` is the lowest clock of the buckets that offer: all that was
    appended before it has been offered."""

    version: int = 0
    clock_ms: int = 0
    clocks: dict[int, int] = field(default_factory=dict)
    gathered: dict[int, dict[tuple[str, str], int]] = field(default_factory=dict)
    """By the bucket that offers: brokers that gather topics, and how far all has come to them."""
    buckets: int = 0
    """How many buckets offer; 0 before any has said so."""
    versions: list[tuple[int, int]] = field(default_factory=list)
    """Control data that will hold: its time, and its version."""
    heard: dict[str, int] = field(default_factory=dict)
    """By the bucket that offers, the number of the last offer."""
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    early: list[Offer] = field(default_factory=list)
    """What was offered by control data that does not hold here yet."""
    links: dict[At, LinkState] = field(default_factory=dict)
    books: dict[str, Books] = field(default_factory=dict)
    by_topic: bool = False
    """Whether it has all places of its topics; else it is new, from before that was so, or of one process of several."""

    @property
    def is_open(self) -> bool:
        """Whether something waits for a window to close."""
        return any(links.windows.next_ms < NEVER for links in self.links.values())

    @property
    def next_ms(self) -> int:
        """When the next window closes; those that wait for a neighbour may be due already."""
        return min((links.windows.next_ms for links in self.links.values()), default=NEVER)

    @property
    def lowest_ms(self) -> int:
        """The lowest clock of the buckets that offer; 0 while one of them has not said any."""
        return min((self.clocks.get(index, 0) for index in range(self.buckets)), default=0)

    def note(self, happened: Clocked) -> None:
        """A bucket that offers said how far it is, and what control data the ticks have named."""
        for version, since_ms in happened.ticks:
            if version > max([self.version, *(known for _, known in self.versions)]):
                insort(self.versions, (since_ms, version))
        self.buckets = happened.of
        self.clocks[happened.index] = max(happened.clock_ms, self.clocks.get(happened.index, 0))
        self.gathered[happened.index] = {(broker, topic): ms for broker, topic, ms in happened.gathered}

    def gathered_ms(self, broker: str, topic: str) -> int:
        """The time up to which all that is about a topic has come to the broker that gathers it."""
        known = (self.gathered.get(index, {}).get((broker, topic), self.clock_ms) for index in range(self.buckets))
        return min(known, default=self.clock_ms)

    def books_of(self, broker: str) -> Books:
        return self.books.setdefault(broker, Books())
