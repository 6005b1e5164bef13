"""The routing tree of one topic, computed in one place: what the brokers of `topology.protocols.routing` end with.

A broadcast tree spans each connected part of the overlay: the cheapest ways from the broker that a hash of the topic chooses.
A link of it is in the routing tree if somebody takes part on both sides of it, and has a profile in each direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from tidings.values import digest
from topology.overlay import Overlay
from topology.profile import NOBODY, Profile, united


def rank(topic: str, broker: str) -> str:
    """Of the brokers that reach each other, the one with the lowest rank is the root: so topics are spread over brokers."""
    return digest("root", topic, broker)


@dataclass(frozen=True, slots=True, order=True)
class RootOffer:
    """A way to a root: its rank, cost and length, and the brokers on it, from the root to the one that offers.

    The least is the best. No two are equal, and every hop makes an offer worse, even one without cost: so path vectors end
    with one result, whatever they start from.
    """

    rank: str
    cost: float
    hops: int
    path: tuple[str, ...]

    @staticmethod
    def by_root(topic: str, root: str, chosen: bool = False) -> RootOffer:
        """What a broker offers by itself. One that was chosen as a root comes before all others: '!' is less than any digit."""
        return RootOffer("!" * chosen + rank(topic, root), 0, 0, (root,))

    def extended(self, broker: str, cost: float) -> RootOffer:
        return RootOffer(self.rank, self.cost + cost, self.hops + 1, (*self.path, broker))

    @property
    def parent(self) -> str | None:
        return self.path[-2] if self.hops else None


# Uniting merges predicates where it can, and what comes out may depend on what is united first. The protocol and `routes_of` use
# the same three functions, children in the order of their names, so both come to the same words.


def _both(a: Profile, b: Profile) -> Profile:
    return united((a, b)) if a and b and a != b else a or b


def sums_of(local: Profile, children: Iterable[Profile]) -> list[Profile]:
    """The local profile, that with the first child's, that with the second's ... The last is what the parent is told."""
    return list(accumulate(children, _both, initial=local))


def downward_of(sums: Sequence[Profile], children: Sequence[Profile], above: Profile) -> list[Profile]:
    """What each child is told: all but its own. What is above, mostly the most, is united but once for each child."""
    later = list(accumulate(reversed(children[1:]), lambda after, child: _both(child, after), initial=NOBODY))
    return [_both(_both(before, after), above) for before, after in zip(sums[:-1], reversed(later), strict=False)]


@dataclass(frozen=True, slots=True)
class Routes:
    """The routing of one topic."""

    tree: Mapping[str, Mapping[str, Profile]]
    """The brokers of the routing tree, each with its neighbours there and what is wanted beyond them. A broker that takes part
    alone in its part of the overlay has none."""
    spanning: Mapping[str, str | None]
    """Every broker's parent in the broadcast tree; that of a root is None."""
    parts: tuple[frozenset[str], ...]
    """The brokers that reach each other: the largest part first, equally large ones by name."""


def routes_of(
    overlay: Overlay,
    topic: str,
    interests: Mapping[str, Profile],
    publishers: Collection[str] | None = None,
    roots: Collection[str] = (),
) -> Routes:
    """What the brokers of an overlay agree on, computed directly. None means that there are publishers at every broker.

    Where one of ``roots`` is, it is the root, whatever its rank; of several, the one with the lowest rank.
    Profiles are summed up towards the roots and down again: besides the search for ways (Dijkstra, by the order of offers),
    that is a few unions of profiles for each link of the tree. What is said of brokers that are not there does not count.
    """
    offers = _best_offers(overlay.for_topic(topic), topic, roots)
    publishing = frozenset(offers if publishers is None else publishers)
    children: dict[str, list[str]] = {broker: [] for broker in offers}
    for broker in sorted(offers):
        if parent := offers[broker].parent:
            children[parent].append(broker)
    sums: dict[str, list[Profile]] = {}
    below: dict[str, int] = {}  # how many brokers publish there or further down
    for broker in reversed(offers):
        sums[broker] = sums_of(interests.get(broker, NOBODY), [sums[child][-1] for child in children[broker]])
        below[broker] = (broker in publishing) + sum(below[child] for child in children[broker])
    tree: dict[str, dict[str, Profile]] = {b: {} for b in offers if b in publishing or interests.get(b)}
    above: dict[str, Profile] = {}
    for broker, offer in offers.items():
        ups = [sums[child][-1] for child in children[broker]]
        downs = downward_of(sums[broker], ups, above.pop(broker, NOBODY))
        for child, up, down in zip(children[broker], ups, downs, strict=True):
            above[child] = down
            if (up or below[child]) and (down or below[offer.path[0]] > below[child]):
                tree.setdefault(broker, {})[child] = up
                tree.setdefault(child, {})[broker] = down
    return in_order(tree, {b: o.parent for b, o in offers.items()}, {b: o.path[0] for b, o in offers.items()})


def _best_offers(overlay: Overlay, topic: str, roots: Collection[str]) -> dict[str, RootOffer]:
    """The offer that each broker takes in the end, parents before children."""
    best: dict[str, RootOffer] = {}
    for own in sorted(RootOffer.by_root(topic, broker, broker in roots) for broker in overlay.brokers):
        heap = [] if own.path[0] in best else [own]
        while heap:
            offer = heappop(heap)
            if (broker := offer.path[-1]) in best:
                continue
            best[broker] = offer
            for neighbour, link in overlay.neighbours(broker).items():
                if neighbour not in best:
                    heappush(heap, offer.extended(neighbour, link.cost))
    return best


def in_order(tree: Mapping[str, Mapping[str, Profile]], spanning: Mapping[str, str | None], roots: Mapping[str, str]) -> Routes:
    """The result, in the same order however it was found."""
    parts: dict[str, list[str]] = {}
    for broker in sorted(roots):
        parts.setdefault(roots[broker], []).append(broker)
    return Routes(
        {broker: dict(sorted(tree[broker].items())) for broker in sorted(tree)},
        {broker: spanning[broker] for broker in sorted(spanning)},
        tuple(map(frozenset, sorted(parts.values(), key=lambda part: (-len(part), part)))),
    )
