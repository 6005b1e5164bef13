"""Who does what for a topic: the routing tree, its gatherer, and the place of each broker in it.

A plan follows from one version of the control data alone. So all processes that serve an overlay, and a replay, agree on it
without talking; what is decided is what the protocols in `topology.protocols` end with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, update_wrapper
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

from tidings.control import Snapshot
from tidings.matching import Index
from tidings.predicate import Missing
from tidings.subscription import Subscription
from tidings.topic import Deciding, Filtering, Topic
from tidings.window import Window
from topology import overlay
from topology.islands import NO_LINKS, PLACED, Manner, Route, beyond, route_of
from topology.overlay import Overlay, Problem
from topology.profile import EVERYTHING, Profile, profile_of
from topology.upstream import Sources, Upstream, sources_of, upstream_of

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
    """Brokers with subscribers to the topic that links which may carry it do not lead to."""
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


_Asked = TypeVarTuple("_Asked")
_Answer = TypeVar("_Answer")


def asked_once(find: Callable[[Plan, Unpack[_Asked]], _Answer]) -> Callable[[Plan, Unpack[_Asked]], _Answer]:
    """A method of `Plan` whose answers are kept: they follow from the control data alone, and live as long as the plan."""
    name = find.__name__

    def ask(plan: Plan, *asked: *_Asked) -> _Answer:
        known: dict[Any, _Answer] = plan.known[name]
        try:
            return known[asked]
        except KeyError:
            answer = known[asked] = find(plan, *asked)
            return answer

    return update_wrapper(ask, find)


_routes: WeakValueDictionary[Hashable, Route] = WeakValueDictionary()
"""The routes of the plans there are, by all that they follow from: the plan of another version takes over what is the same."""


class Plan:
    """The control data of one version, and what follows from it for each broker and topic."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.known: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        """By method, what was asked before and the answer (`asked_once`)."""

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

    @asked_once
    def place(self, broker: str, name: str) -> Place:
        """What a broker has to do with a topic."""
        if not self.has(broker):
            return Place(Role.GONE)
        route = self.route(name)
        manner, part = route.manner, route.part_of[broker]
        links = part.tree.get(broker, NO_LINKS) if part.wanted else NO_LINKS
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

    @property
    def asked_topics(self) -> Collection[str]:
        """Those that somebody subscribes to, and so the only ones that are sent over links."""
        return self._subscribed.keys() | self._windowed.keys()

    def layout(self, topic: str) -> object:
        """What the ways of a topic's messages follow from; all but the profiles."""
        wants = {*self._subscribed.get(topic, ()), *self._windowed.get(topic, ())}
        manner = Manner.of(self.topic(topic))
        weights = self._weights(topic) if manner.placement in PLACED and PLACED[manner.placement].weighs else None
        return self.overlay, manner, wants, self.snapshot.advertised.get(topic), weights

    @asked_once
    def upstream(self, broker: str, topic: str) -> tuple[Upstream, ...]:
        """The brokers that what a broker knows of events may come from: by way of the gatherer, if there is one."""
        if not self.has(broker) or not self.overlay.links:
            return ()
        part = self.route(topic).part_of[broker]
        if not part.wanted:
            return ()  # everybody gathers for itself, and nobody passes anything on
        return upstream_of(broker, part, self.snapshot.advertised.get(topic))

    @asked_once
    def sources(self, broker: str, topic: str) -> Sources:
        """The same in short, which is mostly enough: lists for all brokers of a large overlay would be too much to keep."""
        part = self.route(topic).part_of.get(broker)
        if part is None or part.gatherer is None or part.gatherer == broker:
            return sources_of(self.upstream(broker, topic))
        way = [broker]
        while way[-1] != part.gatherer:
            way.append(part.next_hop[way[-1]])
        return self.sources(part.gatherer, topic).farther(len(way) - 1)

    @asked_once
    def route(self, name: str) -> Route:
        """The routing of a topic; the same for the same overlay, subscriptions and advertisements, whatever else changed."""
        subscribed = self._subscribed.get(name, {})
        advertised = self.snapshot.advertised.get(name)
        interests = tuple((broker, profile_of(found)) for broker, found in sorted(subscribed.items()))
        publishers = None if advertised is None else advertised & self._brokers
        windowed, weights = frozenset(self._windowed.get(name, {})), tuple(sorted(self._weights(name).items()))
        facts = self.overlay, Manner.of(self.topic(name)), interests, windowed, publishers, weights
        found = _routes.get(facts)
        if found is None:
            found = _routes[facts] = route_of(*facts)
        return found

    @asked_once
    def windows(self, broker: str, topic: str) -> Mapping[str, tuple[Subscription, ...]]:
        """The subscriptions to aggregates by the neighbour they lie beyond; those at the broker itself under `LOCAL`."""
        wanted = self._windowed.get(topic, {})
        if not wanted or not self.has(broker):
            return {}
        found = {LOCAL: wanted[broker]} if broker in wanted else {}
        tree = self.route(topic).part_of[broker].tree
        for neighbour in tree.get(broker, NO_LINKS):
            if asking := [s for each in sorted(beyond(tree, broker, neighbour)) for s in wanted.get(each, ())]:
                found[neighbour] = tuple(asking)
        return found

    @asked_once
    def window_index(self, broker: str, to: str, topic: str) -> Index:
        """Finds those of them that something may count for."""
        return Index(self.windows(broker, topic).get(to, ()))

    @asked_once
    def window_kinds(self, broker: str, to: str, topic: str) -> Collection[Window]:
        """The different windows that are asked for there."""
        return frozenset(s.window for s in self.windows(broker, topic).get(to, ()) if s.window)

    @asked_once
    def window_interests(self, broker: str, to: str, topic: str) -> Collection[str]:
        """Their interests. A link carries aggregates for many subscriptions: asking each of these about each takes long."""
        return frozenset(s.interest for s in self.windows(broker, topic).get(to, ()))

    def publishes_beyond(self, broker: str, neighbour: str, topic: str) -> bool:
        """Whether somebody beyond a neighbour may publish on a topic."""
        advertised = self.snapshot.advertised.get(topic)
        return advertised is None or not advertised.isdisjoint(beyond(self.route(topic).part_of[broker].tree, broker, neighbour))

    def decider(self, a: str, b: str, topic: str) -> Deciding:
        """Who decides for the windows of a topic that cross a link."""
        chosen = next((link.decider for link in self.snapshot.links if {link.a, link.b} == {a, b}), None)
        return chosen or self.topic(topic).decider

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

    def _made(self, broker: str, neighbour: str) -> int:
        link = self.overlay.neighbours(broker)[neighbour]
        since = self.snapshot.since
        return max(since.get(f"broker/{neighbour}", 0), since.get(f"link/{link.name}", 0))

    @cached_property
    def _brokers(self) -> frozenset[str]:
        return frozenset(self.overlay.brokers)

    def _cut_off(self, broker: str, topic: str) -> tuple[str, ...]:
        """Subscribers' brokers that links which may carry the topic do not lead to.

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
