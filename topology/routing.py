"""The routing tree of one topic, made by brokers that only talk to their neighbours (Agele, sections 3.2 and 5.1).

There are two layers. A broadcast tree spans each connected part of the overlay: path vectors lead all brokers to the one that
a hash of the topic names. Along that tree both ends of a link tell each other what is wanted beyond them (profile forwarding,
DAS, section 3.2). A link of the broadcast tree is in the routing tree if somebody takes part on both sides of it, so branches
without subscribers and publishers are pruned by themselves.

What the brokers end with depends on the overlay, the interests and the publishers, not on the order of messages or on what
was before. `routes_of` computes the same at one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import TypeAlias

from tidings.control import Link
from tidings.errors import BadOverlay, UnknownBroker
from tidings.values import digest
from topology.network import Network, Schedule
from topology.overlay import Overlay
from topology.profile import NOBODY, Profile, united


def rank(topic: str, broker: str) -> str:
    """Among brokers that reach each other, the one with the lowest rank is the root: topics are spread over the brokers."""
    return digest("root", topic, broker)


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to a root: its rank, what the way costs, and the brokers on it, from the root to the one that offers."""

    rank: str
    cost: float
    path: tuple[str, ...]

    @property
    def order(self) -> tuple[str, float, int, tuple[str, ...]]:
        """The lowest is the best. Total, and each hop makes an offer worse, over a link without cost too."""
        return self.rank, self.cost, len(self.path), self.path

    def extended(self, broker: str, cost: float) -> Offer:
        return Offer(self.rank, self.cost + cost, (*self.path, broker))


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The offer does not hold any more. Asks for `Released`."""


@dataclass(frozen=True, slots=True)
class Released:
    """Neither the teller nor anybody behind it relies on the offer that was withdrawn."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """What is beyond the teller, seen from the listener: what is wanted there, and whether somebody publishes.

    ``upward`` says that the teller is the child: a parent's word that crosses `Left` must not make it look like one.
    """

    profile: Profile
    publishes: bool
    upward: bool

    @property
    def takes_part(self) -> bool:
        return self.publishes or bool(self.profile)


@dataclass(frozen=True, slots=True)
class Left:
    """The teller is no longer a child of the listener."""


_NOTHING = Beyond(NOBODY, False, False)

Message: TypeAlias = Offer | Withdrawn | Released | Beyond | Left
Outputs: TypeAlias = list[tuple[str, Message]]


class RoutingNode:
    """One broker's part in the routing of one topic. Each input answers with what is to be sent to neighbours.

    A better offer is taken and passed on at once. When the own one gets worse, the broker first withdraws it and waits until
    all who rely on it have let go; only then it chooses again, and they do after it. Without that, brokers offer each other
    ways that lead nowhere any more, and the loss of a root takes a number of messages that doubles with every few brokers.
    """

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.parent: str | None = None
        """In the broadcast tree. While the broker chooses, the last one."""
        self._interest, self._publishes = NOBODY, False
        self._costs: dict[str, float] = {}
        self._own = Offer(rank(topic, name), 0, (name,))
        self._best: Offer | None = self._own  # None from withdrawing to choosing
        self._offers: dict[str, Offer] = {}
        self._offered: dict[str, Offer | None] = {}  # None to those who could not use it
        self._waiting: set[str] = set()
        self._withdrew: str | None = None  # the parent that did, until it offers again
        self._children: dict[str, Beyond] = {}
        self._above: Beyond | None = None
        self._told: dict[str, Beyond] = {}

    @property
    def root(self) -> str:
        return (self._best or self._own).path[0]

    @property
    def children(self) -> frozenset[str]:
        return frozenset(self._children)

    @property
    def takes_part(self) -> bool:
        """Whether somebody subscribes or publishes here."""
        return self._publishes or bool(self._interest)

    @property
    def tree_neighbours(self) -> Mapping[str, Profile]:
        """The neighbours in the routing tree, with what is wanted beyond each."""
        heard = self._heard()
        return {n: heard[n].profile for n in sorted(heard) if heard[n].takes_part and self._told[n].takes_part}

    def link_up(self, neighbour: str, cost: float) -> Outputs:
        """A link is there, or its cost changed. Both ends must know of a new link before anything is sent over it."""
        self._costs[neighbour] = cost
        return self._chosen() if self._best else []

    def link_down(self, neighbour: str) -> Outputs:
        for known in (self._costs, self._offers, self._offered, self._children, self._told):
            known.pop(neighbour, None)
        if neighbour == self.parent:
            self.parent = self._above = None
        outputs: Outputs = []
        if self._best:
            outputs = self._chosen()
        elif neighbour in self._waiting or neighbour == self._withdrew:
            self._waiting.discard(neighbour)
            self._withdrew = None if neighbour == self._withdrew else self._withdrew
            outputs = self._released()
        return outputs + self._retold()

    def interest(self, profile: Profile) -> Outputs:
        """The subscriptions of this broker changed."""
        self._interest = profile
        return self._retold()

    def publishes(self, flag: bool) -> Outputs:
        """Whether somebody publishes at this broker."""
        self._publishes = flag
        return self._retold()

    def received(self, sender: str, message: Message) -> Outputs:
        if sender not in self._costs:
            return []  # the link is gone, and with it all that was said on it
        match message:
            case Offer():
                return self._heard_offer(sender, message)
            case Withdrawn():
                self._offers.pop(sender, None)
                return self._withdraw(sender) if self._best and sender == self.parent else [(sender, Released())]
            case Released():
                if sender not in self._waiting:
                    return []
                self._waiting.remove(sender)
                return self._released()
            case Beyond(upward=True):
                self._children[sender] = message
            case Beyond():
                if sender != self.parent:
                    return []  # it was said before the news that this broker left
                self._above = message
            case Left():
                self._children.pop(sender, None)
                if sender != self.parent:
                    self._told.pop(sender, None)
        return self._retold()

    def _heard_offer(self, sender: str, offer: Offer) -> Outputs:
        if self.name in offer.path:
            self._offers.pop(sender, None)
        else:
            self._offers[sender] = offer
        if self._best:
            return self._chosen()
        if sender != self._withdrew:
            return []
        self._withdrew = None
        return self._released()

    def _withdraw(self, cause: str | None) -> Outputs:
        self._best, self._withdrew = None, cause
        self._waiting = {name for name, offer in self._offered.items() if offer}
        for name in self._waiting:
            del self._offered[name]
        return [(name, Withdrawn()) for name in sorted(self._waiting)] + self._released()

    def _released(self) -> Outputs:
        """When nobody relies on this broker: let a parent that withdrew know, and wait for it; without one, choose."""
        if self._waiting:
            return []
        return [(self._withdrew, Released())] if self._withdrew else self._chosen()

    def _chosen(self) -> Outputs:
        """Take the best offer, and make one to all who would hear something new."""
        offers = [offer.extended(self.name, self._costs[name]) for name, offer in self._offers.items()]
        best = min([self._own, *offers], key=lambda offer: offer.order)
        if self._best and best.order > self._best.order:
            return self._withdraw(None)
        self._best = best
        outputs: Outputs = []
        for neighbour in sorted(self._costs):
            usable = None if neighbour in best.path else best
            if neighbour not in self._offered or self._offered[neighbour] != usable:
                self._offered[neighbour] = usable
                outputs.append((neighbour, best))
        return outputs + self._moved(best.path[-2] if len(best.path) > 1 else None)

    def _moved(self, parent: str | None) -> Outputs:
        if parent == self.parent:
            return []
        old, self.parent, self._above = self.parent, parent, None
        if old is None:
            return self._retold()
        self._told.pop(old, None)
        return [(old, Left()), *self._retold()]

    def _heard(self) -> dict[str, Beyond]:
        """The last word of each neighbour in the broadcast tree."""
        return self._children | ({self.parent: self._above or _NOTHING} if self.parent else {})

    def _retold(self) -> Outputs:
        """Tell each neighbour in the broadcast tree what is beyond this broker, if that changed."""
        heard = self._heard()
        publishing = self._publishes + sum(word.publishes for word in heard.values())
        outputs: Outputs = []
        for name, profile in self._beyond_here(heard):
            word = Beyond(profile, publishing > heard[name].publishes, name == self.parent)
            if self._told.get(name) != word:
                self._told[name] = word
                outputs.append((name, word))
        return outputs

    def _beyond_here(self, heard: Mapping[str, Beyond]) -> Iterator[tuple[str, Profile]]:
        children = [name for name in sorted(heard) if name != self.parent]
        profiles = [heard[name].profile for name in children]
        sums = _sums(self._interest, profiles)
        if self.parent:
            yield self.parent, sums[-1]
        above = heard[self.parent].profile if self.parent else NOBODY
        yield from zip(children, _downward(sums, profiles, above), strict=True)


# ---- uniting profiles -------------------------------------------------------------------------------------------------
#
# Uniting merges predicates where it can, and what comes out may depend on what is united first. Nodes and `routes_of` use the
# same few functions, children in the order of their names, so both come to the same words.


def _both(a: Profile, b: Profile) -> Profile:
    return united((a, b)) if a and b else a or b


def _sums(local: Profile, children: Iterable[Profile]) -> list[Profile]:
    """The local profile, with the first child's, with the first two ... The last is what the parent is told."""
    return list(accumulate(children, _both, initial=local))


