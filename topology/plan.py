"""Who does what for a topic: the routing tree, its gatherer, and the place of each broker in it.

A plan follows from one version of the control data alone. So all processes that serve an overlay, and a replay, agree on it
without talking; what is decided is what the protocols in `topology.protocols` end with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from tidings.control import Snapshot
from tidings.matching import Index
from tidings.predicate import Missing
from tidings.subscription import Subscription
from tidings.topic import Deciding, Filtering, Placement, Topic
from tidings.window import Window
from topology import centre, overlay
from topology.overlay import Overlay, Problem
from topology.profile import EVERYTHING, Profile, profile_of
from topology.routes import Routes, rank, routes_of
from topology.upstream import Upstream, upstream_of

Tree: TypeAlias = Mapping[str, Mapping[str, Profile]]
"""Broker to its neighbours in the tree, each with what is wanted beyond it."""

_NO_LINKS: Mapping[str, Profile] = {}

LOCAL: Final = ""
"""Stands where the name of a neighbour would, for the windows of a broker's own subscribers. No broker has an empty name."""


class Role(StrEnum):
    """What a broker does with the messages of a topic."""

    GATHERS = "gathers"
    PASSES = "passes"
    """It passes them on, towards the broker that gathers."""
    SPREADS = "spreads"
    """Nobody gathers: it passes them on wherever they are wanted."""
    GONE = "gone"
    """It is not in the overlay any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one broker in the routing of one topic."""

    role: Role
    toward: str | None = None
    """The neighbour on the way to the gatherer or the rendezvous."""
    links: Mapping[str, Profile] = field(default_factory=dict)
    """The neighbours in the routing tree, with what is wanted beyond each."""
    cut_off: tuple[str, ...] = ()
    """Brokers with subscribers to the topic that no link leads to which may carry it."""
    adaptive: bool = False
    since: Mapping[str, int] = field(default_factory=dict)
    """For these neighbours, and the one on the way to the gatherer: the version that made them, or the link, what they are now.
    One that was taken away and made again may have forgotten what it was told, even if nobody here saw it go."""

    @property
    def downward(self) -> Mapping[str, Profile]:
        """The neighbours that are told of merged events: all but the one they come from."""
        if self.role is Role.SPREADS:
            return {}  # there are none: every message travels by itself
        return {name: profile for name, profile in self.links.items() if name != self.toward}


@dataclass(frozen=True, slots=True)
class Manner:
    """The part of a topic's declaration that decides its routing."""

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


