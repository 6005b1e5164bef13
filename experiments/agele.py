"""The set-up of Agele's experiments (section 6.1), and what is measured in it.

What the paper leaves open is fixed here once, for all figures: a link takes one time unit, random overlays have a mean degree of
four, there are ten events, a publisher of an event sends one message about it on average (a Poisson process with at least
one), and every broker subscribes to one event, drawn uniformly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from experiments.simulator import Simulator
from producers.workload import Published, Workload, generate
from streaming.broker.books import total
from streaming.broker.values import Outcome, Tell, Why
from tidings.control import Snapshot
from tidings.predicate import Verdict
from topology.generators import generate as generate_overlay
from topology.overlay import Overlay, to_records
from topology.plan import Plan

UNIT_MS = 1000
TOPIC = "workload"

Matrix: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """One point of a figure. Times are in the paper's time units."""

    seed: int
    brokers: int = 500
    overlay: str = "random"
    merge: float = 4
    """T_m"""
    redundant: float = 10
    """T_r; None of the paper's: at least T_b remembers for the whole window."""
    burst: float = 100
    """T_b"""
    events: int = 10
    messages_per_publisher: float = 1.0
    gatherer: str = "centre"
    rendezvous: str | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """From an event's first publication, in time units, as a mean over subscribers and events.

    The paper measures until "the event is fully received by the subscriber", which can be read in two ways: until the last of what is
    sent about it has come in, and until nothing that is said about it is unknown any more.
    """

    received: float
    known: float

    def over(self, other: Times) -> Times:
        """How much longer, as a share."""
        return Times(self.received / other.received - 1, self.known / other.known - 1)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of a run: shares of the messages that were published, and mean times of an event."""

    messages: int
    suppressed: float
    duplicates: float
    merged: float
    times: Times
    link_messages: int
    steps: int


def overlay_of(setup: Setup) -> Overlay:
    return generate_overlay(setup.overlay, setup.brokers, setup.seed)


def publications(setup: Setup) -> list[Published]:
    """What is published, the same whatever is done with it."""
    workload = Workload(
        events=setup.events,
        publishers=setup.brokers,
        messages_per_publisher=setup.messages_per_publisher,
        burst_ms=round(setup.burst * UNIT_MS),
        spread_ms=round(6 * setup.burst * UNIT_MS),
        topic=TOPIC,
        seed=setup.seed,
    )
    return generate(workload)


def plan_of(setup: Setup, overlay: Overlay) -> Plan:
    """Every broker subscribes once, to an event drawn uniformly."""
    rng = Random(f"{setup.seed}/subscriptions")
    window = 4 * setup.burst
    declared = {
        "kind": "topic",
        "name": TOPIC,
        "window_ms": round(window * UNIT_MS),
        "hold_ms": 0 if setup.gatherer == "none" else round(setup.merge * UNIT_MS),
        "remember_ms": round(min(setup.redundant, window) * UNIT_MS),
        "complete": [f"f{number:02d}" for number in range(1, 20)],
        "gatherer": setup.gatherer,
    }
    if setup.rendezvous:
        declared |= {"filter": "rendezvous", "rendezvous": setup.rendezvous}
    wants = [
        {
            "kind": "subscription",
            "name": f"at-{broker}",
            "subscriber": broker,
            "broker": broker,
            "topic": TOPIC,
            "where": f"key = 'event-{rng.randrange(setup.events):06d}'",
        }
        for broker in overlay.brokers
    ]
    records = {f"{record['kind']}/{record['name']}": record for record in (*to_records(overlay), declared, *wants)}
    return Plan(Snapshot(1, records, since=dict.fromkeys(records, 1)))


def simulate(setup: Setup, overlay: Overlay | None = None, *, sizes: bool = False) -> Simulator:
    """The run itself."""
    overlay = overlay or overlay_of(setup)
    simulator = Simulator(plan_of(setup, overlay), lambda *_: UNIT_MS, sizes=sizes)
    for one in publications(setup):
        simulator.publish(one.at_ms, overlay.brokers[int(one.publisher.removeprefix("p-"))], one.message)
    simulator.run()
    return simulator


def measure(setup: Setup, overlay: Overlay | None = None) -> Outcomes:
    """Run a set-up and read its books."""
    simulator = simulate(setup, overlay)
    books = total(simulator.books.values())
    published = publications(setup)
    gatherer = simulator.books[gatherer_of(simulator)] if setup.gatherer != "none" else books
    messages = len(published)
    duplicates = gatherer.total(Outcome.REDUNDANT)
    merged = gatherer.outcomes[Outcome.MERGED, Why.JOINED]
    return Outcomes(
        messages=messages,
        suppressed=(duplicates + merged) / messages,
        duplicates=duplicates / messages,
        merged=merged / messages,
        times=event_times(published, (tell for _, tell in simulator.told)),
        link_messages=simulator.link_messages,
        steps=simulator.steps,
    )


def gatherer_of(simulator: Simulator) -> str:
    """The broker that gathers."""
    return next(part.gatherer for part in simulator.plan.route(TOPIC).parts if part.gatherer)


def event_times(published: Iterable[Published], told: Iterable[Tell]) -> Times:
    """The times of what was told."""
    first_ms: dict[str, int] = {}
    for one in published:
        first_ms.setdefault(one.message.key, one.at_ms)
    facts: dict[tuple[str, str], set[str]] = defaultdict(set)
    received: dict[tuple[str, str], int] = {}
    known: dict[tuple[str, str], int] = {}
    for tell in told:
        at = (tell.notification.subscription, tell.notification.key)
        received[at] = tell.at_ms
        if tell.notification.news.keys() - facts[at]:
            facts[at].update(tell.notification.news)
            known[at] = tell.at_ms

    def mean(last_ms: Mapping[tuple[str, str], int]) -> float:
        return sum(ms - first_ms[key] for (_, key), ms in last_ms.items()) / len(last_ms) / UNIT_MS

    return Times(mean(received), mean(known))


def siena_times(setup: Setup, overlay: Overlay | None = None) -> Times:
    """The same times without a gatherer, each message on its own way through the routing tree.

    Computed from the distances in the tree, which is what the simulator comes to as well, message by message.
    """
    overlay = overlay or overlay_of(setup)
    plan = plan_of(replace(setup, gatherer="none", rendezvous=None), overlay)
    number, hops = _distances({broker: links for part in plan.route(TOPIC).parts for broker, links in part.tree.items()})
    sent: dict[str, list[Published]] = defaultdict(list)
    for one in publications(setup):
        sent[one.message.key].append(one)
    wanted: dict[str, list[int]] = defaultdict(list)
    for subscription in plan.snapshot.subscriptions.values():
        key = next(key for key in sent if subscription.judge(key, {}) is Verdict.MATCHES)
        wanted[key].append(number[subscription.broker])
    times = [_siena_times(sent[key], overlay, number, hops[:, at]) for key, at in wanted.items()]
    received, known = (float(np.concatenate(part).mean()) for part in zip(*times, strict=True))
    return Times(received, known)


def _siena_times(messages: list[Published], overlay: Overlay, number: Mapping[str, int], hops: Matrix) -> tuple[Matrix, Matrix]:
    """For each subscriber, when the last message arrived, and the last field that it had not seen before."""
    sources = [number[overlay.brokers[int(one.publisher.removeprefix("p-"))]] for one in messages]
    start = messages[0].at_ms / UNIT_MS
    arrives = np.array([one.at_ms for one in messages])[:, None] / UNIT_MS + hops[sources]
    fields = sorted({name for one in messages for name in one.message.fields})
    states = np.array([[name in one.message.fields for name in fields] for one in messages])
    first = np.array([arrives[states[:, at]].min(axis=0) for at in range(len(fields))])
    return arrives.max(axis=0) - start, first.max(axis=0) - start


def _distances(tree: Mapping[str, Mapping[str, object]]) -> tuple[dict[str, int], Matrix]:
    """A number for each broker of a tree, and the hops between any two."""
    start = min(tree)
    number, parents = {start: 0}, [0]
    for broker in (order := [start]):
        for neighbour in sorted(tree[broker]):
            if neighbour not in number:
                number[neighbour] = len(order)
                parents.append(number[broker])
                order.append(neighbour)
    hops = np.zeros((len(order), len(order)))
    for here in range(1, len(order)):
        hops[here, :here] = hops[:here, here] = hops[parents[here], :here] + 1
    return number, hops
