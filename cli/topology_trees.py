"""What there is to show of an overlay: the routing of each topic, as trees with a root."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidings.control import Link
from tidings.predicate import render
from tidings.topic import Filtering
from topology.centre import centre
from topology.islands import Island
from topology.plan import Plan

_MANNER = ("gatherer", "gatherers", "filter", "placement", "rendezvous")


class ShownTree(NamedTuple):
    """A routing tree as it is drawn: each broker with its parent, parents first, and two measures in links."""

    part: Island
    parents: Mapping[str, str | None]
    height: int
    longest_way: int

    def wanted(self, here: str, beyond: str) -> str:
        """What is wanted beyond a neighbour."""
        said = [render(entry.where) for entry in self.part.tree[here][beyond].entries]
        return "nobody" if not said else "everything" if "" in said else " or ".join(said)


class ShownRouting:
    """The routing of one topic, with a tree for each part; one without subscriptions has an empty tree."""

    def __init__(self, plan: Plan, topic: str) -> None:
        route = plan.route(topic)
        self.topic, self.manner = topic, route.manner
        found, windowed = plan.snapshot.by_topic, plan.snapshot.windowed
        counts = {at: len(found.get((at, topic), ())) + len(windowed.get((at, topic), ())) for at in plan.overlay.brokers}
        self.subscriptions = {at: count for at, count in counts.items() if count}
        self.advertised = plan.snapshot.advertised.get(topic, frozenset())
        self.meets = self.manner.filtering is Filtering.RENDEZVOUS
        self.trees = [self._tree(part) for part in route.parts]
        self.links: dict[Link, ShownTree] = {}
        for tree in self.trees:
            used = [x for x in plan.overlay.links if tree.parents.get(x.a) == x.b or tree.parents.get(x.b) == x.a]
            self.links |= dict.fromkeys(used, tree)

    def _tree(self, part: Island) -> ShownTree:
        if not part.wanted:
            return ShownTree(part, {}, 0, 0)
        nodes = {broker: sorted(links) for broker, links in part.tree.items()}
        nodes = nodes or {part.gatherer or min(part.brokers & self.subscriptions.keys()): []}
        root = part.hub if self.meets else part.gatherer
        if root is None or root not in nodes:  # nobody gathers: it is held by its middle, where it is the lowest
            root = centre(nodes)
        parents, height = _walked(nodes, root)
        # The one that is reached last is an end of a longest way.
        return ShownTree(part, parents, height, _walked(nodes, list(parents)[-1])[1])

    def to_dict(self) -> dict[str, Any]:
        first = next((tree.part for tree in self.trees if tree.parents), None)
        return {
            "gatherer": first and first.gatherer,
            "gatherers": {min(tree.part.brokers): tree.part.gatherer for tree in self.trees},
            "filter": str(self.manner.filtering),
            "placement": str(self.manner.placement) if self.manner.gathers else "none",
            "rendezvous": (first.hub if first else self.manner.rendezvous) if self.meets else None,
            "subscriptions": sum(self.subscriptions.values()),
            "brokers": sum(len(tree.parents) for tree in self.trees),
            "links": len(self.links),
            "longest_way": max(tree.longest_way for tree in self.trees),
        }


def _walked(nodes: Mapping[str, Iterable[str]], start: str) -> tuple[dict[str, str | None], int]:
    """Each broker with the one before it, seen from the start, and how far the last one is."""
    parents: dict[str, str | None] = {start: None}
    hops = {start: 0}
    reached = [start]
    for broker in reached:
        for new in [neighbour for neighbour in nodes[broker] if neighbour not in parents]:
            parents[new], hops[new] = broker, hops[broker] + 1
            reached.append(new)
    return parents, hops[reached[-1]]


def routings(plan: Plan) -> list[ShownRouting]:
    """Those of the topics that have subscriptions."""
    topics = {each.topic for each in plan.snapshot.subscriptions.values() if plan.has(each.broker)}
    return [ShownRouting(plan, topic) for topic in sorted(topics)]


def to_dict(plan: Plan, routing: ShownRouting | None) -> dict[str, Any]:
    said: dict[str, Any] = {
        "brokers": list(plan.overlay.brokers),
        "links": [{"name": x.name, "a": x.a, "b": x.b, "cost": x.cost, "forbid": sorted(x.forbid)} for x in plan.overlay.links],
        "parts": [sorted(part) for part in plan.overlay.parts],
        "problems": [{"kind": str(problem.kind), "text": problem.text} for problem in plan.problems],
        "topics": {each.topic: each.to_dict() for each in routings(plan)},
    }
    if routing is not None:
        said |= {"topic": routing.topic, "tree": []} | {name: routing.to_dict()[name] for name in _MANNER}
        for link, tree in routing.links.items():
            beyond = {"a": tree.wanted(link.b, link.a), "b": tree.wanted(link.a, link.b)}
            said["tree"].append({"name": link.name, "a": link.a, "b": link.b, "beyond": beyond})
    return said