def _downward(sums: Sequence[Profile], children: Sequence[Profile], above: Profile) -> list[Profile]:
    """What each child is told: all but its own. What is above, mostly the largest, is united once for each child."""
    later = list(accumulate(reversed(children[1:]), lambda after, child: _both(child, after), initial=NOBODY))
    return [_both(_both(before, after), above) for before, after in zip(sums[:-1], reversed(later), strict=False)]


# ---- the result -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Routes:
    """The routing of one topic."""

    tree: Mapping[str, Mapping[str, Profile]]
    """The brokers of the routing tree, each with its neighbours there and what is wanted beyond them.

    One that takes part alone in its part of the overlay has no neighbours."""
    spanning: Mapping[str, str | None]
    """Every broker's parent in the broadcast tree; that of a root is None."""
    parts: tuple[frozenset[str], ...]
    """The brokers that reach each other: the largest part first, equally large ones by name."""


def routes_of(
    overlay: Overlay, topic: str, interests: Mapping[str, Profile], publishers: Collection[str] | None = None
) -> Routes:
    """What the brokers of an overlay agree on, computed directly; without publishers named, there are some at every broker.

    Each part is searched from its root outwards (Dijkstra, by the order of offers). Then profiles are summed up towards the
    root, and down again: O(L log L) steps for L links and O(1) unions of profiles for each link of the tree.
    Raises `UnknownBroker` if an interest or a publisher is at a broker that is not there.
    """
    usable = overlay.for_topic(topic)
    _check(usable, interests, publishers)
    paths = _paths(usable, topic)
    spanning = {broker: path[-2] if len(path) > 1 else None for broker, path in paths.items()}
    publishing = frozenset(usable.brokers if publishers is None else publishers)
    tree: dict[str, dict[str, Profile]] = {b: {} for b in usable.brokers if b in publishing or interests.get(b)}
    for child, parent, up, down in _words(spanning, interests, publishing):
        if up.takes_part and down.takes_part:
            tree.setdefault(child, {})[parent] = down.profile
            tree.setdefault(parent, {})[child] = up.profile
    return _routes(tree, spanning, {broker: path[0] for broker, path in paths.items()})


