"""The ways of one topic's messages: the islands of brokers that can reach each other, the tree of each, and its gatherer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from tidings.topic import Filtering, Placement, Topic
from topology import centre
from topology.overlay import Overlay
from topology.profile import Profile
from topology.routes import Routes, rank, routes_of

Tree: TypeAlias = Mapping[str, Mapping[str, Profile]]
"""Broker to its neighbours in the tree, each with what is wanted beyond it."""

NO_LINKS: Mapping[str, Profile] = {}


@dataclass(frozen=True, slots=True)
class Placing:
    """How the broker of a tree that gathers is found, from the tree and how many subscribe and publish at each broker."""

    find: Callable[[Tree, Mapping[str, float]], str]
    weighs: bool = False
    """Whether it matters how many do."""
    roots: bool = False
    """Whether the tree is grown anew from the broker that was found."""


PLACED: Final[Mapping[Placement, Placing]] = {
    Placement.CENTRE: Placing(lambda tree, _: centre.centre(tree)),
    Placement.ROOT: Placing(lambda tree, _: centre.centre(tree), roots=True),
    Placement.MEDIAN: Placing(centre.median, weighs=True),
}
"""All placements but the one of nobody."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What of a topic's declaration decides its routing."""

    topic: str
    gathers: bool
    placement: Placement
    filtering: Filtering
    rendezvous: str | None

    @staticmethod
    def of(topic: Topic) -> Manner:
        gathers = topic.gather and topic.gatherer is not Placement.NONE
        return Manner(topic.name, gathers, topic.gatherer, topic.filtering, topic.rendezvous)


@dataclass(frozen=True)
class Island:
    """The brokers that can reach each other, as far as one topic goes."""

    brokers: frozenset[str]
    tree: Tree
    gatherer: str | None
    """None when nobody gathers for all, or nobody subscribes."""
    wanted: bool
    """Whether somebody in this part subscribes to the topic."""
    hub: str | None
    """Where messages go first: the gatherer, or the rendezvous."""
    next_hop: Mapping[str, str] = field(default_factory=dict)
    """The neighbour on the way to the hub."""


@dataclass(frozen=True)
class Route:
    """The routing of one topic."""

    manner: Manner
    parts: tuple[Island, ...]

    @cached_property
    def part_of(self) -> dict[str, Island]:
        return {broker: part for part in self.parts for broker in part.brokers}


def route_of(
    whole: Overlay,
    manner: Manner,
    interests: tuple[tuple[str, Profile], ...],
    windowed: frozenset[str],
    publishers: frozenset[str] | None,
    weights: tuple[tuple[str, int], ...],
) -> Route:
    """The routing of a topic: who wants what where, who may publish where, and how many do either at each broker."""
    usable = whole.for_topic(manner.topic)
    wanted = dict(interests)
    interested = wanted.keys() | windowed
    if publishers is not None:
        publishers |= windowed  # they take part, though no profile asks for anything
    if publishers is not None and manner.filtering is Filtering.RENDEZVOUS:
        publishers |= {_rendezvous(manner, part) for part in usable.parts}  # it takes part, or no way leads down from it
    routes = routes_of(usable, manner.topic, wanted, publishers)
    parts = [_part(brokers, routes, manner, interested & brokers, dict(weights)) for brokers in routes.parts]
    if manner.gathers and PLACED[manner.placement].roots:
        hubs = frozenset(part.hub for part in parts if part.hub)
        publishers = None if publishers is None else publishers | hubs
        routes = routes_of(usable, manner.topic, wanted, publishers, roots=hubs)
        parts = [_part(brokers, routes, manner, interested & brokers, {}, hubs & brokers) for brokers in routes.parts]
    return Route(manner, tuple(parts))


def _part(
    brokers: frozenset[str],
    routes: Routes,
    manner: Manner,
    interested: Collection[str],
    weights: Mapping[str, int],
    chosen: Collection[str] = (),
) -> Island:
    tree = {broker: links for broker, links in routes.tree.items() if broker in brokers and links}
    if not interested:
        return Island(brokers, tree, None, False, None)
    # A tree of one broker has no links; it is then the only one that takes part.
    nodes: Tree = tree or {min(interested): NO_LINKS}
    hub = next(iter(chosen), None) or _hub(nodes, brokers, manner, weights)
    next_hop = _next_hops(hub, routes.spanning, brokers) if hub else {}
    return Island(brokers, tree, hub if manner.gathers else None, True, hub, next_hop)


def _hub(nodes: Tree, brokers: frozenset[str], manner: Manner, weights: Mapping[str, int]) -> str | None:
    if manner.filtering is Filtering.RENDEZVOUS:
        return _rendezvous(manner, brokers)
    if not manner.gathers:  # an adaptive one still counts what a rendezvous would cost
        return _rendezvous(manner, brokers) if manner.filtering is Filtering.ADAPTIVE else None
    return PLACED[manner.placement].find(nodes, {broker: weights.get(broker, 0) for broker in nodes})


def _rendezvous(manner: Manner, brokers: frozenset[str]) -> str:
    """The broker that was named, if it can be reached; else the one that a hash of the topic chooses."""
    named = manner.rendezvous
    return named if named is not None and named in brokers else min(brokers, key=lambda broker: rank(manner.topic, broker))


def _next_hops(hub: str, spanning: Mapping[str, str | None], brokers: frozenset[str]) -> dict[str, str]:
    """The neighbour on the way to the hub, in the spanning tree: also brokers outside the routing tree find the way."""
    adjacent: dict[str, list[str]] = {broker: [] for broker in brokers}
    for child in sorted(brokers):
        if (parent := spanning[child]) is not None:
            adjacent[child].append(parent)
            adjacent[parent].append(child)
    found: dict[str, str] = {}
    waiting = deque([hub])
    while waiting:
        here = waiting.popleft()
        for neighbour in adjacent[here]:
            if neighbour != hub and neighbour not in found:
                found[neighbour] = here
                waiting.append(neighbour)
    return found


def beyond(tree: Tree, broker: str, neighbour: str) -> set[str]:
    """The brokers of a tree that lie beyond a neighbour."""
    found, waiting = {broker, neighbour}, [neighbour]
    while waiting:
        new = tree.get(waiting.pop(), NO_LINKS).keys() - found
        found |= new
        waiting += new
    return found - {broker}
