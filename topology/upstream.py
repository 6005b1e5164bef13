"""Where what a broker knows of events comes from: the way of every message to it, as a list that leads backwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace

from topology.islands import Island


@dataclass(frozen=True, slots=True)
class Upstream:
    """A broker on the way of messages to another. ``after`` is the place in the list of the one that it sends to; None for the
    broker itself at which the way ends."""

    broker: str
    after: int | None
    publishes: bool
    """Whether messages may enter there."""


def upstream_of(broker: str, part: Island, advertised: Collection[str] | None) -> tuple[Upstream, ...]:
    """All brokers that messages come from: by way of the one that gathers, if there is one. The first is the broker itself.

    ``advertised`` are those where messages may enter; None for all. O(brokers).
    """
    adjacent: dict[str, list[str]] = {each: [] for each in part.brokers}
    way = [broker]
    if part.gatherer is None:
        adjacent.update({each: list(links) for each, links in part.tree.items()})
    else:
        for child, parent in part.next_hop.items():
            adjacent[parent].append(child)
        # First the way to the broker that gathers, which all comes by; then from there to all others.
        while way[-1] != part.gatherer:
            way.append(part.next_hop[way[-1]])
    found = [Upstream(each, number - 1 if number else None, False) for number, each in enumerate(way)]
    start = len(found) - 1
    found[start] = replace(found[start], publishes=advertised is None or way[-1] in advertised)
    waiting = deque([(start, "")])
    while waiting:
        number, before = waiting.popleft()
        for each in sorted(adjacent[found[number].broker]):
            if each != before:
                waiting.append((len(found), found[number].broker))
                found.append(Upstream(each, number, advertised is None or each in advertised))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where what a broker knows comes from, in short."""

    count: int
    """How many there are on the ways, the broker itself among them."""
    links: int
    """How many links away the farthest broker is where messages may enter; -1 if they may nowhere."""
    brokers: frozenset[str]
    """All of them."""

    def farther(self, links: int) -> Sources:
        """Those of a broker which all comes to by way of this one, so many links on."""
        return replace(self, count=self.count + links, links=self.links if self.links < 0 else self.links + links)


def sources_of(upstream: tuple[Upstream, ...]) -> Sources:
    """O(brokers)."""
    links: list[int] = []
    for each in upstream:
        links.append(0 if each.after is None else links[each.after] + 1)
    farthest = max((away for each, away in zip(upstream, links, strict=True) if each.publishes), default=-1)
    return Sources(len(upstream), farthest, frozenset(each.broker for each in upstream))