def _check(overlay: Overlay, interests: Iterable[str], publishers: Iterable[str] | None) -> None:
    known = set(overlay.brokers)
    for named, what in ((interests, "an interest"), (publishers or (), "a publisher")):
        for broker in sorted(set(named) - known):
            raise UnknownBroker(broker, what)


def _paths(overlay: Overlay, topic: str) -> dict[str, tuple[str, ...]]:
    """Each broker's path from its root, in the order in which they are settled: parents before children."""
    found: dict[str, tuple[str, ...]] = {}
    for root in sorted(overlay.brokers, key=lambda broker: rank(topic, broker)):
        heap: list[tuple[float, int, tuple[str, ...]]] = [] if root in found else [(0, 1, (root,))]
        while heap:
            cost, hops, path = heappop(heap)
            if path[-1] in found:
                continue
            found[path[-1]] = path
            for neighbour, link in overlay.neighbours(path[-1]).items():
                if neighbour not in found:
                    heappush(heap, (cost + link.cost, hops + 1, (*path, neighbour)))
    return found


def _words(
    spanning: Mapping[str, str | None], interests: Mapping[str, Profile], publishing: Collection[str]
) -> Iterator[tuple[str, str, Beyond, Beyond]]:
    """For each child and parent, parents first: what the child tells, and what the parent does."""
    children: dict[str, list[str]] = {broker: [] for broker in spanning}
    for broker in sorted(spanning):
        if (parent := spanning[broker]) is not None:
            children[parent].append(broker)
    sums: dict[str, list[Profile]] = {}
    below: dict[str, int] = {}  # how many publish at or below a broker
    for broker in reversed(spanning):
        sums[broker] = _sums(interests.get(broker, NOBODY), [sums[child][-1] for child in children[broker]])
        below[broker] = (broker in publishing) + sum(below[child] for child in children[broker])
    above: dict[str, tuple[Profile, int]] = {}
    for broker in spanning:
        profile, publishers = above.get(broker, (NOBODY, 0))
        ups = [sums[child][-1] for child in children[broker]]
        for child, up, down in zip(children[broker], ups, _downward(sums[broker], ups, profile), strict=True):
            above[child] = down, publishers + below[broker] - below[child]
            yield child, broker, Beyond(up, below[child] > 0, True), Beyond(down, above[child][1] > 0, False)