class Plan:
    """The control data of one version, and what follows from it for each broker and topic."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._places: dict[tuple[str, str], Place] = {}
        self._routes: dict[str, Route] = {}
        self._windows: dict[tuple[str, str], Mapping[str, tuple[Subscription, ...]]] = {}
        self._window_indexes: dict[tuple[str, str, str], Index] = {}
        self._window_kinds: dict[tuple[str, str, str], Collection[Window]] = {}
        self._upstream: dict[tuple[str, str], tuple[Upstream, ...]] = {}

    @cached_property
    def _overlay(self) -> tuple[Overlay, tuple[Problem, ...]]:
        return overlay.of_snapshot(self.snapshot)

    @property
    def overlay(self) -> Overlay:
        return self._overlay[0]

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the overlay; the service goes on with the rest."""
        return (*self._overlay[1], *self._forbidden())

    def has(self, broker: str) -> bool:
        """Whether the overlay has a broker of that name."""
        return broker in self._brokers

    def topic(self, name: str) -> Topic:
        return self.snapshot.topic(name)

    def place(self, broker: str, topic: str) -> Place:
        """What a broker has to do with a topic."""
        at = (broker, topic)
        if at not in self._places:
            self._places[at] = self._find_place(broker, topic)
        return self._places[at]

    @property
    def asked_topics(self) -> Collection[str]:
        """Those that somebody subscribes to, and so the only ones that are sent over links."""
        return self._subscribed.keys() | self._windowed.keys()

    def layout(self, topic: str) -> object:
        """What the ways of a topic's messages follow from; all but the profiles."""
        wants = {*self._subscribed.get(topic, ()), *self._windowed.get(topic, ())}
        weights = self._weights(topic) if self.topic(topic).gatherer is Placement.MEDIAN else None
        return self.overlay, Manner.of(self.topic(topic)), wants, self.snapshot.advertised.get(topic), weights

    def upstream(self, broker: str, topic: str) -> tuple[Upstream, ...]:
        """The brokers that what a broker knows of events may come from: by way of the gatherer, if there is one."""
        at = (broker, topic)
        if at not in self._upstream:
            route = self.route(topic) if self.has(broker) and self.overlay.links else None
            part = route.part_of[broker] if route else None
            wanted = part is not None and part.wanted  # else everybody gathers for itself, and nobody passes anything on
            self._upstream[at] = upstream_of(broker, part, self.snapshot.advertised.get(topic)) if part and wanted else ()
        return self._upstream[at]

    def route(self, name: str) -> Route:
        """The routing of a topic; the same for the same overlay, subscriptions and advertisements, whatever else changed."""
        if name not in self._routes:
            self._routes[name] = self._find_route(name)
        return self._routes[name]

    def windows(self, broker: str, topic: str) -> Mapping[str, tuple[Subscription, ...]]:
        """The subscriptions to aggregates by the neighbour they lie beyond; those at the broker itself under `LOCAL`."""
        at = (broker, topic)
        if at not in self._windows:
            self._windows[at] = self._find_windows(broker, topic)
        return self._windows[at]

    def window_index(self, broker: str, to: str, topic: str) -> Index:
        """Finds those of them that something may count for."""
        at = (broker, to, topic)
        if at not in self._window_indexes:
            self._window_indexes[at] = Index(self.windows(broker, topic).get(to, ()))
        return self._window_indexes[at]

    def window_kinds(self, broker: str, to: str, topic: str) -> Collection[Window]:
        """The different windows that are asked for there."""
        at = (broker, to, topic)
        if at not in self._window_kinds:
            self._window_kinds[at] = frozenset(s.window for s in self.windows(broker, topic).get(to, ()) if s.window)
        return self._window_kinds[at]

    def publishes_beyond(self, broker: str, neighbour: str, topic: str) -> bool:
        """Whether somebody beyond a neighbour may publish on a topic."""
        advertised = self.snapshot.advertised.get(topic)
        return advertised is None or not advertised.isdisjoint(_beyond(self.route(topic).part_of[broker].tree, broker, neighbour))

    def decider(self, a: str, b: str, topic: str) -> Deciding:
        """Who decides for the windows of a topic that cross a link."""
        chosen = next((link.decider for link in self.snapshot.links if {link.a, link.b} == {a, b}), None)
        return chosen or self.topic(topic).decider

    def _find_windows(self, broker: str, topic: str) -> Mapping[str, tuple[Subscription, ...]]:
        wanted = self._windowed.get(topic, {})
        if not wanted or not self.has(broker):
            return {}
        found = {LOCAL: wanted[broker]} if broker in wanted else {}
        tree = self.route(topic).part_of[broker].tree
        for neighbour in tree.get(broker, _NO_LINKS):
            if beyond := [s for each in sorted(_beyond(tree, broker, neighbour)) for s in wanted.get(each, ())]:
                found[neighbour] = tuple(beyond)
        return found

    def _find_route(self, name: str) -> Route:
        subscribed = self._subscribed.get(name, {})
        windowed = self._windowed.get(name, {})
        advertised = self.snapshot.advertised.get(name)
        weights = self._weights(name)
        interests = tuple((broker, profile_of(found)) for broker, found in sorted(subscribed.items()))
        publishers = None if advertised is None else advertised & self._brokers
        manner = Manner.of(self.topic(name))
        return _route(self.overlay, manner, interests, frozenset(windowed), publishers, tuple(sorted(weights.items())))

    def _weights(self, name: str) -> dict[str, int]:
        """How many subscribe and publish at each broker."""
        subscribed, windowed = self._subscribed.get(name, {}), self._windowed.get(name, {})
        advertised = self.snapshot.advertised.get(name)
        weights = {b: len(subscribed.get(b, ())) + len(windowed.get(b, ())) for b in (*subscribed, *windowed)}
        for broker in self.overlay.brokers if advertised is None else advertised:
            weights[broker] = weights.get(broker, 0) + 1
        return weights

    @cached_property
    def _subscribed(self) -> dict[str, dict[str, tuple[Subscription, ...]]]:
        """Topic to the brokers that have subscriptions to it."""
        return self._by_topic(self.snapshot.by_topic)

    @cached_property
    def _windowed(self) -> dict[str, dict[str, tuple[Subscription, ...]]]:
        """Topic to the brokers that have subscriptions to aggregates of it."""
        return self._by_topic(self.snapshot.windowed)

    @property
    def windowed_topics(self) -> Collection[str]:
        return self._windowed.keys()

    def _by_topic(
        self, by_place: Mapping[tuple[str, str], tuple[Subscription, ...]]
    ) -> dict[str, dict[str, tuple[Subscription, ...]]]:
        found: dict[str, dict[str, tuple[Subscription, ...]]] = {}
        for (broker, topic), subscriptions in by_place.items():
            if broker in self._brokers:
                found.setdefault(topic, {})[broker] = subscriptions
        return found

    def _find_place(self, broker: str, name: str) -> Place:
        if not self.has(broker):
            return Place(Role.GONE)
        route = self.route(name)
        manner, part = route.manner, route.part_of[broker]
        links = part.tree.get(broker, _NO_LINKS) if part.wanted else _NO_LINKS
        toward = part.next_hop.get(broker)
        adaptive = manner.filtering is Filtering.ADAPTIVE
        if manner.gathers:
            role = Role.GATHERS if part.gatherer in (None, broker) else Role.PASSES
        else:
            role = Role.SPREADS
            if toward is not None and toward in links and manner.filtering is Filtering.RENDEZVOUS:
                links = {**links, toward: EVERYTHING}  # all goes by the rendezvous
            if self.topic(name).gather:
                links = {neighbour: _optimistic(profile) for neighbour, profile in links.items()}
        if manner.filtering is Filtering.EVENT:
            links = dict.fromkeys(links, EVERYTHING)
        neighbours = sorted({*links, *([toward] if toward else [])})
        since = {each: self._made(broker, each) for each in neighbours}
        return Place(role, toward, links, self._cut_off(broker, name), adaptive, since)

    def _made(self, broker: str, neighbour: str) -> int:
        link = self.overlay.neighbours(broker)[neighbour]
        since = self.snapshot.since
        return max(since.get(f"broker/{neighbour}", 0), since.get(f"link/{link.name}", 0))

    @cached_property
    def _brokers(self) -> frozenset[str]:
        return frozenset(self.overlay.brokers)

    def _cut_off(self, broker: str, topic: str) -> tuple[str, ...]:
        """Subscribers' brokers that no link leads to which may carry the topic.

        Brokers that were never linked are separate on purpose. Subscribers to aggregates do not count here: of what is kept
        until they can be reached they would be told nothing.
        """
        route = self.route(topic)
        if not self.overlay.links or len(route.parts) == 1:
            return ()
        return tuple(sorted(self._subscribed.get(topic, {}).keys() - route.part_of[broker].brokers))

    def _forbidden(self) -> Iterator[Problem]:
        """The topics that links keep from some who subscribe to them, to events or to aggregates."""
        named = frozenset(topic for link in self.overlay.links for topic in link.forbid)
        for topic in sorted(named & (self._subscribed.keys() | self._windowed.keys())):
            subscribers = frozenset((*self._subscribed.get(topic, ()), *self._windowed.get(topic, ())))
            if problem := overlay.forbidden(self.overlay, topic, subscribers, self.snapshot.advertised.get(topic)):
                yield problem


