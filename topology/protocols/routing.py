"""The routing tree of one topic, made by brokers that only talk to their neighbours (Agele, sections 3.2 and 5.1).

There are two layers. A broadcast tree spans each connected part of the overlay: path vectors lead all brokers to the one that
a hash of the topic chooses. Along that tree both ends of a link tell each other what is wanted beyond them (profile forwarding,
DAS, section 3.2). A link of the broadcast tree is in the routing tree if somebody takes part on both sides of it, so branches
without subscribers and publishers are pruned by themselves.

What the brokers end with depends on the overlay, the interests and the publishers, not on the order of messages or on what
was before. `topology.routes` computes the same in one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidings.control import Link
from tidings.errors import UnknownBroker
from topology.overlay import Overlay
from topology.profile import NOBODY, Profile
from topology.protocols.network import Network, Schedule
from topology.routes import RootOffer, Routes, downward_of, in_order, sums_of

_MOST_DELIVERIES = 20_000_000


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The teller's offer does not hold any more. Asks for `Released`."""


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


Message: TypeAlias = RootOffer | Withdrawn | Released | Beyond | Left
Outputs: TypeAlias = list[tuple[str, Message]]

_UNHEARD = Beyond(NOBODY, False, False)


class RoutingNode:
    """One broker's part in the routing of one topic. Each input answers with what is to be sent to neighbours.

    A better offer is taken and passed on at once. When its own gets worse, a broker first withdraws it and waits until all
    who rely on it have let go; then it chooses again, and they do after it. Brokers that just took the next best would offer
    each other ways that lead nowhere any more: the loss of a root among twenty brokers would take millions of messages.
    """

    def __init__(self, name: str, topic: str, chosen: bool = False) -> None:
        self.name = name
        self.parent: str | None = None
        """In the broadcast tree; from withdrawing to choosing, the last one."""
        self._interest, self._publishes = NOBODY, False
        self._costs: dict[str, float] = {}
        self._own = RootOffer.by_root(topic, name, chosen)
        self._best: RootOffer | None = self._own  # None from withdrawing to choosing
        self._offers: dict[str, RootOffer] = {}
        self._offered: dict[str, RootOffer | None] = {}  # None to those who could not use it
        self._relying: set[str] = set()  # those who have not let go yet
        self._withdrew: str | None = None  # the parent that did, until it offers again
        self._words: dict[str, Beyond] = {}
        self._told: dict[str, Beyond] = {}

    @property
    def root(self) -> str:
        return (self._best or self._own).path[0]

    @property
    def children(self) -> frozenset[str]:
        return frozenset(name for name, word in self._words.items() if word.upward)

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
        """A link is there, or its cost changed. Both ends must know of a new link before anything arrives over it."""
        self._costs[neighbour] = cost
        return self._chosen() if self._best else []

    def link_down(self, neighbour: str) -> Outputs:
        for known in (self._costs, self._offers, self._offered, self._words, self._told):
            known.pop(neighbour, None)
        self.parent = None if neighbour == self.parent else self.parent
        outputs: Outputs = []
        if self._best:
            outputs = self._chosen()
        elif neighbour in self._relying or neighbour == self._withdrew:
            self._relying.discard(neighbour)
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
            case RootOffer():
                return self._received_offer(sender, message)
            case Withdrawn():
                self._offers.pop(sender, None)
                return self._withdraw(sender) if self._best and sender == self.parent else [(sender, Released())]
            case Released():
                self._relying.discard(sender)
                return self._released()
            case Beyond():
                self._words[sender] = message
            case Left():
                self._words.pop(sender, None)
                if sender != self.parent:
                    self._told.pop(sender, None)
        return self._retold()

    def _received_offer(self, sender: str, offer: RootOffer) -> Outputs:
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
        self._relying = {name for name, offer in self._offered.items() if offer}
        for name in self._relying:
            del self._offered[name]
        return [(name, Withdrawn()) for name in sorted(self._relying)] + self._released()

    def _released(self) -> Outputs:
        """Once nobody relies on this broker: tell the parent that withdrew, and wait for it; without one, choose."""
        if self._relying:
            return []
        return [(self._withdrew, Released())] if self._withdrew else self._chosen()

    def _chosen(self) -> Outputs:
        """Take the best offer, and make one to all who would hear something new."""
        best = min([self._own, *[offer.extended(self.name, self._costs[name]) for name, offer in self._offers.items()]])
        if self._best and best > self._best:
            return self._withdraw(None)
        self._best = best
        outputs: Outputs = []
        for neighbour in sorted(self._costs):
            usable = None if neighbour in best.path else best
            if neighbour not in self._offered or self._offered[neighbour] != usable:
                self._offered[neighbour] = usable
                outputs.append((neighbour, best))
        if best.parent == self.parent:
            return outputs
        if self.parent:
            self._told.pop(self.parent)
            outputs.append((self.parent, Left()))
        self.parent = best.parent
        return outputs + self._retold()

    def _heard(self) -> dict[str, Beyond]:
        """The last word of each neighbour in the broadcast tree. A parent's is left over where this broker has left."""
        heard = {self.parent: _UNHEARD} if self.parent else {}
        return heard | {name: word for name, word in self._words.items() if word.upward or name == self.parent}

    def _retold(self) -> Outputs:
        """Tell each neighbour in the broadcast tree what is beyond this broker, if that changed."""
        heard = self._heard()
        publishing = self._publishes + sum(word.publishes for word in heard.values())
        outputs: Outputs = []
        for name, profile in self._beyond_here({name: word.profile for name, word in heard.items()}):
            word = Beyond(profile, publishing > heard[name].publishes, name == self.parent)
            if self._told.get(name) != word:
                self._told[name] = word
                outputs.append((name, word))
        return outputs

    def _beyond_here(self, heard: Mapping[str, Profile]) -> Iterator[tuple[str, Profile]]:
        children = [name for name in sorted(heard) if name != self.parent]
        profiles = [heard[name] for name in children]
        sums = sums_of(self._interest, profiles)
        above = NOBODY
        if self.parent:
            above = heard[self.parent]
            yield self.parent, sums[-1]
        yield from zip(children, downward_of(sums, profiles, above), strict=True)