def _routes(tree: Mapping[str, Mapping[str, Profile]], spanning: Mapping[str, str | None], roots: Mapping[str, str]) -> Routes:
    """The same result in the same order, however it was found."""
    parts: dict[str, list[str]] = {}
    for broker in sorted(roots):
        parts.setdefault(roots[broker], []).append(broker)
    return Routes(
        {broker: dict(sorted(tree[broker].items())) for broker in sorted(tree)},
        {broker: spanning[broker] for broker in sorted(spanning)},
        tuple(map(frozenset, sorted(parts.values(), key=lambda part: (-len(part), part[0])))),
    )


# ---- the protocol at work ---------------------------------------------------------------------------------------------


class TopicRouting:
    """The nodes of one topic on a network in memory. Each change runs until all is quiet, and says how many messages it took.

    ``messages`` counts all of them, ``last_messages`` those of the last change.
    """

    def __init__(self, topic: str, *, everybody_publishes: bool, schedule: Schedule[Message] | None, limit: int) -> None:
        self.topic = topic
        self.overlay = Overlay(())
        self.last_messages = 0
        self._everybody_publishes = everybody_publishes
        self._limit = limit
        self._network: Network[Message] = Network(schedule)
        self._nodes: dict[str, RoutingNode] = {}

    @classmethod
    def build(
        cls,
        overlay: Overlay,
        topic: str,
        interests: Mapping[str, Profile],
        publishers: Collection[str] | None = None,
        *,
        schedule: Schedule[Message] | None = None,
        limit: int = 10_000_000,
    ) -> TopicRouting:
        """Let all brokers start at once; arguments as for `routes_of`. Raises `Restless` beyond ``limit`` deliveries."""
        _check(overlay, interests, publishers)
        routing = cls(topic, everybody_publishes=publishers is None, schedule=schedule, limit=limit)
        for broker in overlay.brokers:
            node = routing._add(broker)
            node.interest(interests.get(broker, NOBODY))
            node.publishes(publishers is None or broker in publishers)
        routing._change_overlay(overlay)
        return routing

    @property
    def messages(self) -> int:
        return self._network.messages

    @property
    def by_kind(self) -> Mapping[str, int]:
        """The messages by what they say."""
        return self._network.by_kind

    def routes(self) -> Routes:
        nodes = self._nodes
        return _routes(
            {name: links for name, node in nodes.items() if (links := node.tree_neighbours) or node.takes_part},
            {name: node.parent for name, node in nodes.items()},
            {name: node.root for name, node in nodes.items()},
        )

    def set_interest(self, broker: str, profile: Profile) -> int:
        return self._settle([(broker, self._node(broker).interest(profile))])

    def set_publishes(self, broker: str, flag: bool) -> int:
        return self._settle([(broker, self._node(broker).publishes(flag))])

    def add_broker(self, broker: str) -> int:
        """A broker without subscribers. Where everybody publishes, it does too."""
        if broker not in self._nodes:
            self._add(broker).publishes(self._everybody_publishes)
        return self._change_overlay(Overlay((*self.overlay.brokers, broker), self.overlay.links))

    def remove_broker(self, broker: str) -> int:
        """The broker is gone, and so are its links."""
        self._node(broker)
        links = [link for link in self.overlay.links if broker not in (link.a, link.b)]
        return self._change_overlay(Overlay(tuple(b for b in self.overlay.brokers if b != broker), tuple(links)))

    def add_link(self, link: Link) -> int:
        """A new link, or another cost or other topics for one of that name."""
        for end in (link.a, link.b):
            self._node(end)
        others = [other for other in self.overlay.links if other.name != link.name]
        return self._change_overlay(Overlay(self.overlay.brokers, (*others, link)))

    def remove_link(self, name: str) -> int:
        left = tuple(link for link in self.overlay.links if link.name != name)
        if len(left) == len(self.overlay.links):
            raise BadOverlay(f"there is no link {name!r} to remove")
        return self._change_overlay(Overlay(self.overlay.brokers, left))

    def _node(self, broker: str) -> RoutingNode:
        if broker not in self._nodes:
            raise UnknownBroker(broker, "the change")
        return self._nodes[broker]

    def _add(self, broker: str) -> RoutingNode:
        node = self._nodes[broker] = RoutingNode(broker, self.topic)
        self._network.add(broker, node)
        return node

    def _change_overlay(self, overlay: Overlay) -> int:
        """Tell the ends of each link that may carry the topic now and could not before, or the other way round."""
        before, after = _costs(self.overlay.for_topic(self.topic)), _costs(overlay.for_topic(self.topic))
        self.overlay = overlay
        gone = sorted(before.keys() - after.keys())
        new = sorted(end for end, cost in after.items() if before.get(end) != cost)
        for a, b in gone:
            if a < b:
                self._network.cut(a, b)
        for a, b in new:
            if a < b and (a, b) not in before:
                self._network.connect(a, b)
        for broker in sorted(self._nodes.keys() - set(overlay.brokers)):
            del self._nodes[broker]
            self._network.remove(broker)
        told = [(a, self._nodes[a].link_down(b)) for a, b in gone if a in self._nodes]
        told += [(a, self._nodes[a].link_up(b, after[a, b])) for a, b in new]
        return self._settle(told)

    def _settle(self, told: Iterable[tuple[str, Outputs]]) -> int:
        before = self._network.messages
        for broker, outputs in told:
            self._network.inject(broker, outputs)
        self._network.run(self._limit)
        self.last_messages = self._network.messages - before
        return self.last_messages


def _costs(overlay: Overlay) -> dict[tuple[str, str], float]:
    """Every pair of neighbours in both directions, with the cost of the link that is used."""
    return {(a, b): link.cost for a in overlay.brokers for b, link in overlay.neighbours(a).items()}