def _optimistic(profile: Profile) -> Profile:
    """Where each message is judged by itself, what it does not say must not keep it back."""
    entries = (replace(entry, missing=Missing.OPTIMISTIC) for entry in profile.entries)
    return replace(profile, entries=tuple(dict.fromkeys(entries)))


@lru_cache(maxsize=4096)
def _route(
    whole: Overlay,
    manner: Manner,
    interests: tuple[tuple[str, Profile], ...],
    windowed: frozenset[str],
    publishers: frozenset[str] | None,
    weights: tuple[tuple[str, int], ...],
) -> Route:
    usable = whole.for_topic(manner.topic)
    wanted = dict(interests)
    interested = wanted.keys() | windowed
    if publishers is not None:
        publishers |= windowed  # they take part, though no profile asks for anything
    if publishers is not None and manner.filtering is Filtering.RENDEZVOUS:
        publishers |= {_rendezvous(manner, part) for part in usable.parts}  # it takes part, or no way leads down from it
    routes = routes_of(usable, manner.topic, wanted, publishers)
    parts = [_part(brokers, routes, manner, interested & brokers, dict(weights)) for brokers in routes.parts]
    if manner.gathers and manner.placement is Placement.ROOT:
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
    nodes: Tree = tree or {min(interested): _NO_LINKS}
    hub = next(iter(chosen), None) or _hub(nodes, brokers, manner, weights)
    next_hop = _next_hops(hub, routes.spanning, brokers) if hub else {}
    return Island(brokers, tree, hub if manner.gathers else None, True, hub, next_hop)


def _hub(nodes: Tree, brokers: frozenset[str], manner: Manner, weights: Mapping[str, int]) -> str | None:
    if manner.filtering is Filtering.RENDEZVOUS:
        return _rendezvous(manner, brokers)
    if not manner.gathers:  # an adaptive one still counts what a rendezvous would cost
        return _rendezvous(manner, brokers) if manner.filtering is Filtering.ADAPTIVE else None
    if manner.placement is Placement.MEDIAN:
        return centre.median(nodes, {broker: weights.get(broker, 0) for broker in nodes})
    return centre.centre(nodes)


def _rendezvous(manner: Manner, brokers: frozenset[str]) -> str:
    """The broker that was named, if it can be reached; else the one that a hash of the topic chooses."""
    named = manner.rendezvous
    return named if named is not None and named in brokers else min(brokers, key=lambda broker: rank(manner.topic, broker))


def _beyond(tree: Tree, broker: str, neighbour: str) -> set[str]:
    """The brokers of a tree that lie beyond a neighbour."""
    found, waiting = {broker, neighbour}, [neighbour]
    while waiting:
        new = tree.get(waiting.pop(), _NO_LINKS).keys() - found
        found |= new
        waiting += new
    return found - {broker}


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