class TopicRouting:
    """The nodes of one topic, on a network in memory. Each change runs until all is quiet, and says how many messages it took.

    ``messages`` counts all of them, ``last_messages`` those of the last change; the network knows of what kind they were.
    """

    def __init__(
        self,
        topic: str,
        everybody_publishes: bool = True,
        schedule: Schedule[Message] | None = None,
        roots: Collection[str] = (),
    ) -> None:
        self.topic = topic
        self.roots = frozenset(roots)
        self.overlay = Overlay(())
        self.network: Network[Message] = Network(schedule)
        self.last_messages = 0
        self._everybody_publishes = everybody_publishes
        self._nodes: dict[str, RoutingNode] = {}

    @classmethod
    def build(
        cls,
        overlay: Overlay,
        topic: str,
        interests: Mapping[str, Profile],
        publishers: Collection[str] | None = None,
        schedule: Schedule[Message] | None = None,
        roots: Collection[str] = (),
    ) -> TopicRouting:
        """Let all brokers of an overlay begin at the same time; the arguments are those of `routes_of`."""
        routing = cls(topic, publishers is None, schedule, roots)
        routing.change_overlay(Overlay(overlay.brokers))
        for broker, node in routing._nodes.items():
            node.interest(interests.get(broker, NOBODY))
            node.publishes(publishers is None or broker in publishers)
        routing.change_overlay(overlay)
        return routing

    @property
    def messages(self) -> int:
        return self.network.messages

    def routes(self) -> Routes:
        nodes = self._nodes.items()
        tree = {name: node.tree_neighbours for name, node in nodes if node.takes_part or node.tree_neighbours}
        return in_order(tree, {name: node.parent for name, node in nodes}, {name: node.root for name, node in nodes})

    def set_interest(self, broker: str, profile: Profile) -> int:
        return self._settled([(broker, self._node(broker).interest(profile))])

    def set_publishes(self, broker: str, flag: bool) -> int:
        return self._settled([(broker, self._node(broker).publishes(flag))])

    def add_broker(self, broker: str) -> int:
        """A broker without subscribers. It has publishers where everybody has."""
        return self.change_overlay(Overlay((*self.overlay.brokers, broker), self.overlay.links))

    def remove_broker(self, broker: str) -> int:
        """The broker is gone, and its links with it."""
        links = tuple(link for link in self.overlay.links if broker not in (link.a, link.b))
        return self.change_overlay(Overlay(tuple(set(self.overlay.brokers) - {broker}), links))

    def add_link(self, link: Link) -> int:
        """Add a link, or replace the one of that name."""
        others = [other for other in self.overlay.links if other.name != link.name]
        return self.change_overlay(Overlay(self.overlay.brokers, (*others, link)))

    def remove_link(self, name: str) -> int:
        links = tuple(link for link in self.overlay.links if link.name != name)
        return self.change_overlay(Overlay(self.overlay.brokers, links))

    def change_overlay(self, overlay: Overlay) -> int:
        """Tell brokers of the links they have now and had not before, or the other way round."""
        before, after = (_costs(either.for_topic(self.topic)) for either in (self.overlay, overlay))
        gone = sorted(before.keys() - after.keys())
        new = sorted(ends for ends, cost in after.items() if before.get(ends) != cost)
        for broker in set(self._nodes) - set(overlay.brokers):
            del self._nodes[broker]
            self.network.remove(broker)
        for broker in sorted(set(overlay.brokers) - set(self._nodes)):
            node = self._nodes[broker] = RoutingNode(broker, self.topic, broker in self.roots)
            node.publishes(self._everybody_publishes)
            self.network.add(broker, node)
        for a, b in gone:
            self.network.cut(a, b)
        for a, b in new:
            if a < b and (a, b) not in before:
                self.network.connect(a, b)
        self.overlay = overlay
        told = [(a, self._nodes[a].link_down(b)) for a, b in gone if a in self._nodes]
        told += [(a, self._nodes[a].link_up(b, after[a, b])) for a, b in new]
        return self._settled(told)

    def _node(self, broker: str) -> RoutingNode:
        if broker not in self._nodes:
            raise UnknownBroker(broker, "the change")
        return self._nodes[broker]

    def _settled(self, told: Iterable[tuple[str, Outputs]]) -> int:
        before = self.messages
        for broker, outputs in told:
            self.network.inject(broker, outputs)
        self.network.run(_MOST_DELIVERIES)
        self.last_messages = self.messages - before
        return self.last_messages


def _costs(overlay: Overlay) -> dict[tuple[str, str], float]:
    """The cost of the link between each two neighbours, in both directions."""
    return {(a, b): link.cost for a in overlay.brokers for b, link in overlay.neighbours(a).items()}
