"""What the control data says of the places that windows have: which there are, who sends to them, and how long they wait."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.model.items import Item, Publication
from streaming.windows.rules import WindowRules
from streaming.windows.state import At
from topology.plan import Plan, Role


def places_of(plan: Plan, rules: WindowRules) -> Iterator[At]:
    """The places that a bucket has."""
    hosted = plan.overlay.brokers if rules.hosted is None else sorted(rules.hosted)
    for topic in plan.windowed_topics:
        for broker in hosted:
            place = plan.place(broker, topic)
            for to in plan.windows(broker, topic):
                # Events come from the broker that gathers, never the other way.
                if not (place.role is Role.PASSES and to == place.toward) and rules.has((broker, to, topic)):
                    yield broker, to, topic


def senders(plan: Plan, at: At) -> list[str]:
    """The neighbours from which a broker gets what it offers at a place."""
    broker, to, topic = at
    place = plan.place(broker, topic)
    if place.role is Role.PASSES:
        return [place.toward] if place.toward else []
    if place.role is Role.GATHERS:
        return []
    neighbours = plan.route(topic).part_of[broker].tree.get(broker, {})
    return [neighbour for neighbour in neighbours if neighbour != to and plan.publishes_beyond(broker, neighbour, topic)]


def place_of_sender(sender: str, at: At) -> At:
    """Where a neighbour has the windows of all that it sends to a place."""
    return sender, at[0], at[2]


def extra_ms(plan: Plan, topic: str) -> int:
    """An event counts when it has ended, so windows of events wait that much longer."""
    return plan.topic(topic).timing.window_ms if plan.route(topic).manner.gathers else 0


def is_carried(plan: Plan, at: At, item: Item) -> bool:
    """Whether a link carries, for subscriptions to events, what came to its broker so. Only costs depend on it."""
    profile = plan.place(at[0], at[2]).links.get(at[1])
    return isinstance(item, Publication) and profile is not None and profile.matches(item.key, item.fields)


def ways(plan: Plan, at: At) -> object:
    """What of the routing of a topic the open windows of a place depend on."""
    route, topic = plan.route(at[2]), plan.topic(at[2])
    part = route.part_of.get(at[0])
    tree = {broker: tuple(links) for broker, links in part.tree.items()} if part else {}
    return route.manner.gathers, part.hub if part else None, tree, topic.timing.window_ms, topic.gather
